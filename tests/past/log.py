"""Which requests come: those of a log, at the same hours of the same days of the week as there."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from naproxy.accesslog import Entry, Log

from tests.demo import generated
from tests.demo.stretch import SHARED_LOGS

DAY_S = 86400
WEEK_S = 7 * DAY_S
FAVOURITE = "globalreport.log.gz"
"""Of the shared logs the one of an office's size."""


class Timed(NamedTuple):
    """A request and when it comes, in epoch seconds."""

    t_s: float
    entry: Entry


def read(log: Path | None) -> tuple[str, list[Entry]]:
    """Return the name of a log and what is in it, in order; ValueError if that is nothing.

    Without one it is a shared one, and a generated one where none is shared.
    """
    shared = SHARED_LOGS / FAVOURITE
    path = log or (shared if shared.exists() else None)
    entries = list(Log([path])) if path else list(generated.weeks())
    if not entries:
        raise ValueError(f"{path}: there is no request in this log")
    return path.name if path else "generated", sorted(entries, key=attrgetter("t_s"))


def timed(entries: Sequence[Entry], start_s: float, end_s: float) -> Iterator[Timed]:
    """Yield what comes between two times. A log that is too short is begun again.

    A log has whole seconds; each request gets a fraction, the same every time.
    """
    first_s, last_s = entries[0].t_s, entries[-1].t_s
    unit_s = WEEK_S if last_s - first_s >= WEEK_S else DAY_S
    # The latest moment of the log that is the same moment of the week as the end.
    anchor_s = last_s - (last_s - int(end_s)) % unit_s
    period_s = max(unit_s, (anchor_s - first_s) // unit_s * unit_s)
    times_s = [entry.t_s for entry in entries]
    used = entries[bisect_left(times_s, anchor_s - period_s) : bisect_left(times_s, anchor_s)]
    for turn in range(int((end_s - start_s) // period_s), -1, -1):
        later_s = int(end_s) - anchor_s - turn * period_s
        for number, entry in enumerate(used):
            t_s = entry.t_s + later_s + _fraction(number, entry)
            if start_s <= t_s < end_s:
                yield Timed(t_s, entry)


def _fraction(number: int, entry: Entry) -> float:
    return zlib.crc32(f"{number} {entry.t_s}".encode()) / 2**32
