"""A process that reads the history for a notification: was the promise kept, what was a month like.

It takes its job from the environment and prints JSON, so that slow work does not block.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from naproxy.core.hours import zone
from naproxy.core.rates import rates
from naproxy.history.days import days
from naproxy.history.read import carbon, ledger
from naproxy.history.read.cells import Source, cells
from naproxy.history.read.gone import gone
from naproxy.history.read.powers import powers
from naproxy.history.read.queries import open_history
from naproxy.history.read.savings import Assumptions, Valued, valued
from naproxy.history.read.waits import paid
from naproxy.notify import bars

JOB: Final = "NAPROXY_FIGURES"
_MOST_WAKERS: Final = 3


def promise(db: sqlite3.Connection, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what each server's visitors paid in the range."""
    found = []
    for server in job["servers"]:
        counts = paid(db, server["id"], job["from_s"], job["to_s"])
        found.append(
            {"server": server["id"], "requests": counts.requests, "delayed": counts.delayed}
        )
    return found


def report(db: sqlite3.Connection, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of the range over all servers, in joules and seconds, and its picture.

    Servers that were removed meanwhile are among them.
    `money` and `co2_g` are the savings, each hour at its own price and CO2; None if unknown.
    """
    where = zone(job["time_zone"])
    known = rates(job, where, carbon.hours(db))
    found, requests, delayed, wakers = Valued(), 0, 0, []
    by_day: list[tuple[float, float]] = []
    ranges = [(begin, end) for _, begin, end in days(job["from_s"], job["to_s"], where)]
    configured = [each["id"] for each in job["servers"]]
    box_meter = next((each["box_meter"] for each in job["servers"]), None)
    removed = gone(db, configured)
    reckoned = [
        *((_source(each), _assumed(db, each, job)) for each in job["servers"]),
        *((each.source(box_meter), each.assumed()) for each in removed),
    ]
    for begin_s, end_s in ranges:
        day = Valued()
        for source, what in reckoned:
            until_s = min(end_s, job["to_s"])
            parts = cells(db, source, begin_s, until_s, known.changes)
            day += valued(parts, what, known)
        by_day.append((day.sums.used_j + day.sums.box_j, day.sums.always_j))
        found += day
    sums = found.sums
    for name in (*configured, *(each.id for each in removed)):
        counts = paid(db, name, job["from_s"], job["to_s"])
        requests, delayed = requests + counts.requests, delayed + counts.delayed
        woke = ledger.requests(db, name, job["from_s"], job["to_s"])
        wakers += ledger.groups(woke, "path")
    wakers.sort(key=lambda group: -group.wakes)
    return {
        "used_j": sums.used_j,
        "box_j": sums.box_j,
        "net_j": sums.net_j,
        "money": found.net.money,
        "co2_g": found.net.co2_g,
        "known_s": sums.known_s,
        "asleep_s": sums.asleep_s,
        "switches": sums.switches,
        "requests": requests,
        "delayed": delayed,
        "wakers": [{"path": each.key, "wakes": each.wakes} for each in wakers[:_MOST_WAKERS]],
        "picture": base64.b64encode(bars.png(by_day)).decode(),
    }


def _source(server: Mapping[str, Any]) -> Source:
    return Source(server["id"], server["meter"], server["box_meter"])


def _assumed(
    db: sqlite3.Connection, server: Mapping[str, Any], job: Mapping[str, Any]
) -> Assumptions:
    power, sources = powers(
        db,
        _source(server),
        server["power"],
        server["fit"],
        proxy_w=job["proxy_w"],
        now_s=job["now_s"],
    )
    return Assumptions(power, sources)


if __name__ == "__main__":
    asked = json.loads(os.environ[JOB])
    database = open_history(Path(asked["data_dir"]))
    json.dump({"promise": promise, "report": report}[asked["what"]](database, asked), sys.stdout)
