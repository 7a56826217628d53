"""Finding the machines on the box's own networks, and identifying a typed address.

A packet to each address makes the kernel ask for its card (ARP). An address with a card is in use,
even if none of its ports answers. `Wire` does all network access; tests replace it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

from naproxy.api.jobs import JobError, Progress
from naproxy.core.interfaces import ip
from naproxy.setup import lan, web
from naproxy.setup.lan import Network
from naproxy.setup.names import Names, vendors
from naproxy.setup.web import Hint

MOST_HOSTS: Final = 1022
BATCH: Final = 64
"""Asked for at once: more would fill the kernel's table of neighbours (gc_thresh3, 1024)."""

SETTLE_S: Final = 0.4
LATE_S: Final = 1.2
"""The kernel asks three times, a second apart: wireless and sleepy cards need the second."""

_IP_S: Final = 5.0
_DISCARD: Final = 9
_PEEPERS: Final = 16


class Wire:
    """All network access."""

    def __init__(self) -> None:
        """Nothing is sent yet."""
        self._names: Names | None = None

    async def ip(self, *words: str) -> list[dict[str, Any]]:
        """Ask ip(8) in JSON; nothing where it has no answer."""
        return await ip(*words)

    def poke(self, addresses: Iterable[str]) -> None:
        """Send an empty datagram to the discard port (RFC 863) of each."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
            for address in addresses:
                with contextlib.suppress(OSError):
                    sock.sendto(b"", (address, _DISCARD))

    async def settle(self, seconds: float) -> None:
        """Let answers come in."""
        await asyncio.sleep(seconds)

    async def name(self, address: str) -> str:
        """Return what the address is called, or nothing."""
        if self._names is None:
            self._names = Names()
        return await self._names.of(address)

    async def http(self, address: str, port: int) -> Hint:
        """Request / from a port over HTTP."""
        return await web.look(address, port)

    async def knock(self, address: str, port: int) -> str:
        """Return `open`, `refused` or `silent`."""
        return await web.knock(address, port)

    async def resolve(self, name: str) -> list[str]:
        """Return the addresses of a host name; none if it has none."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_IP_S):
                found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError):
            return []
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def vendors(self, cards: Sequence[str]) -> dict[str, str]:
        """Return who made these cards, where a local table knows."""
        return vendors(cards)


async def scan(wire: Wire, interface: str, progress: Progress) -> dict[str, Any]:
    """Look through the box's own networks; JobError if it has none."""
    own = lan.networks(await wire.ip("addr", "show"), interface)
    if not own:
        raise JobError("setup.no_network")
    left = MOST_HOSTS
    seen: dict[str, tuple[str, str]] = {}
    swept = []
    for network in own:
        hosts = [str(address) for address in network.hosts()][:left]
        left -= len(hosts)
        if hosts:
            swept.append(_swept(network))
            progress.of += len(hosts)
            seen |= await _sweep(wire, network, hosts, progress)
    progress.part, progress.done, progress.of = "machines", 0, len(seen)
    hosts_found = await _hosts(wire, seen, progress)
    return {"networks": swept, "hosts": hosts_found}


def _swept(network: Network) -> dict[str, Any]:
    return {
        "interface": network.interface,
        "network": str(network.swept),
        "whole": network.swept == network.whole,
        "own": str(network.own),
    }


async def _sweep(
    wire: Wire, network: Network, hosts: list[str], progress: Progress
) -> dict[str, tuple[str, str]]:
    progress.part = "addresses"
    seen: dict[str, tuple[str, str]] = {}
    for start in range(0, len(hosts), BATCH):
        batch = hosts[start : start + BATCH]
        wire.poke(batch)
        await wire.settle(SETTLE_S)
        # Each time: in a large network the kernel forgets the first before the last are asked.
        seen |= await _neighbours(wire, network, hosts)
        progress.done += len(batch)
    await wire.settle(LATE_S)
    return seen | await _neighbours(wire, network, hosts)


async def _neighbours(wire: Wire, network: Network, hosts: list[str]) -> dict[str, tuple[str, str]]:
    said = lan.neighbours(await wire.ip("neigh", "show", "dev", network.interface))
    return {
        address: (said[address][0], said[address][1] or network.interface)
        for address in hosts
        if address in said
    }


async def _hosts(
    wire: Wire, seen: dict[str, tuple[str, str]], progress: Progress
) -> list[dict[str, Any]]:
    makers = await asyncio.to_thread(wire.vendors, [card for card, _ in seen.values()])
    slots = asyncio.Semaphore(_PEEPERS)

    async def one(address: str) -> dict[str, Any]:
        card, interface = seen[address]
        async with slots:
            name, http, https = await asyncio.gather(
                wire.name(address), wire.http(address, 80), wire.knock(address, 443)
            )
        progress.done += 1
        return {
            "address": address,
            "mac": card,
            "interface": interface,
            "vendor": makers.get(card, ""),
            "name": name,
            "http": http.json(),
            "https": https,
        }

    found = await asyncio.gather(*(one(address) for address in seen))
    return sorted(found, key=_likely)


def _likely(host: dict[str, Any]) -> tuple[bool, bool, ipaddress.IPv4Address]:
    """Web servers first; a meter does not count as one."""
    http = host["http"]
    web_server = http["status"] is not None and not http["meter"]
    return (not web_server, not host["name"], ipaddress.IPv4Address(host["address"]))


async def look(wire: Wire, text: str, port: int, progress: Progress) -> dict[str, Any]:
    """Return what a typed address or name is: its card, its name, its web server.

    JobError where it cannot be a server behind this box.
    """
    progress.part = "address"
    address = await _address(wire, text)
    own = await wire.ip("addr", "show")
    mine = [str(a.get("local", "")) for link in own for a in link.get("addr_info", ())]
    lan.check(address, mine)
    interface, gateway = await _route(wire, address)
    if address.version == 4:
        wire.poke([str(address)])
        await wire.settle(SETTLE_S)
    http, https, name = await asyncio.gather(
        wire.http(str(address), port), wire.knock(str(address), 443), wire.name(str(address))
    )
    card = "" if gateway else await _card(wire, str(address), interface)
    makers = await asyncio.to_thread(wire.vendors, [card] if card else [])
    return {
        "address": str(address),
        "mac": card,
        "mac_missing": _why_no_card(card, gateway, http.state),
        "interface": interface,
        "gateway": gateway,
        "vendor": makers.get(card, ""),
        "name": name,
        "http": http.json(),
        "https": https,
    }


async def _address(wire: Wire, text: str) -> lan.Address:
    with contextlib.suppress(ValueError):
        return lan.address(text)
    found = await wire.resolve(text)
    # IPv4 where there is a choice: cards can only be seen there.
    for each in sorted(found, key=lambda a: ":" in a):
        with contextlib.suppress(ValueError):
            return lan.address(each)
    raise JobError("setup.unknown_name", name=web.one_line(text))


async def _route(wire: Wire, address: lan.Address) -> tuple[str, str]:
    said = await wire.ip("route", "get", str(address))
    if not said or not said[0].get("dev"):
        raise JobError("setup.no_route", address=str(address))
    return str(said[0]["dev"]), str(said[0].get("gateway", ""))


async def _card(wire: Wire, address: str, interface: str) -> str:
    for wait_s in (0.0, SETTLE_S, LATE_S):
        await wire.settle(wait_s)
        said = await wire.ip("neigh", "show", "to", address, "dev", interface)
        found = lan.neighbours(said)
        if found:
            return next(iter(found.values()))[0]
    return ""


def _why_no_card(card: str, gateway: str, http: str) -> str:
    if card:
        return ""
    if gateway:
        return "behind_router"
    return "silent" if http == "silent" else "not_seen"
