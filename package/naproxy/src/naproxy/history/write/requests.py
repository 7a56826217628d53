"""The number of requests by class and outcome, by minute and by hour.

Counting by agent uses the parts of this module. A table has, for each time, server, `who` (a class,
or an agent) and outcome, the number of requests and of those that waited longer than promised.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from naproxy.core import page_h
from naproxy.history.tables import server_id
from naproxy.shm.events import Event

MOST_WAITING: Final = 10000
"""Counters that wait for a disk that cannot be written; older ones are given up."""

MINUTES_DAYS: Final = 7

Who = TypeVar("Who", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of counts; `who` is its column."""

    name: str
    who: str

    @property
    def columns(self) -> str:
        """The names of its columns."""
        return f"t_s, server, {self.who}, outcome, requests, delayed"

    def add(self, db: sqlite3.Connection, row: Sequence[int]) -> None:
        """Add a row's counts to those that are there."""
        db.execute(
            f"INSERT INTO {self.name} ({self.columns}) VALUES (?, ?, ?, ?, ?, ?)"
            f" ON CONFLICT (t_s, server, {self.who}, outcome) DO UPDATE SET"
            " requests = requests + excluded.requests, delayed = delayed + excluded.delayed",
            row,
        )

    def take(self, db: sqlite3.Connection, since_s: int = 0) -> list[Sequence[int]]:
        """Return the rows from a time on; they are gone from the table."""
        found = db.execute(
            f"SELECT {self.columns} FROM {self.name} WHERE t_s >= ?",
            (since_s,),
        ).fetchall()
        db.execute(f"DELETE FROM {self.name} WHERE t_s >= ?", (since_s,))
        return found

    def shift(self, db: sqlite3.Connection, since_s: float, by_s: int) -> set[int]:
        """Move all minutes from that of `since_s` on, to the nearest minute; return both times."""
        by_s = (by_s + 30) // 60 * 60
        times_s = set()
        for t_s, *rest in self.take(db, int(since_s // 60) * 60):
            self.add(db, (t_s + by_s, *rest))
            times_s |= {t_s, t_s + by_s}
        return times_s

    def prune(self, db: sqlite3.Connection, before_s: int, most: int) -> int:
        """Delete at most about `most` rows of before a time; returns how many."""
        return db.execute(
            f"DELETE FROM {self.name} WHERE t_s < ?1 AND t_s <="
            f" (SELECT max(t_s) FROM (SELECT t_s FROM {self.name} ORDER BY t_s LIMIT ?2))",
            (before_s, most),
        ).rowcount


class Counts(Generic[Who]):
    """Counts in memory, by minute, server, class or agent, and outcome."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._waiting: dict[tuple[int, str, Who, int], tuple[int, int]] = {}

    def count(self, server: str, t_s: float, who: Who, event: Event) -> None:
        """Count one request that ended at `t_s` by the history's clock."""
        row = (int(t_s // 60) * 60, server, who, event.outcome)
        requests, delayed = self._waiting.get(row, (0, 0))
        self._waiting[row] = (requests + 1, delayed + bool(event.flags & page_h.E_DELAYED))
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def due(
        self, db: sqlite3.Connection, before_s: float
    ) -> Iterator[tuple[int, int, Who, tuple[int, int, int]]]:
        """Yield time, server, who, and outcome and counts, of minutes ended before `before_s`."""
        ids: dict[str, int] = {}
        for (t_s, name, who, outcome), counted in self._waiting.items():
            if t_s + 60 <= before_s:
                if name not in ids:
                    ids[name] = server_id(db, name)
                yield t_s, ids[name], who, (outcome, *counted)

    def forget(self, before_s: float) -> None:
        """Forget what was written."""
        self._waiting = {r: n for r, n in self._waiting.items() if r[0] + 60 > before_s}


_MINUTES: Final = Table("traffic_minutes", "class")
_HOURS: Final = Table("traffic_hours", "class")


class Traffic(Counts[int]):
    """Counts in memory, and adds what it counted to the tables in a batch."""

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Count one request that ended at `t_s` by the history's clock."""
        self.count(server, t_s, event.klass, event)

    def write(self, db: sqlite3.Connection, before_s: float) -> None:
        """Add what was counted in minutes before `before_s`; `forget` once that is committed."""
        for t_s, server, klass, counted in self.due(db, before_s):
            _MINUTES.add(db, (t_s, server, klass, *counted))
            _HOURS.add(db, (t_s // 3600 * 3600, server, klass, *counted))


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all minutes from that of `since_s` on, to the nearest minute."""
    for hour_s in {t_s // 3600 * 3600 for t_s in _MINUTES.shift(db, since_s, by_s)}:
        db.execute("DELETE FROM traffic_hours WHERE t_s = ?", (hour_s,))
        db.execute(
            f"INSERT INTO traffic_hours ({_HOURS.columns})"
            " SELECT ?1, server, class, outcome, sum(requests), sum(delayed)"
            " FROM traffic_minutes WHERE t_s BETWEEN ?1 AND ?1 + 3599 GROUP BY 2, 3, 4",
            (hour_s,),
        )


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most about `most` minutes that are too old; returns how many rows."""
    return _MINUTES.prune(db, int(now_s) - 86400 * MINUTES_DAYS, most)
