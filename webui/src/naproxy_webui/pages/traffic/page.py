"""/traffic: the hours when people come, the outcomes of requests, their gaps, and other clients.

The estimated savings from a log, without any server, are in `estimate.py`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any, Final

from naproxy.api.shapes import array, choice, integer, nullable, number, obj, string
from naproxy.core.page_h import ENDS, Outcome
from naproxy.core.state import Klass
from naproxy.history.read import patterns
from naproxy.history.write import gaps

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.http.page import Page
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.history import history, server_names
from naproxy_webui.office.money import means_of_year
from naproxy_webui.office.ranges import RANGE, of_query, zone
from naproxy_webui.pages.uploads.uploads import KINDS
from naproxy_webui.render import render

blueprint = Page("traffic", __name__, "/traffic", place=40)

RANGES_DAYS: Final = (7, 30, 90, 400)
MOST_BARS: Final = 92
MOST_AGENTS: Final = 200
CLASSES: Final = tuple(klass.name.lower() for klass in Klass)

_END_OF: Final = {outcome: end for end, outcomes in ENDS.items() for outcome in outcomes}
NEEDED_NOBODY: Final = ("fresh", "older", "away", "spent", "box")
"""Of these the server heard nothing."""

FROM_CACHE: Final = ("fresh", "older")

_SERVER: Final = string(minLength=1, maxLength=64)
_QUERY: Final = {**RANGE, "server": _SERVER}
_NEEDED: Final = ("server", "from_s", "to_s")
_COUNTS: Final = obj({end: integer() for end in ENDS})
_BY_CLASS: Final = obj({name: integer() for name in CLASSES})


@blueprint.get("/traffic")
def page() -> str:
    """The page; its figures come by the API."""
    names, begins_s = server_names(), None
    with suppress(ApiError):
        begins_s = patterns.begins_s(history())
    first = next(iter(equipment().servers), None)
    return render(
        "traffic.html",
        servers=names,
        classes=CLASSES,
        ranges=RANGES_DAYS,
        known=begins_s is not None and bool(names),
        kept_days=RANGES_DAYS[-1],
        first=first,
        box_w=equipment().proxy_w,
        wake_s=_measured_wake_s(first.id) if first else None,
        log_limits=KINDS["log"],
        price=means_of_year()["mean_price"],
    )


def _measured_wake_s(name: str) -> float | None:
    """Return how long a server takes to wake, None where that was never measured."""
    with suppress(ApiError):
        for each in control().get("/v1/status")["servers"]:
            if each["id"] == name and each["wake_s"] is not None:
                return float(each["wake_s"])
    return None


@route(
    blueprint,
    "GET",
    "/api/traffic/week",
    query=_QUERY,
    needed=_NEEDED,
    answer=obj(
        times=array(integer(description="how often that hour was in the range")),
        classes=obj({name: array(integer()) for name in CLASSES}),
    ),
    refusals=(503,),
)
def week(query: dict[str, Any]) -> Any:
    """Requests by hour of the week in the office's time zone, from Monday 0:00 on.

    Each hour has its sum; divided by `times` it is the mean.
    """
    from_s, to_s = _range(query)
    found = patterns.by_hour_of_week(history(), query["server"], from_s, to_s, zone())
    none = [0] * patterns.WEEK_H
    return {
        "times": patterns.hours_of_week(history(), from_s, to_s, zone()),
        "classes": {name: found.get(number, none) for number, name in enumerate(CLASSES)},
    }


@route(
    blueprint,
    "GET",
    "/api/traffic/days",
    query=_QUERY,
    needed=_NEEDED,
    answer=obj(
        unit=choice("day", "week", "month"),
        days=array(obj(day=string(), ends=_COUNTS, classes=_BY_CLASS, delayed=integer())),
        ends=_COUNTS,
        classes=_BY_CLASS,
        needed_nobody=integer(description="requests that the server heard nothing of"),
        from_cache=integer(),
        delayed=integer(description="people's requests that waited longer than promised"),
        requests=integer(),
        begins_s=nullable(number(description="from when on traffic is known")),
    ),
    refusals=(503,),
)
def days(query: dict[str, Any]) -> Any:
    """Outcomes of requests by day, week or month.

    There are at most MOST_BARS parts, and the totals.
    """
    from_s, to_s = _range(query)
    unit = _unit(to_s - from_s)
    found = patterns.by_part(history(), query["server"], (from_s, to_s), unit, zone())
    parts, whole = [], _Sums()
    for first, shares in found:
        sums = _Sums()
        for share in shares:
            sums.add(share)
            whole.add(share)
        parts.append({"day": first.isoformat(), **sums.told()})
    ends = whole.ends
    return {
        "unit": unit,
        "days": parts,
        **whole.told(),
        "needed_nobody": sum(ends[end] for end in NEEDED_NOBODY),
        "from_cache": sum(ends[end] for end in FROM_CACHE),
        "requests": sum(ends.values()),
        "begins_s": patterns.begins_s(history()),
    }


class _Sums:
    """Requests by outcome and by class."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._delayed = 0

    def add(self, share: patterns.Share) -> None:
        """Count some; a class or outcome of a later version counts as a person's, or as other."""
        klass = CLASSES[share.klass] if share.klass < len(CLASSES) else CLASSES[0]
        self.ends[_END_OF.get(Outcome(share.outcome), "box") if _known(share) else "box"] += (
            share.requests
        )
        self._classes[klass] += share.requests
        self._delayed += share.delayed

    def told(self) -> dict[str, Any]:
        """Return them as the API says them."""
        return {
            "ends": {end: self.ends[end] for end in ENDS},
            "classes": {name: self._classes[name] for name in CLASSES},
            "delayed": self._delayed,
        }


def _known(share: patterns.Share) -> bool:
    return 0 <= share.outcome < len(Outcome)


def _unit(length_s: float) -> str:
    """Return the shortest unit of which there are few enough."""
    days = length_s / 86400
    return "day" if days <= MOST_BARS else "week" if days <= 7 * MOST_BARS else "month"


@route(
    blueprint,
    "GET",
    "/api/traffic/gaps",
    query=_QUERY,
    needed=_NEEDED,
    answer=obj(
        edges_s=array(number(), minItems=gaps.BUCKETS - 1, maxItems=gaps.BUCKETS - 1),
        counts=array(integer(), minItems=gaps.BUCKETS, maxItems=gaps.BUCKETS),
        sums_s=array(number(), minItems=gaps.BUCKETS, maxItems=gaps.BUCKETS),
        requests=integer(),
        watched_s=number(description="of the range, so much was watched"),
        worth_s=nullable(number(description="a gap longer than this is worth sleeping in")),
    ),
    refusals=(503,),
)
def gaps_(query: dict[str, Any]) -> Any:
    """Gaps between requests of people and programs that need the server, by length."""
    from_s, to_s = _range(query)
    found = gaps.histogram(history(), query["server"], from_s, to_s)
    server = equipment().server(query["server"])
    return {
        "edges_s": list(gaps.EDGES_S),
        "counts": found.counts,
        "sums_s": [round(sum_s, 1) for sum_s in found.sums_s],
        "requests": found.requests,
        "watched_s": found.watched_s,
        "worth_s": server.worth_s if server else None,
    }


@route(
    blueprint,
    "GET",
    "/api/traffic/agents",
    query=_QUERY,
    needed=_NEEDED,
    answer=obj(
        agents=array(
            obj({"name": string(), "class": string(), "requests": integer(), "ends": _COUNTS})
        ),
        more=integer(description="agents that are not listed"),
    ),
    refusals=(503,),
)
def agents(query: dict[str, Any]) -> Any:
    """Robots and programs by name, those with most requests first.

    Those that say no name have the empty one.
    """
    from_s, to_s = _range(query)
    found: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
    for name, share in patterns.by_agent(history(), query["server"], from_s, to_s):
        found[name, share.klass].add(share)
    rows = [
        {
            "name": name,
            "class": CLASSES[klass] if klass < len(CLASSES) else CLASSES[0],
            "requests": sum(sums.ends.values()),
            "ends": sums.told()["ends"],
        }
        for (name, klass), sums in found.items()
    ]
    rows.sort(key=lambda row: (-row["requests"], row["name"]))
    return {"agents": rows[:MOST_AGENTS], "more": max(0, len(rows) - MOST_AGENTS)}


mount(blueprint, "cache", "/api/traffic/cache")


def _range(query: dict[str, Any]) -> tuple[float, float]:
    from_s, to_s = of_query(query)
    if to_s > time.time() + 86400:
        to_s = max(from_s + 1, time.time() + 86400)
    return from_s, to_s
