"""The machine's own facts: addresses, name servers, free space on the disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naproxy.box.effects import Machine

_PATIENCE_S = 10.0


async def network(does: Machine, interface: str, etc: Path = Path("/etc")) -> dict[str, Any]:
    """Return addresses of the interface, the gateways and the name servers, as they are now."""
    links = await _json(does, ("ip", "-j", "addr", "show", "dev", interface))
    routes = [
        route
        for family in ("-4", "-6")
        for route in await _json(does, ("ip", "-j", family, "route", "show", "default"))
        if route.get("dev") == interface
    ]
    addresses = [
        f"{each.get('local')}/{each.get('prefixlen')}"
        for link in links
        for each in link.get("addr_info", ())
        if each.get("scope") == "global"
    ]
    gateways = dict.fromkeys(str(route["gateway"]) for route in routes if "gateway" in route)
    return {
        "interface": interface,
        "addresses": addresses,
        "gateways": list(gateways),
        "dns": _name_servers(etc / "resolv.conf"),
    }


async def _json(does: Machine, argv: Sequence[str]) -> list[dict[str, Any]]:
    try:
        done = await does.run(argv, _PATIENCE_S)
        found = json.loads(done.output) if done.code == 0 else []
    except (OSError, ValueError):
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _name_servers(file: Path) -> list[str]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = [line.split() for line in lines]
    return [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"]
