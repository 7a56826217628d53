"""From readings to seconds, and checks of a meter's plausibility: pure functions of time.

Times are seconds on the house's clock, which never steps. A reading covers the time
since the one before it. Time without a reading is a gap, never 0 W and never filled in.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from naproxy.core.reading import PowerSample
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.drivers.meter import ITS_POWER, Fault, Reading

LEAST_PATIENCE_S: Final = 3.0
PATIENCE_PERIODS: Final = 3.0
"""A meter is silent after so many of its periods, and after at least `LEAST_PATIENCE_S`."""

HIGHEST_W: Final = 22_000.0
"""No server draws more than three phases of 32 A give: such a reading is an error."""

_SLEW: Final = 1e-3
_RESYNC_S: Final = 1.0
_NOISE_W: Final = 0.5


def patience_s(period_s: float) -> float:
    """Return how long after a reading the meter is not yet silent."""
    return max(LEAST_PATIENCE_S, PATIENCE_PERIODS * period_s)


def checked(reading: Reading) -> Reading:
    """Return the reading; Fault if no such power is possible.

    A meter at rest may read a little below 0; that is 0.
    """
    power_w = reading.power_w
    if not math.isfinite(power_w):
        raise Fault("not_a_number", "meter.not_finite", what=ITS_POWER)
    if power_w > HIGHEST_W:
        raise Fault("huge", "meter.more_than", power_w=power_w, highest_w=HIGHEST_W)
    if power_w < -_NOISE_W:
        raise Fault("negative", "meter.wrong_way", power_w=power_w)
    if power_w >= 0:
        return reading
    energy_j = None if reading.energy_j is None else 0.0
    return replace(reading, power_w=0.0, energy_j=energy_j)


@dataclass(frozen=True)
class Adapter:
    """An adapter's efficiency, by the power drawn from it; linear between the points.

    Outside of them it is that of the nearest.
    """

    points: Sequence[tuple[float, float]] = ()
    idle_w: float = 0.0

    def mains_w(self, drawn_w: float) -> float:
        """Return what the adapter draws from the mains for `drawn_w` at its output, in watts."""
        return max(self.idle_w, drawn_w / self._efficiency(drawn_w))

    def mains(self, reading: Reading) -> Reading:
        """Return the same reading at the adapter's other side; its own counter is not."""
        if not self.points and not self.idle_w:
            return reading
        power_w = self.mains_w(reading.power_w)
        energy_j = None
        if reading.energy_j is not None and reading.covered_s is not None:
            energy_j = power_w * reading.covered_s
        return replace(reading, power_w=power_w, energy_j=energy_j, counter_j=None)

    def _efficiency(self, drawn_w: float) -> float:
        if not self.points:
            return 1.0
        if drawn_w <= self.points[0][0]:
            return self.points[0][1]
        for (low_w, low), (high_w, high) in pairwise(self.points):
            if drawn_w <= high_w:
                return low + (high - low) * (drawn_w - low_w) / (high_w - low_w)
        return self.points[-1][1]


@dataclass(slots=True)
class _Open:
    """A second that readings are still gathered in."""

    count: int = 0
    energy_j: float = 0.0
    covered_s: float = 0.0
    min_w: float = math.inf
    max_w: float = -math.inf


class Gatherer:
    """Gathers one meter's readings into seconds. Times given to it never decrease."""

    def __init__(self, period_s: float) -> None:
        """`period_s` is the time between the meter's readings."""
        self._patience_s = patience_s(period_s)
        self._end_s: float | None = None
        self._open: dict[int, _Open] = {}
        self._carry_mj = 0.0

    def take(self, t_s: float, reading: Reading) -> None:
        """Take a reading that came at `t_s`.

        If a device counts time itself, its readings are placed by that clock, adjusted slowly to
        ours, so that readings that arrive late and together keep their places. If the last
        reading is older than a meter's longest silence, the time since then is a gap.
        """
        start_s, end_s = self._end_s, t_s
        if reading.elapsed_s is None:
            covered_s = None
        else:
            start_s, end_s = self._placed(t_s, reading.elapsed_s)
            covered_s = reading.covered_s
        self._end_s = end_s
        if start_s is None or not 0 < end_s - start_s <= self._patience_s:
            return
        if covered_s is None:
            covered_s = end_s - start_s
        energy_j = reading.energy_j
        if energy_j is None:
            energy_j = reading.power_w * covered_s
        self._spread(start_s, end_s, energy_j, covered_s, reading.power_w)

    def _placed(self, t_s: float, elapsed_s: float) -> tuple[float, float]:
        if self._end_s is None:
            return t_s - elapsed_s, t_s
        end_s = self._end_s + elapsed_s
        if end_s > t_s:
            # Nothing is measured before it happens: the ones before came late.
            return self._end_s, max(t_s, self._end_s + 1e-6)
        if t_s - end_s > _RESYNC_S:
            return t_s - elapsed_s, t_s
        return self._end_s, end_s + min(t_s - end_s, _SLEW * elapsed_s)

    def _spread(
        self, start_s: float, end_s: float, energy_j: float, covered_s: float, power_w: float
    ) -> None:
        for second in range(math.floor(start_s), math.ceil(end_s)):
            overlap_s = min(end_s, second + 1) - max(start_s, second)
            share = overlap_s / (end_s - start_s)
            found = self._open.setdefault(second, _Open())
            found.energy_j += energy_j * share
            found.covered_s += min(covered_s * share, overlap_s)
            found.min_w = min(found.min_w, power_w)
            found.max_w = max(found.max_w, power_w)
            found.count += end_s <= second + 1

    def seconds(self, now_s: float) -> list[PowerSample]:
        """Return the seconds that are over: no reading can speak for them any more."""
        heard_s = -math.inf if self._end_s is None else self._end_s
        over_s = max(heard_s, now_s - self._patience_s)
        done = sorted(second for second in self._open if second + 1 <= over_s)
        return [made for second in done if (made := self._made(second, self._open.pop(second)))]

    def _made(self, t_s: int, found: _Open) -> PowerSample | None:
        energy_mj = found.energy_j * 1e3 + self._carry_mj
        if round(found.covered_s * 1e3) < 1:
            self._carry_mj = energy_mj
            return None
        self._carry_mj = energy_mj - round(energy_mj)
        mean_w = found.energy_j / found.covered_s
        return PowerSample(
            t_s=t_s,
            count=max(1, found.count),
            mean_mw=round(mean_w * 1e3),
            min_mw=round(min(found.min_w, mean_w) * 1e3),
            max_mw=round(max(found.max_w, mean_w) * 1e3),
            energy_mj=round(energy_mj),
            covered_ms=min(1000, round(found.covered_s * 1e3)),
        )


@dataclass(frozen=True, slots=True)
class Energy:
    """The measurements between two times; gaps are not filled in."""

    energy_j: float
    covered_s: float


def energy_between(seconds: Iterable[PowerSample], start_s: float, end_s: float) -> Energy | None:
    """Return the energy of the seconds between two times; None if none was measured.

    Of a second that is cut by one of them its part counts.
    """
    energy_j = covered_s = 0.0
    for second in seconds:
        part = min(end_s, second.t_s + 1) - max(start_s, second.t_s)
        if part > 0:
            energy_j += part * second.energy_mj / 1e3
            covered_s += part * second.covered_ms / 1e3
    return Energy(energy_j, covered_s) if covered_s else None


# Whether it can be believed


class Counter:
    """Differences of a device's own energy counter, which may restart from 0."""

    _last_j: float | None = None

    def difference_j(self, value_j: float) -> float | None:
        """Return the joules since the last value; None at the start and after a reset."""
        last_j, self._last_j = self._last_j, value_j
        return value_j - last_j if last_j is not None and value_j >= last_j else None


SETTLE_S: Final = 10.0
"""After a change of state the server's power may still move for so long."""

WINDOW_S: Final = 30.0
LEAST_READINGS: Final = 3
FLAT: Final = 0.1
"""A change counts only above this share of both the expected value and the power."""

ZERO_W: Final = 0.05
ZERO_AWAKE_S: Final = 30.0
COUNTER_S: Final = 600.0
COUNTER_STEPS: Final = 100
COUNTER_APART: Final = 0.2
_STEADY: Final = (State.AWAKE, State.ASLEEP)


class Watch:
    """Looks for a meter that is stuck or lies. It does not judge: `odd` says what is.

    It may as well be the server that is not in the state in which it is seen: only a person
    can tell. Until then nothing is decided by such a meter.
    """

    def __init__(self, expected_w: float) -> None:
        """`expected_w` is the configured difference between awake and asleep, in watts."""
        self._expected_w = expected_w
        self._state: State | None = None
        self._since_s = -math.inf
        self._window: deque[tuple[float, float]] = deque()
        self._before: tuple[State, float] | None = None
        self._flat: Reason | None = None
        self._nonzero_s: float | None = None
        self._zero: Reason | None = None
        self._counter = CounterCheck()

    @property
    def odd(self) -> Reason | None:
        """The anomaly, or None."""
        return self._flat or self._zero or self._counter.odd

    def entered(self, t_s: float, state: State) -> None:
        """Take a change of the server's state, as it was observed."""
        if self._state in _STEADY and self._settled(self._last_s()):
            self._before = (self._state, self._mean_w())
        self._state, self._since_s = state, t_s
        self._window.clear()
        self._nonzero_s = None

    def reading(self, t_s: float, reading: Reading) -> None:
        """Take a reading."""
        self._counter.reading(t_s, reading)
        self._zeros(t_s, reading.power_w)
        if self._state not in _STEADY or t_s < self._since_s + SETTLE_S:
            return
        self._window.append((t_s, reading.power_w))
        while self._window[0][0] < t_s - WINDOW_S:
            self._window.popleft()
        if self._before and self._before[0] is not self._state and self._settled(t_s):
            self._compare(*self._before, self._state, self._mean_w())
            self._before = None

    def _settled(self, t_s: float) -> bool:
        return len(self._window) >= LEAST_READINGS and t_s >= self._since_s + 2 * SETTLE_S

    def _last_s(self) -> float:
        return self._window[-1][0] if self._window else -math.inf

    def _mean_w(self) -> float:
        return math.fsum(w for _, w in self._window) / len(self._window)

    def _compare(self, before: State, before_w: float, state: State, now_w: float) -> None:
        change_w = abs(now_w - before_w)
        flat = change_w < FLAT * self._expected_w and change_w <= FLAT * before_w
        self._flat = None
        if flat:
            seen = {before: before_w, state: now_w}
            self._flat = Reason(
                "meter.flat", awake_w=seen[State.AWAKE], asleep_w=seen[State.ASLEEP]
            )

    def _zeros(self, t_s: float, power_w: float) -> None:
        if self._state is not State.AWAKE or power_w > ZERO_W:
            self._nonzero_s, self._zero = t_s, None
        elif self._nonzero_s is None:
            self._nonzero_s = t_s
        elif t_s - self._nonzero_s >= ZERO_AWAKE_S:
            self._zero = Reason("meter.zero")


class CounterCheck:
    """Compares a device's own energy counter with its power, where it has one.

    Its counter moves in steps of unknown size, so it is compared once it moved often enough.
    """

    def __init__(self) -> None:
        self.odd: Reason | None = None
        self._counter = Counter()
        self._last_s: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._counted_j = self._integrated_j = self._elapsed_s = 0.0
        self._steps = 0

    def reading(self, t_s: float, reading: Reading) -> None:
        """Take a reading; those without a counter tell nothing."""
        if reading.counter_j is None:
            return
        last_s, self._last_s = self._last_s, t_s
        moved_j = self._counter.difference_j(reading.counter_j)
        if moved_j is None or last_s is None or t_s - last_s > WINDOW_S:
            self._begin()
            return
        self._counted_j += moved_j
        self._steps += moved_j > 0
        self._elapsed_s += t_s - last_s
        self._integrated_j += reading.power_w * (t_s - last_s)
        if self._elapsed_s < COUNTER_S:
            return
        if self._steps >= COUNTER_STEPS or self._counted_j > 100 * self._integrated_j:
            apart_j = abs(self._counted_j - self._integrated_j)
            self.odd = None
            if apart_j > COUNTER_APART * max(self._counted_j, self._integrated_j):
                self.odd = Reason(
                    "meter.counter",
                    counter_j=round(self._counted_j),
                    power_j=round(self._integrated_j),
                    elapsed_s=self._elapsed_s,
                )
            self._begin()
