"""The kernel's addresses, neighbours and routes, asked directly: rtnetlink(7).

ip(8) says the same, but starting a program is too slow for a question with each probe.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

PERMANENT: Final = 0x80
STALE: Final = 0x04
_KNOWN: Final = 0x02 | 0x04 | 0x08 | 0x10 | 0x80
"""States of a neighbour whose Ethernet address is known (NUD_VALID without NOARP)."""

_GETADDR: Final = 22
_NEWNEIGH: Final = 28
_DELNEIGH: Final = 29
_GETNEIGH: Final = 30
_GETROUTE: Final = 26
_REQUEST: Final = 0x01
_ACK: Final = 0x04
_DUMP: Final = 0x300
_REPLACE_OR_CREATE: Final = 0x500
_ERROR: Final = 2
_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ADDR: Final = struct.Struct("=BBBBI")
_NEIGH: Final = struct.Struct("=BxxxiHBB")
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
_BYTES: Final = 1 << 16
_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Whose Ethernet address the kernel knows for an address."""

    mac: bytes
    permanent: bool


def addresses() -> dict[str, list[Interface]]:
    """Return the box's own addresses, with their networks, by interface; OSError."""
    found: dict[str, list[Interface]] = {}
    for payload in _ask(_GETADDR, _DUMP, _ADDR.pack(0, 0, 0, 0, 0)):
        _, prefix, _, _, index = _ADDR.unpack_from(payload)
        told = _attributes(payload[_ADDR.size :])
        # IFA_LOCAL is the own one of a link between two, where IFA_ADDRESS is the other's.
        own = told.get(2) or told.get(1)
        if own:
            found.setdefault(socket.if_indextoname(index), []).append(
                ipaddress.ip_interface((own, prefix))
            )
    return found


def interface_to(address: str) -> str:
    """Return the interface by which the routes lead to an address; empty: there is none."""
    to = ipaddress.ip_address(address)
    body = _ROUTE.pack(_family(to), to.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    try:
        for payload in _ask(_GETROUTE, 0, body + _attribute(1, to.packed)):
            index = _attributes(payload[_ROUTE.size :]).get(4)
            return socket.if_indextoname(*struct.unpack("=I", index)) if index else ""
    except OSError:
        pass
    return ""


def neighbour(address: str, interface: str) -> Neighbour | None:
    """Return what the kernel knows of this address on this interface; OSError if it cannot say."""
    to = ipaddress.ip_address(address)
    body = _NEIGH.pack(_family(to), socket.if_nametoindex(interface), 0, 0, 0)
    for payload in _ask(_GETNEIGH, 0, body + _attribute(1, to.packed)):
        state = _NEIGH.unpack_from(payload)[2]
        mac = _attributes(payload[_NEIGH.size :]).get(2)
        if mac and len(mac) == 6 and state & _KNOWN:
            return Neighbour(mac, bool(state & PERMANENT))
    return None


def neighbours(interface: str) -> dict[str, bytes]:
    """Return the Ethernet addresses that the kernel knows on an interface, by address; OSError."""
    wanted, found = socket.if_nametoindex(interface), {}
    for payload in _ask(_GETNEIGH, _DUMP, _NEIGH.pack(0, 0, 0, 0, 0)):
        _, index, state, _, _ = _NEIGH.unpack_from(payload)
        told = _attributes(payload[_NEIGH.size :])
        to, mac = told.get(1), told.get(2)
        if index == wanted and state & _KNOWN and to and mac and len(mac) == 6:
            found[str(ipaddress.ip_address(to))] = mac
    return found


def set_neighbour(address: str, interface: str, mac: bytes, state: int) -> None:
    """Have the kernel know this Ethernet address, in this state; OSError."""
    to = ipaddress.ip_address(address)
    body = _NEIGH.pack(_family(to), socket.if_nametoindex(interface), state, 0, 0)
    attributes = _attribute(1, to.packed) + _attribute(2, mac)
    for _ in _ask(_NEWNEIGH, _REPLACE_OR_CREATE | _ACK, body + attributes):
        pass


def forget_neighbour(address: str, interface: str) -> None:
    """Have the kernel forget it; OSError, also if it knows none."""
    to = ipaddress.ip_address(address)
    body = _NEIGH.pack(_family(to), socket.if_nametoindex(interface), 0, 0, 0)
    for _ in _ask(_DELNEIGH, _ACK, body + _attribute(1, to.packed)):
        pass


def _family(address: Address) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _attribute(kind: int, value: bytes) -> bytes:
    size = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(size, kind) + value + bytes(-size % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= size <= len(data):
            break
        found[kind] = data[_ATTRIBUTE.size : size]
        data = data[size + -size % 4 :]
    return found


def _ask(kind: int, flags: int, body: bytes) -> Iterator[bytes]:
    """Send a request, and yield what each message of the answer has after its header; OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(_LIMIT_S)
        sock.bind((0, 0))
        sock.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)
        more = True
        while more:
            data = sock.recv(_BYTES)
            while len(data) >= _HEADER.size:
                size, answer, _, _, _ = _HEADER.unpack_from(data)
                if not _HEADER.size <= size <= len(data):
                    return
                payload, data = data[_HEADER.size : size], data[size + -size % 4 :]
                if answer == _ERROR and (number := -struct.unpack_from("=i", payload)[0]):
                    raise OSError(number, os.strerror(number))
                if answer in (_ERROR, _DONE):
                    return
                yield payload
                # A single answer has no end of its own.
                more = bool(flags & (_DUMP | _ACK))
