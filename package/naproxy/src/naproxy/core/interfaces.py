"""The kernel's facts about network interfaces."""

from __future__ import annotations

import fcntl
import json
import socket
import struct
from typing import Any, Final

from naproxy.core.processes import printed

UI_PORT: Final = 8443
"""Of the web interface."""
_SIOCGIFBRDADDR: Final = 0x8919
EVERYBODY: Final = "255.255.255.255"
"""On the wire of the interface that it is sent by (RFC 919)."""

_IP_S: Final = 5.0
_IP_BYTES: Final = 1 << 20
_ELSEWHERE: Final = ("192.0.2.1", "2001:db8::1")
"""Addresses of no machine (RFC 5737, 3849): the way to them is the default route."""


async def ip(*words: str) -> list[dict[str, Any]]:
    """Ask ip(8) in JSON; nothing where it has no answer."""
    try:
        done = await printed(["ip", "-j", *words], _IP_S, {}, _IP_BYTES)
        found = json.loads(done.output or b"[]") if done.code == 0 else []
    except (OSError, ValueError):
        return []
    return [each for each in found if isinstance(each, dict)]


def broadcast_of(interface: str) -> str:
    """Return the IPv4 broadcast address of an interface; 255.255.255.255 where it has none."""
    request = struct.pack("16s16x8x", interface.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, _SIOCGIFBRDADDR, request)
    except OSError:
        return EVERYBODY
    found = socket.inet_ntoa(answer[20:24])
    return found if found != "0.0.0.0" else EVERYBODY  # noqa: S104 - compared, not bound


def own_address(towards: str) -> str:
    """Return the box's address on the way to an address; empty if there is no way."""
    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((towards, 9))  # UDP: this asks the kernel for the route, and sends nothing
        except OSError:
            return ""
        return str(sock.getsockname()[0]).partition("%")[0]


def outside_address() -> str:
    """Return the address that the box has for others, IPv4 first; empty without default route."""
    return next(filter(None, map(own_address, _ELSEWHERE)), "")
