"""Checks of what the box is told about itself. Pure: ApiError with the field."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.api.calls import ApiError
from naproxy.core.hours import zone
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import is_host

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


def network(method: str, address: str = "", gateway: str = "", dns: Sequence[str] = ()) -> Network:
    """Check the form of the network, which has the shape that its route declares."""
    for server in dns:
        _ip(server, "dns")
    if method == "dhcp":
        for name, text in (("address", address), ("gateway", gateway)):
            if text:
                raise wrong(name, "config.by_dhcp")
        return Network("dhcp", dns=tuple(dns))
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
    return Network("static", str(own), gateway, tuple(dns))


def host_name(name: str) -> None:
    """Refuse what cannot be the box's name."""
    if not _NAME.fullmatch(name):
        raise wrong("name", "config.host_name")
    if name.isdigit() or name == "localhost":
        raise wrong("name", "config.own_name")


def clock(time_zone: str, ntp: Sequence[str] = ()) -> None:
    """Refuse what is no time zone, and no server that tells the time."""
    if not time_zone:
        raise wrong("time_zone", "config.empty")
    try:
        zone(time_zone)
    except WrongError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason, "time_zone") from None
    for server in ntp:
        try:
            ipaddress.ip_address(server)
        except ValueError:
            if is_host(server):
                raise wrong("ntp", "config.no_host_or_address", name=server) from None


def _ip(text: str, where: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        raise wrong(where, "config.no_ipv4", name=text[:60]) from None
