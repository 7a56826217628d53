"""How many requests of which class came to which end, by minute and by hour."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from naproxy.history.tables import server_id
from naproxy.shm import page
from naproxy.shm.events import Event

MINUTES_DAYS: Final = 7
MOST_WAITING: Final = 10000
"""Counters that wait for a disk that cannot be written; older ones are given up."""

_COLUMNS: Final = "t_s, server, class, outcome, requests, delayed"
_ADD: Final = (
    f"INSERT INTO {{}} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (t_s, server, class, outcome) DO UPDATE SET"
    " requests = requests + excluded.requests, delayed = delayed + excluded.delayed"
)
_Row = tuple[int, str, int, int]


class Traffic:
    """Counts in memory, and adds what it counted to the tables in a batch."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._waiting: dict[_Row, tuple[int, int]] = {}

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Count one request that ended at `t_s` by the history's clock."""
        row = (int(t_s // 60) * 60, server, event.klass, event.outcome)
        requests, delayed = self._waiting.get(row, (0, 0))
        late = bool(event.flags & page.E_DELAYED)
        self._waiting[row] = (requests + 1, delayed + late)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def write(self, db: sqlite3.Connection, before_s: float) -> None:
        """Add what was counted in minutes before `before_s`; `written` once that is committed."""
        ids: dict[str, int] = {}
        for (t_s, name, klass, outcome), counted in self._waiting.items():
            if t_s + 60 > before_s:
                continue
            if name not in ids:
                ids[name] = server_id(db, name)
            row = (t_s, ids[name], klass, outcome, *counted)
            db.execute(_ADD.format("traffic_minutes"), row)
            db.execute(_ADD.format("traffic_hours"), (t_s // 3600 * 3600, *row[1:]))

    def written(self, before_s: float) -> None:
        """Forget what was written."""
        self._waiting = {r: n for r, n in self._waiting.items() if r[0] + 60 > before_s}


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all minutes from that of `since_s` on, to the nearest minute."""
    first_s = int(since_s // 60) * 60
    by_s = (by_s + 30) // 60 * 60
    moved = db.execute(
        f"SELECT {_COLUMNS} FROM traffic_minutes WHERE t_s >= ?",  # noqa: S608
        (first_s,),
    ).fetchall()
    db.execute("DELETE FROM traffic_minutes WHERE t_s >= ?", (first_s,))
    for t_s, *rest in moved:
        db.execute(_ADD.format("traffic_minutes"), (t_s + by_s, *rest))
    times_s = {row[0] for row in moved}
    _roll_up(db, {t // 3600 * 3600 for t in times_s | {t + by_s for t in times_s}})


def _roll_up(db: sqlite3.Connection, hours_s: Iterable[int]) -> None:
    for hour_s in hours_s:
        db.execute("DELETE FROM traffic_hours WHERE t_s = ?", (hour_s,))
        db.execute(
            f"INSERT INTO traffic_hours ({_COLUMNS})"  # noqa: S608
            " SELECT ?1, server, class, outcome, sum(requests), sum(delayed)"
            " FROM traffic_minutes WHERE t_s BETWEEN ?1 AND ?1 + 3599 GROUP BY 2, 3, 4",
            (hour_s,),
        )


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most about `most` minutes that are too old; returns how many rows."""
    return db.execute(
        "DELETE FROM traffic_minutes WHERE t_s < ?1 AND t_s <="
        " (SELECT max(t_s) FROM (SELECT t_s FROM traffic_minutes ORDER BY t_s LIMIT ?2))",
        (int(now_s) - 86400 * MINUTES_DAYS, most),
    ).rowcount
