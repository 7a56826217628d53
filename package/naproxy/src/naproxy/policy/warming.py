"""Addresses to fetch before a server sleeps, so that fewer requests wake it.

A response that is valid when a server falls asleep stays valid until it wakes, if the office or the
kind of file allows that (*held*). So it pays to revalidate some between the decision to sleep and
the command: those whose visits would have ended the sleep.

A *visit* is a client's requests without a pause of `VISIT_S`. It wakes no server if all its
addresses are held and valid. Each such visit is a credit, shared among its addresses, so a page
brings its embedded files along. A visit with any other address wakes the server in any case. So the
probability that an address would end the coming sleep is its credit over all visits that would end
one: those that need the server anyway, and the credits of all addresses that are neither valid nor
planned so far. These decay over two weeks, and are those of this part of the week where known.

    gain = that probability x (joules of one switch, and of being awake from the wake on until
                               asleep again, + the price of a person's wait)
    cost = seconds of fetching x (watts awake - watts asleep)

How long a server stays awake for one visit is learned, too: the shortest quarter of its stays.

How to feed it (the live controller and the simulation do the same):

    stored(...)   whenever a cacheable answer was stored, or validated with a 304
    asked(...)    for each request of people and programs, whether the cache answered or not; for
                  robots only addresses for which they wake a server (robots.txt)
    expect(...)   once for each address that robots and browsers ask for by themselves
    slept(t_s)    when the command to sleep is given, after the warming
    woke(t_s)     when the server is found to wake, or to be awake
    plan(...)     between the decision and the command; fetch in this order
    warmed(...)   for each of those, after `stored`, with what it cost
    lost(path)    when the cache has dropped it

Times are continuous epoch seconds and never step back. It has no effects.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

ENTRIES: Final = 4096
"""Addresses that are known at most; beyond it the quarter with the least credit is forgotten."""
VISIT_S: Final = 30.0
"""A client that pauses for so long begins another visit."""

_VISITS: Final = 512  # that are open at the same time
_VISIT_PATHS: Final = 256  # that one visit is told apart by
_DECAY_S: Final = 14 * 86400.0
_PARTS: Final = 8  # of the week: quarters of working days, quarters of the others
_DAY_S: Final = 86400.0
_PRIOR: Final = 8.0  # visits by which a part of the week is believed as much as the whole week
_AWAKE_WEIGHT: Final = 0.25
"""Weight of a visit that found the server awake: it says less about visits during a sleep."""
_EXPECTED: Final = 1.0  # visits that an address counts for which robots and browsers always ask
_LEAST: Final = 0.01  # visits: below it nothing is known
_RESCALE: Final = 1e9
_LARGEST: Final = 1e15  # value that a dump may claim


class Costs(NamedTuple):
    """The weights of the planner."""

    switch_j: float  # core.energy.Power.switch_j
    saved_w: float  # awake less asleep
    wake_s: float
    wait_j: float = 0.0  # see the function
    request_s: float = 0.01  # for one address: latency over how many are asked at a time
    bytes_per_s: float = 5e6


class Bounds(NamedTuple):
    """How much may be fetched before one sleep."""

    longest_s: float = 10.0
    most_bytes: int = 32 << 20
    most: int = 500
    fresh_s: float = 43200.0  # responses fresh for a whole night need no revalidation
    least_gain: float = 1.0  # times the cost


BOUNDS: Final = Bounds()


class Fetch(NamedTuple):
    """One address to revalidate or fetch, and why."""

    path: int
    gain_j: float
    cost_j: float


def wait_j(sleep_saves_j: float, spent: float, allowed: float) -> float:
    """Return the price of one wait, in joules.

    The promise allows a number of waits, and each buys a sleep. So an avoided wait is worth the
    saving of a sleep, as far as the allowance limits sleeping: `spent` over `allowed`.
    """
    if allowed <= 0:
        return max(0.0, sleep_saves_j)
    return max(0.0, sleep_saves_j) * min(1.0, max(0.0, spent) / allowed)


class _Entry:
    """The facts about one address."""

    __slots__ = (
        *("bytes", "changes", "credit", "fresh_s", "held", "stored_s", "took_s", "ttl_s", "used_s"),
        "warm",
    )

    def __init__(self, t_s: float) -> None:
        self.bytes = 0
        self.stored_s = -math.inf  # when it was last fetched or validated; -inf: not in the cache
        self.fresh_s = -math.inf  # until when it would be fresh without the last of these
        self.ttl_s = 0.0
        self.held = False
        self.changes = 0.0  # share of the fetches that brought the whole of it again
        self.took_s: float | None = None  # when it was fetched before a sleep
        self.used_s = t_s
        self.warm = False  # valid in this sleep only because it was warmed
        self.credit: list[float] | None = None  # for each part of the week


@dataclass(slots=True)
class _Visit:
    last_s: float
    begun_s: float
    asleep: bool
    paths: set[int] = field(default_factory=set)
    needs: bool = False  # the server, whatever the cache has
    woke: bool = False


@dataclass(slots=True)
class Gained:
    """Cost and gain of warming since `since_s`, the first sleep."""

    fetches: int = 0
    bytes: int = 0
    seconds: float = 0.0
    wakes_avoided: int = 0
    since_s: float | None = None


class Warming:
    """Plans the content of one server's cache before a sleep."""

    def __init__(self) -> None:
        self.gained = Gained()
        self._entries: dict[int, _Entry] = {}
        self._visits: OrderedDict[int, _Visit] = OrderedDict()
        self._unavoidable = [0.0] * _PARTS
        # Instead of a decay of all old values, new ones count more and more.
        self._epoch_s: float | None = None
        self._slept_s = math.inf  # inf: awake
        self._woke_s: float | None = None
        self._avoided_s = -math.inf
        self.again_s = 60.0  # how long the server stays awake for one visit
        self.sleep_s = 0.0  # how long it sleeps, in the mean

    def __len__(self) -> int:
        return len(self._entries)

    # ---------------------------------------------------------------- what happens

    def stored(
        self,
        t_s: float,
        path: int,
        bytes_: int,
        ttl_s: float,
        *,
        held: bool,
        validated: bool = False,
    ) -> None:
        """An answer was stored, or `validated` with a 304.

        `held`: it stays valid in a sleep (a file, or a rule says so; not `must-revalidate`).
        """
        entry = self._entry(t_s, path)
        if entry.stored_s > -math.inf:
            entry.changes += 0.3 * ((0.0 if validated else 1.0) - entry.changes)
        if bytes_ or not validated:
            entry.bytes = bytes_
        entry.fresh_s = entry.stored_s + entry.ttl_s
        entry.stored_s, entry.ttl_s, entry.held = t_s, ttl_s, held

    def has(self, path: int) -> bool:
        """Was it stored, as far as is known?"""
        entry = self._entries.get(path)
        return entry is not None and entry.stored_s > -math.inf

    def would_answer(self, path: int, before_s: float) -> bool:
        """Return whether a sleeping server's cache would have answered a request of that time.

        The answer was stored earlier and stays valid in a sleep, so it is fetched before one.
        """
        entry = self._entries.get(path)
        if entry is None or not entry.held or entry.stored_s == -math.inf:
            return False
        # Of a fetch that is over, the cache tells before the request does, or after it.
        return entry.stored_s < before_s or entry.fresh_s > -math.inf

    def hold(self, path: int, *, held: bool) -> None:
        """From now on it stays valid in a sleep, or does not."""
        entry = self._entries.get(path)
        if entry is not None:
            entry.held = held

    def lost(self, path: int) -> None:
        """The cache has it no longer."""
        entry = self._entries.get(path)
        if entry is not None:
            entry.stored_s = -math.inf

    def expect(self, t_s: float, path: int) -> None:
        """Robots or browsers will ask for it by themselves (robots.txt, an icon, a sitemap)."""
        entry = self._entry(t_s, path)
        entry.held = True
        if entry.credit is None:
            entry.credit = [_EXPECTED / _PARTS * self._weight(t_s)] * _PARTS

    def asked(
        self, t_s: float, path: int, client: int, *, asleep: bool, cacheable: bool = True
    ) -> None:
        """`client` asked for an address, `asleep`: while the server did not run.

        Not `cacheable`: no cache could have answered it (a POST, a login).
        """
        self._close(t_s)
        entry = self._entries.get(path)
        if entry is not None:
            entry.used_s = t_s
        visit = self._visits.get(client)
        if visit is None:
            if len(self._visits) >= _VISITS:
                self._end(self._visits.popitem(last=False)[1])
            visit = self._visits[client] = _Visit(t_s, t_s, asleep)
        else:
            self._visits.move_to_end(client)
            visit.last_s = t_s
        if not cacheable:
            visit.needs = True
        elif len(visit.paths) < _VISIT_PATHS:
            visit.paths.add(path)

    def slept(self, t_s: float) -> None:
        """The command to sleep was given."""
        self._slept_s = t_s
        if self.gained.since_s is None:
            self.gained.since_s = t_s
        if self._woke_s is not None:
            # Steps towards the quantile of a quarter.
            self.again_s *= 1.05 if t_s - self._woke_s > self.again_s else 0.86
            self.again_s = min(max(self.again_s, 1.0), 3600.0)
            self._woke_s = None

    def woke(self, t_s: float) -> None:
        """The server begins to wake, or is awake; the present visitors may have woken it."""
        if self._slept_s == math.inf and self._woke_s is not None:
            return
        self._close(t_s)
        if self._slept_s < math.inf:
            slept_s = max(0.0, t_s - self._slept_s)
            self.sleep_s += (0.1 if self.sleep_s else 1.0) * (slept_s - self.sleep_s)
        self._woke_s = t_s
        for visit in self._visits.values():
            visit.woke = True
        self._slept_s, self._avoided_s = math.inf, -math.inf
        for entry in self._entries.values():
            entry.warm = False

    def warmed(self, path: int, bytes_: int, took_s: float) -> None:
        """A planned address was fetched, and told by `stored`.

        Of several that are fetched at the same time, each took its share.
        """
        self.gained.fetches += 1
        self.gained.bytes += bytes_
        self.gained.seconds += took_s
        entry = self._entries.get(path)
        if entry is not None:
            entry.warm = True
            known_s = took_s if entry.took_s is None else entry.took_s
            entry.took_s = known_s + 0.3 * (took_s - known_s)

    # ---------------------------------------------------------------- what to do

    def wake_j(self, costs: Costs) -> float:
        """Return what one wake costs: the switch, and being awake until asleep again."""
        return costs.switch_j + (costs.wake_s + self.again_s) * costs.saved_w

    def plan(self, t_s: float, costs: Costs, bounds: Bounds = BOUNDS) -> list[Fetch]:
        """Return what to fetch before the sleep, the best for its cost first.

        Also what is fresh, if that ends within `fresh_s`: a server that has not been asked after
        the decision may have changed it before. Each only if it is expected to save more than it
        costs.
        """
        self._close(t_s)
        again_j = self.wake_j(costs)
        stale, ends = self._stale(t_s, bounds.fresh_s)
        ranked = sorted(
            (
                (weight / max(cost_s := self._cost_s(path, costs), 1e-9), weight, cost_s, path)
                for path, weight in stale
            ),
            reverse=True,
        )
        planned: list[Fetch] = []
        left_s, left_bytes = bounds.longest_s, float(bounds.most_bytes)
        for _, weight, cost_s, path in ranked:
            if len(planned) >= bounds.most:
                break
            gain_j = weight / max(ends, weight) * (again_j + costs.wait_j)
            cost_j = cost_s * costs.saved_w
            body = self._body(path)
            if gain_j > bounds.least_gain * cost_j and cost_s <= left_s and body <= left_bytes:
                planned.append(Fetch(path, gain_j, cost_j))
                ends -= weight
                left_s -= cost_s
                left_bytes -= body
        return planned

    def _stale(self, t_s: float, fresh_s: float) -> tuple[list[tuple[int, float]], float]:
        """Return what would end a sleep and could be fetched, and all that would end one.

        Both as numbers of visits of this part of the week.
        """
        now, part = self._weight(t_s), _part(t_s)
        visits = sum(self._unavoidable)
        credits: list[tuple[int, float, float]] = []
        for path, entry in self._entries.items():
            if entry.credit is None:
                continue
            whole = sum(entry.credit)
            visits += whole
            stale = entry.stored_s + entry.ttl_s <= t_s + fresh_s
            # A response valid for less than a second would expire before the command.
            if entry.held and stale and not 0 < entry.ttl_s < 1.0 and whole > _LEAST * now:
                credits.append((path, entry.credit[part], whole))
        prior = _PRIOR * now / max(visits, _LEAST * now)
        found = [(path, here + prior * whole) for path, here, whole in credits]
        ends = self._unavoidable[part] + prior * sum(self._unavoidable)
        return found, ends + sum(weight for _, weight in found)

    def _cost_s(self, path: int, costs: Costs) -> float:
        entry = self._entries[path]
        if entry.took_s is not None:
            return entry.took_s
        return costs.request_s + self._body(path) / costs.bytes_per_s

    def _body(self, path: int) -> float:
        """Return how many bytes will come, as far as can be expected."""
        entry = self._entries[path]
        return entry.bytes * (entry.changes if entry.stored_s > -math.inf else 1.0)

    # ---------------------------------------------------------------- visits

    def _close(self, t_s: float) -> None:
        visits = self._visits
        while visits:
            client, visit = next(iter(visits.items()))
            if t_s - visit.last_s < VISIT_S:
                return
            del visits[client]
            self._end(visit)

    def _end(self, visit: _Visit) -> None:
        entries = [self._entries.get(path) for path in visit.paths]
        kept = [entry for entry in entries if entry is not None and entry.held]
        weight = self._weight(visit.begun_s) * (1.0 if visit.asleep else _AWAKE_WEIGHT)
        part = _part(visit.begun_s)
        if visit.needs or len(kept) < len(entries):
            self._unavoidable[part] += weight
            return
        for entry in kept:
            if entry.credit is None:
                entry.credit = [0.0] * _PARTS
            entry.credit[part] += weight / len(kept)
        unwoken = visit.begun_s >= self._slept_s and not visit.woke
        # Had it woken the server, visitors soon after would have found it awake.
        alone = visit.begun_s - self._avoided_s > self.again_s
        if (
            unwoken
            and alone
            and any(entry.warm and visit.begun_s >= entry.fresh_s for entry in kept)
        ):
            self.gained.wakes_avoided += 1
            self._avoided_s = visit.begun_s

    # ---------------------------------------------------------------- memory

    def _entry(self, t_s: float, path: int) -> _Entry:
        entry = self._entries.get(path)
        if entry is None:
            if len(self._entries) >= ENTRIES:
                self._forget()
            entry = self._entries[path] = _Entry(t_s)
        entry.used_s = t_s
        return entry

    def _forget(self) -> None:
        ranked = sorted(
            self._entries.items(),
            key=lambda item: (sum(item[1].credit or ()), item[1].used_s),
            reverse=True,
        )
        self._entries = dict(ranked[: ENTRIES - ENTRIES // 4])

    def _weight(self, t_s: float) -> float:
        if self._epoch_s is None:
            self._epoch_s = t_s
        # After a clock that was wrong, nothing is infinite.
        weight = math.exp(min((t_s - self._epoch_s) / _DECAY_S, 300.0))
        if weight <= _RESCALE:
            return weight
        self._unavoidable = [n / weight for n in self._unavoidable]
        for entry in self._entries.values():
            if entry.credit is not None:
                entry.credit = [n / weight for n in entry.credit]
        self._epoch_s = t_s
        return 1.0

    def dump(self, t_s: float) -> dict[str, Any]:
        """Return what to keep over a restart, as JSON types; open visits are not."""
        now = self._weight(t_s)
        return {
            "t_s": t_s,
            "again_s": self.again_s,
            "sleep_s": self.sleep_s,
            "since_s": self.gained.since_s,
            "unavoidable": [round(n / now, 4) for n in self._unavoidable],
            "gained": [
                self.gained.fetches,
                self.gained.bytes,
                self.gained.seconds,
                self.gained.wakes_avoided,
            ],
            "entries": [
                [
                    path,
                    entry.bytes,
                    entry.ttl_s,
                    entry.held,
                    round(entry.changes, 3),
                    entry.used_s,
                    [round(n / now, 4) for n in entry.credit],
                ]
                for path, entry in self._entries.items()
                if entry.credit is not None
            ],
        }

    def load(self, saved: Any, t_s: float) -> None:
        """Restore the result of `dump`, as of `t_s`; ignore values that do not fit.

        None of it counts as cached: `stored` reports the cache's content.
        """
        if not isinstance(saved, Mapping):
            return
        try:
            then_s, again_s = _numbers([saved["t_s"], saved["again_s"]], 2)
            against = _numbers(saved["unavoidable"], _PARTS)
            fetches, bytes_, seconds, avoided = _numbers(saved["gained"], 4)
            (sleep_s,) = _numbers([saved.get("sleep_s", 0.0)], 1)
            (since_s,) = _numbers([saved.get("since_s") or then_s], 1)
            rows = list(saved["entries"])[:ENTRIES]
        except (KeyError, TypeError, ValueError, OverflowError):
            return
        faded = self._weight(t_s) * math.exp(-max(0.0, t_s - then_s) / _DECAY_S)
        self._unavoidable = [n * faded for n in against]
        self.again_s = min(max(again_s, 1.0), 3600.0)
        self.sleep_s = sleep_s
        self.gained = Gained(int(fetches), int(bytes_), seconds, int(avoided), since_s)
        for row in rows:
            try:
                path, size, ttl_s, held, changes, used_s, credit = row
                entry = _Entry(t_s)
                path, size = _whole(path), _whole(size)
                entry.bytes, entry.held = size, held is True
                entry.ttl_s, entry.changes, entry.used_s = _numbers([ttl_s, changes, used_s], 3)
                entry.credit = [n * faded for n in _numbers(credit, _PARTS)]
                entry.changes = min(entry.changes, 1.0)
                entry.used_s = min(entry.used_s, t_s)
            except (TypeError, ValueError, OverflowError):
                continue
            self._entries[path] = entry


def _part(t_s: float) -> int:
    day, hour_s = divmod(t_s, _DAY_S)
    # 1 January 1970 was a Thursday.
    weekend = (int(day) + 3) % 7 >= 5
    return int(hour_s // (_DAY_S / 4)) + (4 if weekend else 0)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError("not a number of an entry")
    return value


def _numbers(values: Any, count: int) -> list[float]:
    if not isinstance(values, list | tuple):
        raise TypeError("not numbers")
    numbers = [float(value) for value in values]
    if len(numbers) != count or not all(0 <= n < _LARGEST for n in numbers):
        raise ValueError("not the numbers expected")
    return numbers
