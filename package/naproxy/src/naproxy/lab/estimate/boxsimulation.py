"""The simulation of a server behind a box's own cache, see `boxcache`, with or without warming."""

from __future__ import annotations

import math
from typing import Final

from naproxy.core.energy import Power
from naproxy.core.state import State
from naproxy.lab.estimate.boxcache import AGAIN, BYTES_PER_S, FILE_S, NEEDS, BoxCache, BoxModel
from naproxy.lab.estimate.simulate import Simulation
from naproxy.lab.estimate.traffic import Chunk
from naproxy.policy.base import Policy, Request
from naproxy.policy.warming import Costs, wait_j

_AWAKE, _ASLEEP = State.AWAKE, State.ASLEEP
_JUST_WARMED_S: Final = 1.0


class BoxSimulation(Simulation):
    """One server under `policy` behind a box's cache."""

    def __init__(
        self,
        policy: Policy,
        box: BoxModel,
        power: Power,
        fraction: float,
        *,
        wake_s: float,
        sleep_s: float,
        delta_s: float = 1.0,
        closed: bool = False,
    ) -> None:
        """`fraction` is the promise's; the rest as `Simulation` has it."""
        super().__init__(
            policy, box.bound, wake_s=wake_s, sleep_s=sleep_s, delta_s=delta_s, closed=closed
        )
        self._box = box
        self._power = power
        self._fraction = fraction
        self._content = BoxCache(box)
        self._planner = self._content.planner
        self._late = 0
        self._warm_until_s = -math.inf
        self._decided_s = math.inf  # the last sleep

    def feed(self, chunk: Chunk) -> None:
        """Take the requests of the next stretch of time."""
        if len(chunk):
            self._begin(chunk)
        outcome, request, content = self.outcome, self._policy.request, self._content
        quiet_s, planner = self._quiet_s, self._planner
        for t_s, client, path, klass, page_load, what in zip(*chunk.boxed(), strict=True):
            if t_s >= self._next_day_s:
                self._close_days(t_s)
            if t_s > self._check_s or t_s >= self._until_s:
                self._pass_time(t_s)
            outcome.requests += 1
            awake = self._state is _AWAKE
            if awake:
                found = content.awake(t_s, path, what)
                needs = found == NEEDS or (found == AGAIN and not page_load)
            else:
                needs = content.asleep(t_s, self._decided_s, path, what)
            if planner is not None:
                planner.asked(t_s, path, client, asleep=not awake, cacheable=what & 255 != 0)
            if awake:
                request(Request(t_s, client, klass, needs, page_load, path))
                if needs or self._check_s == math.inf:
                    # Ask when it is quiet for long enough; most often another request is first.
                    self._check_s = t_s + quiet_s
                continue
            outcome.came_asleep += 1
            outcome.answered_asleep += not needs
            wait_s = self._wait(t_s, client, person=True) if needs else 0.0
            request(Request(t_s, client, klass, needs, page_load, path, wait_s))
            if self._state is _ASLEEP:
                self._check_s = t_s

    def _wait(self, t_s: float, client: int, person: bool) -> float:
        wait_s = super()._wait(t_s, client, person)
        self._late += wait_s > self._delta_s
        return wait_s

    def _before_sleep(self, now_s: float) -> float:
        planner = self._planner
        if not 0 <= now_s - self._warm_until_s < _JUST_WARMED_S:
            self._decided_s = now_s
        if planner is None or 0 <= now_s - self._warm_until_s < _JUST_WARMED_S:
            return now_s
        power, outcome = self._power, self.outcome
        saves_j = outcome.saving_j(power) / max(1, outcome.cycles)
        price_j = wait_j(saves_j, self._late, self._fraction * outcome.requests)
        costs = Costs(power.switch_j, power.saved_w, self._wake_s, price_j, FILE_S, BYTES_PER_S)
        took_s = 0.0
        for fetch in planner.plan(now_s, costs, self._box.bounds):
            size, spent_s = self._content.warm(now_s + took_s, fetch.path)
            planner.warmed(fetch.path, size, spent_s)
            took_s += spent_s
            outcome.warm_fetches += 1
            outcome.warm_bytes += size
        outcome.warm_s += took_s
        self._warm_until_s = now_s + took_s
        return self._warm_until_s

    def _enter(self, t_s: float, state: State) -> None:
        if state is _AWAKE:
            self._content.up(t_s)
        if self._planner is not None:
            if state is State.FALLING_ASLEEP:
                self._planner.slept(t_s)
            elif state is State.WAKING:
                self._planner.woke(t_s)
        super()._enter(t_s, state)
