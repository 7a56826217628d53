"""Robots and programs by name and day, and the outcomes of their requests.

The VMOD knows an agent by its number in crawlers.json, which changes from one version to the
next, so the history has names. An agent that is not in the list has the empty name and its class.
People without a name are not here; they are in `traffic_hours` like all others.
"""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from importlib import resources
from typing import Final

from naproxy.core import office_time
from naproxy.core.state import Klass
from naproxy.history.days import day_of, start_s
from naproxy.history.write.requests import Counts, Table
from naproxy.shm.events import Event

DAYS: Final = 400

_DAYS: Final = Table("agent_days", "agent")
_MINUTES: Final = Table("agent_minutes", "agent")


@cache
def names() -> tuple[str, ...]:
    """Return the names of the agents by their numbers in an event."""
    text = resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8")
    return tuple(agent["name"] for agent in json.loads(text))


def name_of(number: int) -> str:
    """Return an agent's name; the empty one where the list has none."""
    known = names()
    return known[number] if number < len(known) else ""


class AgentTraffic(Counts[tuple[str, int]]):
    """Counts in memory, and adds what it counted to the tables in a batch.

    Days cannot be moved when a clock that was a guess is set. So until then the counts are
    written by the minute, and become days once the clock is known to be right.
    """

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Count one request that ended at `t_s` by the history's clock."""
        name = name_of(event.agent)
        if name or event.klass != Klass.PERSON:
            self.count(server, t_s, (name, event.klass), event)

    def write(self, db: sqlite3.Connection, before_s: float, *, confirmed: bool) -> None:
        """Add what was counted in minutes before `before_s`; `forget` once that is committed."""
        for t_s, server, who, counted in self.due(db, before_s):
            row = (server, _agent_id(db, *who), *counted)
            if confirmed:
                _DAYS.add(db, (midnight_s(t_s), *row))
            else:
                _MINUTES.add(db, (t_s, *row))
        if confirmed:
            for t_s, *rest in _MINUTES.take(db):
                _DAYS.add(db, (midnight_s(t_s), *rest))


def midnight_s(t_s: float) -> int:
    """Return when the day of `t_s` began in the office's time zone."""
    return start_s(day_of(t_s, office_time.where()), office_time.where())


def _agent_id(db: sqlite3.Connection, name: str, klass: int) -> int:
    db.execute("INSERT OR IGNORE INTO agents (name, class) VALUES (?, ?)", (name, klass))
    found = db.execute("SELECT id FROM agents WHERE name = ? AND class = ?", (name, klass))
    return int(found.fetchone()[0])


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all minutes from that of `since_s` on, to the nearest minute."""
    _MINUTES.shift(db, since_s, by_s)


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most about `most` days' rows that are too old; returns how many."""
    return _DAYS.prune(db, int(now_s) - 86400 * DAYS, most)
