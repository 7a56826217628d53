"""What the machine drew, second by second: table 4.2 of the thesis and a little for its work."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from naproxy.config.document import Power as Watts
from naproxy.core.reading import PowerSample
from naproxy.drivers.powermodel import Coefficients, Utilisation, estimate_w

from tests.simulator.past.board import FALL_S, RISE_S, Power

WORK = Coefficients(base_w=Watts().on_w, cpu_w=14.0)
"""At rest what table 4.2 says; with its processor busy half as much again as desktops do."""

NOISE_W = {Power.ON: 0.25, Power.FALLING: 0.4, Power.OFF: 0.01, Power.RISING: 0.6}
_KINDS = 4096
"""So many noises are drawn once, and then used again and again."""


def _surge_w() -> float:
    """What it draws while it rises, so that E_switch is that of table 4.2.

    Equation 4.1 counts the fall as asleep: what it draws more then is part of E_switch.
    """
    watts, fall_s, rise_s = Watts(), sum(FALL_S) / 2, sum(RISE_S) / 2
    left_j = watts.switch_j - fall_s * (watts.on_w - watts.off_w)
    return watts.on_w + max(0.0, left_j) / rise_s


_LEVELS_W = {
    Power.ON: Watts().on_w,
    Power.FALLING: Watts().on_w,
    Power.OFF: Watts().off_w,
    Power.RISING: _surge_w(),
}

Changes = Sequence[tuple[float, Power]]


class Meter:
    """Says what was drawn in each second of a stretch of time."""

    def __init__(self, dice: random.Random) -> None:
        self._noise = {
            power: [round(1e3 * dice.gauss(0, watts)) for _ in range(_KINDS)]
            for power, watts in NOISE_W.items()
        }

    def seconds(
        self, changes: Changes, busy_s: Mapping[int, float], start_s: int, end_s: int
    ) -> Iterator[PowerSample]:
        """Yield the seconds from start to before end."""
        at = max(0, bisect_right([change_s for change_s, _ in changes], start_s) - 1)
        for t_s in range(start_s, end_s):
            while at + 1 < len(changes) and changes[at + 1][0] <= t_s:
                at += 1
            power = changes[at][1]
            if at + 1 < len(changes) and changes[at + 1][0] < t_s + 1:
                mean_mw = round(1e3 * _mixed_w(changes, at, t_s))
            elif power is Power.ON and t_s in busy_s:
                mean_mw = round(1e3 * _working_w(busy_s[t_s]))
            else:
                mean_mw = round(1e3 * _LEVELS_W[power])
            mean_mw = max(0, mean_mw + self._noise[power][t_s * 2654435761 % _KINDS])
            yield PowerSample(t_s, 1, mean_mw, mean_mw, mean_mw, mean_mw, 1000)


def _working_w(busy_s: float) -> float:
    return estimate_w(WORK, Utilisation(cpu=min(1.0, busy_s), memory=0, disk=0, network=0))


def _mixed_w(changes: Changes, at: int, t_s: int) -> float:
    """Return the mean over a second with a change in it."""
    total_j, from_s = 0.0, float(t_s)
    while from_s < t_s + 1:
        until_s = min(changes[at + 1][0] if at + 1 < len(changes) else t_s + 1, t_s + 1)
        total_j += (until_s - from_s) * _LEVELS_W[changes[at][1]]
        from_s, at = until_s, at + 1
    return total_j
