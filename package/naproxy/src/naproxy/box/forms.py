"""Checks of what the box is told about itself. Pure: a value, or ApiError with the field."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.calls import ApiError, only
from naproxy.hours import zone
from naproxy.schema import is_host

MOST_DNS: Final = 3
MOST_NTP: Final = 4
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Network:
    """How the box gets its address: `dhcp`, or `static` with `address` as 192.0.2.5/24."""

    method: str = "dhcp"
    address: str = ""
    gateway: str = ""
    dns: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Return it as keys and values for the helper program."""
        pairs = [("method", self.method), ("address", self.address), ("gateway", self.gateway)]
        return [*pairs, ("dns", " ".join(self.dns))]


def wrong(where: str, words: str) -> ApiError:
    """Return the refusal of one field."""
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, where)


def network(body: dict[str, Any]) -> Network:
    """Read the form of the network."""
    only(body, "method", "address", "gateway", "dns")
    method, dns = body.get("method"), _texts(body, "dns", MOST_DNS)
    if method not in ("dhcp", "static"):
        raise wrong("method", "must be dhcp or static")
    for server in dns:
        _ip(server, "dns")
    if method == "dhcp":
        for name in ("address", "gateway"):
            if body.get(name):
                raise wrong(name, "comes from the network with dhcp: leave it empty")
        return Network("dhcp", dns=dns)
    address, gateway = _text(body, "address"), _text(body, "gateway")
    try:
        own = ipaddress.IPv4Interface(address)
    except ValueError:
        raise wrong(
            "address", "must be an IPv4 address with its prefix, as 192.168.1.5/24"
        ) from None
    if "/" not in address:
        raise wrong("address", "needs its prefix, as /24")
    if own.network.prefixlen > 30 or own.ip in (
        own.network.network_address,
        own.network.broadcast_address,
    ):
        raise wrong("address", f"is not a machine's address in {own.network}")
    if own.ip.is_loopback or own.ip.is_multicast or own.ip.is_unspecified:
        raise wrong("address", "is not an address that a machine can have")
    if gateway:
        there = _ip(gateway, "gateway")
        if there == own.ip:
            raise wrong("gateway", "is the box itself")
        if there not in own.network:
            raise wrong("gateway", f"is not in the box's own network, {own.network}")
    return Network("static", str(own), gateway, dns)


def host_name(body: dict[str, Any]) -> str:
    """Read the form of the box's name."""
    only(body, "name")
    name = _text(body, "name")
    if not _NAME.fullmatch(name):
        raise wrong(
            "name", "must be a to z, 0 to 9 and -, at most 63, not beginning or ending with -"
        )
    if name.isdigit() or name == "localhost":
        raise wrong("name", "must be a name of its own")
    return name


def clock(body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Read the form of the time: zone and servers that tell the time."""
    only(body, "time_zone", "ntp")
    name, servers = _text(body, "time_zone"), _texts(body, "ntp", MOST_NTP)
    if not name:
        raise wrong("time_zone", "is missing")
    try:
        zone(name)
    except ValueError as error:
        raise wrong("time_zone", str(error)) from None
    for server in servers:
        try:
            ipaddress.ip_address(server)
        except ValueError:
            if is_host(server):
                raise wrong("ntp", f"{server!r} is not a host name or an address") from None
    return name, servers


def _ip(text: str, where: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        raise wrong(where, f"{text[:60]!r} is not an IPv4 address") from None


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > 253:
        raise wrong(name, "must be a text")
    return value


def _texts(body: dict[str, Any], name: str, most: int) -> tuple[str, ...]:
    values = body.get(name, [])
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise wrong(name, "must be a list of texts")
    if len(values) > most:
        raise wrong(name, f"must be at most {most}")
    return tuple(values)
