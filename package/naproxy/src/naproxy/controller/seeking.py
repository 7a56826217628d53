"""Looks for a server that does not come up at its address: it may have got another one by DHCP.

Its card is known, so the neighbours on its wire are asked for theirs: a packet to each address of
the box's network makes the kernel ask (ARP). Where the card is found, the web port must answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from naproxy.core import netlink
from naproxy.core.wire import connect

AGAIN_S: Final = 60.0
_LEAST_PREFIX: Final = 22
_BATCH: Final = 64
"""Asked for at once: more would fill the kernel's table of neighbours (gc_thresh3, 1024)."""

_SETTLE_S: Final = 0.4
_LATE_S: Final = 1.2
_CONNECT_S: Final = 2.0
_DISCARD: Final = 9


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, or seems to be: its IP address and its card's Ethernet address."""

    address: str
    mac: str


class Seeker:
    """Looks again and again from `begin` to `stop`; `found` hears where the server is, or None."""

    def __init__(self, found: Callable[[Place | None], None]) -> None:
        """Nothing is looked for yet."""
        self._found = found
        self._task: asyncio.Task[None] | None = None

    def begin(self, place: Place, port: int, interface: str) -> None:
        """Look for the card of `place` at other addresses, on the wire of this interface."""
        self.stop()
        self._task = asyncio.ensure_future(self._seek(place, port, interface))

    def stop(self) -> None:
        """Stop looking."""
        if self._task:
            self._task.cancel()
            self._task = None

    async def _seek(self, place: Place, port: int, interface: str) -> None:
        while True:
            try:
                self._found(await seek(place, port, interface))
            except OSError:
                self._found(None)  # as without a socket: nothing is known
            await asyncio.sleep(AGAIN_S)


async def seek(place: Place, port: int, interface: str) -> Place | None:
    """Return where a web port answers from the card of `place`, but at another address; OSError."""
    hosts = list(_around(interface, place))
    for start in range(0, len(hosts), _BATCH):
        _poke(hosts[start : start + _BATCH])
        await asyncio.sleep(_SETTLE_S)
        if found := await _met(place, port, interface):
            return found
    await asyncio.sleep(_LATE_S)
    return await _met(place, port, interface)


async def _met(place: Place, port: int, interface: str) -> Place | None:
    wanted = ipaddress.ip_address(place.address)
    for text, mac in netlink.neighbours(interface).items():
        address = ipaddress.ip_address(text)
        if mac.hex(":") != place.mac or address == wanted:
            continue
        # Its IPv6 addresses do not show a change of its IPv4 address, and some need a zone.
        if address.version != wanted.version or (address.version == 6 and address.is_link_local):
            continue
        with contextlib.suppress(OSError, TimeoutError):
            # The kernel may know it from before.
            async with asyncio.timeout(_CONNECT_S):
                (await connect(text, port)).close()
            return Place(text, place.mac)
    return None


def _around(interface: str, place: Place) -> Iterator[str]:
    """Yield the addresses of IPv4 that the box can ask for on this wire."""
    if ":" in place.address:
        return
    for own in netlink.addresses().get(interface, ()):
        if own.version != 4 or own.network.prefixlen > 30:
            continue
        prefix = max(own.network.prefixlen, _LEAST_PREFIX)
        network = ipaddress.ip_network(f"{own.ip}/{prefix}", strict=False)
        yield from (str(host) for host in network.hosts() if host != own.ip)


def _poke(addresses: list[str]) -> None:
    """Send an empty datagram to the discard port (RFC 863) of each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        for address in addresses:
            with contextlib.suppress(OSError):
                sock.sendto(b"", (address, _DISCARD))
