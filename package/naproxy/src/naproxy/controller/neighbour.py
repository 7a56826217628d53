"""Keeps a sleeping server's Ethernet address known to the kernel.

The kernel forgets the address of a silent machine, and asks for it once a second while there is
traffic for it. So a server that is up again would be found half a second late on average, and up to
a second (measured; see docs/controller.md). The address in use while the server was awake is
therefore kept until it is awake again.
"""

from __future__ import annotations

import contextlib

from naproxy.core import netlink
from naproxy.core.reason import Reason


class Neighbour:
    """The kernel's entry for one address on one interface, by IPv4 or IPv6.

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
        if not found or found.mac == bytes.fromhex(mac.replace(":", "")):
            return None
        other = found.mac.hex(":")
        return Reason("ready.stranger", other=other, address=self._address, mac=mac.lower())

    def keep(self) -> None:
        """Keep the entry as it is now."""
        found = self._ask()
        if found and not found.permanent:
            self._kept = found.mac
            self._set(found.mac, netlink.PERMANENT)

    def release(self) -> None:
        """Leave the entry to the kernel again, which verifies it at the next packet."""
        if self._kept:
            self._set(self._kept, netlink.STALE)
            self._kept = None

    def forget(self) -> None:
        """Remove the entry: the card may have been replaced."""
        self._kept = None
        with contextlib.suppress(OSError):
            netlink.forget_neighbour(self._address, self._interface)

    def _ask(self) -> netlink.Neighbour | None:
        """Return the Ethernet address, if the kernel knows the address."""
        try:
            return netlink.neighbour(self._address, self._interface)
        except OSError:
            return None

    def _set(self, mac: bytes, state: int) -> None:
        with contextlib.suppress(OSError):
            netlink.set_neighbour(self._address, self._interface, mac, state)
