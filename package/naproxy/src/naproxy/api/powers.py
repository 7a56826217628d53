"""A server's powers: those that its commissioning measured, and those that are configured.

`[server.power]` is what the rule for sleeping reckons with. Nothing is written there unless
somebody says so, and what somebody has written there is not replaced unless they say that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from naproxy.api import configuration
from naproxy.api.calls import ApiError
from naproxy.config.document import Server
from naproxy.config.edit import Change
from naproxy.config.in_force import InForce
from naproxy.core import bounded
from naproxy.core.reason import Reason, stored_reason
from naproxy.server.fit import KEYS, measured


def given(text: bytes, name: str) -> dict[str, float]:
    """Return the powers that the configuration file names for this server itself; ValueError."""
    servers = bounded.toml(text).get("server", [])
    try:
        power: dict[str, Any]
        power = next((each.get("power", {}) for each in servers if each.get("id") == name), {})
        return {key: float(power[key]) for key in KEYS if key in power}
    except (AttributeError, TypeError):  # somebody is editing it
        raise ValueError("a server is no section, or its power is none") from None


def words(power: Mapping[str, float]) -> str:
    """Return powers for people; those that are not there are left out."""
    units = {"on_w": "W awake", "off_w": "W asleep", "switch_j": "J for a sleep and a wake"}
    return ", ".join(f"{power[key]:g} {unit}" for key, unit in units.items() if key in power)


def told(in_force: InForce, server: Server, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured, what is in force, and what the file names itself; ApiError."""
    return {
        "measured": measured(report.get("fit")),
        "in_force": dataclasses.asdict(server.power),
        "given": _typed(in_force, server),
    }


async def use(
    in_force: InForce, server: Server, report: Mapping[str, Any], *, replace: bool
) -> dict[str, Any]:
    """Write what was measured; what somebody has written only if `replace` says so. ApiError."""
    found, typed = measured(report.get("fit")), _typed(in_force, server)
    if found is None:
        raise ApiError(HTTPStatus.CONFLICT, _why_not(report))
    other = {key: value for key, value in typed.items() if value != found[key]}
    if other and not replace:
        why = Reason("power.given", given=_lines(other), measured=_lines(found))
        raise ApiError(HTTPStatus.CONFLICT, why, "replace")
    changes = [Change("set", f"server.{server.id}.power.{key}", found[key]) for key in KEYS]
    await configuration.change(in_force, changes, in_force.version)
    return {"measured": found, "in_force": found, "given": found}


def _lines(power: Mapping[str, float]) -> list[str]:
    """Return powers as they stand in the file."""
    return [f"{key} = {power[key]:g}" for key in KEYS if key in power]


def _typed(in_force: InForce, server: Server) -> dict[str, float]:
    try:
        return given(in_force.to_edit(), server.id)
    except (OSError, ValueError) as error:
        raise configuration.unreadable(error) from None


def _why_not(report: Mapping[str, Any]) -> Reason:
    if not report:
        return Reason("power.never_commissioned")
    if not report.get("fit"):
        return Reason("power.not_measured", why=stored_reason(report["no_fit"]))
    return Reason("power.not_sure")
