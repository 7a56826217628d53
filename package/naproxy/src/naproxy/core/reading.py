"""A meter's readings as the rest of the box takes them: whole seconds of power and energy.

Between the meters and the history: a meter's driver delivers readings at its own rate, they
are gathered into seconds, and only seconds are kept and shown.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerSample:
    """Power and energy of one feed, in one second.

    A second without any reading does not exist: it is a gap, never zero watts.
    """

    t_s: int
    """Start of the second, on the house's clock (epoch seconds that never step)."""

    count: int
    """Readings in it, at least 1."""

    mean_mw: int
    min_mw: int
    max_mw: int

    energy_mj: int
    """Energy of the part that is covered; a meter that counts energy itself knows it better
    than mean times time."""

    covered_ms: int
    """How much of the second readings account for, 1 to 1000."""
