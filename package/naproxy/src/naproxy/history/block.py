"""A minute of seconds in one blob, and how seconds become minutes and hours.

Energy is summed at every step and never computed from a mean. The mean of a longer time weighs its
parts by their covered time; time without readings adds nothing.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, attrgetter, mul, sub
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


_FIELDS: Final = attrgetter("count", "mean_mw", "min_mw", "max_mw", "energy_mj", "covered_ms")


def merge(parts: Sequence[PowerSample | Span]) -> Span:
    """Return what the parts (at least one) are together."""
    return _merged(list(zip(*map(_FIELDS, parts), strict=True)))


def _merged(columns: Sequence[Sequence[int]]) -> Span:
    """Merge what is in a column for each of `_FIELDS`."""
    count, mean_mw, min_mw, max_mw, energy_mj, covered_ms = columns
    covered = sum(covered_ms)
    mean = _round(sum(map(mul, mean_mw, covered_ms)), covered)
    return Span(sum(count), mean, min(min_mw), max(max_mw), sum(energy_mj), covered)


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


def unpack(minute_s: int, blob: bytes) -> list[PowerSample]:
    """Return the seconds in a blob, in order; ValueError if it is not one."""
    offsets, columns = _columns(blob)
    rows = zip(offsets, *columns, strict=True)
    return [PowerSample(minute_s + offset, *values) for offset, *values in rows]


def spans(blob: bytes, step_s: int) -> Iterator[tuple[int, Span]]:
    """Yield (offset, known values) of parts of `step_s` seconds, which divides 60.

    Faster than to `unpack` and `merge`; ValueError if it is not a blob.
    """
    offsets, columns = _columns(blob)
    at = 0
    while at < len(offsets):
        start = offsets[at] // step_s * step_s
        after = bisect_left(offsets, start + step_s, at)
        yield start, _merged([column[at:after] for column in columns])
        at = after


def _columns(blob: bytes) -> tuple[Sequence[int], list[Sequence[int]]]:
    """Return the seconds' offsets in the minute, and a column for each of `_FIELDS`."""
    read = []
    for code, data in columns_of(blob, {_FORM: _COLUMNS, _WIDE_FORM: _WIDE_COLUMNS}, _MOST_BYTES):
        column = array(code)
        column.frombytes(data)
        read.append(_little(column))
    offset, readings, step, low, high, rest_mj, covered_ms = read
    mean_mw = list(accumulate(step))
    low_mw, high_mw = map(sub, mean_mw, low), map(add, mean_mw, high)
    energy_mj = [
        r + _round(m * c, 1000) for r, m, c in zip(rest_mj, mean_mw, covered_ms, strict=True)
    ]
    return offset, [readings, mean_mw, list(low_mw), list(high_mw), energy_mj, covered_ms]
