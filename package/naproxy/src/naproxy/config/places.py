"""Where servers are, seen from this box: by which interface, and at addresses they can have."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from naproxy.config.document import Config, Server
from naproxy.core import netlink
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError, Problem

_LAST_RESORT: Final = "eth0"
_OUTSIDE: Final = "192.0.2.1"
"""Nobody has it (RFC 5737): what leads there is the default route."""


def interface_of(server: Server, config: Config) -> str:
    """Return the interface to a server: as configured, else the one the routes lead to it by."""
    return (
        server.interface
        or config.box.interface
        or netlink.interface_to(server.address)
        or _LAST_RESORT
    )


def interface_to_all(config: Config) -> str:
    """Return the interface to the office: as configured, else to the first server, or outside."""
    first = config.server[0] if config.server else None
    if first:
        return interface_of(first, config)
    return config.box.interface or netlink.interface_to(_OUTSIDE) or _LAST_RESORT


def own_address(config: Config) -> str:
    """Return the box's address on the office's network, of IPv4 if it has one; empty: none."""
    try:
        found = netlink.addresses().get(interface_to_all(config), [])
    except OSError:
        return ""
    own = [each.ip for each in found if not (each.ip.is_link_local or each.ip.is_loopback)]
    return str(min(own, key=lambda address: address.version)) if own else ""


def own_networks() -> list[netlink.Interface]:
    """Return the box's own addresses with their networks; none where the kernel does not say."""
    try:
        return [each for found in netlink.addresses().values() for each in found]
    except OSError:
        return []


def check(config: Config) -> None:
    """Raise ConfigError if a server cannot be at its address, as far as this box knows."""
    if wrong := list(misplaced(config.server, own_networks())):
        raise ConfigError(wrong)


def misplaced(servers: Iterable[Server], own: Collection[netlink.Interface]) -> Iterator[Problem]:
    """Yield the addresses that no server can have: `own` are the box's, with their networks.

    Only for settings that somebody brings: what was in force before stays in force, whatever
    address the box gets.
    """
    for server in servers:
        if wrong := _wrong(ipaddress.ip_address(server.address), own):
            yield Problem(f"server.{server.id}.address", wrong, server.address)


def _wrong(address: netlink.Address, own: Collection[netlink.Interface]) -> Reason | None:
    if address.is_loopback or any(address == each.ip for each in own):
        return Reason("config.own_address")
    for each in own:
        network = each.network
        if address.version != network.version or network.num_addresses <= 2:
            continue
        # Of IPv6 the first is that of all routers (RFC 4291, 2.6.1), and there is no broadcast.
        last = network.broadcast_address if network.version == 4 else None
        if address in (network.network_address, last):
            return Reason("config.network_itself", name=str(network))
    return None
