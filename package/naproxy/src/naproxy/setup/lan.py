"""The box's own networks, and which addresses may be looked at: pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from naproxy.api.jobs import JobError

LEAST_PREFIX: Final = 22
"""No larger network is swept: 1022 addresses."""

_SEEN: Final = {"REACHABLE", "STALE", "DELAY", "PROBE", "PERMANENT"}
_NOBODY: Final = "00:00:00:00:00:00"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Network:
    """One of the box's own IPv4 networks; `own` is the box's address in it."""

    interface: str
    own: ipaddress.IPv4Address
    whole: ipaddress.IPv4Network

    @property
    def swept(self) -> ipaddress.IPv4Network:
        """The part to scan: around the box's own address if the network is large."""
        if self.whole.prefixlen >= LEAST_PREFIX:
            return self.whole
        return ipaddress.IPv4Network(f"{self.own}/{LEAST_PREFIX}", strict=False)

    def hosts(self) -> Iterator[ipaddress.IPv4Address]:
        """Yield the addresses to look at; the box's own is not among them."""
        for address in self.swept.hosts():
            if address != self.own:
                yield address


def networks(said: Sequence[Mapping[str, Any]], first: str) -> list[Network]:
    """Return the networks in the output of `ip -j addr`, that of the interface `first` first.

    Loopback and point-to-point links are left out; so are public networks, where the
    neighbours are strangers.
    """
    found = []
    for link in said:
        name = str(link.get("ifname", ""))
        if "LOOPBACK" in link.get("flags", ()) or "UP" not in link.get("flags", ()):
            continue
        found += [net for each in link.get("addr_info", ()) if (net := _network(name, each))]
    # Twice the same, by two addresses, is once.
    unique = {(net.interface, net.swept): net for net in reversed(found)}
    return sorted(unique.values(), key=lambda net: (net.interface != first, net.swept))


def _network(interface: str, said: Mapping[str, Any]) -> Network | None:
    if said.get("family") != "inet" or said.get("scope") != "global":
        return None
    try:
        own = ipaddress.IPv4Address(said["local"])
        whole = ipaddress.IPv4Network(f"{own}/{said['prefixlen']}", strict=False)
    except (KeyError, ValueError):
        return None
    if whole.prefixlen > 30 or whole.is_global or whole.is_link_local:
        return None
    return Network(interface, own, whole)


def neighbours(said: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return {address: (Ethernet address, interface)} from the output of `ip -j neigh`."""
    found = {}
    for each in said:
        states = {str(state) for state in each.get("state", ())}
        card = str(each.get("lladdr", "")).lower()
        if states & _SEEN and card and card != _NOBODY:
            found[str(each.get("dst", ""))] = (card, str(each.get("dev", "")))
    return found


def address(text: str) -> Address:
    """Return the address in a text; ValueError. One of IPv4 in IPv6's clothes is IPv4."""
    found = ipaddress.ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def check(address: Address, own: Iterable[str]) -> None:
    """JobError if this address cannot be a server's."""
    if str(address) in set(own) or address.is_loopback:
        raise JobError("setup.own_address", address=str(address))
    if (
        address.is_multicast
        or address.is_unspecified
        or address.is_link_local
        or address.is_reserved
        or str(address) == "255.255.255.255"
    ):
        raise JobError("setup.no_machine", address=str(address))
