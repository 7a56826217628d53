"""Which requests come: those of a log, at the same hours of the same days of the week as there."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

from naproxy.lab.estimate.accesslog import Entry, Log

from tests.simulator.demo import generated

DAY_S = 86400
WEEK_S = 7 * DAY_S


class Timed(NamedTuple):
    """A request and when it comes, in epoch seconds."""

    t_s: float
    entry: Entry


def read(log: Path | None) -> tuple[str, list[Entry]]:
    """Return the name of a log and what is in it, in order; ValueError if that is nothing.

    Without one it is a generated one.
    """
    entries = list(Log([log])) if log else list(generated.weeks())
    if not entries:
        raise ValueError(f"{log}: there is no request in this log")
    return log.name if log else "generated", sorted(entries, key=attrgetter("t_s"))


def timed(entries: Sequence[Entry], start_s: float, end_s: float) -> Iterator[Timed]:
    """Yield what comes between two times. A log that is too short is begun again.

    A log has whole seconds: the requests of one are spread over it.
    """
    first_s, over_s = entries[0].t_s, entries[-1].t_s + 1
    unit_s = WEEK_S if over_s - first_s >= WEEK_S else DAY_S
    period_s = max(unit_s, (over_s - first_s) // unit_s * unit_s)
    # The latest moment of the log that is the same moment of the week as the end.
    anchor_s = over_s - (over_s - int(end_s)) % unit_s
    logged = sorted(
        (entry.t_s - (period_s if entry.t_s >= anchor_s else 0), number)
        for number, entry in enumerate(entries)
        if entry.t_s >= over_s - period_s
    )
    used = list(_spread(logged))
    for turn in range(int((end_s - start_s) // period_s), -1, -1):
        later_s = int(end_s) - anchor_s - turn * period_s
        for logged_s, number in used:
            t_s = logged_s + later_s
            if start_s <= t_s < end_s:
                yield Timed(t_s, entries[number])


def _spread(logged: Sequence[tuple[int, int]]) -> Iterator[tuple[float, int]]:
    """Yield them with the requests of a second spread over it, in their order."""
    for second, alike in groupby(logged, key=itemgetter(0)):
        same = list(alike)
        for place, (_, number) in enumerate(same):
            yield second + (place + _first(second)) / len(same), number


def _first(second: int) -> float:
    return zlib.crc32(f"{second}".encode()) / 2**32
