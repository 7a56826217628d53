"""A server's states over time with reasons and wakers, from the transitions of the journal.

Epoch seconds; ranges are from (included) to (not included).
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from naproxy.history.read.recorded import watched_until_s
from naproxy.history.tables import METER_BITS, dicts, key

UNWATCHED_S: Final = 180
"""Readings are written once a minute: without any for so long before a start, nobody looked."""

_WAKES: Final = "id, t_s, server, who, host, path, method, agent, class, reason, waited_s, outcome"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A server was in `state` from `t_s` to `end_s`, for `reason`.

    `id` is that of the transition it begins with, 0 where there was none: then nobody
    looked after the server, and the reason is empty.
    """

    id: int
    t_s: float
    end_s: float
    state: str
    reason: str


def servers(db: sqlite3.Connection) -> list[str]:
    """Return the names of all servers that the journal knows of."""
    # A step of the index for each name: its rows are not read.
    return [
        name
        for (name,) in db.execute(
            "WITH RECURSIVE names (name) AS (SELECT min(server) FROM transitions UNION ALL"
            " SELECT (SELECT min(server) FROM transitions WHERE server > name) FROM names"
            " WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
        )
    ]


def stretches(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> list[Stretch]:
    """Return the states in a range, oldest first, cut to it; nothing before the first known.

    A controller that was cut off leaves no transition. The time until the next start is unknown,
    from the last reading of any meter or the last time that the server was watched.
    """
    return list(walk(db, server, from_s, to_s))


def walk(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, *, reasons: bool = True
) -> Iterator[Stretch]:
    """Yield what `stretches` returns: a year of them need not be in memory at once."""
    last: Stretch | None = None
    for row, t_s, before, state, reason in _transitions(db, server, from_s, to_s, reasons=reasons):
        if last:
            unwatched = before == "unknown" != last.state
            yield from _cut(_ended(db, last, t_s, unwatched=unwatched), from_s, to_s)
        last = Stretch(row, t_s, t_s, state, reason)
    if last:
        yield from _cut([replace(last, end_s=max(last.t_s, to_s))], from_s, to_s)


def begun_s(db: sqlite3.Connection, server: str) -> float | None:
    """Return when a server was looked after first, of the transitions that are kept."""
    found: float | None = db.execute(
        "SELECT min(t_s) FROM transitions WHERE server = ?", (server,)
    ).fetchone()[0]
    return found


def changes(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> int:
    """Return how many transitions there are in a range."""
    found: int = db.execute(
        "SELECT count(*) FROM transitions WHERE server = ? AND t_s >= ? AND t_s < ?",
        (server, from_s, to_s),
    ).fetchone()[0]
    return found


def _cut(found: Iterable[Stretch], from_s: float, to_s: float) -> Iterator[Stretch]:
    for stretch in found:
        if stretch.t_s < from_s:
            if stretch.end_s > from_s:
                yield replace(stretch, t_s=from_s)
        elif stretch.t_s < to_s:
            yield stretch if stretch.end_s <= to_s else replace(stretch, end_s=to_s)


def last_sign_s(db: sqlite3.Connection) -> float:
    """Return when the controller was last seen at work: by a reading, a change, or a decision."""
    row = db.execute(
        "SELECT (SELECT max(key) FROM minutes), (SELECT max(t_s) FROM transitions),"
        " (SELECT t_s FROM decisions ORDER BY id DESC LIMIT 1)"
    ).fetchone()
    minute = 60.0 * ((row[0] >> METER_BITS) + 1) if row[0] is not None else 0.0
    return max(minute, row[1] or 0.0, row[2] or 0.0)


def _transitions(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, *, reasons: bool
) -> Iterator[tuple[int, float, str, str, str]]:
    columns = f"""id, t_s, "from", "to", {"reason" if reasons else "''"}"""
    running = db.execute(
        f"SELECT {columns} FROM transitions WHERE server = ? AND t_s < ?"
        " ORDER BY t_s DESC, id DESC LIMIT 1",
        (server, from_s),
    ).fetchall()
    yield from running
    yield from db.execute(
        f"SELECT {columns} FROM transitions WHERE server = ? AND t_s >= ? AND t_s < ?"
        " ORDER BY t_s, id",
        (server, from_s, to_s),
    )


def _ended(
    db: sqlite3.Connection, last: Stretch, until_s: float, *, unwatched: bool
) -> Iterator[Stretch]:
    """End a stretch at the next transition, or where readings end if nobody looked after that."""
    seen_s = _seen_s(db, until_s) if unwatched else 0.0
    if not last.t_s < seen_s < until_s - UNWATCHED_S:
        yield replace(last, end_s=max(last.t_s, until_s))
        return
    yield replace(last, end_s=seen_s)
    yield Stretch(0, seen_s, until_s, "unknown", "")


def _seen_s(db: sqlite3.Connection, before_s: float) -> float:
    row = db.execute(
        "SELECT max(key) FROM minutes WHERE key < ?", (key(int(before_s // 60), 0),)
    ).fetchone()[0]
    measured_s = 60.0 * ((row >> METER_BITS) + 1) if row is not None else 0.0
    return max(measured_s, watched_until_s(db, before_s))


def shares(
    found: Iterable[Stretch], from_s: float, to_s: float, buckets: int
) -> list[dict[str, Any]]:
    """Return, for equal parts of a range, the seconds in each state and the number of changes.

    For a range with more stretches than can be drawn. A part of which nothing is known has
    no seconds.
    """
    length_s = (to_s - from_s) / buckets
    parts: list[dict[str, Any]] = [
        {"t_s": from_s + n * length_s, "end_s": from_s + (n + 1) * length_s, "changes": 0}
        for n in range(buckets)
    ]
    seconds: list[Counter[str]] = [Counter() for _ in parts]
    for stretch in found:
        first = min(int((stretch.t_s - from_s) / length_s), buckets - 1)
        if stretch.id and stretch.t_s > from_s:
            parts[first]["changes"] += 1
        for number in range(first, buckets):
            part = parts[number]
            known_s = min(stretch.end_s, part["end_s"]) - max(stretch.t_s, part["t_s"])
            if known_s > 0:
                seconds[number][stretch.state] += known_s
            if stretch.end_s <= part["end_s"]:
                break
    return [{**part, "seconds": dict(s)} for part, s in zip(parts, seconds, strict=True)]


def wakes_of(
    db: sqlite3.Connection, server: str, found: Sequence[Stretch]
) -> dict[int, dict[str, Any]]:
    """Return, by a transition's id, the wake that led to a server's waking up.

    A wake is asked for while the server falls asleep, or the moment it begins to wake: it
    is the newest one up to then, and asked for since it was awake the last time.
    """
    waking = [n for n, s in enumerate(found) if s.id and s.state in ("waking", "awake")]
    if not waking:
        return {}
    before_s = [_resting_s(found, n) for n in waking]
    rows = db.execute(
        f"SELECT {_WAKES} FROM wakes WHERE server = ? AND t_s >= ? AND t_s <= ? ORDER BY t_s, id",
        (server, min(before_s), found[waking[-1]].t_s + 1),
    )
    wakes = list(dicts(rows))
    times_s = [wake["t_s"] for wake in wakes]
    led: dict[int, dict[str, Any]] = {}
    used = -1
    for since_s, number in zip(before_s, waking, strict=True):
        at = bisect_right(times_s, found[number].t_s + 1) - 1
        if at > used and times_s[at] >= since_s:
            led[found[number].id] = wakes[at]
            used = at
    return led


def _resting_s(found: Sequence[Stretch], number: int) -> float:
    """Return when a server began to rest before a stretch, else a minute before it."""
    since_s = found[number].t_s - 60
    for stretch in reversed(found[:number]):
        since_s = stretch.t_s
        if stretch.state != "asleep":
            break
    return since_s
