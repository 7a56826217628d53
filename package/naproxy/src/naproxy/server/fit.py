"""A server's power in each state, from measured runs: ordinary least squares.

Thesis, equations 4.1 to 4.3: E = T_on P_on + T_off P_off + N E_switch over several runs, and
the three that fit best. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.inference import Estimate, student_t
from naproxy.core.reason import WrongError

KEYS: Final = ("on_w", "off_w", "switch_j")
UNSURE: Final = 0.2
"""A power is not used if its interval is wider to one side than this share of it."""
UNSURE_S: Final = 5.0
"""Nor is an E_switch with an uncertainty above the savings of this time."""

_MOST_ALIKE: Final = 1e-6
"""Determinant of the columns, each of length one, below which they count as dependent."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement: awake or waking, asleep or falling (seconds), and energy."""

    on_s: float
    off_s: float
    switches: int
    energy_j: float


@dataclass(frozen=True, slots=True)
class Fit:
    """P_on and P_off in watts, E_switch in joules; `residual_j` is the standard error of a run."""

    on_w: Estimate
    off_w: Estimate
    switch_j: Estimate
    confidence: float
    residual_j: float
    runs: int


def fit(runs: Sequence[Run], confidence: float = 0.95) -> Fit:
    """Return the least squares fit with intervals by Student's t with `len(runs)` - 3 degrees.

    WrongError where there are too few runs or they are too much alike.
    """
    degrees = len(runs) - 3
    if degrees < 1:
        raise WrongError("power.few_runs", number=len(runs))
    rows = [(r.on_s, r.off_s, float(r.switches)) for r in runs]
    energies = [r.energy_j for r in runs]
    # Columns of length one: seconds and numbers of switches are of different size.
    lengths = [math.hypot(*column) for column in zip(*rows, strict=True)]
    if not all(lengths):
        raise WrongError("power.runs_one_sided")
    scaled = [tuple(x / n for x, n in zip(row, lengths, strict=True)) for row in rows]
    inverse = _inverse([[_dot(a, b) for b in zip(*scaled)] for a in zip(*scaled)])  # noqa: B905 - all as long
    moments = [_dot(column, energies) for column in zip(*scaled, strict=True)]
    values = [_dot(line, moments) for line in inverse]
    squares = sum((e - _dot(row, values)) ** 2 for row, e in zip(scaled, energies, strict=True))
    residual_j = math.sqrt(squares / degrees)
    reach = student_t(0.5 + confidence / 2, degrees) * residual_j
    estimates = []
    for n, (value, length) in enumerate(zip(values, lengths, strict=True)):
        half = reach * math.sqrt(inverse[n][n])
        estimates.append(Estimate(value / length, (value - half) / length, (value + half) / length))
    on_w, off_w, switch_j = estimates
    return Fit(on_w, off_w, switch_j, confidence, residual_j, len(runs))


def measured(fit: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return what a commissioning's fit measured (W, W, J), if it is good enough; none below 0."""
    if not fit or fit["on_w"]["high"] > (1 + UNSURE) * fit["on_w"]["value"]:
        return None
    found = {key: max(0.0, round(float(fit[key]["value"]), 1)) for key in KEYS}
    saved_w = found["on_w"] - found["off_w"]
    if saved_w <= 0 or fit["switch_j"]["high"] - found["switch_j"] > UNSURE_S * saved_w:
        return None
    return found


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _inverse(m: Sequence[Sequence[float]]) -> list[list[float]]:
    """Invert a symmetric matrix of 3 by 3 by its cofactors."""
    (a, b, c), (_, d, e), (_, _, f) = m
    cofactors = [
        [d * f - e * e, c * e - b * f, b * e - c * d],
        [c * e - b * f, a * f - c * c, b * c - a * e],
        [b * e - c * d, b * c - a * e, a * d - b * b],
    ]
    determinant = _dot(m[0], cofactors[0])
    if determinant < _MOST_ALIKE:
        raise WrongError("power.runs_alike")
    return [[cofactor / determinant for cofactor in line] for line in cofactors]
