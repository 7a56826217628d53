"""Gaps between requests that need the server, by their length: the thesis' figures 4.4 to 4.6.

A server could sleep in a gap that is long enough. The gaps are between requests of people and
programs that the cache cannot answer; robots wake no server. A gap belongs to the day in which it
ends. A gap in which the box did not watch is unknown and not counted.

Going through 400 days of requests takes seconds, so whole days are counted once, a day at a
time, and kept; newer ones are counted on demand.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from naproxy.core import office_time
from naproxy.history.days import day_of, start_s, step
from naproxy.history.read.recorded import blocks
from naproxy.history.tables import number_of
from naproxy.history.visits import BLOCK_S, NEEDED, SERVER_BITS, TICKS, key, ticks_of

EDGES_S: Final = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 18000, 36000, 86400)
"""Bucket *n* has the gaps shorter than edge *n*, the last one those of a day and more."""

BUCKETS: Final = len(EDGES_S) + 1
MOST_FRESH_DAYS: Final = 14
"""Of days that were not counted yet, so many of the newest are counted when asked for."""

_TOTALS: Final = -1
"""The bucket of a row that has a day's requests and seconds watched: the day is done."""

_SETTLED_S: Final = 3600
"""A day's requests are all there so long after its end: those that take long come late."""

_LOOK_BACK_S: Final = 7 * 86400
_SLACK_S: Final = 5.0
"""Seconds of a block that may be missing in one that was watched: a restart takes some."""


@dataclass(slots=True)
class Gaps:
    """By bucket how many gaps there were and how many seconds they were together."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    sums_s: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)
    requests: int = 0
    """Those that needed the server."""
    watched_s: float = 0.0

    def add(self, gap_s: float) -> None:
        """Count one gap."""
        bucket = bisect_right(EDGES_S, gap_s)
        self.counts[bucket] += 1
        self.sums_s[bucket] += gap_s


def histogram(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> Gaps:
    """Return the gaps of the days that begin in a range."""
    found = Gaps()
    number = number_of(db, "servers", server)
    for bucket, count, sum_s in db.execute(
        "SELECT bucket, sum(gaps), sum(sum_s) FROM gap_days"
        " WHERE server = ? AND t_s >= ? AND t_s < ? GROUP BY bucket",
        (number, int(from_s), int(to_s)),
    ):
        if bucket == _TOTALS:
            found.requests, found.watched_s = count, sum_s
        elif 0 <= bucket < BUCKETS:
            found.counts[bucket], found.sums_s[bucket] = count, sum_s
    fresh_s = max(from_s, _done_s(db, number), to_s - 86400 * MOST_FRESH_DAYS)
    if fresh_s < to_s:
        _count(found, db, server, fresh_s, to_s)
    return found


def _done_s(db: sqlite3.Connection, server: int) -> int:
    """Return the end of the last day that was counted, 0 if there is none."""
    last = db.execute("SELECT max(t_s) FROM gap_days WHERE server = ?", (server,)).fetchone()[0]
    return 0 if last is None else _next_day_s(last)


def _next_day_s(t_s: float) -> int:
    return start_s(step(day_of(t_s, office_time.where()), "day", 1), office_time.where())


def _count(found: Gaps, db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> None:
    """Count the gaps that end in a range."""
    last_s = _last_before(db, server, from_s)
    watched_until_s = from_s if last_s is not None else None
    for begin_s, watched_s, _, blob in blocks(db, server, from_s, to_s):
        found.watched_s += watched_s
        whole = watched_s >= BLOCK_S - _SLACK_S or begin_s + BLOCK_S > to_s
        after_pause = watched_until_s is None or begin_s > watched_until_s
        if after_pause or not whole:
            last_s = None
        with suppress(ValueError):
            for t_s in _times(begin_s, blob):
                if not from_s <= t_s < to_s:
                    continue
                found.requests += 1
                # An unwatched part of this block may contain a gap of that length.
                if last_s is not None and (whole or t_s - last_s < BLOCK_S - watched_s):
                    found.add(t_s - last_s)
                last_s = t_s
        # A box that starts goes on watching; one that ends has watched until then.
        if not whole and not after_pause:
            last_s = None
        watched_until_s = begin_s + BLOCK_S


def _times(begin_s: int, blob: bytes) -> Iterator[float]:
    for tick in ticks_of(blob, NEEDED):
        yield begin_s + tick / TICKS


def _last_before(db: sqlite3.Connection, server: str, before_s: float) -> float | None:
    """Return the last request before a time, None where the box did not watch since."""
    newest_s = before_s
    # Most often the last hour has it: the week is looked through only on a quiet weekend.
    for back_s in (3600, 86400, _LOOK_BACK_S):
        rows = list(blocks(db, server, before_s - back_s, before_s))
        newest_s = before_s
        for begin_s, watched_s, _, blob in reversed(rows):
            times: list[float] = []
            with suppress(ValueError):
                times = [t_s for t_s in _times(begin_s, blob) if t_s < before_s]
            if begin_s + BLOCK_S < newest_s or watched_s < BLOCK_S - _SLACK_S:
                return None
            if times:
                return times[-1]
            newest_s = begin_s
        if newest_s - BLOCK_S > before_s - back_s:
            return None
    return None


def roll_up(db: sqlite3.Connection, now_s: float) -> None:
    """Count at most one whole day of each server that was not counted."""
    for number, server in db.execute("SELECT id, name FROM servers").fetchall():
        begin = db.execute(
            "SELECT min(key) FROM request_blocks"
            f" WHERE key >= ? AND key & {(1 << SERVER_BITS) - 1} = ?",
            (key(_done_s(db, number), 0), number),
        ).fetchone()[0]
        if begin is None:
            continue
        where = office_time.where()
        day = day_of((begin >> SERVER_BITS) * BLOCK_S, where)
        first_s, end_s = start_s(day, where), start_s(step(day, "day", 1), where)
        if end_s + _SETTLED_S > now_s:
            continue
        made = Gaps()
        _count(made, db, server, first_s, end_s)
        rows = [(_TOTALS, made.requests, made.watched_s)]
        rows += [
            (n, count, sum_s)
            for n, (count, sum_s) in enumerate(zip(made.counts, made.sums_s, strict=True))
            if count
        ]
        db.executemany(
            "INSERT OR REPLACE INTO gap_days (server, t_s, bucket, gaps, sum_s)"
            " VALUES (?, ?, ?, ?, ?)",
            [(number, first_s, bucket, count, round(sum_s)) for bucket, count, sum_s in rows],
        )
