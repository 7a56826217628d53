"""/savings: the savings compared with always on, and their price in waits for people.

The possible savings are in `hindsight.py`.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from typing import Any, Final

from flask import Response
from naproxy.api.shapes import (
    ANY_OBJECT,
    array,
    boolean,
    choice,
    integer,
    nullable,
    number,
    obj,
    string,
)
from naproxy.history.days import VIEWS, day_of
from naproxy.history.read.gone import gone
from naproxy.history.read.savings import Saved, Valued
from naproxy.history.read.waits import Wait, paid, waits

from naproxy_webui.http.api import attachment, route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.office.figures import middle
from naproxy_webui.office.history import history, server_names
from naproxy_webui.office.money import co2_source, office_rates
from naproxy_webui.office.office import office
from naproxy_webui.office.ranges import zone
from naproxy_webui.pages.savings.hindsight import newest_answer
from naproxy_webui.pages.savings.saving import Believed, believed, shown, sums
from naproxy_webui.pages.savings.scope import ALL, SCOPE, Scope, first_known_s, is_early, scope_of
from naproxy_webui.render import render

blueprint = Page("savings", __name__, "/savings", place=30)

STEPS_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0)
MOST_BARS: Final = 16
"""Of the waits: bars of the shortest step that needs no more; the last one is open."""

SUMS: Final = obj(
    {
        **{
            name: number()
            for name in (
                *("length_s", "measured_s", "modelled_s", "asleep_s"),
                *("always_j", "measured_j", "modelled_j", "used_j"),
                *("box_j", "box_measured_j", "box_modelled_j", "gross_j", "net_j"),
            )
        },
        "switches": integer(),
    }
)
WORTH: Final = obj(money=nullable(number()), co2_g=nullable(number()))
WORTHS: Final = ("always_worth", "used_worth", "box_worth", "gross_worth", "net_worth")
POLICIES: Final = (
    *("teacher", "thesis", "timeout-30s", "timeout-1m", "timeout-2m", "timeout-5m"),
    *("timeout-10m", "timeout-20m", "timeout-30m", "schedule"),
)
"""Those of `naproxy.lab.estimate.hindsight`, which is too much to import here."""


@blueprint.get("/savings")
def page() -> str:
    """Return the page; its figures come by the API."""
    views, names = (*VIEWS, ALL), server_names()
    with suppress(ApiError):  # no history yet
        names = [*names, *(each.id for each in gone(history(), names))]
    return render("savings.html", servers=names, views=views, policies=POLICIES)


@route(
    blueprint,
    "GET",
    "/api/savings",
    query=SCOPE,
    needed=("server",),
    answer=obj(
        {
            "server": string(),
            "view": choice(*VIEWS, ALL),
            "day": nullable(string()),
            "previous": nullable(string()),
            "next": nullable(string()),
            "from_s": integer(),
            "to_s": integer(),
            "end_s": integer(),
            "first_s": nullable(integer()),
            "early": boolean(description="The first day: there are no savings to show yet"),
            "unit": choice("hour", "day", "month"),
            "total": SUMS,
            **dict.fromkeys(WORTHS, WORTH),
            "priced_since_s": nullable(number(description="No price is known for before")),
            "parts": array(obj(from_s=integer(), to_s=integer(), sums=SUMS)),
            "assumed": ANY_OBJECT,
        }
    ),
)
def savings(query: dict[str, Any]) -> Any:
    """Savings compared with a server that is always on; measured and modelled parts apart."""
    db = history()
    scope = scope_of(db, query)
    what = believed(db, scope.server, time.time())
    parts = [(a, b, sums(db, what, a, b)) for a, b in scope.parts()]
    found = Valued()
    for _, _, each in parts:
        found += each
    first_s, worth = first_known_s(db, scope.server), found.net.money
    return {
        "server": scope.server,
        "view": scope.view,
        **{n: _iso(getattr(scope, n)) for n in ("day", "previous", "next")},
        "from_s": scope.from_s,
        "to_s": scope.to_s,
        "end_s": scope.end_s,
        "first_s": first_s,
        "early": is_early(first_s, time.time(), found.sums.net_j if worth is None else worth),
        "unit": scope.unit,
        "total": shown(found.sums),
        **{name: asdict(getattr(found, name.removesuffix("_worth"))) for name in WORTHS},
        "priced_since_s": _priced_since_s(scope),
        "parts": [{"from_s": a, "to_s": b, "sums": shown(s.sums)} for a, b, s in parts],
        "assumed": assumed(what, scope.from_s, scope.to_s, found.sums),
    }


def _priced_since_s(scope: Scope) -> float | None:
    """Return from when on a price is known, where that is later than the range's begin."""
    since_s = office_rates().price.known_since(scope.from_s, scope.to_s)
    return None if since_s is None or since_s <= scope.from_s else since_s


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def assumed(what: Believed, from_s: float, to_s: float, found: Saved) -> dict[str, Any]:
    """Return the assumptions behind the sums `found`, each with its source, for a researcher.

    A price, a factor or a share that changes in the range is its mean over that time.
    """
    power, known = what.assumed.power, office_rates()
    values = {
        "on_w": power.on_w,
        "off_w": power.off_w,
        "switch_j": power.switch_j,
        "proxy_w": power.proxy_w,
        "wake_s": what.wake_s,
        "sleep_s": what.sleep_s,
    }
    return {
        "values": {
            name: {"value": value, "source": what.sources[name]} for name, value in values.items()
        },
        "meter": what.source.meter,
        "meter_estimated": what.meter_estimated,
        "box_meter": what.source.box_meter,
        "box_share": found.box_time_s / found.known_s if found.known_s else 1.0,
        "promise": {"fraction": what.fraction, "delta_s": what.delta_s},
        "policy": what.policy,
        "office": {
            "currency": office().currency,
            "price_per_kwh": known.price.mean(from_s, to_s),
            "price_changes": known.price.changes(from_s, to_s),
            "co2_g_per_kwh": known.co2.mean(from_s, to_s),
            "co2_changes": known.co2.changes(from_s, to_s),
            "co2_source": co2_source(),
        },
    }


@route(
    blueprint,
    "GET",
    "/api/savings/paid",
    query=SCOPE,
    needed=("server",),
    answer=obj(
        from_s=integer(),
        to_s=integer(),
        requests=integer(),
        delayed=integer(),
        allowed=integer(),
        promise=obj(fraction=number(), delta_s=number()),
        waits_since_s=number(),
        waits=integer(),
        unknown=integer(),
        longest_s=nullable(number()),
        longest_t_s=nullable(number()),
        median_s=nullable(number()),
        buckets=array(obj(from_s=number(), to_s=nullable(number()), count=integer())),
    ),
)
def paid_(query: dict[str, Any]) -> Any:
    """How many people's requests waited, how long, and how many were allowed to."""
    db = history()
    scope = scope_of(db, query)
    what = believed(db, scope.server, time.time())
    return _paid(db, scope, what)


def _paid(db: sqlite3.Connection, scope: Scope, what: Believed) -> dict[str, Any]:
    counts = paid(db, scope.server, scope.from_s, scope.to_s)
    found, since_s = waits(db, scope.server, scope.from_s, scope.to_s)
    known = [w for w in found if w.wait_s is not None]
    lengths_s = [w.wait_s for w in known if w.wait_s is not None]
    longest = max(known, key=lambda w: w.wait_s or 0.0, default=Wait(0.0, None))
    return {
        "from_s": scope.from_s,
        "to_s": scope.to_s,
        "requests": counts.requests,
        "delayed": counts.delayed,
        "allowed": int(what.fraction * counts.requests),
        "promise": {"fraction": what.fraction, "delta_s": what.delta_s},
        "waits_since_s": since_s,
        "waits": len(found),
        "unknown": len(found) - len(known),
        "longest_s": longest.wait_s,
        "longest_t_s": longest.t_s if known else None,
        "median_s": middle(lengths_s) if lengths_s else None,
        "buckets": _buckets(lengths_s),
    }


def _buckets(lengths_s: list[float]) -> list[dict[str, Any]]:
    longest_s = max(lengths_s, default=0.0)
    step_s = next((s for s in STEPS_S if longest_s < s * MOST_BARS), STEPS_S[-1])
    counts = Counter(min(int(s / step_s), MOST_BARS - 1) for s in lengths_s)
    bars = max(counts, default=0) + 1
    return [
        {
            "from_s": n * step_s,
            "to_s": None if n == MOST_BARS - 1 else (n + 1) * step_s,
            "count": counts[n],
        }
        for n in range(bars)
    ]


@route(blueprint, "GET", "/api/savings/export", query=SCOPE, needed=("server",))
def export(query: dict[str, Any]) -> Response:
    """All exact figures of a range with their inputs, as a JSON file."""
    db = history()
    scope = scope_of(db, query)
    what = believed(db, scope.server, time.time())
    everything = {
        **savings(query),
        "paid": _paid(db, scope, what),
        "hindsight": newest_answer(db, scope, what),
    }
    day = day_of(scope.from_s, zone()).isoformat()
    name = f"naproxy-savings-{scope.view}-{day}.json"
    return attachment(json.dumps(everything, indent=1), "application/json", name)
