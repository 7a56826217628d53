"""Which log is replayed, and which stretch of it: one with people, robots, programs and gaps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from naproxy.core.classify import Agents
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.accesslog import Entry, Log
from naproxy.lab.replay.replay_slice import DISORDER_S, Planned, Point, Slice, plan
from naproxy.lab.replay.replay_visit import asks_for_page
from naproxy.policy.base import Request
from naproxy.policy.thesis import Settings, Thesis

from tests.simulator.demo import generated
from tests.simulator.demo.power import TABLE_4_2
from tests.simulator.office.server import Site

LOOK_S = 120
"""A stretch is judged by what would happen in its first so many seconds."""
_SEARCHED = 50_000
_STEP_S = 60
_SLEEP_S = 4
_BREAK_EVEN_S = TABLE_4_2.switch_j / (TABLE_4_2.on_w - TABLE_4_2.off_w)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is replayed."""

    name: str
    """Of the log, for people."""
    log: Log | None
    """What was read; None: generated."""
    entries: Sequence[Entry]
    start_s: int
    """Epoch seconds."""
    fits: bool
    """It has what a demonstration wants to show."""

    def site(self) -> Site:
        """Return what the server must have to answer it."""
        return Site(log=Path(self.log.files[0])) if self.log else Site(every_path=True)

    def plan(self) -> list[Planned]:
        """Return when each request is due."""
        return plan(self.entries, Slice(Point(self.start_s, is_time=True)))


def choose(log: Path | None, settings: Settings, duration_s: float) -> Stretch:
    """Return the stretch to replay; OSError or ValueError if there is none in `log`.

    Without a log it is a generated one.
    """
    if log:
        read = Log([log])
        start_s, fits = find(_beginning(log), settings)
        return Stretch(log.name, read, _part(read, start_s, duration_s), start_s, fits)
    entries = list(generated.day())
    start_s, fits = find(entries, settings)
    return Stretch("generated", None, _part(entries, start_s, duration_s), start_s, fits)


def find(entries: Sequence[Entry], settings: Settings) -> tuple[int, bool]:
    """Return the epoch second at which to start, and whether the stretch fits well."""
    if not entries:
        raise ValueError("there is no request in this log")
    first_s = entries[0].t_s
    times = Times(entries)
    starts = range(first_s, max(first_s + 1, entries[-1].t_s - LOOK_S), _STEP_S)
    seen = [(_foresee(times.between(t_s, t_s + LOOK_S), settings, t_s), t_s) for t_s in starts]
    best, start_s = max(seen, key=lambda each: (each[0].score(), -each[1]))
    return start_s, best.fits()


class Times:
    """Entries that can be cut out by time."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._from = self._to = 0

    def between(self, start_s: float, end_s: float) -> Sequence[Entry]:
        """Return those from start to before end; both may only grow from call to call."""
        while self._from < len(self._entries) and self._entries[self._from].t_s < start_s:
            self._from += 1
        self._to = max(self._to, self._from)
        while self._to < len(self._entries) and self._entries[self._to].t_s < end_s:
            self._to += 1
        return self._entries[self._from : self._to]


@dataclass(slots=True)
class Foreseen:
    """What a stretch promises."""

    classes: Counter[Klass]
    sleeps: int = 0
    asleep_s: float = 0.0
    pages: int = 0
    """Times a person's page load would find the server asleep."""

    def fits(self) -> bool:
        """People, robots and programs; time to sleep at least twice, and somebody who wakes it."""
        return (
            self.classes[Klass.PERSON] >= 5
            and self.classes[Klass.CRAWLER] >= 1
            and self.classes[Klass.API] >= 1
            and self.sleeps >= 2
            and self.pages >= 1
            and 30 <= self.asleep_s <= 0.75 * LOOK_S
        )

    def score(self) -> tuple[bool, float]:
        """Prefer long sleep, and much to see up to what can be read as it goes by."""
        return self.fits(), self.asleep_s + min(self.classes.total(), 50) / 2


_agents = Agents()


def _foresee(entries: Sequence[Entry], settings: Settings, start_s: float) -> Foreseen:
    """Let the thesis' rule decide, second by second, with a cache that keeps every GET."""
    found = Foreseen(Counter(_agents.klass(entry.agent) for entry in entries))
    # The rest is slow, and cannot help.
    if not found.classes[Klass.PERSON]:
        return found
    rule = Thesis(settings, _BREAK_EVEN_S)
    rule.observed(0, State.AWAKE)
    cached: set[str] = set()
    by_second = {t: list(same) for t, same in itertools.groupby(entries, lambda e: e.t_s - start_s)}
    asleep_at = None
    for t_s in range(LOOK_S):
        asleep = asleep_at is not None
        for entry in by_second.get(t_s, []):
            klass = _agents.klass(entry.agent)
            needs = entry.method != "GET" or entry.path not in cached
            if asleep and klass.robot:
                continue
            if entry.method == "GET":
                cached.add(entry.path)
            rule.request(Request(t_s, 1, klass, needs, page_load=False))
            if asleep_at is not None and needs:
                if entry.method == "GET" and klass is Klass.PERSON and t_s >= asleep_at:
                    found.pages += asks_for_page(entry)
                found.asleep_s += max(0, t_s - asleep_at)
                asleep, asleep_at = False, None
                rule.observed(t_s, State.AWAKE)
        if asleep_at == t_s:
            found.sleeps += 1
        if asleep_at is None and rule.decide(t_s).sleep:
            asleep_at = t_s + _SLEEP_S
    if asleep_at is not None:
        found.asleep_s += max(0, LOOK_S - asleep_at)
    return found


def _beginning(path: Path) -> list[Entry]:
    """Return a log's first entries, in order: enough to choose from."""
    return sorted(itertools.islice(Log([path]), _SEARCHED), key=lambda entry: entry.t_s)


def _part(entries: Iterable[Entry], start_s: float, duration_s: float) -> list[Entry]:
    end_s = start_s + duration_s
    until = itertools.takewhile(lambda entry: entry.t_s < end_s + DISORDER_S, entries)
    return sorted((e for e in until if start_s <= e.t_s < end_s), key=lambda entry: entry.t_s)
