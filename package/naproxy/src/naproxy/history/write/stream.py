"""The request stream: each request of people and programs, in blocks of ten minutes.

It holds the same facts that `naproxy estimate` reads from a log, for the bounds and the results of
other rules at this office. Each ten minutes that the box watched have a block, even without a
request, so a quiet night differs from a box that was off.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.tables import server_id
from naproxy.history.visits import (
    BLOCK_S,
    DELAYED,
    NEEDED,
    PAGE_LOAD,
    PROGRAM,
    SENT_AWAY,
    SERVER_BITS,
    TICKS,
    Visit,
    key,
    pack,
    unpack,
)
from naproxy.shm.events import Event

DAYS: Final = 400
MOST_BYTES: Final = 5 << 20
"""Of all blocks; beyond it the oldest go, before they are 400 days old."""

MOST_IN_BLOCK: Final = 10_000
"""Requests kept of ten minutes; those beyond are counted. Such a server hardly sleeps."""

MOST_WAITING: Final = 60
MOST_HELD: Final = 50_000
"""Blocks, and requests in them, that wait for a disk that cannot be written; older ones are
given up."""


_LATE_S: Final = 1800.0
"""A request counts when it began and is told of when it ended: blocks are kept so long."""

_Key = tuple[int, str]


@dataclass(slots=True)
class _Block:
    """Ten minutes that may still change."""

    visits: list[Visit] = field(default_factory=list)
    left_out: int = 0
    watched_s: float = 0.0
    before: tuple[list[Visit], int, float] | None = None
    """Requests, how many were left out, and time watched, that another run has written."""


def flags_of(event: Event) -> int:
    """Return what is kept of an event's flags, class and outcome."""
    kept = (
        (NEEDED, event.needed),
        (PAGE_LOAD, event.page_load),
        (PROGRAM, event.klass == Klass.API),
        (DELAYED, event.flags & page_h.E_DELAYED),
        (SENT_AWAY, event.outcome in page_h.LATE),
    )
    return sum(flag for flag, so in kept if so)


class Stream:
    """Gathers requests in memory and writes them in a batch, beside what is there."""

    def __init__(self) -> None:
        """Nothing is gathered, no server is watched."""
        self._blocks: dict[_Key, _Block] = {}
        self._watched_s: dict[str, float] = {}  # until when it was counted
        self._changed: set[_Key] = set()
        self._held = 0

    def watch(self, servers: Iterable[str], now_s: float) -> None:
        """From now on it is known what these servers are asked, and of no others."""
        self._watch_until(now_s)
        self._watched_s = {name: self._watched_s.get(name, now_s) for name in servers}

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Take one request that ended and that began at `t_s` by the history's clock.

        Requests of robots, requests to the status path, and those of clients over their share do
        not count and are left out.
        """
        robot = event.klass < len(Klass) and Klass(event.klass).robot
        if robot or event.spent or event.outcome == Outcome.STATUS:
            return
        tick = math.floor(t_s * TICKS)
        begin = tick // (BLOCK_S * TICKS) * BLOCK_S
        visit = Visit(
            tick - begin * TICKS, flags_of(event), event.client, event.delay_ms * TICKS // 1000
        )
        self._put(begin, server, visit)

    def _put(self, begin_s: int, server: str, visit: Visit) -> None:
        block = self._block(begin_s, server)
        if len(block.visits) < MOST_IN_BLOCK:
            block.visits.append(visit)
            self._held += 1
        else:
            block.left_out += 1

    def _block(self, begin_s: int, server: str) -> _Block:
        self._changed.add((begin_s, server))
        block = self._blocks.setdefault((begin_s, server), _Block())
        while len(self._blocks) > MOST_WAITING or self._held > MOST_HELD:
            self._forget(min(self._blocks))
        return block

    def _forget(self, place: _Key) -> None:
        self._held -= len(self._blocks.pop(place).visits)
        self._changed.discard(place)

    def _watch_until(self, now_s: float) -> None:
        for name, since_s in self._watched_s.items():
            for begin_s, length_s in _parts(since_s, now_s):
                self._block(begin_s, name).watched_s += length_s
            self._watched_s[name] = max(since_s, now_s)

    def write(self, db: sqlite3.Connection, before_s: float, now_s: float) -> None:
        """Write requests of minutes that ended before `before_s`, and the time watched until now.

        `written` once that is committed.
        """
        self._watch_until(now_s)
        servers: dict[str, int] = {}
        for begin_s, name in sorted(self._changed):
            if name not in servers:
                servers[name] = server_id(db, name)
            if servers[name] < 1 << SERVER_BITS:
                block = self._blocks[begin_s, name]
                _write_block(db, key(begin_s, servers[name]), block, (before_s - begin_s) * TICKS)

    def written(self, before_s: float, now_s: float) -> None:
        """Forget what was written and will not change any more."""
        whole = {k for k in self._changed if k[0] + BLOCK_S <= before_s}
        self._changed -= whole
        for place in [k for k in self._blocks if k[0] + BLOCK_S + _LATE_S < now_s]:
            if place not in self._changed:
                self._forget(place)

    def moved(self) -> None:
        """Forget all that was written: `shift` has moved it."""
        for place in list(self._blocks):
            self._forget(place)

    def stepped(self, by_s: float) -> None:
        """The clock was set by so much: that time was not watched."""
        self._watched_s = {name: t_s + by_s for name, t_s in self._watched_s.items()}


def _write_block(db: sqlite3.Connection, row: int, block: _Block, before_tick: float) -> None:
    if block.before is None:
        block.before = _read_block(db, row)
    visits, left_out, watched_s = block.before
    # Whose they are is not known any more: so they are nobody's of now.
    theirs = [v._replace(client=-1 - v.client) for v in visits]
    minute = 60 * TICKS
    fresh = [v for v in block.visits if v.tick // minute * minute + minute <= before_tick]
    _put_block(
        db,
        row,
        [*theirs, *fresh],
        left_out + block.left_out,
        min(float(BLOCK_S), watched_s + block.watched_s),
    )


def _read_block(db: sqlite3.Connection, row: int) -> tuple[list[Visit], int, float]:
    found = db.execute(
        "SELECT block, left_out, watched_s FROM request_blocks WHERE key = ?", (row,)
    ).fetchone()
    if found is None:
        return [], 0, 0.0
    try:
        return unpack(found[0]), found[1], found[2]
    except ValueError:
        return [], found[1], 0.0


def _put_block(
    db: sqlite3.Connection, row: int, visits: list[Visit], left_out: int, watched_s: float
) -> None:
    before = db.execute(
        "SELECT bytes_before + length(block) FROM request_blocks WHERE key < ?"
        " ORDER BY key DESC LIMIT 1",
        (row,),
    ).fetchone()
    db.execute(
        "INSERT OR REPLACE INTO request_blocks"
        " (key, requests, left_out, delayed, watched_s, bytes_before, block)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(row, len(visits), left_out, sum(v.flags & DELAYED > 0 for v in visits)),
            *(round(watched_s, 1), before[0] if before else 0, pack(visits)),
        ),
    )


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all requests from `since_s` on by whole seconds, and the time that was watched."""
    blocks: dict[int, _Block] = defaultdict(_Block)
    mask = (1 << SERVER_BITS) - 1
    for row, missing, watched_s, blob in db.execute(
        "SELECT key, left_out, watched_s, block FROM request_blocks WHERE key >= ? ORDER BY key",
        (key(since_s, 0),),
    ).fetchall():
        begin_s, server = (row >> SERVER_BITS) * BLOCK_S, row & mask
        kept = []
        for visit in _unpacked(blob):
            tick = visit.tick + begin_s * TICKS
            if tick < since_s * TICKS:
                kept.append(visit)
                continue
            later, tick = divmod(tick + by_s * TICKS, BLOCK_S * TICKS)
            # Two blocks may fall into one, whose clients are not the same.
            moved = visit._replace(tick=tick, client=(begin_s // BLOCK_S) << 16 | visit.client)
            blocks[later << SERVER_BITS | server].visits.append(moved)
        if missing:
            blocks[key(begin_s + by_s, server)].left_out += missing
        stays_s, goes_s = _stays(begin_s, since_s, watched_s)
        from_s = max(begin_s, since_s) + by_s
        for at_s, length_s in _parts(from_s, from_s + goes_s):
            blocks[key(at_s, server)].watched_s += length_s
        db.execute("DELETE FROM request_blocks WHERE key = ?", (row,))
        if kept or stays_s:
            _put_block(db, row, kept, 0, stays_s)
    for row in sorted(blocks):
        _write_block(db, row, blocks[row], math.inf)


def _stays(begin_s: int, since_s: float, watched_s: float) -> tuple[float, float]:
    """Return how much of the time watched in a block lies before `since_s`, and the rest."""
    if begin_s >= since_s:
        return 0.0, watched_s
    goes_s = min(watched_s, begin_s + BLOCK_S - since_s)
    return watched_s - goes_s, goes_s


def _parts(from_s: float, to_s: float) -> Iterator[tuple[int, float]]:
    """Yield the blocks that a time is in, and how much of it is in each."""
    while from_s < to_s:
        begin_s = int(from_s // BLOCK_S) * BLOCK_S
        end_s = min(to_s, begin_s + BLOCK_S)
        yield begin_s, end_s - from_s
        from_s = end_s


def _unpacked(blob: bytes) -> list[Visit]:
    try:
        return unpack(blob)
    except ValueError:
        return []


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most `most` blocks that are too old, or too many; returns how many."""
    last = db.execute(
        "SELECT bytes_before + length(block) FROM request_blocks ORDER BY key DESC LIMIT 1"
    ).fetchone()
    return db.execute(
        "DELETE FROM request_blocks WHERE key IN"
        " (SELECT key FROM request_blocks ORDER BY key LIMIT ?1)"
        " AND (key < ?2 OR bytes_before < ?3)",
        (most, key(now_s - 86400 * DAYS, 0), (last[0] if last else 0) - MOST_BYTES),
    ).rowcount
