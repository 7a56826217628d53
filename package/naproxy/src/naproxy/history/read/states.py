"""How long each server was in which state, by the hour and for ever.

Transitions are kept for `box.keep_days` only. What was saved in a year, without a meter too,
follows from these hours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from naproxy.history.read.timeline import Stretch, stretches

HOUR_S: Final = 3600

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class InState:
    """Seconds of an hour (or a part of one) in a state, and how often it was entered."""

    seconds: float
    entered: int


States = dict[str, InState]
"""By the name of the state; what is not known is not there."""


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
    # From a little earlier on: what began before the range was not entered in it.
    return by_part(stretches(db, server, from_s - 1, to_s), from_s, to_s, part_s)


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
