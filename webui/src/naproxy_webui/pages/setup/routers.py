"""The forms for port forwarding of common routers, filled in for this box: pure.

Each field has the value that the page fills in: a word of the page, or a key of `values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

HTTP: Final = 80
HTTPS: Final = 443

ROUTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "fritzbox": {
        "device": "box",
        "application": "custom",
        "protocol": "tcp",
        "inside": "port",
        "outside": "port",
    },
    "unifi": {
        "name": "name",
        "interface": "wan",
        "wan_port": "port",
        "forward_ip": "box",
        "forward_port": "port",
        "protocol": "tcp",
    },
    "opnsense": {
        "interface": "wan",
        "protocol": "tcp",
        "destination": "wan_address",
        "range": "port",
        "target_ip": "box",
        "target_port": "port",
    },
    "tp_link": {
        "service": "name",
        "address": "box",
        "external": "port",
        "internal": "port",
        "protocol": "tcp",
    },
    "speedport": {
        "name": "name",
        "device": "box",
        "public_port": "port",
        "device_port": "port",
        "protocol": "tcp",
    },
    "other": {"address": "box", "external": "port", "internal": "port", "protocol": "tcp"},
}
"""The fields of each router in its order, with their values."""
WORDS: Final = ("custom", "wan", "wan_address")
"""Values that the page has words for."""


def ports(server: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ports that are to lead to the box."""
    over_https = server["https"]["mode"] in ("box", "through")
    return (HTTP, HTTPS) if over_https else (HTTP,)


def values(box: str, port: int) -> dict[str, str]:
    """Return the values of the fields of a rule for one port."""
    return {"box": box, "port": str(port), "tcp": "TCP", "name": f"Naproxy {port}"}
