"""Which server, and which range of its history, a request for savings asks about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from naproxy.api.shapes import choice, string
from naproxy.history.days import VIEWS, days

from naproxy_webui.office.history import looked_after_until_s
from naproxy_webui.office.ranges import of_calendar, zone

ALL: Final = "all"
HOUR_S: Final = 3600
FIRST_DAY_S: Final = 86400
FEW_DAYS: Final = 62
"""All of a history that is no longer than this is shown by days."""

SCOPE: Final = {
    "server": string(minLength=1, maxLength=64),
    "view": choice(*VIEWS, ALL),
    "day": string(maxLength=10, description="A day of it, as 2026-03-01; else today"),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """A server and a range, up to now; `unit` is the length of the parts shown."""

    server: str
    view: str
    day: date | None
    from_s: int
    to_s: int
    end_s: int
    unit: str
    previous: date | None = None
    next: date | None = None

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each part, up to now."""
        if self.unit == "hour":
            first_s = self.from_s
            for start_s in range(first_s, self.to_s, HOUR_S):
                yield start_s, min(start_s + HOUR_S, self.to_s)
            return
        for _, start_s, end_s in days(self.from_s, self.to_s, zone(), self.unit):
            yield max(start_s, self.from_s), min(end_s, self.to_s)


def scope_of(db: sqlite3.Connection, query: dict[str, Any]) -> Scope:
    """Return what a query names; ApiError."""
    now_s = int(looked_after_until_s(db)) // 60 * 60
    name, view = query["server"], query.get("view", "month")
    if view == ALL:
        first_s = first_known_s(db, name)
        from_s = now_s if first_s is None else first_s // 60 * 60
        unit = "day" if now_s - from_s <= FEW_DAYS * 86400 else "month"
        return Scope(name, view, None, from_s, max(now_s, from_s), now_s, unit)
    found = of_calendar({"view": view, **({"day": query["day"]} if "day" in query else {})}, now_s)
    from_s, end_s = int(found.from_s), int(found.to_s)
    to_s = max(from_s, min(end_s, now_s))
    unit = {"day": "hour", "year": "month"}.get(view, "day")
    return Scope(name, view, found.day, from_s, to_s, end_s, unit, found.previous, found.next)


def is_early(first_s: float | None, now_s: float, net: float) -> bool:
    """Return whether it is the first day without net savings yet.

    The box uses energy from its first minute on, and sleep compensates for that later. `net`: the
    net savings, in money if there is a price, else in joules.
    """
    return first_s is None or (now_s - first_s < FIRST_DAY_S and net <= 0)


def first_known_s(db: sqlite3.Connection, server: str) -> int | None:
    """Return the time of the first record about a server."""
    found = [
        db.execute(sql, (server,)).fetchone()[0]
        for sql in (
            "SELECT min(t_s) FROM transitions WHERE server = ?",
            "SELECT min(t_s) FROM state_hours JOIN servers ON id = server WHERE name = ?",
        )
    ]
    known = [int(t_s) for t_s in found if t_s is not None]
    return min(known) if known else None
