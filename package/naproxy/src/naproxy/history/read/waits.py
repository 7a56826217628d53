"""Requests that waited: how long each request waited that had to, from the request stream."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from naproxy.core.page_h import APART
from naproxy.core.state import Klass
from naproxy.history.read.recorded import blocks
from naproxy.history.read.timeline import stretches
from naproxy.history.visits import BLOCK_S, DELAYED, SENT_AWAY, TICKS, unpack

MOST_BLOCKS: Final = 2000
"""Of those in which somebody waited, the newest are looked at."""

LONGEST_S: Final = 600.0
"""A visitor who was sent away and not called back for so long has left."""

_HOUR_S: Final = 3600
_COUNTED: Final = (Klass.PERSON, Klass.API)


@dataclass(frozen=True, slots=True)
class Wait:
    """A request that waited: when it came, and for how long; None if nobody knows."""

    t_s: float
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Paid:
    """Requests of people and programs, and how many waited longer than was promised."""

    requests: int
    delayed: int


def paid(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> Paid:
    """Return the counts of the hours that begin in a range; hours are kept for ever."""
    marks = ", ".join("?" * len(APART))
    found = db.execute(
        "SELECT coalesce(sum(requests), 0), coalesce(sum(delayed), 0) FROM traffic_hours"
        " JOIN servers ON id = server WHERE name = ? AND t_s >= ? AND t_s < ?"
        f" AND class IN (?, ?) AND outcome NOT IN ({marks})",
        (server, from_s // _HOUR_S * _HOUR_S, to_s, *_COUNTED, *APART),
    ).fetchone()
    return Paid(*found)


def waits(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float
) -> tuple[list[Wait], float]:
    """Return the waits of a range, and the time from which they are complete.

    A visitor on the waiting page waited until the server was awake: that page asks once a second.
    """
    rows = list(blocks(db, server, from_s, to_s, delayed=True))
    since_s = from_s if len(rows) <= MOST_BLOCKS else float(rows[-MOST_BLOCKS][0])
    rows = rows[-MOST_BLOCKS:]
    awake_s = _awake_s(db, server, max(from_s, since_s), to_s) if rows else []
    found = []
    for begin_s, _, _, blob in rows:
        sent: dict[int, float] = {}
        with suppress(ValueError):
            for visit in unpack(blob):
                t_s = begin_s + visit.tick / TICKS
                if not from_s <= t_s < to_s or not visit.flags & DELAYED:
                    continue
                if not visit.flags & SENT_AWAY:
                    found.append(Wait(t_s, visit.waited / TICKS))
                elif t_s >= sent.get(visit.client, 0.0):
                    # Until then the page may come back too early: that is the same wait.
                    wait_s = _until(awake_s, t_s)
                    sent[visit.client] = t_s + (wait_s or BLOCK_S)
                    found.append(Wait(t_s, wait_s))
    return found, since_s


def _awake_s(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> list[float]:
    after_s = to_s + LONGEST_S
    return [s.t_s for s in stretches(db, server, from_s, after_s) if s.id and s.state == "awake"]


def _until(awake_s: Sequence[float], t_s: float) -> float | None:
    at = bisect_left(awake_s, t_s)
    if at == len(awake_s) or awake_s[at] - t_s > LONGEST_S:
        return None
    return awake_s[at] - t_s
