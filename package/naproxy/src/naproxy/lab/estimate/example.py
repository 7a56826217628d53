"""A made-up website's traffic, for a box that knows neither a log nor requests of its own.

Two weeks, always the same: from 7 to 22 there is a visit each four minutes, at night one each
twenty. A visit is one to five pages; the cache has all their files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from naproxy.core.state import Klass
from naproxy.lab.estimate.cachemodel import NEVER
from naproxy.lab.estimate.traffic import PAGE_LOAD_FLAG, Chunk, Traffic

DAYS: Final = 14
_START_S: Final = 1_767_571_200.0  # a Monday, 2026-01-05 00:00 UTC
_HOUR_S: Final = 3600.0
_DAY_H: Final = range(7, 22)
_BUSY_S, _QUIET_S = 240.0, 1200.0
_READ_S: Final = 40.0
_MOST_PAGES: Final = 5
_FILES: Final = 2


@contextmanager
def example() -> Iterator[Traffic]:
    """Yield the traffic; its records are gone afterwards."""
    chance = random.Random(1)  # noqa: S311 - the example must be the same for everybody
    asked: list[tuple[float, int, bool]] = []
    client, t_s, end_s = 0, 0.0, DAYS * 24 * _HOUR_S
    while t_s < end_s:
        # From hour to hour, so that a quiet night ends when the day begins.
        next_s = t_s + chance.expovariate(1 / _mean_s(t_s))
        hour_ends_s = (t_s // _HOUR_S + 1) * _HOUR_S
        t_s = min(next_s, hour_ends_s)
        if t_s == hour_ends_s:
            continue
        client += 1
        read_s = t_s
        for _ in range(chance.randint(1, _MOST_PAGES)):
            asked.append((read_s, client, True))
            asked += [(read_s + 0.5, client, False)] * _FILES
            read_s += 1 + chance.expovariate(1 / _READ_S)
    with Traffic.temporary("example") as traffic:
        chunk = Chunk()
        chunk.append(_START_S)
        for each_s, client, page in sorted(asked):
            chunk.append(
                _START_S + each_s,
                client,
                klass=Klass.PERSON,
                flags=PAGE_LOAD_FLAG if page else 0,
                age_s=NEVER if page else 0.0,
            )
        chunk.append(max(_START_S + end_s, chunk.t_s[-1]))
        traffic.add(chunk)
        traffic.trust.see(chunk.t_s[0])
        traffic.trust.see(chunk.t_s[-1])
        yield traffic


def _mean_s(t_s: float) -> float:
    return _BUSY_S if int(t_s % (24 * _HOUR_S) // _HOUR_S) in _DAY_H else _QUIET_S
