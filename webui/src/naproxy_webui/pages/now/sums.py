"""This month's savings of all servers, their price in waits, and the forecast.

Sums are those of the page Savings, day by day. Whole days are cached until an input of their
computation changes, so only today is read again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from naproxy.core.rates import Rates
from naproxy.core.reason import Reason
from naproxy.history.days import begin, day_of, days, start_s
from naproxy.history.read.forecast import LOOK_BACK_DAYS, Amount, Day, Forecast, forecast
from naproxy.history.read.gone import gone
from naproxy.history.read.savings import Valued
from naproxy.history.read.waits import paid

from naproxy_webui.office.money import office_rates
from naproxy_webui.office.ranges import zone
from naproxy_webui.pages.savings.saving import Believed, believed, sums
from naproxy_webui.pages.savings.scope import first_known_s, is_early

ALL_OF_IT: Final = 0.9995
"""As Savings says it."""


@dataclass
class Kept:
    """Sums of whole days of a server, and the inputs they were computed from."""

    what: Believed
    rates: Rates
    by_day: dict[int, Valued] = field(default_factory=dict)


def saved(
    db: sqlite3.Connection, servers: Sequence[str], now_s: float, kept: dict[str, Kept]
) -> dict[str, Any]:
    """Return the sums of this month, and the forecast or a stored reason why there is none.

    The sums include removed servers, but these no longer make a promise. `kept` is the cache of
    earlier calls.
    """
    today = day_of(now_s, zone())
    month = begin(today, "month")
    from_s = start_s(min(month, today - timedelta(LOOK_BACK_DAYS)), zone())
    month_s = start_s(month, zone())
    found: list[tuple[date, int, Valued]] = []
    removed = [each.id for each in gone(db, servers)]
    whats = {name: believed(db, name, now_s) for name in (*servers, *removed)}
    for day, begin_s, end_s in days(from_s, now_s, zone()):
        until_s = int(min(end_s, now_s // 60 * 60))
        of_all = Valued()
        for name, what in whats.items():
            known = _kept(name, what, kept)
            if begin_s in known.by_day:
                of_all += known.by_day[begin_s]
            elif begin_s < until_s:
                of_day = sums(db, what, begin_s, until_s)
                of_all += of_day
                if until_s == end_s:
                    known.by_day[begin_s] = of_day
        found.append((day, begin_s, of_all))
    this_month = Valued()
    for _, begin_s, each in found:
        if begin_s >= month_s:
            this_month += each
    so_far = Amount(this_month.sums.net_j, this_month.net.money)
    ended = [
        Day(day, Amount(each.sums.net_j, each.net.money), _known(each))
        for day, _, each in found
        if day < today
    ]
    firsts = [first for name in whats if (first := first_known_s(db, name)) is not None]
    worth = so_far.energy_j if so_far.money is None else so_far.money
    estimated = any(each.meter_estimated for each in whats.values())
    early = is_early(min(firsts, default=None), now_s, worth)
    return {
        "from_s": month_s,
        "kind": "none" if early else _kind(this_month, estimated=estimated),
        "net_j": so_far.energy_j,
        "money": so_far.money,
        "promises": [
            _promise(db, name, what, month_s, now_s)
            for name, what in whats.items()
            if name in servers
        ],
        **_expected(forecast(ended, today, so_far)),
    }


def _kept(name: str, what: Believed, kept: dict[str, Kept]) -> Kept:
    known = kept.get(name)
    if known is None or known.what is not what or known.rates is not office_rates():
        known = kept[name] = Kept(what, office_rates())
    return known


def _known(found: Valued) -> float:
    return found.sums.known_s / found.sums.length_s if found.sums.length_s else 0.0


def _kind(found: Valued, *, estimated: bool) -> str:
    of = found.sums
    if not of.known_s:
        return "none"
    if not of.measured_s:
        return "modelled"
    if estimated:
        return "estimated"
    return "measured" if of.measured_s / of.known_s > ALL_OF_IT else "mixed"


def _promise(
    db: sqlite3.Connection, name: str, what: Believed, from_s: float, to_s: float
) -> dict[str, Any]:
    counts = paid(db, name, from_s, to_s)
    return {
        "server": name,
        "requests": counts.requests,
        "delayed": counts.delayed,
        "allowed": int(what.fraction * counts.requests),
    }


def _expected(found: Forecast | Reason) -> dict[str, Any]:
    if isinstance(found, Reason):
        return {"forecast": None, "no_forecast": found.plain()}
    return {
        "forecast": {
            "days": found.days,
            "month": {"net_j": found.month.energy_j, "money": found.month.money},
            "year": {"net_j": found.year.energy_j, "money": found.year.money},
        },
        "no_forecast": None,
    }
