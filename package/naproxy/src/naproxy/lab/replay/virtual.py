"""The thesis' five configurations (section 4.6.2) in virtual time, over the requests of a log.

Each request follows the thesis' algorithm 1 under its power-off rule (4.5.3), and the energy
follows from the transitions by equation 4.1. A request to an awake server does not wait here, so
all delays are those of wakes. A visitor who got the waiting page returns as soon as the server is
up; the thesis' survey took 15 s.

The cache keeps static files for `TTL_S`, which is Varnish's default, and in its aggressive mode an
hour longer, fetching in the background. Robots fill it, too. A log has no cookies: none is assumed.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zlib import crc32

from naproxy.core.classify import Agents
from naproxy.core.energy import Power
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.cachemodel import CACHES, TTL_S, CacheModel, is_cacheable, is_static
from naproxy.lab.estimate.logline import Entry
from naproxy.lab.estimate.simulate import Simulation
from naproxy.lab.replay.replay_slice import Planned, Point, Slice, plan
from naproxy.lab.replay.replay_visit import asks_for_page
from naproxy.policy.base import Request
from naproxy.policy.thesis import Settings, Thesis

HOURS: Final = 28
"""Of the log that the thesis replayed."""
SPAN_S: Final = HOURS * 3600.0

_AGGRESSIVE_S: Final = CACHES["thesis"].grace_s or 0.0
_OK, _NOT_FOUND, _UNAVAILABLE = 200, 404, 503


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of the thesis' five."""

    name: str
    short: str
    proxy: bool = True
    aggressive: bool = True
    sleep: bool = False
    waiting_page: bool = False

    @property
    def grace_s(self) -> float:
        """How long after `TTL_S` the cache still answers."""
        return _AGGRESSIVE_S if self.aggressive else 0.0


FIVE: Final = (
    Configuration("no proxy", "no proxy", proxy=False),
    Configuration("default caching", "default", aggressive=False),
    Configuration("aggressive caching", "aggressive"),
    Configuration("sleep and crawler redirection", "sleep", sleep=True),
    Configuration(
        "sleep, crawler redirection and waiting page", "waiting page", sleep=True, waiting_page=True
    ),
)


class Times(NamedTuple):
    """How long the server takes, in seconds."""

    sleep_s: float = 5.0
    wake_s: float = 5.0


THESIS_TIMES: Final = Times()
"""With its configurations in section 4.6.2."""


@dataclass(slots=True)
class Found:
    """The results of the requests and of the server under one configuration."""

    configuration: Configuration
    malformed: int = 0
    by_server: int = 0
    by_cache: int = 0
    status: dict[int, int] = field(default_factory=dict)  # -> served, at once or after a wake
    robots: int = 0
    surveys: int = 0
    replayed: dict[int, int] = field(default_factory=dict)  # the same of those who came back
    waits_s: list[float] = field(default_factory=list)  # of requests to the server, not 0
    sleeps: list[tuple[float, float]] = field(default_factory=list)  # begin and end
    span_s: float = 0.0
    off_s: float = 0.0
    switches: int = 0

    @property
    def by_proxy(self) -> int:
        """From the cache, robots told to come back, and waiting pages: as the thesis counts."""
        return self.by_cache + self.robots + self.surveys

    @property
    def requests(self) -> int:
        """All that were made: a visitor who was sent to the waiting page makes one more."""
        return self.by_server + self.by_proxy

    def server_j(self, power: Power) -> float:
        """Energy of the server, by equation 4.1."""
        return power.energy_j(self.span_s - self.off_s, self.off_s, self.switches)

    def proxy_j(self, power: Power) -> float:
        """Energy of the box."""
        return power.proxy_w * self.span_s if self.configuration.proxy else 0.0

    def net_saving(self, power: Power) -> float:
        """Share saved of the energy of a server that is always on, the box's taken off."""
        always_j = max(1e-9, power.on_w * self.span_s)
        return 1 - (self.server_j(power) + self.proxy_j(power)) / always_j

    @property
    def mean_wait_s(self) -> float:
        """Of all requests."""
        return sum(self.waits_s) / max(1, self.requests)

    def delays_s(self) -> list[float]:
        """Return the delays of all requests that were served, in any order."""
        served = self.by_server + self.by_cache - sum(self.replayed.values())
        return [0.0] * (served - len(self.waits_s)) + self.waits_s

    def waited(self, longer_than_s: float) -> float:
        """Return the share of the requests served that waited longer."""
        served = self.by_server + self.by_cache
        ordered = sorted(self.waits_s)
        return (len(ordered) - bisect_right(ordered, longer_than_s)) / max(1, served)

    def as_json(self, power: Power) -> dict[str, Any]:
        """Return the rows and the energy."""
        return {
            "name": self.configuration.name,
            "short": self.configuration.short,
            "rows": dict(rows(self)),
            "span_s": self.span_s,
            "off_s": self.off_s,
            "switches": self.switches,
            "server_j": self.server_j(power),
            "proxy_j": self.proxy_j(power),
            "net_saving": self.net_saving(power),
            "waited_50ms": self.waited(0.05),
        }


class _Run(Simulation):
    """One configuration's pass."""

    def __init__(
        self,
        configuration: Configuration,
        rule: Settings,
        power: Power,
        times: Times,
        *,
        pages: bool,
    ) -> None:
        policy = Thesis(rule, power.break_even_s)
        super().__init__(policy, CacheModel(""), **times._asdict(), delta_s=rule.delta_s)
        self.found = Found(configuration)
        self._set = configuration
        self._pages = pages
        self._fetched_s: dict[str, float] = {}
        self._end_s = 0.0
        self.slept = lambda begin_s, up_s: self.found.sleeps.append((begin_s, up_s))

    def begin(self, start_s: float) -> None:
        """Let the time begin, with a server that has just become awake."""
        self._start_s = start_s
        self._policy.observed(start_s, State.AWAKE)
        if self._set.sleep:
            self._check_s = start_s

    def take(self, t_s: float, entry: Entry, klass: Klass) -> None:
        """Answer one request."""
        if t_s > self._check_s or t_s >= self._until_s:
            self._pass_time(t_s)
        client = crc32(f"{entry.host} {entry.agent}".encode())
        awake, cached = self._state is State.AWAKE, self._cached(t_s, entry)
        if not awake and not cached and klass.robot:
            self.found.robots += 1
            return
        wait_s = 0.0
        if cached:
            self.found.by_cache += 1
        elif awake:
            self.found.by_server += 1
            self._keep(t_s, entry)
        else:
            wait_s = self._wait(t_s, client, person=True)
            self._come_later(t_s + wait_s, wait_s, entry, klass)
        count(self.found.status, entry.status)
        self._policy.request(
            Request(t_s, client, klass, not cached, asks_for_page(entry), 0, wait_s)
        )
        if self._set.sleep and (awake or self._state is State.ASLEEP):
            self._check_s = t_s

    def _come_later(self, up_s: float, wait_s: float, entry: Entry, klass: Klass) -> None:
        found = self.found
        found.by_server += 1
        self._keep(up_s, entry)
        if self._gets_page(entry, klass):
            found.surveys += 1
            count(found.replayed, entry.status)
        else:
            found.waits_s.append(wait_s)

    def _gets_page(self, entry: Entry, klass: Klass) -> bool:
        return self._set.waiting_page and klass is Klass.PERSON and asks_for_page(entry)

    def _cached(self, t_s: float, entry: Entry) -> bool:
        fetched_s = self._fetched_s.get(entry.path)
        if fetched_s is None or not self._cacheable(entry) or t_s < fetched_s:
            return False
        age_s = t_s - fetched_s
        if age_s < TTL_S:
            return True
        if age_s >= TTL_S + self._set.grace_s:
            return False
        if self._state is State.AWAKE:
            self._fetched_s[entry.path] = t_s  # in the background
        return True

    def _keep(self, t_s: float, entry: Entry) -> None:
        if self._cacheable(entry):
            self._fetched_s[entry.path] = t_s

    def _cacheable(self, entry: Entry) -> bool:
        if not self._set.proxy or not is_cacheable(entry.method, entry.status):
            return False
        return self._pages or is_static(entry.path.partition("?")[0])

    def end(self, end_s: float) -> Found:
        """Let time pass to the end."""
        self._end_s = end_s
        outcome, found = self.finish(), self.found
        found.span_s, found.off_s, found.switches = outcome.span_s, outcome.off_s, outcome.cycles
        return found


def count(counts: dict[int, int], status: int) -> None:
    """Count a status."""
    counts[status] = counts.get(status, 0) + 1


def run(
    planned: Iterable[Planned],
    span_s: float,
    agents: Agents,
    *,
    rule: Settings | None = None,
    power: Power | None = None,
    times: Times = THESIS_TIMES,
    malformed: int = 0,
    configurations: Sequence[Configuration] = FIVE,
    pages: bool = False,
) -> list[Found]:
    """Return what becomes of the same requests in each configuration, in `span_s` seconds.

    `pages`: the cache keeps these, too, as in the virtual office, whose visitors have no cookies.
    """
    rule, power = rule or Settings(), power or Power()
    runs = [_Run(each, rule, power, times, pages=pages) for each in configurations]
    for each in runs:
        each.begin(0.0)
        each.found.malformed = malformed
    for request in itertools.takewhile(lambda due: due.at_s < span_s, planned):
        klass = agents.klass(request.entry.agent)
        for each in runs:
            each.take(request.at_s, request.entry, klass)
    return [each.end(span_s) for each in runs]


def stretches(entries: Iterable[Entry]) -> Iterator[list[Planned]]:
    """Yield each whole 28 hours of a log; one that breaks off is left out."""
    ordered = sorted(entries, key=lambda entry: entry.t_s)
    if not ordered:
        return
    first_s = ordered[0].t_s
    for number, part in itertools.groupby(ordered, lambda e: int((e.t_s - first_s) // SPAN_S)):
        begin_s = first_s + number * SPAN_S
        if begin_s + SPAN_S <= ordered[-1].t_s:
            yield plan(part, Slice(Point(begin_s, is_time=True)))


Cell = float | int | None


def rows(found: Found) -> list[tuple[str, Cell]]:
    """Return the 17 rows of table 4.3 for one configuration; None where the thesis has no figure.

    Delays are in seconds.
    """
    proxy, sleeps, page = (
        found.configuration.proxy,
        found.configuration.sleep,
        found.configuration.waiting_page,
    )
    served_s = found.waits_s
    returned = found.replayed
    return [
        ("requests", found.requests + found.malformed),
        ("malformed requests", found.malformed),
        ("served by the server", found.by_server),
        ("answered by the proxy", found.by_proxy if proxy else None),
        ("HTTP 200", found.status.get(_OK, 0)),
        ("HTTP 404", found.status.get(_NOT_FOUND, 0)),
        ("HTTP 503", found.status.get(_UNAVAILABLE, 0) if proxy else None),
        ("robots told to come back", found.robots if sleeps else None),
        ("waiting pages", found.surveys if page else None),
        ("came back, HTTP 200", returned.get(_OK, 0) if page else None),
        ("came back, HTTP 404", returned.get(_NOT_FOUND, 0) if page else None),
        ("came back, HTTP 503", returned.get(_UNAVAILABLE, 0) if page else None),
        ("longest delay, server, s", max(served_s, default=0.0)),
        ("longest delay, proxy, s", 0.0 if proxy else None),
        ("mean delay, all, s", found.mean_wait_s),
        ("mean delay, server, s", sum(served_s) / max(1, found.by_server)),
        ("mean delay, proxy, s", 0.0 if proxy else None),
    ]


THESIS: Final[Mapping[str, Sequence[Cell]]] = {
    "requests": (40305, 40305, 40305, 40305, 41696),
    "malformed requests": (7, 7, 7, 7, 7),
    "served by the server": (40298, 33288, 27673, 20280, 20245),
    "answered by the proxy": (None, 7010, 12625, 20018, 21444),
    "HTTP 200": (36846, 36837, 36834, 29879, 29922),
    "HTTP 404": (3459, 3459, 3459, 2674, 2695),
    "HTTP 503": (None, 9, 12, 241, 163),
    "robots told to come back": (None, None, None, 7511, 7525),
    "waiting pages": (None, None, None, None, 1391),
    "came back, HTTP 200": (None, None, None, None, 1041),
    "came back, HTTP 404": (None, None, None, None, 205),
    "came back, HTTP 503": (None, None, None, None, 14),
    "longest delay, server, s": (0.04, 11.23, 8.01, 12.53, 8.05),
    "longest delay, proxy, s": (None, 0.20, 0.12, 3.0, 1.98),
    "mean delay, all, s": (0.001, 0.006, 0.005, 0.058, 0.009),
    "mean delay, server, s": (0.001, 0.007, 0.006, 0.111, 0.012),
    "mean delay, proxy, s": (None, 0.001, 0.001, 0.005, 0.005),
}
"""Table 4.3 as printed, by our names of its rows, for each of the FIVE."""
