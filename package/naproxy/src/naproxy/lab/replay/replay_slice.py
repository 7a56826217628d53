"""Which stretch of a log is replayed, and when each of its requests is due."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from naproxy.lab.estimate.accesslog import Entry

# Lines are written when the answer is sent, so the log is out of order by as much as the
# longest answer took. After this much no line of the slice is expected any more.
DISORDER_S = 600


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of a replay."""

    number: int  # 1 is the first of the slice
    at_s: float  # after the slice's start, in the log's time
    entry: Entry


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in a log."""

    value_s: float  # epoch seconds, or seconds after the log's first entry
    is_time: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """From `start` up to, not including, `end`, or for `length_s`; both ends may be open."""

    start: Point | None = None
    end: Point | None = None
    length_s: float | None = None

    def bounds(self, first_s: float) -> tuple[float, float]:
        """Epoch seconds of start and end in a log whose first entry is at `first_s`."""

        def epoch(point: Point) -> float:
            return point.value_s if point.is_time else first_s + point.value_s

        start_s = epoch(self.start) if self.start else -math.inf
        if self.length_s is not None:
            return start_s, start_s + self.length_s
        return start_s, epoch(self.end) if self.end else math.inf


def parse_slice(text: str) -> Slice:
    """Parse START+DURATION, START..END, START.. or ..END; ValueError says what is wrong.

    A point is an offset from the log's first entry (90, 90s, 2h30m, 1d) or a time
    (2024-01-27T08:00, 2024-01-27T08:00:00+01:00; UTC if it does not say).
    """
    before, dots, after = text.partition("..")
    if dots:
        start = _point(before) if before else None
        end = _point(after) if after else None
        if start and end and end.is_time == start.is_time and end.value_s <= start.value_s:
            raise ValueError(f"slice {text!r}: the end is not after the start")
        return Slice(start, end)
    # The zone of a time may have a plus too, but is not a duration: +01:00.
    before, plus, after = text.rpartition("+")
    length_s = _duration(after)
    if not plus or not before or length_s is None:
        raise ValueError(f"slice {text!r}: not START+DURATION or START..END")
    if length_s <= 0:
        raise ValueError(f"slice {text!r}: the duration is 0")
    return Slice(_point(before), length_s=length_s)


_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)


def _duration(text: str) -> float | None:
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _point(text: str) -> Point:
    offset_s = _duration(text)
    if offset_s is not None:
        return Point(offset_s, is_time=False)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"slice: {text!r} is no offset such as 2h30m and no time such as 2024-01-27T08:00"
        ) from None
    return Point(
        (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), is_time=True
    )


def plan(entries: Iterable[Entry], wanted: Slice) -> list[Planned]:
    """Return the requests of the slice in order; nothing in it is left to chance.

    Requests that were logged in the same second are spread evenly over it.
    """
    start_s = end_s = math.nan
    chosen = []
    for entry in entries:
        if math.isnan(start_s):
            start_s, end_s = wanted.bounds(entry.t_s)
        if start_s <= entry.t_s < end_s:
            chosen.append(entry)
        elif entry.t_s >= end_s + DISORDER_S:
            break
    chosen.sort(key=lambda entry: entry.t_s)
    if start_s == -math.inf:
        start_s = chosen[0].t_s if chosen else 0
    planned: list[Planned] = []
    for t_s, same in groupby(chosen, key=lambda entry: entry.t_s):
        together = list(same)
        for i, entry in enumerate(together):
            at_s = t_s - start_s + i / len(together)
            planned.append(Planned(len(planned) + 1, at_s, entry))
    return planned
