"""Traffic for tests, made of requests instead of read from a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from hypothesis import strategies as st
from naproxy.core.state import Klass
from naproxy.lab.estimate.boxcache import FILE, NOT_KEPT, PAGE
from naproxy.lab.estimate.cachemodel import NEVER, Fetched
from naproxy.lab.estimate.traffic import Chunk

START_S = 1_700_000_000.0
STATIC, PAGE_LOAD = 1, 2

Asked = tuple[float, int, int, Klass, int]
"""Seconds after the start, client, path (odd ones are static files, 0 is not cacheable), ..."""


def ask(t_s: float, client: int = 1, path: int = 0, klass: Klass = Klass.PERSON) -> Asked:
    return (t_s, client, path, klass, STATIC if path % 2 else PAGE_LOAD)


def chunks(asked: Iterable[Asked], size: int = 1 << 15) -> list[Chunk]:
    fetched = Fetched()

    def made() -> Iterator[Chunk]:
        rest = iter(sorted(asked, key=lambda a: a[0]))
        while part := list(islice(rest, size)):
            chunk = Chunk()
            for t_s, client, path, klass, flags in part:
                cached = path and not klass.robot
                age_s = fetched.age_s(START_S + t_s, path) if cached else NEVER
                keep = (FILE if path % 2 else PAGE) if cached else NOT_KEPT
                chunk.append(
                    START_S + t_s, client, path, klass, flags=flags, age_s=age_s, keep=keep
                )
            yield chunk

    return list(made())


def gaps() -> st.SearchStrategy[float]:
    """Gaps of bursts, visits, hours and days, in whole seconds as in logs."""
    return st.one_of(
        st.integers(0, 3), st.integers(0, 60), st.integers(0, 4000), st.integers(0, 200_000)
    ).map(float)


@st.composite
def days(draw: st.DrawFn, robots: bool = False) -> list[Asked]:
    """A short history of requests."""
    t_s = 0.0
    asked = []
    klasses = list(Klass) if robots else [Klass.PERSON, Klass.API]
    for gap_s in draw(st.lists(gaps(), min_size=1, max_size=60)):
        t_s += gap_s
        asked.append(
            ask(
                t_s,
                draw(st.integers(1, 3)),
                draw(st.integers(0, 4)),
                draw(st.sampled_from(klasses)),
            )
        )
    return asked
