"""Energy of a server that sleeps: equation 4.1, and the idealised model of section 4.4. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FALL_S = 4.0
"""How long the server of table 4.2 took to fall asleep (3.7 to 4.3 s)."""


@dataclass(frozen=True, slots=True)
class Power:
    """The power of a server and of the proxy; the defaults are the thesis' table 4.2.

    `switch_j` is the energy of one sleep and wake on top of P_on while awake or waking and
    P_off from the command to sleep until the wake (thesis, section 4.3.1).
    """

    on_w: float = 43.3
    off_w: float = 1.6
    switch_j: float = 170.7
    proxy_w: float = 5.0

    def __post_init__(self) -> None:
        """ValueError, naming what is wrong."""
        if not 0 <= self.off_w < self.on_w:
            raise ValueError(
                f"a sleeping server must draw less than one awake: {self.off_w} W, {self.on_w} W"
            )
        if self.switch_j < 0 or self.proxy_w < 0:
            raise ValueError("energies and powers are not negative")

    @property
    def saved_w(self) -> float:
        """The saving of a sleep: P_on - P_off, in watts."""
        return self.on_w - self.off_w

    @property
    def break_even_s(self) -> float:
        """The gap whose saving pays for one switch, E_switch / (P_on - P_off), in seconds."""
        return self.switch_j / self.saved_w

    def energy_j(self, on_s: float, off_s: float, switches: int) -> float:
        """T_on P_on + T_off P_off + N E_switch (thesis, equation 4.1), in joules."""
        return on_s * self.on_w + off_s * self.off_w + switches * self.switch_j

    def saving_j(self, off_s: float, switches: int) -> float:
        """The saving against a server that is always on, in joules, without the proxy."""
        return off_s * self.saved_w - switches * self.switch_j


def switch_j(on_w: float, off_w: float, sleep_s: float) -> float:
    """Table 4.2's switch cost for another server, in joules.

    While it falls asleep, for `sleep_s`, a server still draws its awake power. That is nearly all
    of the cost of table 4.2, and it grows with that time and with the power.
    """
    return max(0.0, Power().break_even_s + sleep_s - FALL_S) * (on_w - off_w)


@dataclass(frozen=True, slots=True)
class Times:
    """How long a server was awake (or waking) and asleep (or falling), and how often it slept."""

    on_s: float
    off_s: float
    switches: int


def idealised(gaps_s: Iterable[float], threshold_s: float) -> Times:
    """Sleep through every gap of at least `threshold_s`, at once and without delays.

    Section 4.4 of the thesis: T_o is the sum of the shorter gaps, T_s that of the others. With
    `Power.break_even_s` as the threshold no scheme that never sleeps through a request saves more.
    """
    on_s = off_s = 0.0
    switches = 0
    for gap_s in gaps_s:
        if gap_s < threshold_s:
            on_s += gap_s
        else:
            off_s += gap_s
            switches += 1
    return Times(on_s, off_s, switches)
