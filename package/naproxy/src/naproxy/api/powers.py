"""A server's powers: those that its commissioning measured, and those that are configured.

`[server.power]` is what the rule for sleeping reckons with. Nothing is written there unless
somebody says so, and what somebody has written there is not replaced unless they say that.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from naproxy.api import configuration as configapi
from naproxy.api.calls import Answer, ApiError, Call, only
from naproxy.config.document import Server
from naproxy.config.edit import Change
from naproxy.core.reason import Reason, stored_reason

KEYS: Final = ("on_w", "off_w", "switch_j")
UNSURE: Final = 0.2
"""A power whose interval is wider to one side than this share of it is not reckoned with."""
UNSURE_S: Final = 5.0
"""Nor an E_switch that may be larger by what takes this long to save."""


def measured(fit: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return what a commissioning's fit measured (W, W, J), if it is good enough; none below 0."""
    if not fit or fit["on_w"]["high"] > (1 + UNSURE) * fit["on_w"]["value"]:
        return None
    found = {key: max(0.0, round(float(fit[key]["value"]), 1)) for key in KEYS}
    saved_w = found["on_w"] - found["off_w"]
    if saved_w <= 0 or fit["switch_j"]["high"] - found["switch_j"] > UNSURE_S * saved_w:
        return None
    return found


def given(text: bytes, name: str) -> dict[str, float]:
    """Return the powers that the configuration file names for this server itself; ValueError."""
    servers = tomllib.loads(text.decode()).get("server", [])
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


async def answer(
    store: configapi.Store, server: Server, report: Mapping[str, Any], call: Call
) -> Answer:
    """Answer /v1/servers/ID/power: GET tells the powers, POST has the measured ones used."""
    body = call.json()
    found = measured(report.get("fit"))
    try:
        typed = given(store.config_text(), server.id)
    except (OSError, ValueError) as error:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        raise ApiError(status, f"the file cannot be read: {error}") from None
    if call.method == "GET":
        only(body)
        in_force = dataclasses.asdict(server.power)
        return HTTPStatus.OK, {"measured": found, "in_force": in_force, "given": typed}
    if call.method != "POST":
        raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{call.method} is not used here")
    only(body, "replace")
    replace = body.get("replace", False)
    if not isinstance(replace, bool):
        raise ApiError(HTTPStatus.BAD_REQUEST, "must be true or false", "replace")
    if found is None:
        raise ApiError(HTTPStatus.CONFLICT, _why_not(report))
    other = {key: value for key, value in typed.items() if value != found[key]}
    if other and not replace:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"the configuration names {words(other)} itself, measured were {words(found)}:"
            " it is replaced only if you say so",
            "replace",
        )
    changes = [Change("set", f"server.{server.id}.power.{key}", found[key]) for key in KEYS]
    await configapi.change(store, changes, store.version)
    return HTTPStatus.OK, {"measured": found, "in_force": found, "given": found}


def _why_not(report: Mapping[str, Any]) -> Reason:
    if not report:
        return Reason("power.never_commissioned")
    if not report.get("fit"):
        return Reason("power.not_measured", why=stored_reason(report["no_fit"]))
    return Reason("power.not_sure")
