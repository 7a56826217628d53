"""The office's own settings, as the controller has them: name, language, time zone, prices."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Final

from flask import current_app
from naproxy.core import office_time
from naproxy.core.reason import WrongError

from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError

FRESH_S: Final = 5.0
"""A page asks several times; a change shows after so long at the latest."""
_RATES: Final = ("price_per_kwh", "co2_g_per_kwh", "co2_by_hour")


@dataclass(frozen=True, slots=True)
class Office:
    """`[office]` of the configuration; None: not known, also while the controller is silent."""

    name: str | None = None
    language: str | None = None
    time_zone: str | None = None
    currency: str | None = None
    co2_url: str | None = None


def office() -> Office:
    """Return the office's settings, at most `FRESH_S` old."""
    said = _section("office")
    return Office(**{f.name: said.get(f.name) for f in fields(Office)})


def ui_names() -> list[str]:
    """Return the names that the web interface may be called by, from the configuration."""
    names: list[str] = _section("box").get("ui_names", [])
    return names


def forget_office() -> None:
    """Ask again next time: it was just changed."""
    kept = _kept()
    kept["changes"] = kept.get("changes", 0) + 1
    kept.pop("until_s", None)


def rates_said() -> dict[str, Any]:
    """Return what prices and CO2 are made of, as the configuration has it."""
    said = _section("office")
    return {
        "office": {name: said[name] for name in _RATES if name in said},
        "tariff": _configuration().get("tariff", []),
    }


def _section(name: str) -> dict[str, Any]:
    """Return a section, empty if there is none: error pages need it, too."""
    found = _configuration().get(name)
    return found if isinstance(found, dict) else {}


def _follow(configuration: Any) -> None:
    """Have this process tell times by the office's clock, as far as its zone is known here."""
    try:
        office_time.follow(configuration["office"]["time_zone"] or "")
    except (WrongError, KeyError, TypeError):
        office_time.follow("")


def _kept() -> dict[str, Any]:
    kept: dict[str, Any] = current_app.extensions.setdefault("naproxy_office", {})
    return kept


def _configuration() -> dict[str, Any]:
    """Return what the controller said last; a silent one is not asked again at once."""
    kept = _kept()
    if time.monotonic() >= kept.get("until_s", 0.0):
        if "configuration" in kept:
            # Other requests use the old configuration while this one asks.
            kept["until_s"] = time.monotonic() + FRESH_S
        changes = kept.get("changes")
        with suppress(ApiError):
            kept["configuration"] = control().get("/v1/config", timeout_s=2.0)
            _follow(kept["configuration"])
        if kept.get("changes") == changes:  # else the answer may be from before the change
            kept["until_s"] = time.monotonic() + FRESH_S
    known: dict[str, Any] = kept.get("configuration", {})
    return known
