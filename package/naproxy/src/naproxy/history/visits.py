"""One block of the request stream: the requests of ten minutes, compressed.

It keeps the facts that a rule for sleeping and its bounds need: when a request came, from which
client of these ten minutes (the first, the second, ...), whether the cache could answer it, and
its wait. There is no address, no hash of one, and no path: a number means nothing outside its
block.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from naproxy.history.blob import columns_of

BLOCK_S: Final = 600
TICKS: Final = 10
"""Times are kept in tenths of a second."""

NEEDED: Final = 1
PAGE_LOAD: Final = 2
PROGRAM: Final = 4
"""Of a program (class api), not of a person."""

DELAYED: Final = 8
SENT_AWAY: Final = 16
"""Answered with the waiting page, or that it cannot wait: how long it did is not known."""

_FORM: Final = b"\x01"
_COLUMNS: Final = "HBHH"
"""Step of the time, flags, place among the clients by their latest requests, wait."""

_MOST: Final = (1 << 16) - 1
_MOST_BYTES: Final = 1 << 20
"""Of a block: ten thousand requests are 70,000."""


class Visit(NamedTuple):
    """One request; `client` tells those of one block apart and nothing else."""

    tick: int
    """Tenths of a second since the block began."""

    flags: int
    client: int
    waited: int
    """In tenths of a second."""


def pack(visits: Iterable[Visit]) -> bytes:
    """Return the blob of a block's requests; an empty one for none."""
    rows, before, lately = [], 0, list[int]()
    for visit in sorted(visits, key=lambda v: v.tick):
        # The next request is mostly from a recent client: small numbers, which compress.
        try:
            place = lately.index(visit.client) + 1
            del lately[place - 1]
        except ValueError:
            place = 0
        lately.insert(0, visit.client)
        rows.append((visit.tick - before, visit.flags, min(place, _MOST), min(visit.waited, _MOST)))
        before = visit.tick
    if not rows:
        return b""
    columns = [array(c, v) for c, v in zip(_COLUMNS, zip(*rows, strict=True), strict=True)]
    return _FORM + zlib.compress(b"".join(map(_planes, columns)), 9)


def _planes(column: array[int]) -> bytes:
    """All low bytes, then all high ones: nearly all of those are 0."""
    if sys.byteorder == "big":
        column.byteswap()
    data = column.tobytes()
    return b"".join(data[n :: column.itemsize] for n in range(column.itemsize))


def unpack(blob: bytes) -> list[Visit]:
    """Return a block's requests by their times, clients numbered from 0; ValueError if damaged."""
    if not blob:
        return []
    return _visits(*(_values(*column) for column in _opened(blob)))


def _opened(blob: bytes) -> list[tuple[str, bytes]]:
    return columns_of(blob, {_FORM: _COLUMNS}, _MOST_BYTES)


def ticks_of(blob: bytes, flag: int) -> list[int]:
    """Return the times of a block's requests that have a flag; ValueError if it is damaged.

    The same as `unpack`, without telling clients apart, in a tenth of the time.
    """
    if not blob:
        return []
    (_, steps), (_, flags), *_ = _opened(blob)
    low, high = steps[: len(flags)], steps[len(flags) :]
    found, tick = [], 0
    for fine, coarse, given in zip(low, high, flags, strict=True):
        tick += fine | coarse << 8
        if given & flag:
            found.append(tick)
    return found


def _values(code: str, data: bytes) -> Sequence[int]:
    if code == "B":
        return data
    count = len(data) // 2
    return [low | high << 8 for low, high in zip(data[:count], data[count:], strict=True)]


def _visits(
    steps: Sequence[int], flags: Sequence[int], places: Sequence[int], waited: Sequence[int]
) -> list[Visit]:
    found, tick, lately, known = [], 0, list[int](), 0
    for step, flag, place, wait in zip(steps, flags, places, waited, strict=True):
        tick += step
        if place > len(lately):
            raise ValueError("a damaged block: a client that was not there")
        if place:
            client = lately.pop(place - 1)
        else:
            client, known = known, known + 1
        lately.insert(0, client)
        found.append(Visit(tick, flag, client, wait))
    return found


SERVER_BITS: Final = 8
"""Rows have the key `number of the ten minutes << SERVER_BITS | server`."""


def key(t_s: float, server: int) -> int:
    """Return the key of the block that the time is in."""
    return int(t_s // BLOCK_S) << SERVER_BITS | server
