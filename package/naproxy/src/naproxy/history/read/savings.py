"""Savings against a server that is always on: pure functions of measurements and states.

A *cell* is a stretch of time with a meter's readings and the server's time in each state. Time
that the meter covers is measured. Other time with a known state is modelled by equation 4.1 of the
thesis. The rest is unknown and in none of the sums. Everything is a sum over cells, so the savings
of a range are those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import add, attrgetter
from typing import Final

from naproxy.core.energy import Power
from naproxy.core.rates import Rates, Worth
from naproxy.history.read.states import States

ON: Final = ("awake", "waking", "trouble")
"""States that count as on: one that does not answer is not known to draw less."""

OFF: Final = ("falling_asleep", "asleep")
"""The cost of falling asleep is in E_switch."""

MEASURED, FITTED, CONFIGURED = "measured", "fitted", "configured"
"""Where a number comes from: the meter's mean, the commissioning's fit, the configuration."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A meter's energy in a time; `covered_s` is the part of it with readings."""

    energy_j: float = 0.0
    covered_s: float = 0.0

    def __add__(self, other: Measured) -> Measured:
        """Return both together."""
        return Measured(self.energy_j + other.energy_j, self.covered_s + other.covered_s)


NOTHING: Final = Measured()


@dataclass(frozen=True, slots=True)
class Cell:
    """`length_s` seconds from `t_s` on."""

    t_s: float
    length_s: float
    on_s: float = 0.0
    off_s: float = 0.0
    switches: int = 0
    server: Measured = NOTHING
    box: Measured = NOTHING
    box_share: float = 1.0
    """The part of the box's energy that counts for this server: `states.box_shares`."""


def cell(
    t_s: float,
    length_s: float,
    states: States,
    server: Measured = NOTHING,
    box: Measured = NOTHING,
    *,
    box_share: float = 1.0,
) -> Cell:
    """Return a cell from the states of its time."""
    on_s = sum(states[state].seconds for state in ON if state in states)
    off_s = sum(states[state].seconds for state in OFF if state in states)
    slept = states["asleep"].entered if "asleep" in states else 0
    return Cell(t_s, length_s, on_s, off_s, slept, server, box, box_share)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The inputs of savings, and the source of each.

    `power.on_w` is the power of a server that is always on; `power.proxy_w` is the box's power for
    time that no meter of the box covers.
    """

    power: Power
    sources: Mapping[str, str]
    """`on_w`, `off_w`, `switch_j`, `proxy_w` -> where it comes from."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Sums over a time, in seconds and joules."""

    length_s: float = 0.0
    measured_s: float = 0.0
    modelled_s: float = 0.0
    asleep_s: float = 0.0
    """Asleep or falling asleep, as it was seen."""
    switches: int = 0
    always_j: float = 0.0
    """Energy of the server if it had been always on, for the known time."""
    measured_j: float = 0.0
    modelled_j: float = 0.0
    box_measured_j: float = 0.0
    box_modelled_j: float = 0.0
    box_time_s: float = 0.0
    """This server's share of the box's time; as long as `known_s` for one server alone."""

    @property
    def known_s(self) -> float:
        """The time that all sums are about."""
        return self.measured_s + self.modelled_s

    @property
    def used_j(self) -> float:
        """Energy of the server."""
        return self.measured_j + self.modelled_j

    @property
    def box_j(self) -> float:
        """Energy of the box."""
        return self.box_measured_j + self.box_modelled_j

    @property
    def gross_j(self) -> float:
        """Energy saved; negative if the server used more than one that is always on."""
        return self.always_j - self.used_j

    @property
    def net_j(self) -> float:
        """The same, less what the box drew itself."""
        return self.gross_j - self.box_j

    def __add__(self, other: Saved) -> Saved:
        """Return both together."""
        return Saved(*map(add, _SUMS(self), _SUMS(other)))


_SUMS: Final = attrgetter(*(each.name for each in fields(Saved)))


def saved(part: Cell, assumed: Assumptions) -> Saved:
    """Return the sums of one cell.

    Where only a part of it is measured, the states of the rest are taken to be as those of
    the whole cell: make cells small where that matters.
    """
    power = assumed.power
    seen_s = part.on_s + part.off_s
    measured_s = min(part.server.covered_s, part.length_s)
    modelled_s = max(0.0, min(seen_s, part.length_s) - measured_s)
    modelled = modelled_s / seen_s if seen_s else 0.0
    known_s = measured_s + modelled_s
    box_s = min(part.box.covered_s, known_s)
    share = box_s / part.box.covered_s if part.box.covered_s else 0.0
    return Saved(
        length_s=part.length_s,
        measured_s=measured_s,
        modelled_s=modelled_s,
        asleep_s=part.off_s,
        switches=part.switches,
        always_j=power.on_w * known_s,
        measured_j=part.server.energy_j,
        modelled_j=power.energy_j(part.on_s, part.off_s, part.switches) * modelled,
        box_measured_j=part.box.energy_j * share * part.box_share,
        box_modelled_j=power.proxy_w * (known_s - box_s) * part.box_share,
        box_time_s=known_s * part.box_share,
    )


def total(parts: Iterable[Saved]) -> Saved:
    """Return what all parts are together."""
    found = Saved()
    for part in parts:
        found += part
    return found


@dataclass(frozen=True, slots=True)
class Valued:
    """Sums over a time, and the worth of their energies, each cell at its own rates."""

    sums: Saved = field(default_factory=Saved)
    always: Worth = field(default_factory=Worth)
    used: Worth = field(default_factory=Worth)
    box: Worth = field(default_factory=Worth)

    @property
    def gross(self) -> Worth:
        """Money saved."""
        return self.always - self.used

    @property
    def net(self) -> Worth:
        """The same, less what the box drew itself."""
        return self.gross - self.box

    def __add__(self, other: Valued) -> Valued:
        """Return both together."""
        return Valued(
            self.sums + other.sums,
            self.always + other.always,
            self.used + other.used,
            self.box + other.box,
        )


def valued(parts: Iterable[Cell], assumed: Assumptions, rates: Rates) -> Valued:
    """Return the sums of all cells and their worth.

    Energy is taken as even within a cell, so cells in which a rate changes should be short.
    """
    # Most cells of a year have one of few rates: their sums are valued together.
    alike: dict[Worth, Saved] = {}
    for part in parts:
        per_kwh = rates.per_kwh(part.t_s, part.t_s + part.length_s)
        alike[per_kwh] = alike.get(per_kwh, Saved()) + saved(part, assumed)
    found = Valued()
    for per_kwh, sums in alike.items():
        found += Valued(sums, *map(per_kwh.of, (sums.always_j, sums.used_j, sums.box_j)))
    return found
