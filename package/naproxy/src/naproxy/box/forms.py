"""Checks of what the box is told about itself. Pure: a value, or ApiError with the field."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.api.calls import ApiError, only
from naproxy.core.hours import zone
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import is_host

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


def wrong(where: str, code: str, **params: Any) -> ApiError:
    """Return the refusal of one field."""
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, Reason(code, **params), where)


def network(body: dict[str, Any]) -> Network:
    """Read the form of the network."""
    only(body, "method", "address", "gateway", "dns")
    method, dns = body.get("method"), _texts(body, "dns", MOST_DNS)
    if method not in ("dhcp", "static"):
        raise wrong("method", "config.one_of", names=("dhcp", "static"))
    for server in dns:
        _ip(server, "dns")
    if method == "dhcp":
        for name in ("address", "gateway"):
            if body.get(name):
                raise wrong(name, "config.by_dhcp")
        return Network("dhcp", dns=dns)
    address, gateway = _text(body, "address"), _text(body, "gateway")
    try:
        own = ipaddress.IPv4Interface(address)
    except ValueError:
        raise wrong("address", "config.prefix") from None
    if "/" not in address:
        raise wrong("address", "config.prefix")
    if own.network.prefixlen > 30 or own.ip in (
        own.network.network_address,
        own.network.broadcast_address,
    ):
        raise wrong("address", "config.not_machine", name=str(own.network))
    if own.ip.is_loopback or own.ip.is_multicast or own.ip.is_unspecified:
        raise wrong("address", "config.not_possible")
    if gateway:
        there = _ip(gateway, "gateway")
        if there == own.ip:
            raise wrong("gateway", "config.itself")
        if there not in own.network:
            raise wrong("gateway", "config.not_in_network", name=str(own.network))
    return Network("static", str(own), gateway, dns)


def host_name(body: dict[str, Any]) -> str:
    """Read the form of the box's name."""
    only(body, "name")
    name = _text(body, "name")
    if not _NAME.fullmatch(name):
        raise wrong("name", "config.host_name")
    if name.isdigit() or name == "localhost":
        raise wrong("name", "config.own_name")
    return name


def clock(body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Read the form of the time: zone and servers that tell the time."""
    only(body, "time_zone", "ntp")
    name, servers = _text(body, "time_zone"), _texts(body, "ntp", MOST_NTP)
    if not name:
        raise wrong("time_zone", "config.empty")
    try:
        zone(name)
    except WrongError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason, "time_zone") from None
    for server in servers:
        try:
            ipaddress.ip_address(server)
        except ValueError:
            if is_host(server):
                raise wrong("ntp", "config.no_host_or_address", name=server) from None
    return name, servers


def _ip(text: str, where: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        raise wrong(where, "config.no_ipv4", name=text[:60]) from None


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > 253:
        raise wrong(name, "config.a_text")
    return value


def _texts(body: dict[str, Any], name: str, most: int) -> tuple[str, ...]:
    values = body.get(name, [])
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise wrong(name, "config.texts")
    if len(values) > most:
        raise wrong(name, "config.value_most", high=most)
    return tuple(values)
