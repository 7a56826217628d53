"""Checks of the box's own settings. Pure: ApiError with the field."""

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

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Net = ipaddress.IPv4Network | ipaddress.IPv6Network

_V4, _V6 = 4, 6
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
_MAPPED: Final = ipaddress.IPv6Network("::/80")
"""Addresses that only stand for IPv4 (RFC 4291, 2.5.5) and never appear on a wire."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Network:
    """The box's addresses, their source, and its name servers.

    IPv4: `dhcp`, or `static` with `address` as 192.0.2.5/24. IPv6: `auto` as routers announce it
    (SLAAC, RFC 4862), `static` with `address6` as fd00::5/64, or `off`. `vlan` is the number of the
    VLAN on its card (IEEE 802.1Q), None for none.
    """

    method: str = "dhcp"
    address: str = ""
    gateway: str = ""
    dns: tuple[str, ...] = ()
    ipv6: str = "auto"
    address6: str = ""
    gateway6: str = ""
    vlan: int | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return it as keys and values for the helper program."""
        return [
            ("method", self.method),
            ("address", self.address),
            ("gateway", self.gateway),
            ("ipv6", self.ipv6),
            ("address6", self.address6),
            ("gateway6", self.gateway6),
            ("vlan", str(self.vlan or "")),
            ("dns", " ".join(self.dns)),
        ]


def wrong(where: str, code: str, **params: Any) -> ApiError:
    """Return the refusal of one field."""
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, Reason(code, **params), where)


def network(
    *,
    method: str,
    address: str = "",
    gateway: str = "",
    dns: Sequence[str] = (),
    ipv6: str = "auto",
    address6: str = "",
    gateway6: str = "",
    vlan: int | None = None,
) -> Network:
    """Check the form of the network, which has the shape that its route declares."""
    for name, texts, chosen in (
        (("address", "gateway"), (address, gateway), method),
        (("address6", "gateway6"), (address6, gateway6), ipv6),
    ):
        if chosen == "static":
            continue
        for field, text in zip(name, texts, strict=True):
            if text:
                raise wrong(field, "config.ipv6_off" if chosen == "off" else "config.by_dhcp")
    own = _own(address, 4, "address") if method == "static" else None
    own6 = _own(address6, 6, "address6") if ipv6 == "static" else None
    return Network(
        method,
        str(own or ""),
        _gateway(gateway, own, "gateway") if own else "",
        tuple(_name_server(each, ipv6) for each in dns),
        ipv6,
        str(own6 or ""),
        _gateway(gateway6, own6, "gateway6") if own6 else "",
        vlan,
    )


def host_name(name: str) -> None:
    """Refuse what cannot be the box's name."""
    if not _NAME.fullmatch(name):
        raise wrong("name", "config.host_name")
    if name.isdigit() or name == "localhost":
        raise wrong("name", "config.own_name")


def clock(time_zone: str, ntp: Sequence[str] = ()) -> None:
    """Refuse an invalid time zone or time server."""
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


def _own(text: str, version: int, where: str) -> Interface:
    """Return the box's own address with its prefix."""
    needs = "config.prefix" if version == _V4 else "config.prefix6"
    try:
        own = ipaddress.ip_interface(text)
    except ValueError:
        raise wrong(where, needs) from None
    if own.version != version or "/" not in text or "%" in text:
        raise wrong(where, needs)
    _of_a_machine(own.ip, where)
    if own.ip.is_link_local and own.version != _V4:
        raise wrong(where, "config.link_local")
    _not_of_all(own.ip, own.network, where)
    return own


def _gateway(text: str, own: Interface, where: str) -> str:
    if not text:
        return ""
    there = _ip(text, own.version, where)
    if there == own.ip:
        raise wrong(where, "config.itself")
    if there.version != _V4 and there.is_link_local:  # as routers announce themselves
        return str(there)
    if there not in own.network:
        raise wrong(where, "config.not_in_network", name=str(own.network))
    _not_of_all(there, own.network, where)
    return str(there)


def _name_server(text: str, ipv6: str) -> str:
    there = _ip(text, None, "dns")
    _of_a_machine(there, "dns")
    if there.version != _V4:
        if ipv6 == "off":
            raise wrong("dns", "config.ipv6_off")
        if there.is_link_local:
            raise wrong("dns", "config.link_local")
    return str(there)


def _of_a_machine(ip: Address, where: str) -> None:
    mapped = ip.version == _V6 and ip in _MAPPED
    if ip.is_loopback or ip.is_multicast or ip.is_unspecified or mapped:
        raise wrong(where, "config.not_possible")
    if ip.version == _V4 and (ip.is_reserved or ip in _THIS_NETWORK):
        raise wrong(where, "config.not_possible")


def _not_of_all(ip: Address, network: Net, where: str) -> None:
    """Refuse the first address of a network, and the last where that is everybody's.

    The first of IPv6 belongs to all its routers (RFC 4291, 2.6.1), but where a network has two
    addresses (RFC 6164).
    """
    small = network.max_prefixlen - network.prefixlen
    pair = network.version != _V4 and small == 1
    ends = {network.network_address}
    if network.version == _V4:
        ends.add(network.broadcast_address)
    if not pair and (small <= 1 or ip in ends):
        raise wrong(where, "config.not_machine", name=str(network))


def _ip(text: str, version: int | None, where: str) -> Address:
    code = {4: "config.no_ipv4", 6: "config.no_ipv6"}.get(version or 0, "config.no_ip")
    try:
        there = ipaddress.ip_address(text)
    except ValueError:
        raise wrong(where, code, name=text[:60]) from None
    if version not in (None, there.version) or "%" in text:
        raise wrong(where, code, name=text[:60])
    return there
