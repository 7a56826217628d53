"""A minute of seconds in one blob, and how seconds become minutes and hours.

Energy is summed at every step, never made of a mean; the mean of a longer time is that of
its parts, each by how much of it is covered; what no reading covers adds nothing.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, mul, sub
from typing import Final

from naproxy.core.reading import PowerSample
from naproxy.history.blob import columns_of

_FORM: Final = b"\x01"
_COLUMNS: Final = "BHiHHhH"
"""Offset in the minute, count, step of the mean, mean - min, max - mean, the energy that
mean times time does not say, covered; each as one array, little-endian."""

_WIDE_FORM: Final = b"\x02"
_WIDE_COLUMNS: Final = "BIqqqqI"
"""The same for values that do not fit."""

_MOST_BYTES: Final = 1 << 14
"""Of a block: sixty seconds are 2460 at the most."""


@dataclass(frozen=True, slots=True)
class Span:
    """Power and energy in some time; the fields mean what those of a `PowerSample` do."""

    count: int
    mean_mw: int
    min_mw: int
    max_mw: int
    energy_mj: int
    covered_ms: int


def merge(parts: Sequence[PowerSample | Span]) -> Span:
    """Return what the parts (at least one) are together."""
    covered_ms = sum(p.covered_ms for p in parts)
    return Span(
        count=sum(p.count for p in parts),
        mean_mw=_round(sum(p.mean_mw * p.covered_ms for p in parts), covered_ms),
        min_mw=min(p.min_mw for p in parts),
        max_mw=max(p.max_mw for p in parts),
        energy_mj=sum(p.energy_mj for p in parts),
        covered_ms=covered_ms,
    )


def _round(number: int, by: int) -> int:
    """Divide whole numbers to the nearest, in whole numbers."""
    return (2 * number + by) // (2 * by)


def pack(minute_s: int, seconds: Iterable[PowerSample]) -> bytes:
    """Return the blob of seconds of the minute that starts at `minute_s`."""
    rows, before_mw = [], 0
    for s in sorted(seconds, key=lambda s: s.t_s):
        rest_mj = s.energy_mj - _round(s.mean_mw * s.covered_ms, 1000)
        rows.append(
            (
                *(s.t_s - minute_s, s.count, s.mean_mw - before_mw),
                *(s.mean_mw - s.min_mw, s.max_mw - s.mean_mw, rest_mj, s.covered_ms),
            )
        )
        before_mw = s.mean_mw
    try:
        return _FORM + _compress(_COLUMNS, rows)
    except OverflowError:
        return _WIDE_FORM + _compress(_WIDE_COLUMNS, rows)


def _compress(codes: str, rows: Sequence[tuple[int, ...]]) -> bytes:
    made = [_little(array(c, v)) for c, v in zip(codes, zip(*rows, strict=True), strict=True)]
    return zlib.compress(b"".join(column.tobytes() for column in made), 6)


def _little(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column.byteswap()
    return column


@dataclass(frozen=True, slots=True)
class Columns:
    """The seconds of a block, a list for each field; `offset` is that in the minute."""

    offset: Sequence[int]
    count: Sequence[int]
    mean_mw: Sequence[int]
    min_mw: Sequence[int]
    max_mw: Sequence[int]
    energy_mj: Sequence[int]
    covered_ms: Sequence[int]

    def spans(self, step_s: int) -> Iterator[tuple[int, Span]]:
        """Yield (offset, what is known) of parts of `step_s` seconds, which divides 60."""
        at, end = 0, len(self.offset)
        while at < end:
            start = self.offset[at] // step_s * step_s
            after = bisect_left(self.offset, start + step_s, at)
            yield start, self._span(slice(at, after))
            at = after

    def _span(self, part: slice) -> Span:
        covered = self.covered_ms[part]
        covered_ms = sum(covered)
        return Span(
            count=sum(self.count[part]),
            mean_mw=_round(sum(map(mul, self.mean_mw[part], covered)), covered_ms),
            min_mw=min(self.min_mw[part]),
            max_mw=max(self.max_mw[part]),
            energy_mj=sum(self.energy_mj[part]),
            covered_ms=covered_ms,
        )


def unpack(minute_s: int, blob: bytes) -> list[PowerSample]:
    """Return the seconds in a blob, in order; ValueError if it is not one."""
    c = columns(blob)
    rows = zip(
        c.offset, c.count, c.mean_mw, c.min_mw, c.max_mw, c.energy_mj, c.covered_ms, strict=True
    )
    return [PowerSample(minute_s + offset, *values) for offset, *values in rows]


def columns(blob: bytes) -> Columns:
    """Return what is in a blob, fast; ValueError if it is not one."""
    read = []
    for code, data in columns_of(blob, {_FORM: _COLUMNS, _WIDE_FORM: _WIDE_COLUMNS}, _MOST_BYTES):
        column = array(code)
        column.frombytes(data)
        read.append(_little(column))
    offset, readings, step, low, high, rest_mj, covered_ms = read
    mean_mw = list(accumulate(step))
    return Columns(
        offset=offset,
        count=readings,
        mean_mw=mean_mw,
        min_mw=list(map(sub, mean_mw, low)),
        max_mw=list(map(add, mean_mw, high)),
        energy_mj=[
            r + _round(m * c, 1000) for r, m, c in zip(rest_mj, mean_mw, covered_ms, strict=True)
        ],
        covered_ms=covered_ms,
    )
