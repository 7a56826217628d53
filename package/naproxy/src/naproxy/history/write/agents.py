"""Which robots and programs asked, by name and day, and what became of their requests.

The VMOD knows an agent by its number in crawlers.json, and that changes from one version to the
next: the history has names. What the list does not name has the empty name and its class;
people without a name are not here, they are in `traffic_hours` like everybody.
"""

from __future__ import annotations

import json
import sqlite3
import time
from functools import cache
from importlib import resources
from typing import Final

from naproxy.core.state import Klass
from naproxy.history.tables import server_id
from naproxy.shm import page
from naproxy.shm.events import Event

DAYS: Final = 400
MOST_WAITING: Final = 10000
"""Counters that wait for a disk that cannot be written; older ones are given up."""

_COLUMNS: Final = "t_s, server, agent, outcome, requests, delayed"
_ADD: Final = (
    f"INSERT INTO {{}} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (t_s, server, agent, outcome) DO UPDATE SET"
    " requests = requests + excluded.requests, delayed = delayed + excluded.delayed"
)
_Row = tuple[int, str, str, int, int]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the agents by their numbers in an event."""
    text = resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8")
    return tuple(agent["name"] for agent in json.loads(text))


def name_of(number: int) -> str:
    """Return an agent's name; the empty one where the list has none."""
    known = names()
    return known[number] if number < len(known) else ""


class AgentTraffic:
    """Counts in memory, and adds what it counted to the tables in a batch.

    Days cannot be moved when a clock that was a guess is set. So until then the counts are
    written by the minute, and become days once the clock is known to be right.
    """

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._waiting: dict[_Row, tuple[int, int]] = {}
        self._loose = True

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Count one request that ended at `t_s` by the history's clock."""
        name = name_of(event.agent)
        if not name and event.klass == Klass.PERSON:
            return
        row = (int(t_s // 60) * 60, server, name, event.klass, event.outcome)
        requests, delayed = self._waiting.get(row, (0, 0))
        late = bool(event.flags & page.E_DELAYED)
        self._waiting[row] = (requests + 1, delayed + late)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def write(self, db: sqlite3.Connection, before_s: float, *, confirmed: bool) -> None:
        """Add what was counted in minutes before `before_s`; `written` once that is committed."""
        servers: dict[str, int] = {}
        ids: dict[tuple[str, int], int] = {}
        for (t_s, server, name, klass, outcome), counted in self._waiting.items():
            if t_s + 60 > before_s:
                continue
            if server not in servers:
                servers[server] = server_id(db, server)
            if (name, klass) not in ids:
                ids[name, klass] = _agent_id(db, name, klass)
            row = (servers[server], ids[name, klass], outcome, *counted)
            if confirmed:
                db.execute(_ADD.format("agent_days"), (midnight_s(t_s), *row))
            else:
                db.execute(_ADD.format("agent_minutes"), (t_s, *row))
        if confirmed and self._loose:
            _fold(db)

    def written(self, before_s: float, *, confirmed: bool) -> None:
        """Forget what was written."""
        self._waiting = {r: n for r, n in self._waiting.items() if r[0] + 60 > before_s}
        self._loose = not confirmed


def midnight_s(t_s: float) -> int:
    """Return when the day of `t_s` began in the box's time zone."""
    day = time.localtime(t_s)
    return int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1)))


def _agent_id(db: sqlite3.Connection, name: str, klass: int) -> int:
    db.execute("INSERT OR IGNORE INTO agents (name, class) VALUES (?, ?)", (name, klass))
    found = db.execute("SELECT id FROM agents WHERE name = ? AND class = ?", (name, klass))
    return int(found.fetchone()[0])


def _fold(db: sqlite3.Connection) -> None:
    """Make days of minutes."""
    for t_s, *rest in db.execute(f"SELECT {_COLUMNS} FROM agent_minutes").fetchall():  # noqa: S608
        db.execute(_ADD.format("agent_days"), (midnight_s(t_s), *rest))
    db.execute("DELETE FROM agent_minutes")


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all minutes from that of `since_s` on, to the nearest minute."""
    first_s = int(since_s // 60) * 60
    by_s = (by_s + 30) // 60 * 60
    moved = db.execute(
        f"SELECT {_COLUMNS} FROM agent_minutes WHERE t_s >= ?",  # noqa: S608
        (first_s,),
    ).fetchall()
    db.execute("DELETE FROM agent_minutes WHERE t_s >= ?", (first_s,))
    for t_s, *rest in moved:
        db.execute(_ADD.format("agent_minutes"), (t_s + by_s, *rest))


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most about `most` days' rows that are too old; returns how many."""
    return db.execute(
        "DELETE FROM agent_days WHERE t_s < ?1 AND t_s <="
        " (SELECT max(t_s) FROM (SELECT t_s FROM agent_days ORDER BY t_s LIMIT ?2))",
        (int(now_s) - 86400 * DAYS, most),
    ).rowcount
