"""The worth of the office's energy, by the time of its use."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from flask import current_app, g
from naproxy.core.rates import Rates, rates
from naproxy.history.read import carbon

from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.office.history import history
from naproxy_webui.office.office import office, rates_said
from naproxy_webui.office.ranges import zone

_YEAR_S: Final = 365.25 * 86400


def means_of_year() -> dict[str, float | None]:
    """Return the mean cost and CO2 of a kilowatt-hour in the coming year.

    `recorded_co2`: last year's recorded mean, for lack of a figure for the coming year.
    """
    now_s, known = time.time(), office_rates()
    year = now_s, now_s + _YEAR_S
    mean_co2 = known.co2.mean(*year)
    return {
        "mean_price": known.price.mean(*year),
        "mean_co2": mean_co2,
        "recorded_co2": known.co2.mean(now_s - _YEAR_S, now_s) if mean_co2 is None else None,
    }


def co2_source() -> dict[str, Any] | None:
    """Return the host of the hourly CO2 figures, its problem and since when; None without one."""
    url = office().co2_url
    if not url:
        return None
    said: dict[str, Any] = {}
    with suppress(ApiError):
        said = control().get("/v1/status").get("box", {}).get("co2") or {}
    return {
        "host": urlsplit(url).netloc,
        "problem": plain(said.get("problem")),
        "failed_since_s": said.get("failed_since_s"),
    }


def office_rates() -> Rates:
    """Return the office's prices and CO2; those that were never entered are unknown.

    It returns the same object until one of them changes, so results can be cached by it.
    """
    kept: dict[str, Any] = current_app.extensions.setdefault("naproxy_office_rates", {})
    newest, hours = _recorded(kept)
    # The machine's own zone is another object each time, so it is known by its file.
    made_of = rates_said(), office().time_zone or os.path.realpath("/etc/localtime"), newest
    if kept.get("made_of") != made_of:
        kept.update(made_of=made_of, rates=rates(made_of[0], zone(), hours))
    found: Rates = kept["rates"]
    return found


def _recorded(kept: dict[str, Any]) -> tuple[tuple[int, int] | None, Mapping[int, float]]:
    """Return a key that changes with the recorded hours of CO2, and these hours.

    New hours come at the end: hours before the newest known one are not read again. Within a
    request they stay the same.
    """
    if "co2_recorded" not in g:
        newest, hours = kept.get("recorded", (None, {}))
        with suppress(ApiError, sqlite3.OperationalError):  # no history yet, or an older one
            found = carbon.newest(history(), time.time())
            if found != newest:
                later = newest is not None and found is not None and newest <= found
                fresh = carbon.hours(history(), newest[0] if later else 0)
                newest, hours = found, {**(hours if later else {}), **fresh}
        kept["recorded"] = g.co2_recorded = (newest, hours)
    found_: tuple[tuple[int, int] | None, Mapping[int, float]] = g.co2_recorded
    return found_
