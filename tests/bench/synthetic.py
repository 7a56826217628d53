"""Traffic nobody tuned to: drawn from processes of different kinds, and real logs made other.

Everything is drawn from a seed, so a figure can be had again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from naproxy.core.state import Klass
from naproxy.lab.estimate.boxcache import FILE, NOT_KEPT, PAGE, size_code
from naproxy.lab.estimate.cachemodel import Fetched
from naproxy.lab.estimate.traffic import CHUNK, Chunk, Traffic

STATIC, PAGE_LOAD = 1, 2
DAY_S = 86400.0
SIZES = size_code(15_000), size_code(25_000)
"""Of a page and of a file."""
START_S = 1_700_438_400.0  # Monday, 20 November 2023

Asked = tuple[float, int, int, int]
"""Epoch seconds, client, path (0: not cacheable), flags."""


def office(chance: random.Random, days: int) -> Iterator[Asked]:
    """A few people in office hours, quiet nights and weekends, some who come from elsewhere."""

    def rate(day: int, hour: int) -> float:
        if day % 7 < 5 and 8 <= hour < 18:
            return 12.0 if hour != 12 else 5.0
        return 1.0 if 6 <= hour < 23 else 0.3

    return _visits(chance, days, rate, pages=(1, 8), assets=12)


def town(chance: random.Random, days: int) -> Iterator[Asked]:
    """A town's site: an evening peak, weekends as busy, never quite quiet."""

    def rate(_day: int, hour: int) -> float:
        return 6.0 + 5.0 * math.sin((hour - 14) / 24 * 2 * math.pi)

    return _visits(chance, days, rate, pages=(1, 4), assets=20)


def memoryless(chance: random.Random, days: int) -> Iterator[Asked]:
    """One page at a time, at the same rate day and night: nothing can be learned from it."""
    return _visits(chance, days, lambda _day, _hour: 4.0, pages=(1, 1), assets=0)


def bursts(chance: random.Random, days: int) -> Iterator[Asked]:
    """Quiet for hours, then a link goes round: gaps of all lengths, as heavy-tailed as it gets."""
    now = 0.0
    while now < days * DAY_S:
        now += chance.paretovariate(0.8) * 120
        for _ in range(int(chance.paretovariate(1.1))):
            yield from _visit(chance, now + chance.expovariate(1 / 600), (1, 2), 6)


def club(chance: random.Random, days: int) -> Iterator[Asked]:
    """Busy two evenings a week, hardly anybody otherwise."""

    def rate(day: int, hour: int) -> float:
        return 60.0 if day % 7 in (2, 5) and 18 <= hour < 23 else 0.6

    return _visits(chance, days, rate, pages=(2, 10), assets=8)


def moving(chance: random.Random, days: int) -> Iterator[Asked]:
    """An office that moves its hours every two weeks, and closes for one week."""

    def rate(day: int, hour: int) -> float:
        if day // 7 == 3:
            return 0.2
        begins = 7 + 4 * (day // 14 % 3)
        return 15.0 if begins <= hour < begins + 7 else 0.5

    return _visits(chance, days, rate, pages=(1, 6), assets=10)


PROCESSES: dict[str, Callable[[random.Random, int], Iterator[Asked]]] = {
    process.__name__: process for process in (office, town, memoryless, bursts, club, moving)
}


def _visits(
    chance: random.Random,
    days: int,
    rate: Callable[[int, int], float],
    *,
    pages: tuple[int, int],
    assets: int,
) -> Iterator[Asked]:
    """Visits as a Poisson process whose rate, visits an hour, depends on day and hour."""
    for day in range(days):
        for hour in range(24):
            now = 0.0
            while (now := now + chance.expovariate(max(rate(day, hour), 1e-9))) < 1:
                begin_s = START_S + day * DAY_S + (hour + now) * 3600
                yield from _visit(chance, begin_s, pages, assets)


def _visit(
    chance: random.Random, t_s: float, pages: tuple[int, int], assets: int
) -> Iterator[Asked]:
    if t_s < START_S:
        t_s += START_S
    client = chance.randrange(1, 3000)
    for _ in range(chance.randint(*pages)):
        page = int(chance.paretovariate(0.7)) % 4000
        yield (t_s, client, 2 * page + 2, PAGE_LOAD)
        for n in range(assets):
            # Half of them are on every page.
            path = 2 * (n if n % 2 else page + n) + 1_000_001
            yield (t_s + 1 + n // 8, client, path, STATIC)
        if chance.random() < 0.1:
            yield (t_s + 10, client, 0, 0)
        t_s += 5 + chance.lognormvariate(3.0, 1.2)


def traffic(name: str, asked: Iterator[Asked], file: BinaryIO, path: Path) -> Traffic:
    """Return requests as a log would have given them: in order, in whole seconds."""
    rows = sorted((float(int(t_s)), client, path, flags) for t_s, client, path, flags in asked)
    return _write(name, rows, file, path)


def _write(name: str, rows: Sequence[Asked], file: BinaryIO, path: Path) -> Traffic:
    made, fetched, chunk = Traffic(name, file, path), Fetched(), Chunk()
    for t_s, client, address, flags in rows:
        made.trust.see(t_s)
        age_s = fetched.age_s(t_s, address) if address else -1.0
        keep = (FILE if flags & STATIC else PAGE) if address else NOT_KEPT
        size = SIZES[bool(flags & STATIC)]
        chunk.append(
            t_s, client, address, Klass.PERSON, flags=flags, age_s=age_s, keep=keep, size=size
        )
        if len(chunk) == CHUNK:
            made.add(chunk)
            chunk = Chunk()
    if len(chunk):
        made.add(chunk)
    return made


def _people(real: Traffic) -> Iterator[Asked]:
    for chunk in real:
        columns = zip(
            chunk.t_s, chunk.client, chunk.path, chunk.flags, chunk.klass, chunk.keep, strict=True
        )
        for t_s, client, path, flags, klass, keep in columns:
            if klass in (Klass.PERSON, Klass.API):
                yield t_s, client, path if keep else 0, flags


def shifted(real: Traffic, hours: float) -> Iterator[Asked]:
    """Return the same requests at another time of the day."""
    return ((t_s + hours * 3600, *rest) for t_s, *rest in _people(real))  # type: ignore[misc]


def thinned(real: Traffic, keep: int) -> Iterator[Asked]:
    """Return the requests of every `keep`-th client only."""
    return (row for row in _people(real) if row[1] % keep == 0)


def merged(first: Traffic, second: Traffic) -> Iterator[Asked]:
    """Two sites on one server: the second as if it began with the first."""
    later_s = first.start_s - second.start_s
    later_s -= later_s % (7 * DAY_S)  # days of the week stay what they are
    yield from _people(first)
    for t_s, client, path, flags in _people(second):
        if t_s + later_s <= first.trust.last_s:
            yield t_s + later_s, client ^ 0x5A5A5A5A, path ^ 0xA5A5A5A5 if path else 0, flags
