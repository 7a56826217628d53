"""Keeps a sleeping server's Ethernet address known to the kernel.

The kernel forgets the address of a machine that is silent, and asks for it once a second
while somebody wants to reach it: a server that is up again would be found half a second
late on average, and up to a second (measured; see docs/controller.md). So the address
that was in use while the server was awake is kept until it is awake again. IPv4 only.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from typing import Final

from naproxy.core.reason import Reason

_SIOCDARP: Final = 0x8953
_SIOCGARP: Final = 0x8954
_SIOCSARP: Final = 0x8955
_ATF_COMPLETE: Final = 0x02
_ATF_PERMANENT: Final = 0x04
_ARPHRD_ETHER: Final = 1
_ARPREQ: Final = struct.Struct("=HH4s8x H14s i16x 16s")


class Neighbour:
    """The kernel's entry for one address on one interface.

    An entry that somebody made permanent by hand is left alone. Without the right to
    change entries, or where the server is behind a router, nothing happens.
    """

    def __init__(self, address: str, interface: str) -> None:
        """Nothing is changed yet."""
        self._address = address
        self._interface = interface
        self._kept: bytes | None = None

    def is_at(self, address: str, interface: str) -> bool:
        """Is this the entry for that address on that interface?"""
        return (address, interface) == (self._address, self._interface)

    def stranger(self, mac: str) -> Reason | None:
        """Say whose Ethernet address the kernel knows for the server, if it is not `mac`."""
        found = self._ask()
        if not found or found[0] == bytes.fromhex(mac.replace(":", "")):
            return None
        other = found[0].hex(":")
        return Reason("ready.stranger", other=other, address=self._address, mac=mac.lower())

    def keep(self) -> None:
        """Keep the entry as it is now."""
        found = self._ask()
        if found and not found[1] & _ATF_PERMANENT:
            self._kept = found[0]
            self._change(_SIOCSARP, found[0], _ATF_COMPLETE | _ATF_PERMANENT)

    def release(self) -> None:
        """Leave the entry to the kernel again, which verifies it at the next packet."""
        if self._kept:
            self._change(_SIOCSARP, self._kept, _ATF_COMPLETE)
            self._kept = None

    def forget(self) -> None:
        """Remove the entry: the card may have been replaced."""
        self._kept = None
        self._change(_SIOCDARP, b"", 0)

    def _ask(self) -> tuple[bytes, int] | None:
        """Return the Ethernet address and the flags, if the kernel knows the address."""
        answer = self._change(_SIOCGARP, b"", 0)
        if answer is None:
            return None
        *_, mac, flags, _ = _ARPREQ.unpack(answer)
        return (mac[:6], flags) if flags & _ATF_COMPLETE else None

    def _change(self, number: int, mac: bytes, flags: int) -> bytes | None:
        if ipaddress.ip_address(self._address).version != 4:
            return None
        request = _ARPREQ.pack(
            *(socket.AF_INET, 0, socket.inet_aton(self._address)),
            *(_ARPHRD_ETHER, mac),
            *(flags, self._interface.encode()),
        )
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                return fcntl.ioctl(sock, number, request)
        except OSError:
            return None
