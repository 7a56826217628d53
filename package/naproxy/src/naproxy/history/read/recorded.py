"""The request stream as it is read back: columns of requests, and the times that were watched."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from naproxy.history.tables import number_of
from naproxy.history.visits import BLOCK_S, SERVER_BITS, TICKS, key, unpack

_MASK: Final = (1 << SERVER_BITS) - 1


@dataclass(slots=True)
class Requests:
    """Requests of people and programs, in the order of their times; one entry each."""

    t_s: array[float] = field(default_factory=lambda: array("d"))
    client: array[int] = field(default_factory=lambda: array("I"))
    """Tells clients of one block apart; a client has another number in another block."""

    flags: array[int] = field(default_factory=lambda: array("B"))
    """`visits.NEEDED` and so on."""

    waited_s: array[float] = field(default_factory=lambda: array("f"))

    def __len__(self) -> int:
        return len(self.t_s)


@dataclass(frozen=True, slots=True)
class Watched:
    """A time for which it is known what was asked for."""

    from_s: float
    to_s: float


def blocks(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, *, delayed: bool = False
) -> Iterator[tuple[int, float, int, bytes]]:
    """Yield begin, seconds watched, requests left out and blob of each block in a range.

    `delayed`: only of blocks in which somebody waited.
    """
    number = number_of(db, "servers", server)
    for row, watched_s, left_out, blob in db.execute(
        "SELECT key, watched_s, left_out, block FROM request_blocks"
        f" WHERE key >= ? AND key < ? AND key & {_MASK} = ? AND delayed >= ? ORDER BY key",
        (key(from_s, 0), key(to_s + BLOCK_S - 1, 0), number, int(delayed)),
    ):
        yield (row >> SERVER_BITS) * BLOCK_S, watched_s, left_out, blob


def requests(db: sqlite3.Connection, server: str, from_s: float, to_s: float) -> Requests:
    """Return the requests of a server in a range; a damaged block has none."""
    found = Requests()
    clients = 0
    for begin_s, _, _, blob in blocks(db, server, from_s, to_s):
        most = -1
        with suppress(ValueError):
            for visit in unpack(blob):
                t_s = begin_s + visit.tick / TICKS
                if from_s <= t_s < to_s:
                    found.t_s.append(t_s)
                    found.client.append(clients + visit.client)
                    found.flags.append(visit.flags)
                    found.waited_s.append(visit.waited / TICKS)
                most = max(most, visit.client)
        clients += most + 1
    return found


def watched(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, pause_s: float = 0.0
) -> list[Watched]:
    """Return the times of a range for which requests are known, as few spans as they are.

    Those with a pause between them that is shorter than `pause_s` are one.
    For a block that was watched in part, the last part is taken after a pause, else the first: a
    box that starts goes on watching, and one that ends has watched until then.
    """
    found: list[Watched] = []
    for begin_s, length_s, _, _ in blocks(db, server, from_s, to_s):
        goes_on = bool(found) and found[-1].to_s >= begin_s
        first_s = begin_s if goes_on else begin_s + BLOCK_S - length_s
        span = Watched(max(from_s, first_s), min(to_s, first_s + length_s))
        if span.to_s <= span.from_s:
            continue
        if goes_on or (found and span.from_s - found[-1].to_s < pause_s):
            found[-1] = Watched(found[-1].from_s, span.to_s)
        else:
            found.append(span)
    return found


def watched_until_s(db: sqlite3.Connection, before_s: float) -> int:
    """Return until when any server was watched last before a time; 0 if none was."""
    row = db.execute(
        "SELECT key, watched_s FROM request_blocks WHERE key < ? ORDER BY key DESC LIMIT 1",
        (key(before_s, 0),),
    ).fetchone()
    if row is None:
        return 0
    begin_s = (int(row[0]) >> SERVER_BITS) * BLOCK_S
    return begin_s + int(row[1])


def newest(db: sqlite3.Connection, server: str, from_s: float, to_s: float, most: int) -> float:
    """Return the begin of the part of a range that has about `most` requests, its newest."""
    total = 0
    for begin_s, requests in db.execute(
        f"SELECT (key >> {SERVER_BITS}) * {BLOCK_S}, requests FROM request_blocks"
        f" WHERE key >= ? AND key < ? AND key & {_MASK} = (SELECT id FROM servers WHERE name = ?)"
        " ORDER BY key DESC",
        (key(from_s, 0), key(to_s + BLOCK_S - 1, 0), server),
    ):
        total += requests
        if total > most:
            return float(begin_s + BLOCK_S)
    return from_s


def last_block_s(db: sqlite3.Connection, server: str, before_s: float) -> float:
    """Return the begin of a server's newest block before a time; 0 if there is none."""
    row = db.execute(
        f"SELECT max(key) FROM request_blocks WHERE key < ? AND key & {_MASK} ="
        " (SELECT id FROM servers WHERE name = ?)",
        (key(before_s, 0), server),
    ).fetchone()
    return 0.0 if row[0] is None else float((int(row[0]) >> SERVER_BITS) * BLOCK_S)
