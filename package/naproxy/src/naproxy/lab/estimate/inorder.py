"""The entries of a log in the order of their times, for one that is not written so.

Such are logs with the newest line first, two sites' logs in one file, and files that overlap. The
entries are sorted in runs of bounded memory, in temporary files, and merged.
"""

from __future__ import annotations

import heapq
import marshal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO, Final

from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.estimate.logline import Entry

STEP_BACK_S: Final = 60.0
"""Servers log a request when it ends, so times step back a little; more is another order."""

_RUN: Final = 30_000  # entries that are sorted in memory
_MOST_RUNS: Final = 200  # files that are open at once

_Fields = tuple[int, str, str, str, int, int, str, str]
_Item = tuple[int, int, int, _Fields]
"""Time, place in the log, part of the log, entry."""


@dataclass
class Order:
    """Counts of lines out of order."""

    steps_back: int = 0
    furthest_back_s: float = 0.0
    twice: int = 0
    """Entries that were left out because another part of the log has them, too."""
    newest_first: bool = False


def in_order(log: Log, order: Order) -> Iterator[Entry]:
    """Yield the entries of a log in the order of their times; `order` is filled on the way."""
    with ExitStack() as files:
        runs: list[BinaryIO] = []
        some: list[_Item] = []
        for item in _numbered(log, order):
            some.append(item)
            if len(some) == _RUN:
                if len(runs) == _MOST_RUNS:
                    merged = _written(files, heapq.merge(*map(_items, runs), key=_KEY))
                    for run in runs:
                        run.close()
                    runs = [merged]
                runs.append(_written(files, sorted(some, key=_KEY)))
                some.clear()
        some.sort(key=_KEY)
        yield from _once(heapq.merge(*map(_items, runs), some, key=_KEY), order)


_KEY: Final = itemgetter(0, 1)


def _numbered(log: Log, order: Order) -> Iterator[_Item]:
    """Yield the entries as they come, each with the part of the log that it is in.

    A part begins where time steps back. In a log with the newest line first it does so all the
    time, so such a log has one part only.
    """
    part, last_s = 0, None
    backwards = False
    for place, entry in enumerate(log):
        if last_s is None:
            backwards = order.newest_first = log.formats[0].newest_first
        elif not backwards and last_s - entry.t_s > STEP_BACK_S:
            part += 1
            order.steps_back += 1
            order.furthest_back_s = max(order.furthest_back_s, last_s - entry.t_s)
        last_s = entry.t_s
        yield entry.t_s, -place if backwards else place, part, entry[:]


def _written(files: ExitStack, items: Iterable[_Item]) -> BinaryIO:
    run = files.enter_context(tempfile.TemporaryFile(prefix="naproxy-order-"))  # noqa: SIM115 - the stack closes it
    for item in items:
        marshal.dump(item, run)
    run.seek(0)
    return run


def _items(run: BinaryIO) -> Iterator[_Item]:
    while True:
        try:
            yield marshal.load(run)  # noqa: S302 - we wrote it
        except EOFError:
            return


def _once(items: Iterable[_Item], order: Order) -> Iterator[Entry]:
    """Yield what several parts have only once: as often as the part that has it most often."""
    for _, group in groupby(items, key=itemgetter(0)):
        together = list(group)
        if len({part for _, _, part, _ in together}) == 1:
            yield from (Entry._make(fields) for _, _, _, fields in together)
            continue
        had: Counter[_Fields] = Counter()
        of_part: Counter[tuple[int, _Fields]] = Counter()
        for _, _, part, fields in together:
            of_part[part, fields] += 1
            if of_part[part, fields] > had[fields]:
                had[fields] += 1
                yield Entry._make(fields)
            else:
                order.twice += 1
