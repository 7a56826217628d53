"""Bounds that no policy can beat on a log: the savings of a perfect oracle at a promise.

A promise (f, delta) says: at most a fraction f of people's requests wait longer than delta.
Known in advance are all requests; then

- *reactive*: the server wakes only when a request needs it. Sleeping from s until the next
  request that needs it, at n(s), saves P (n(s) - s) - E_switch and delays that request and all
  others that need the server before it is up (closed loop: each client once). While it
  wakes it cannot sleep: the next sleep begins no sooner than n(s) and the wake time. Sleep is
  chosen to save most with at most f T delayed.
- *pre-wake*: it may also be woken before a request needs it. If that is so late that anybody is
  delayed, at least one request is, and no more is saved than by sleeping until n(s). Otherwise
  the wake begins at least the wake time less delta before n(s).
- *idealised*: section 4.4 of the thesis, no time to wake and no delays at all.

Why it is a bound. A policy's sleeps are disjoint intervals, each from some s to the next need
n(s), or earlier for pre-wake. The cache's hits depend on s: with a frozen cache, on the entries
that had expired at s; with any other, on the entries that had been fetched by s, and these go on
expiring. Either set changes only at a breakpoint: a request, or an expiry. Between two
breakpoints n(s), and who needs the server after it, is therefore the same, or with a frozen
cache more need it for a later s; so the earliest s saves most and delays fewest: the breakpoint,
or the end of the wake before it, which is the same sleep begun later. Each pair (breakpoint, n)
is one of those searched, so the policy's schedule is among them, at no more saving and no
fewer delays. A pre-wake that ends a sleep before n(s) is either one of the two above, or the
server sleeps again before n(s), from some s2. That s2 may be moved back to its breakpoint and
the wake with it, or, if the breakpoint is less than a wake after s, the first sleep left out.

The assumption: a sleep that a request interrupts while the server still falls asleep saves
nothing. That is so if falling asleep takes no longer than the shortest sleep that pays,
E_switch / P; each such sleep may exceed the bound by P times what it takes longer.

The search over schedules with a price on each delay is exact (dynamic programming), and for any
price its value plus price times f T is at least the best with that many delays (Lagrangian
duality): the smallest over prices is taken.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from naproxy.core.energy import Power
from naproxy.lab.estimate.cachemodel import CacheModel
from naproxy.lab.estimate.traffic import Chunk

_ROUNDS: Final = 40
_RUN: Final = 1 << 14  # sleeps sorted at once
_MOST: Final = (1 << 16) - 1
_CLOSE: Final = 1e-4  # as near to the smallest dual as the search goes
_ROUNDING_S: Final = 5e-4  # waits are counted in whole milliseconds
_AGE_S: Final = 1e-3  # a chunk's ages are of single precision


class Columns(NamedTuple):
    """Sleeps, as columns: a long log has a million of them."""

    starts_s: array[float]
    ends_s: array[float]
    delayed: array[int]
    delayed_closed: array[int]


def _columns(rows: Iterable[tuple[float, float, int, int]]) -> Columns:
    made = Columns(array("d"), array("d"), array("H"), array("H"))
    for start_s, end_s, delayed, closed in rows:
        made.starts_s.append(start_s)
        made.ends_s.append(end_s)
        made.delayed.append(delayed)
        made.delayed_closed.append(closed)
    return made


@dataclass(slots=True)
class _Waking:
    """A sleep whose delays are still being counted."""

    start_s: float
    end_s: float
    delayed: int
    clients: set[int]


class _Since(NamedTuple):
    """A request needs a server that has been asleep since [from_s, before_s)."""

    from_s: float
    before_s: float


class _Frozen:
    """Entries that had expired when the server fell asleep need the server at each request."""

    def asleep_since(self, t_s: float, path: int, expires_s: float) -> _Since:
        return _Since(expires_s, t_s)


class _Thawed:
    """Entries fetched before the server fell asleep are served, and go on expiring."""

    def __init__(self, usable_s: float) -> None:
        self._usable_s = usable_s
        # For each path the usable entries: a server asleep since before the first time has an older
        # one instead; the second time is when it expires.
        self._entries: dict[int, deque[tuple[float, float]]] = {}
        self._tidy_s = -math.inf

    def asleep_since(self, t_s: float, path: int, expires_s: float) -> _Since:
        if expires_s <= t_s:
            self._entries.pop(path, None)
            return _Since(-math.inf, t_s)
        entries = self._entries.get(path)
        if entries is None:
            # All who slept waited for this one, and have it.
            entries = self._entries[path] = deque([(-math.inf, expires_s)])
        elif expires_s > entries[-1][1] + _AGE_S:
            entries.append((expires_s - self._usable_s - _AGE_S, expires_s))
        while entries[0][1] <= t_s:
            entries.popleft()
        if t_s > self._tidy_s:
            self._tidy_s = t_s + self._usable_s
            self._entries = {p: e for p, e in self._entries.items() if e[-1][1] > t_s}
        return _Since(-math.inf, entries[0][0])


class Sleeps:
    """Every sleep worth considering, gathered as a log streams by, for `Bounds`.

    Times in seconds. `wake_s` and `delta_s` say who counts as delayed, `least_s` is the
    shortest sleep that saves anything.
    """

    def __init__(self, cache: CacheModel, *, wake_s: float, delta_s: float, least_s: float) -> None:
        self.requests = 0
        self.first_s = 0.0
        self.last_s = 0.0
        self.wake_s = wake_s
        self.reach_s = wake_s - delta_s - _ROUNDING_S
        self._cache = cache
        self._needs = _Frozen() if cache.frozen else _Thawed(cache.usable_s)
        self._least_s = least_s
        # Stretches of start times, each [from, to), whose next need is not known yet, in order.
        # A request ends the last ones with a frozen cache, the first ones with any other.
        self._open: deque[tuple[float, float]] = deque()
        self._tip_s: float | None = None  # start of the stretch since the last request
        self._waking: list[_Waking] = []
        self._rows: list[tuple[float, float, int, int]] = []
        self._runs: list[Columns] = []

    def feed(self, chunk: Chunk) -> None:
        """Take the next requests."""
        if not len(chunk):
            return
        if self._tip_s is None:
            self.first_s = self._tip_s = chunk.t_s[0]
        rows = chunk.awaited(self._cache)
        tip_s = self._tip_s
        asleep_since = self._needs.asleep_since
        for t_s, client, path, expires_s in zip(
            rows.t_s, rows.client, rows.path, rows.expires_s, strict=True
        ):
            if t_s > tip_s:
                self._open.append((tip_s, t_s))
                tip_s = t_s
            since = asleep_since(t_s, path, expires_s)
            if self._waking:
                self._count(t_s, client, since)
            if since.from_s < since.before_s:
                self._resolve(t_s, client, since)
        self._tip_s = tip_s
        self.requests += len(rows.t_s)
        self.last_s = chunk.t_s[-1]

    def _count(self, t_s: float, client: int, since: _Since) -> None:
        """Requests that come while a sleep wakes."""
        for sleep in self._waking:
            if t_s < sleep.end_s + self.reach_s:
                if since.from_s <= sleep.start_s < since.before_s:
                    sleep.delayed += 1
                    sleep.clients.add(client)
            else:
                self._keep(sleep.start_s, sleep.end_s, sleep.delayed, len(sleep.clients))
        self._waking = [s for s in self._waking if t_s < s.end_s + self.reach_s]

    def _resolve(self, t_s: float, client: int, since: _Since) -> None:
        """A request needs the server if asleep `since`: those sleeps end."""
        stretches = self._open
        while stretches and stretches[0][0] < since.before_s and since.from_s == -math.inf:
            self._end(stretches.popleft()[0], t_s, client)
        while stretches and stretches[-1][1] > since.from_s > -math.inf:
            start_s, _ = stretches.pop()
            if start_s < since.from_s:
                stretches.append((start_s, since.from_s))
                self._end(since.from_s, t_s, client)
                break
            self._end(start_s, t_s, client)

    def _end(self, start_s: float, t_s: float, client: int) -> None:
        """Keep the sleep from `start_s` to `t_s`, when `client` needs the server."""
        if t_s - start_s > self._least_s:
            if self.reach_s > 0:
                self._waking.append(_Waking(start_s, t_s, 1, {client}))
            else:
                self._keep(start_s, t_s, 0, 0)

    def _keep(self, start_s: float, end_s: float, delayed: int, clients: int) -> None:
        # Counts that would not fit are cut: fewer delays than there are keep it a bound.
        self._rows.append((start_s, end_s, min(delayed, _MOST), min(clients, _MOST)))
        if len(self._rows) == _RUN:
            self._close_run()

    def _close_run(self) -> None:
        self._rows.sort()
        self._runs.append(_columns(self._rows))
        self._rows.clear()

    def finish(self) -> Columns:
        """Return all sleeps by their start; sleep to the end of the log is one, too.

        That one is open to all and delays nobody.
        """
        for sleep in self._waking:
            self._keep(sleep.start_s, sleep.end_s, sleep.delayed, len(sleep.clients))
        if self._tip_s is not None and self.last_s > self._tip_s:
            self._open.append((self._tip_s, self.last_s))
        for start_s, _ in self._open:
            if self.last_s - start_s > self._least_s:
                self._keep(start_s, self.last_s, 0, 0)
        self._close_run()
        # Runs hardly overlap, so each is given back soon after the one before it: a finished
        # generator keeps nothing.
        rows = [_in_turn(run) for run in self._runs]
        self._runs.clear()
        return _columns(heapq.merge(*rows))


def _in_turn(run: Columns) -> Iterator[tuple[float, float, int, int]]:
    yield from zip(*run, strict=True)


class Bound(NamedTuple):
    """The most that can be saved, in joules; how often a schedule near it delays and sleeps."""

    saving_j: float
    delayed: int
    cycles: int


class Bounds:
    """The bounds of one log; see the module."""

    def __init__(self, sleeps: Sleeps, power: Power) -> None:
        """Finish `sleeps`, which all records were fed to."""
        self._power = power
        self._wake_s = sleeps.wake_s
        self._lead_s = max(0.0, sleeps.reach_s)
        found = sleeps.finish()
        self._starts_s, self._ends_s = found.starts_s, found.ends_s
        self._delayed = {False: found.delayed, True: found.delayed_closed}
        self._requests = sleeps.requests

    def reactive(self, fraction: float, *, closed: bool) -> Bound:
        """Wakes only on arrival, with at most `fraction` of the requests delayed."""
        return self._at_most(fraction * self._requests, self._delayed[closed], None)

    def pre_wake(self, fraction: float, *, closed: bool) -> Bound:
        """The same, and may wake ahead of need."""
        at_least = array("H", (min(n, 1) for n in self._delayed[closed]))
        ahead = _Ahead(self._wake_s, self._lead_s)
        return self._at_most(fraction * self._requests, at_least, ahead)

    def idealised(self) -> Bound:
        """Section 4.4: idealised, no delays, and no time to wake."""
        nobody = array("H", [0]) * len(self._starts_s)
        return self._schedule(0.0, nobody, _Ahead(0.0, 0.0))

    def _at_most(self, budget: float, delayed: Sequence[int], ahead: _Ahead | None) -> Bound:
        """Minimise the dual over the price of a delay: convex, so tangents close in on it."""
        low = self._schedule(0.0, delayed, ahead)
        if low.delayed <= budget or not len(delayed):
            return low
        # A delay at this price is never worth it.
        high_j = self._power.saved_w * (max(self._ends_s) - self._starts_s[0])
        high = self._schedule(high_j, delayed, ahead)
        best_j, best = high.saving_j + high_j * (budget - high.delayed), high
        for _ in range(_ROUNDS):
            if low.delayed == high.delayed:
                break
            # The tangents to the dual at both ends meet here.
            price_j = (low.saving_j - high.saving_j) / (low.delayed - high.delayed)
            least_j = low.saving_j + price_j * (budget - low.delayed)
            made = self._schedule(price_j, delayed, ahead)
            value_j = made.saving_j + price_j * (budget - made.delayed)
            if value_j < best_j:
                best_j, best = value_j, made
            if value_j - least_j <= _CLOSE * value_j:
                break
            if made.delayed > budget:
                low = made
            else:
                high = made
        return best._replace(saving_j=best_j)

    @cached_property
    def _following(self) -> Sequence[int]:
        """For each sleep the first one that starts when it has ended, or later."""
        return self._first_from(0.0)

    @cached_property
    def _following_wake(self) -> Sequence[int]:
        """The same for when the wake after it has ended, too."""
        return self._first_from(self._wake_s)

    def _first_from(self, later_s: float) -> array[int]:
        starts_s = self._starts_s
        return array("I", (bisect_left(starts_s, end_s + later_s) for end_s in self._ends_s))

    def _schedule(self, price_j: float, delayed: Sequence[int], ahead: _Ahead | None) -> Bound:
        """Return the best schedule where each delay costs `price_j`; its saving is without that.

        `ahead` None: only reactive. Otherwise a sleep may also end before its need, or before
        another one begins: that one may last longer.
        """
        saved_w, switch_j = self._power.saved_w, self._power.switch_j
        starts_s, ends_s, wake_s = self._starts_s, self._ends_s, self._wake_s
        following = self._following if ahead else self._following_wake
        count = len(starts_s)
        value = array("d", [0.0]) * (count + 1)  # of the best from this sleep on
        delays = array("I", [0]) * (count + 1)
        cycles = array("I", [0]) * (count + 1)
        # A sleep that ends where another begins is worth the more the later that is.
        ladder = _Ladder(lambda i: value[i] + saved_w * starts_s[i])
        for i in range(count - 1, -1, -1):
            start_s, end_s = starts_s[i], ends_s[i]
            gain_j = saved_w * (end_s - start_s) - switch_j
            best, then, cost, slept = value[i + 1], i + 1, 0, 0
            up = following[i]
            value_up_j = value[up]
            if ahead is None:
                # Or sleep as soon as it is up, which may be after the start of the one before.
                late_j = value[up - 1] - saved_w * (end_s + wake_s - starts_s[up - 1])
                if late_j > value_up_j:
                    value_up_j, up = late_j, up - 1
            needed_j = gain_j - price_j * delayed[i] + value_up_j
            if needed_j > best:
                best, then, cost, slept = needed_j, up, delayed[i], 1
            if ahead:
                after = following[i]
                in_time_j = gain_j - saved_w * ahead.lead_s + value[after]
                if in_time_j > best:
                    best, then, cost, slept = in_time_j, after, 0, 1
                sooner = ladder.best(after - 1)
                if sooner is not None:
                    longer_s = starts_s[sooner] - start_s - ahead.wake_s
                    sooner_j = value[sooner] + saved_w * longer_s - switch_j
                    if sooner_j > best:
                        best, then, cost, slept = sooner_j, sooner, 0, 1
            value[i] = best
            if ahead:
                ladder.add(i)
            delays[i] = delays[then] + cost
            cycles[i] = cycles[then] + slept
        return Bound(value[0] + price_j * delays[0], delays[0], cycles[0])


class _Ahead(NamedTuple):
    """Waking before a need: how long a wake takes, and how soon before one delays nobody."""

    wake_s: float
    lead_s: float


class _Ladder:
    """The index with the largest worth up to a given one, while indices are added downwards."""

    def __init__(self, worth: Callable[[int], float]) -> None:
        self._worth = worth
        # Only indices worth more than all smaller ones, negative; the smallest is last.
        self._minus = array("i")

    def add(self, index: int) -> None:
        """Add an index smaller than all before."""
        worth = self._worth(index)
        while self._minus and self._worth(-self._minus[-1]) <= worth:
            self._minus.pop()
        self._minus.append(-index)

    def best(self, most: int) -> int | None:
        """Return the index, at most `most`, that is worth most."""
        place = bisect_left(self._minus, -most)
        return -self._minus[place] if place < len(self._minus) else None
