"""An exact simulation of one server under one policy, over the requests of a log.

The policy objects are those of the live controller. Time goes from event to event: a
request, the end of falling asleep or of waking, or the time that a policy named for its next
decision. The rules:

- A request that needs the server and finds it falling asleep, asleep or waking waits until
  it is awake, and wakes it if nobody did. One that comes while it falls asleep waits for it to
  be asleep first.
- *Open loop*, as in the thesis: requests come when the log says, so each one of a page's
  images that comes during a wake waits too.
- *Closed loop*: while a client waits, it does not send the requests that follow its page. Its
  further requests during that wake are not delayed: they are sent when the server is up. They
  still count as requests.
- As in the live controller a policy is asked after each transition to awake or asleep, after
  requests, and when it wanted to be asked.
- Awake and waking draw P_on, falling asleep and asleep P_off, and E_switch is the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from naproxy.core.energy import Power
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.cachemodel import CacheModel
from naproxy.lab.estimate.traffic import Chunk, Rows
from naproxy.policy.base import Decision, Policy, Request

DAY_S: Final = 86400.0
USUAL: Final = 0.95
"""So many of the waits are usual ones."""
_PERSON, _API = Klass.PERSON, Klass.API
_AWAKE, _FALLING, _ASLEEP, _WAKING = (
    State.AWAKE,
    State.FALLING_ASLEEP,
    State.ASLEEP,
    State.WAKING,
)


class Waits(NamedTuple):
    """Requests that waited: their number, their mean, and the wait that USUAL of them keep."""

    number: int
    mean_s: float
    usual_s: float


@dataclass(slots=True)
class Outcome:
    """The result for the server and for the requests of people and programs."""

    span_s: float = 0.0
    off_s: float = 0.0  # falling asleep and asleep
    cycles: int = 0
    requests: int = 0
    waits_ms: Counter[int] = field(default_factory=Counter)  # open loop; those of 0 are left out
    waits_closed_ms: Counter[int] = field(default_factory=Counter)
    days: list[tuple[int, int]] = field(default_factory=list)  # requests, delayed: after each day
    first_day: Outcome | None = None  # requests and waits of it, once it is over
    came_asleep: int = 0  # requests that found the server not awake,
    answered_asleep: int = 0  # and those of them that the cache answered
    warm_fetches: int = 0
    warm_bytes: int = 0
    warm_s: float = 0.0  # awake for it

    @property
    def answered_share(self) -> float:
        """Share of the requests that found the server not awake which the cache answered."""
        return self.answered_asleep / max(1, self.came_asleep)

    @property
    def on_s(self) -> float:
        """Awake and waking, in seconds."""
        return self.span_s - self.off_s

    def saving_j(self, power: Power) -> float:
        """Energy saved against always on, without the proxy's."""
        return power.saving_j(self.off_s, self.cycles)

    def energy_j(self, power: Power) -> float:
        """Energy the server drew."""
        return power.energy_j(self.on_s, self.off_s, self.cycles)

    def waits(self, *, closed: bool) -> Counter[int]:
        """Waiting times in milliseconds and how many requests had them."""
        return self.waits_closed_ms if closed else self.waits_ms

    def delayed(self, delta_s: float, *, closed: bool) -> int:
        """Requests that waited longer than `delta_s`."""
        limit_ms = round(delta_s * 1000)
        return sum(n for ms, n in self.waits(closed=closed).items() if ms > limit_ms)

    def delayed_share(self, delta_s: float, *, closed: bool) -> float:
        """Share of all requests that waited longer than `delta_s`."""
        return self.delayed(delta_s, closed=closed) / max(1, self.requests)

    def delayed_share_since_day_2(self, delta_s: float, *, closed: bool) -> float | None:
        """Return the same without the first day, for learning; None if it ends there."""
        first = self.first_day
        if first is None or first.requests == self.requests:
            return None
        late = self.delayed(delta_s, closed=closed) - first.delayed(delta_s, closed=closed)
        return late / (self.requests - first.requests)

    def mean_wait_s(self, *, closed: bool) -> float:
        """Mean wait of all requests, those that did not wait included."""
        total_ms = sum(ms * n for ms, n in self.waits(closed=closed).items())
        return total_ms / 1000 / self.requests if self.requests else 0.0

    def waiting(self, *, closed: bool) -> Waits:
        """Return how many requests waited, and how long those did."""
        waits = self.waits(closed=closed)
        number = waits.total()
        total_ms = sum(ms * n for ms, n in waits.items())
        seen, usual_ms = 0, 0
        for ms, n in sorted(waits.items()):
            if seen >= USUAL * number:
                break
            seen, usual_ms = seen + n, ms
        return Waits(number, total_ms / 1000 / max(1, number), usual_ms / 1000)

    def wait_quantile_s(self, fraction: float, *, closed: bool) -> float:
        """Return the wait that at least `fraction` of the requests do not exceed."""
        left = self.requests - math.ceil(fraction * self.requests)
        for ms, n in sorted(self.waits(closed=closed).items(), reverse=True):
            if left < n:
                return ms / 1000
            left -= n
        return 0.0


class Simulation:
    """One server under `policy`; feed it the chunks of a log in order, then `finish`.

    `closed` selects the waits that the policy sees; the outcome counts both ways. `delta_s` is
    for `Outcome.days`.
    """

    def __init__(
        self,
        policy: Policy,
        cache: CacheModel,
        *,
        wake_s: float,
        sleep_s: float,
        delta_s: float = 1.0,
        closed: bool = False,
    ) -> None:
        self.outcome = Outcome()
        self.slept: Callable[[float, float], object] | None = None
        """Is told begin and end of each sleep; an end may be beyond the log's."""
        self._policy = policy
        self._cache = cache
        self._wake_s = wake_s
        self._sleep_s = sleep_s
        self._delta_s = delta_s
        self._closed = closed
        self._state = State.AWAKE
        self._since_s = 0.0  # when it began to fall asleep
        self._until_s = math.inf  # end of falling asleep or of waking
        self._check_s = math.inf  # when the policy wants to be asked
        self._start_s = math.nan
        self._end_s = 0.0
        self._next_day_s = math.inf
        self._waiting: set[int] = set()  # clients waiting during this wake
        self._held: dict[int, float] = {}  # entries served while asleep, for a cache not frozen
        # Asking is dear: a policy may say how long it never sleeps after a request's need.
        self._quiet_s: float = getattr(policy, "quiet_s", 0.0)

    def feed(self, chunk: Chunk) -> None:
        """Take the requests of the next stretch of time."""
        if len(chunk):
            self._begin(chunk)
        self._requests(chunk.awaited(self._cache))

    def _begin(self, chunk: Chunk) -> None:
        if math.isnan(self._start_s):
            self._start_s = chunk.t_s[0]
            self._next_day_s = self._start_s + DAY_S
        self._end_s = chunk.t_s[-1]

    def finish(self) -> Outcome:
        """Let time pass to the end of the log; returns the outcome."""
        if math.isnan(self._start_s):
            return self.outcome
        self._pass_time(self._end_s)
        if self._state in (_FALLING, _ASLEEP):
            self.outcome.off_s += self._end_s - self._since_s
            self._tell_sleep(self._end_s)
        elif self._state is _WAKING:
            # Both the fall and the wake may reach beyond the end.
            up_s = self._until_s - self._wake_s
            self.outcome.off_s -= max(0.0, up_s - self._end_s)
        self.outcome.span_s = self._end_s - self._start_s
        return self.outcome

    def _requests(self, rows: Rows) -> None:
        outcome, request = self.outcome, self._policy.request
        quiet_s = self._quiet_s
        for t_s, client, path, klass, page_load, expires_s in zip(*rows, strict=True):
            if t_s >= self._next_day_s:
                self._close_days(t_s)
            if t_s > self._check_s or t_s >= self._until_s:
                self._pass_time(t_s)
            person = klass is _PERSON or klass is _API
            outcome.requests += person
            if self._state is _AWAKE:
                needs = expires_s <= t_s
                request(Request(t_s, client, klass, needs, page_load, path))
                if needs or self._check_s == math.inf:
                    # Ask when it is quiet for long enough; most often another request is first.
                    self._check_s = t_s + quiet_s
                continue
            if self._cache.frozen:
                needs = expires_s <= self._since_s
            else:
                needs = self._needed_thawed(t_s, path, expires_s)
            outcome.came_asleep += person
            outcome.answered_asleep += person and not needs
            wait_s = self._wait(t_s, client, person) if needs else 0.0
            request(Request(t_s, client, klass, needs, page_load, path, wait_s))
            if self._state is _ASLEEP:
                self._check_s = t_s

    def _needed_thawed(self, t_s: float, path: int, expires_s: float) -> bool:
        """Is the entry too old by now? Nothing is fetched while asleep."""
        if expires_s - self._cache.usable_s > self._since_s:
            # It would have been fetched again meanwhile, were the server awake.
            expires_s = self._held.get(path, expires_s)
        if expires_s <= t_s:
            return True
        self._held[path] = expires_s
        return False

    def _wait(self, t_s: float, client: int, person: bool) -> float:
        """Make a request wait for the server; returns how long as far as the policy is told."""
        if self._state is not _WAKING:
            self._begin_wake(t_s)
        wait_s = self._until_s - t_s
        waits_already = client in self._waiting
        self._waiting.add(client)
        if person and (wait_ms := round(wait_s * 1000)) > 0:
            self.outcome.waits_ms[wait_ms] += 1
            if not waits_already:
                self.outcome.waits_closed_ms[wait_ms] += 1
        return 0.0 if self._closed and waits_already else wait_s

    def _pass_time(self, t_s: float) -> None:
        """Let happen what happens until `t_s`, without requests."""
        while True:
            if self._until_s <= min(t_s, self._check_s):
                self._arrive()
            elif self._check_s < t_s and self._state is not _WAKING:
                self._ask(self._check_s)
            else:
                return

    def _arrive(self) -> None:
        """Falling asleep or waking ends."""
        now_s, self._until_s = self._until_s, math.inf
        if self._state is _WAKING:
            self._waiting.clear()
            self._enter(now_s, _AWAKE)
        else:
            self._enter(now_s, _ASLEEP)
        self._check_s = now_s

    def _ask(self, now_s: float) -> None:
        decision: Decision = self._policy.decide(now_s)
        check_s = decision.check_at_s
        self._check_s = math.inf if check_s is None else max(check_s, now_s + 1e-3)
        if self._state is _AWAKE and decision.sleep:
            if (later_s := self._before_sleep(now_s)) > now_s:
                self._check_s = later_s
                return
            self._since_s = now_s
            self._until_s = now_s + self._sleep_s
            self.outcome.cycles += 1
            self._held.clear()
            self._enter(now_s, _FALLING)
        elif self._state is _ASLEEP and decision.wake:
            self._begin_wake(now_s)

    def _before_sleep(self, now_s: float) -> float:
        """Return when the server may be told to sleep that was decided to."""
        return now_s

    def _begin_wake(self, now_s: float) -> None:
        up_s = max(now_s, self._until_s) if self._state is _FALLING else now_s
        self.outcome.off_s += up_s - self._since_s
        self._tell_sleep(up_s)
        self._until_s = up_s + self._wake_s
        self._check_s = math.inf
        self._enter(now_s, _WAKING)

    def _tell_sleep(self, up_s: float) -> None:
        if self.slept:
            self.slept(self._since_s, up_s)

    def _enter(self, t_s: float, state: State) -> None:
        self._state = state
        self._policy.observed(t_s, state)

    def _close_days(self, t_s: float) -> None:
        outcome = self.outcome
        delayed = outcome.delayed(self._delta_s, closed=self._closed)
        if outcome.first_day is None:
            outcome.first_day = Outcome(
                requests=outcome.requests,
                waits_ms=outcome.waits_ms.copy(),
                waits_closed_ms=outcome.waits_closed_ms.copy(),
            )
        while t_s >= self._next_day_s:
            outcome.days.append((outcome.requests, delayed))
            self._next_day_s += DAY_S
