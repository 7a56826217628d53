"""Everything that is compared on a log: policies, and the bounds.

A *task* is one pass of one policy or bound over the records of a log; it yields the rows
that this pass is good for. Tasks of a log run in several processes, each of which reads the
records once for all its tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone, tzinfo
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

from naproxy import policy
from naproxy.core.energy import Power
from naproxy.lab.estimate.bounds import Bound, Bounds, Sleeps
from naproxy.lab.estimate.boxcache import BOX, BOXES, NEW_BOX, BoxModel
from naproxy.lab.estimate.boxsimulation import BoxSimulation
from naproxy.lab.estimate.cachemodel import MODELS, CacheModel
from naproxy.lab.estimate.simulate import Outcome, Simulation
from naproxy.lab.estimate.traffic import Traffic
from naproxy.policy import Setup, schedule, teacher, thesis, timeout
from naproxy.policy.base import Policy

COUNTINGS: Final = ("open", "closed")


def zone_of(utc_offset: str) -> tzinfo:
    """Return the zone whose clocks are "+01:00" or "-05:00" ahead of UTC; ValueError."""
    match = re.fullmatch(r"([+-]?)(\d\d):([0-5]\d)", utc_offset)
    if not match:
        raise ValueError(f"{utc_offset!r} is not a time")
    ahead = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-ahead if match[1] == "-" else ahead)


class Promise(NamedTuple):
    """At most a fraction `f` of people's requests wait longer than `delta_s`."""

    f: float
    delta_s: float


_NEW: Final = {**BOXES, BOX: replace(BOXES[NEW_BOX], name=BOX)}


@dataclass(frozen=True, slots=True)
class Server:
    """The server and the promise-independent choices of an estimate."""

    power: Power = field(default_factory=Power)
    wake_s: float = 5.0
    sleep_s: float = 4.0
    utc_offset: str = "+00:00"
    boxes: Mapping[str, BoxModel] = field(default_factory=lambda: _NEW)

    def cache(self, name: str) -> CacheModel | BoxModel:
        """Return the model of this name: a box's cache, or one that is imagined."""
        return self.boxes[name] if name in self.boxes else MODELS[name]

    def setup(self, promise: Promise) -> Setup:
        """Return what a policy is told."""
        times = self.sleep_s, self.wake_s
        return Setup(self.power.break_even_s, *promise, *times, zone_of(self.utc_offset))


class Case(NamedTuple):
    """One row's conditions."""

    cache: str
    counting: str
    promise: Promise

    @property
    def closed(self) -> bool:
        """Are delays counted in a closed loop?"""
        return self.counting == "closed"


Row = dict[str, Any]


class Column(NamedTuple):
    """A figure of a row, as people see it: its title on a page and on a terminal."""

    key: str
    title: str
    short: str
    width: int
    spec: str

    def text(self, row: Row) -> str:
        """Return the figure, `-` where there is none."""
        return "-" if row[self.key] is None else format(row[self.key], self.spec)


COLUMNS: Final = (
    Column("energy_wh", "Wh", "Wh", 9, ",.0f"),
    Column("saving_gross", "saved", "saved", 8, ".1%"),
    Column("saving_net", "net", "net", 8, ".1%"),
    Column("share_of_reactive", "of reactive bound", "of react.", 10, ".0%"),
    Column("share_of_oracle", "of idealised", "of ideal", 9, ".0%"),
    Column("delayed_fraction", "delayed", "delayed", 9, ".2%"),
    Column("delay_mean_s", "mean delay, s", "mean s", 8, ".3f"),
    Column("delay_p95_s", "95 %, s", "p95 s", 7, ".1f"),
    Column("delay_p99_s", "99 %, s", "p99 s", 7, ".1f"),
    Column("cycles_per_day", "cycles a day", "cycles/d", 9, ".1f"),
    Column("answered_asleep", "answered asleep", "answered", 9, ".0%"),
)
WAITS: Final = ("waits_per_day", "wait_mean_s", "wait_usual_s", "asleep_h_per_day")
"""Of a row too: how often people wait a day, how long, nearly all at most; hours asleep."""
KEYS: Final = ("log", "cache", "counting", "promise", "policy", *(c.key for c in COLUMNS), *WAITS)
"""Of the rows that `--json` prints."""


# ------------------------------------------------------------------------ the line-up


class Entrant(NamedTuple):
    """A policy as it is compared."""

    settings: Callable[[Server, Case], Any]
    learns: bool = False  # depends on the promise and the counting

    def make(self, server: Server, case: Case) -> Policy:
        """Make the policy for a server and the criteria of the comparison."""
        return policy.make(self.settings(server, case), server.setup(case.promise))


def _timeout(idle_s: float) -> Entrant:
    settings = timeout.Settings(idle_s=idle_s)
    return Entrant(lambda _server, _case: settings)


ENTRANTS: Final = {
    "teacher": Entrant(lambda _, case: teacher.Settings(counting=case.counting), learns=True),
    "thesis": Entrant(
        lambda _, case: thesis.Settings(fraction=case.promise.f, delta_s=case.promise.delta_s),
        learns=True,
    ),
    "timeout-30s": _timeout(30),
    "timeout-1m": _timeout(60),
    "timeout-2m": _timeout(120),
    "timeout-5m": _timeout(300),
    "timeout-10m": _timeout(600),
    "timeout-20m": _timeout(1200),
    "timeout-30m": _timeout(1800),
    "schedule": Entrant(lambda _, case: schedule.Settings()),
}
BOUNDS: Final = ("bound-reactive", "bound-pre-wake", "idealised")
POLICIES: Final = (*BOUNDS, *ENTRANTS)
OURS: Final = "teacher"
"""The box's own policy."""


# ------------------------------------------------------------------------------ tasks


def simulation(
    made: Policy, cache: CacheModel | BoxModel, server: Server, case: Case
) -> Simulation:
    """Return a simulation of a policy for a server; `case` says which delays count, and how."""
    if isinstance(cache, BoxModel):
        return BoxSimulation(
            made,
            cache,
            server.power,
            case.promise.f,
            wake_s=server.wake_s,
            sleep_s=server.sleep_s,
            delta_s=case.promise.delta_s,
            closed=case.closed,
        )
    return Simulation(
        made,
        cache,
        wake_s=server.wake_s,
        sleep_s=server.sleep_s,
        delta_s=case.promise.delta_s,
        closed=case.closed,
    )


class _Run:
    """A policy's pass, good for every case in `cases`."""

    def __init__(self, name: str, server: Server, cases: Sequence[Case]) -> None:
        case = cases[0]
        self._name, self._server, self._cases = name, server, cases
        made = ENTRANTS[name].make(server, case)
        self._simulation = simulation(made, server.cache(case.cache), server, case)
        self.feed = self._simulation.feed

    def rows(self) -> Iterator[tuple[Case, str, Row]]:
        """Yield the figures for each case."""
        outcome = self._simulation.finish()
        for case in self._cases:
            yield case, self._name, outcome_row(outcome, self._server.power, case)


class _BoundsRun:
    """The bounds' pass, for the cases that have the same cache and delta."""

    def __init__(self, server: Server, cases: Sequence[Case]) -> None:
        self._server, self._cases = server, cases
        cache = server.cache(cases[0].cache)
        self._sleeps = Sleeps(
            cache.bound if isinstance(cache, BoxModel) else cache,
            wake_s=server.wake_s,
            delta_s=cases[0].promise.delta_s,
            least_s=server.power.break_even_s,
        )
        self.feed = self._sleeps.feed

    def rows(self) -> Iterator[tuple[Case, str, Row]]:
        """Yield the figures for each case and bound."""
        power = self._server.power
        span_s = self._sleeps.last_s - self._sleeps.first_s
        bounds = Bounds(self._sleeps, power)
        ideal = bounds.idealised()
        for case in self._cases:
            yield case, "idealised", bound_row(ideal, power, span_s, 0.0)
            f = case.promise.f
            for name, bound in (
                ("bound-reactive", bounds.reactive),
                ("bound-pre-wake", bounds.pre_wake),
            ):
                yield case, name, bound_row(bound(f, closed=case.closed), power, span_s, f)


_Task = _Run | _BoundsRun


def outcome_row(outcome: Outcome, power: Power, case: Case) -> Row:
    """Return the figures of a simulation; the shares of the bounds are added by `with_shares`."""
    closed, delta_s = case.closed, case.promise.delta_s
    return {
        "energy_wh": outcome.energy_j(power) / 3600,
        **_savings(outcome.saving_j(power), power, outcome.span_s),
        "delayed_fraction": outcome.delayed_share(delta_s, closed=closed),
        "delayed_since_day_2": outcome.delayed_share_since_day_2(delta_s, closed=closed),
        "delay_mean_s": outcome.mean_wait_s(closed=closed),
        "delay_p95_s": outcome.wait_quantile_s(0.95, closed=closed),
        "delay_p99_s": outcome.wait_quantile_s(0.99, closed=closed),
        "cycles_per_day": outcome.cycles / max(outcome.span_s / 86400, 1e-9),
        "answered_asleep": outcome.answered_share if outcome.came_asleep else None,
        **_waits(outcome, closed=closed),
    }


def _waits(outcome: Outcome, *, closed: bool) -> Row:
    days = max(outcome.span_s / 86400, 1e-9)
    waits = outcome.waiting(closed=closed)
    figures = waits.number / days, waits.mean_s, waits.usual_s, outcome.off_s / 3600 / days
    return dict(zip(WAITS, figures, strict=True))


def bound_row(bound: Bound, power: Power, span_s: float, delayed_fraction: float) -> Row:
    """Return the figures of a bound; it has no requests, so no delays of its own."""
    return {
        "energy_wh": (power.on_w * span_s - bound.saving_j) / 3600,
        **_savings(bound.saving_j, power, span_s),
        "delayed_fraction": delayed_fraction,
        "delayed_since_day_2": None,
        "delay_mean_s": None,
        "delay_p95_s": None,
        "delay_p99_s": None,
        "cycles_per_day": bound.cycles / max(span_s / 86400, 1e-9),
        "answered_asleep": None,
        **dict.fromkeys(WAITS),
    }


def _savings(saving_j: float, power: Power, span_s: float) -> Row:
    gross = saving_j / max(power.on_w * span_s, 1e-9)
    return {"saving_gross": gross, "saving_net": gross - power.proxy_w / power.on_w}


# --------------------------------------------------------------------------- all of it


@dataclass(frozen=True, slots=True)
class Choice:
    """The compared policies, caches and promises."""

    caches: Sequence[str]
    countings: Sequence[str]
    promises: Sequence[Promise]
    policies: Sequence[str] = POLICIES
    own: Sequence[Promise] = ()
    """Promises that the box's own policy is also run for, in the first case's conditions."""

    def cases(self) -> list[Case]:
        """Return every combination."""
        return [Case(*c) for c in product(self.caches, self.countings, self.promises)]

    def own_cases(self) -> list[Case]:
        """Return the cases of `own` that are not among the others."""
        first = self.cases()[0]
        return [first._replace(promise=each) for each in self.own if each not in self.promises]


@dataclass(frozen=True, slots=True)
class Compared:
    """One log, the questions about it, and the results; `price` is that of a kWh."""

    traffic: Traffic
    server: Server
    choice: Choice
    rows: Sequence[Row]
    price: float | None

    def rows_of(self, case: Case) -> list[Row]:
        """Return the rows of one case."""
        wanted = (case.cache, case.counting, case.promise._asdict())
        return [r for r in self.rows if (r["cache"], r["counting"], r["promise"]) == wanted]


class _Plan(NamedTuple):
    make: Callable[[], _Task]
    effort: float  # relative


def _plans(server: Server, choice: Choice) -> Iterator[_Plan]:
    cases = choice.cases()
    for cache, promises in product(choice.caches, _by_delta(choice.promises)):
        alike = [c for c in cases if c.cache == cache and c.promise in promises]
        # The bounds are needed for the shares, whichever rows are wanted.
        yield _Plan(partial(_BoundsRun, server, alike), 2 + 3 * len(alike))
    for case in choice.own_cases():
        yield _Plan(partial(_Run, OURS, server, [case]), 6)
    for name in choice.policies:
        if name in BOUNDS:
            continue
        if ENTRANTS[name].learns:
            for case in cases:
                yield _Plan(partial(_Run, name, server, [case]), 6)
        else:
            for cache in choice.caches:
                alike = [c for c in cases if c.cache == cache]
                yield _Plan(partial(_Run, name, server, alike), 2)


def _by_delta(promises: Iterable[Promise]) -> list[list[Promise]]:
    found: dict[float, list[Promise]] = {}
    for promise in promises:
        found.setdefault(promise.delta_s, []).append(promise)
    return list(found.values())


Told = Callable[[float], None]


def compare(
    traffic: Traffic, server: Server, choice: Choice, jobs: int = 1, told: Told | None = None
) -> list[Row]:
    """Return the rows of one log, in the order of the cases and of POLICIES; those of `own` last.

    `told` is told now and then which share of the log was gone through.
    """
    plans = sorted(_plans(server, choice), key=lambda plan: -plan.effort)
    hands: list[list[Callable[[], _Task]]] = [[] for _ in range(max(1, min(jobs, len(plans))))]
    efforts = [0.0] * len(hands)
    for plan in plans:
        least = efforts.index(min(efforts))
        hands[least].append(plan.make)
        efforts[least] += plan.effort
    found = _work(traffic, hands[0], told) if len(hands) == 1 else _share_out(traffic, hands, told)
    rows = {(case, name): row for case, name, row in found}
    wanted = [*product(choice.cases(), [each for each in POLICIES if each in choice.policies])]
    wanted += [(case, OURS) for case in choice.own_cases()]
    return [with_shares(traffic.name, case, name, rows) for case, name in wanted]


def _work(
    traffic: Traffic, makes: Sequence[Callable[[], _Task]], told: Told | None
) -> list[tuple[Case, str, Row]]:
    tasks = [make() for make in makes]
    whole, gone = max(1, sum(traffic.requests)), 0
    for chunk in traffic:
        for task in tasks:
            task.feed(chunk)
        gone += len(chunk)
        if told:
            told(gone / whole)
    # One after the other, each with its memory given back.
    found: list[tuple[Case, str, Row]] = []
    while tasks:
        found += tasks.pop().rows()
    return found


_inherited: list[tuple[Traffic, list[list[Callable[[], _Task]]], Told | None]] = []


def _share_out(
    traffic: Traffic, hands: list[list[Callable[[], _Task]]], told: Told | None
) -> list[tuple[Case, str, Row]]:
    """Work in processes, which inherit what to do: open files and closures do not travel."""
    _inherited.append((traffic, hands, told))
    try:
        with ProcessPoolExecutor(len(hands), mp_context=get_context("fork")) as pool:
            return [row for rows in pool.map(_hand, range(len(hands))) for row in rows]
    finally:
        _inherited.pop()


def _hand(number: int) -> list[tuple[Case, str, Row]]:
    traffic, hands, told = _inherited[-1]
    # All do about the same: one tells for all.
    return _work(traffic, hands[number], told if number == 0 else None)


def with_shares(log: str, case: Case, name: str, rows: dict[tuple[Case, str], Row]) -> Row:
    """Return a finished row."""
    row = rows[case, name]
    gross = row["saving_gross"]
    shares = {}
    for key, bound in (("share_of_reactive", "bound-reactive"), ("share_of_oracle", "idealised")):
        # Those of Choice.own have no bounds.
        most = rows[case, bound]["saving_gross"] if (case, bound) in rows else 0.0
        shares[key] = gross / most if most > 0 else None
    return {
        "log": log,
        "cache": case.cache,
        "counting": case.counting,
        "promise": case.promise._asdict(),
        "policy": name,
        **row,
        **shares,
    }
