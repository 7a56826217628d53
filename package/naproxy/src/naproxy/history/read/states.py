"""The time of each server in each state, by the hour and for ever.

Transitions are kept for `box.keep_days` only. A year's savings follow from these hours, even
without a meter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from naproxy.history.read.timeline import Stretch, servers, stretches

HOUR_S: Final = 3600

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class InState:
    """Seconds of an hour (or a part of one) in a state, and how often it was entered."""

    seconds: float
    entered: int


States = dict[str, InState]
"""By the name of the state, without unknown time."""


def by_part(
    found: Iterable[Stretch], from_s: float, to_s: float, part_s: int = HOUR_S
) -> dict[int, States]:
    """Return the states of each part that begins at a multiple of `part_s`, of a range."""
    parts: dict[int, States] = {}
    for stretch in found:
        if stretch.state == _UNKNOWN:
            continue
        at_s = max(stretch.t_s, from_s)
        end_s = min(stretch.end_s, to_s)
        entered = int(stretch.id > 0 and from_s <= stretch.t_s < to_s)
        while at_s < end_s or entered:
            begin_s = int(at_s // part_s) * part_s
            until_s = min(end_s, begin_s + part_s)
            states = parts.setdefault(begin_s, {})
            known = states.get(stretch.state, InState(0.0, 0))
            states[stretch.state] = InState(
                known.seconds + max(0.0, until_s - at_s), known.entered + entered
            )
            at_s, entered = max(until_s, at_s), 0
    return parts


def in_range(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, part_s: int = HOUR_S
) -> dict[int, States]:
    """Return the states of each part of a range, from the transitions."""
    # From a little earlier on: a state that began before the range is not entered in it.
    return by_part(stretches(db, server, from_s - 1, to_s), from_s, to_s, part_s)


def managed(db: sqlite3.Connection, from_s: float, to_s: float) -> dict[int, float]:
    """Return the seconds of each hour in which the state of at least one server was known."""
    known = sorted(
        (stretch.t_s, stretch.end_s)
        for name in servers(db)
        for stretch in stretches(db, name, from_s, to_s)
        if stretch.state != _UNKNOWN
    )
    joined: list[Stretch] = []
    until_s = from_s
    for t_s, end_s in known:
        if end_s > until_s:
            joined.append(Stretch(0, max(t_s, until_s), end_s, "managed", ""))
            until_s = end_s
    return {t_s: each["managed"].seconds for t_s, each in by_part(joined, from_s, to_s).items()}


def box_shares(db: sqlite3.Connection, from_s: int, to_s: int) -> dict[int, float]:
    """Return, for each hour, the factor from a server's known time to its share of the box.

    The shares of all servers add up to the time in which at least one was known: one server
    alone has 1, two for the whole hour have 1/2 each. An hour is not there where one server is
    alone. It depends on that hour's known states only, so servers that come or go later do not
    change it.
    """
    rolled_up = (name for (name,) in db.execute("SELECT name FROM servers"))
    if len({*servers(db), *rolled_up}) < 2:
        return {}
    known: dict[int, list[float]] = {}
    rolled_s = from_s
    for t_s, seconds in db.execute(
        # In this order it is a range of the key for each server, not all of the table.
        "SELECT t_s, sum(ms) / 1000.0 FROM servers CROSS JOIN state_hours ON server = id"
        " AND t_s >= ? AND t_s < ? GROUP BY server, t_s",
        (from_s, to_s),
    ):
        known.setdefault(t_s, []).append(seconds)
        rolled_s = max(rolled_s, t_s + HOUR_S)
    joined: dict[int, float] = dict(
        db.execute(
            "SELECT t_s, managed_ms / 1000.0 FROM box_hours WHERE t_s >= ? AND t_s < ?",
            (from_s, to_s),
        )
    )
    if rolled_s < to_s:
        joined |= managed(db, rolled_s, to_s)
        for name in servers(db):
            for t_s, states in in_range(db, name, rolled_s, to_s).items():
                known.setdefault(t_s, []).append(sum(each.seconds for each in states.values()))
    return {
        # Hours of before there was `box_hours`: the longest is the nearest.
        t_s: joined.get(t_s, max(each)) / sum(each)
        for t_s, each in known.items()
        if len(each) > 1 and sum(each) > 0
    }


def read(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> dict[int, States]:
    """Return the states of each hour that begins in a range and was added up."""
    found: dict[int, States] = {}
    for t_s, state, ms, entered in db.execute(
        "SELECT t_s, state, ms, entered FROM state_hours JOIN servers ON id = server"
        " WHERE name = ? AND t_s >= ? AND t_s < ?",
        (server, from_s, to_s),
    ):
        found.setdefault(t_s, {})[state] = InState(ms / 1000, entered)
    return found
