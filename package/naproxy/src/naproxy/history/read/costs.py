"""The cost of a wake, and the split of a day's energy: power by the minute against the states.

A meter's minutes are read once, as running totals; the energy between two times is then the
difference of two of them. Within a minute the power is taken as even.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from naproxy.history.read.timeline import Stretch
from naproxy.history.tables import METER_BITS, number_of, of_meter

LEAST_COVERED: Final = 0.5
"""Of a wake that readings cover less than this share of, no energy is said."""

LEAST_ASLEEP_S: Final = 600
"""The power asleep is measured where readings cover at least so much of sleep."""

PARTS: Final = ("asleep", "awake", "changing", "unknown")
"""A day's energy: of minutes all asleep, all awake (or in trouble), of those in which the
server fell asleep or woke up, and of those without a known state."""

_AWAKE: Final = ("awake", "trouble")


@dataclass(frozen=True, slots=True)
class Curve:
    """A meter's minutes (their starts), and totals up to the end of each."""

    starts_s: array[int]
    energy_mj: array[int]
    covered_ms: array[int]

    def between(self, from_s: float, to_s: float) -> tuple[float, float]:
        """Return energy in J and seconds covered by readings."""
        (from_mj, from_ms), (to_mj, to_ms) = self._until(from_s), self._until(to_s)
        return (to_mj - from_mj) / 1000, (to_ms - from_ms) / 1000

    def _until(self, t_s: float) -> tuple[float, float]:
        at = bisect_right(self.starts_s, t_s) - 1
        if at < 0:
            return 0.0, 0.0
        before_mj = self.energy_mj[at - 1] if at else 0
        before_ms = self.covered_ms[at - 1] if at else 0
        share = min(1.0, (t_s - self.starts_s[at]) / 60)
        return (
            before_mj + share * (self.energy_mj[at] - before_mj),
            before_ms + share * (self.covered_ms[at] - before_ms),
        )


def curve(db: sqlite3.Connection, meter: str, from_s: float, to_s: float) -> Curve:
    """Read the minutes of a meter that a range touches."""
    made = Curve(array("q"), array("q"), array("q"))
    energy_mj = covered_ms = 0
    minutes = int(from_s // 60), int(-(-to_s // 60))
    number = number_of(db, "meters", meter)
    for row, more_mj, more_ms in of_meter(
        db, "minutes", "key, energy_mj, covered_ms", number, minutes
    ):
        energy_mj += more_mj
        covered_ms += more_ms
        made.starts_s.append((row >> METER_BITS) * 60)
        made.energy_mj.append(energy_mj)
        made.covered_ms.append(covered_ms)
    return made


def asleep_w(power: Curve, states: Iterable[Stretch]) -> float | None:
    """Return the mean power in whole minutes of sleep; None where too little is measured."""
    energy_j = covered_s = 0.0
    for stretch in states:
        if stretch.state == "asleep":
            first_s, end_s = -(-stretch.t_s // 60) * 60, stretch.end_s // 60 * 60
            if first_s < end_s:
                more_j, more_s = power.between(first_s, end_s)
                energy_j, covered_s = energy_j + more_j, covered_s + more_s
    return energy_j / covered_s if covered_s >= LEAST_ASLEEP_S else None


def charge(
    wakes: Sequence[dict[str, Any]],
    states: Sequence[Stretch],
    power: Sequence[Curve],
    off_w: float,
    to_s: float,
) -> None:
    """Give each wake of one server, oldest first, `awake_s` and `extra_j`.

    `awake_s`: from the wake to the next sleep, wake, or the end of the range. `extra_j`: the energy
    beyond `off_w` that the server's meters measured in that time; None without readings.
    """
    ends_s = sorted(
        [s.t_s for s in states if s.id and s.state == "asleep"] + [w["t_s"] for w in wakes]
    )
    for wake in wakes:
        at = bisect_right(ends_s, wake["t_s"])
        until_s = ends_s[at] if at < len(ends_s) else to_s
        awake_s = max(0.0, until_s - wake["t_s"])
        wake["awake_s"] = awake_s
        wake["extra_j"] = _extra_j(power, wake["t_s"], until_s, off_w)


def _extra_j(power: Sequence[Curve], from_s: float, to_s: float, off_w: float) -> float | None:
    """Return the energy beyond `off_w`; time without readings counts like the rest."""
    length_s = to_s - from_s
    if not power or length_s <= 0:
        return None
    total_j = 0.0
    for one in power:
        energy_j, covered_s = one.between(from_s, to_s)
        if covered_s < LEAST_COVERED * length_s:
            return None
        total_j += energy_j * length_s / covered_s
    return max(0.0, total_j - off_w * length_s)


def split(
    power: Curve, states: Sequence[Stretch], days: Sequence[tuple[int, int]]
) -> list[dict[str, float]]:
    """Return the energy in J of each day (start and end), by the PARTS of its minutes."""
    begins_s = [s.t_s for s in states]
    made = []
    for from_s, to_s in days:
        parts = dict.fromkeys(PARTS, 0)
        first = bisect_left(power.starts_s, from_s)
        before_mj = power.energy_mj[first - 1] if first else 0
        for n in range(first, bisect_left(power.starts_s, to_s)):
            start_s = power.starts_s[n]
            at = bisect_right(begins_s, start_s) - 1
            part = _part(states, at, start_s)
            parts[part] += power.energy_mj[n] - before_mj
            before_mj = power.energy_mj[n]
        made.append({name: value / 1000 for name, value in parts.items()})
    return made


def _part(states: Sequence[Stretch], at: int, start_s: int) -> str:
    """Return the part of the minute that begins within `states[at]`, or before all."""
    if at < 0 or states[at].end_s <= start_s:
        return "unknown"
    state = states[at].state
    if states[at].end_s < start_s + 60 and at + 1 < len(states):
        return "changing"
    if state == "unknown":
        return "unknown"
    if state in _AWAKE:
        return "awake"
    return "asleep" if state == "asleep" else "changing"
