"""The energy of a command: the plan of its runs and the conclusions from them. Pure.

The method of the thesis' chapter 5 (joules per transaction) and of the Green Miner: each
command runs several times, in random order, each time after a while of idling that is
measured too. Times are seconds on the clock that the meter's seconds have.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Final

from naproxy.core import inference
from naproxy.core.inference import Estimate, runs_needed
from naproxy.core.reading import PowerSample

CONFIDENCE: Final = 0.95
LEAST_RUNS: Final = 3
LEAST_COVERED: Final = 0.95
"""A phase of which the meter saw less is left out."""

LEAST_PERIODS: Final = 5
"""A run shorter than so many of the meter's readings is too short for it."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The meter's readings between two whole seconds."""

    start_s: int
    end_s: int
    energy_j: float
    covered_s: float
    readings: int

    @property
    def covered(self) -> float:
        """Which share of it the meter saw."""
        return self.covered_s / (self.end_s - self.start_s)

    @property
    def mean_w(self) -> float:
        """Mean power of the covered time."""
        return self.energy_j / self.covered_s


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one command: idling, then the command.

    `run` is longer than the command: it begins a reading before it and ends one after it, so
    that nothing of it is missed, and idling takes up the rest.
    """

    round: int
    command: int
    baseline: Phase
    run: Phase
    duration_s: float
    units: float | None = None

    @property
    def above_idle_j(self) -> float:
        """Energy above what idling would have taken."""
        return (self.run.mean_w - self.baseline.mean_w) * (self.run.end_s - self.run.start_s)

    @property
    def energy_j(self) -> float:
        """Energy while the command ran."""
        return self.above_idle_j + self.baseline.mean_w * self.duration_s


def order(commands: int, rounds: int, seed: int) -> list[list[int]]:
    """Return for each round all commands in random order.

    Each round has each of them once, so a machine that warms up or a room that cools down
    favours none, and the runs of a round may be compared as pairs.
    """
    chance = random.Random(seed)  # noqa: S311 - an order that can be repeated, not a secret
    return [chance.sample(range(commands), commands) for _ in range(rounds)]


def run_window(start_s: float, end_s: float, period_s: float) -> tuple[int, int]:
    """Return the whole seconds that hold a run and a reading on either side.

    A reading may speak for the time since the one before it.
    """
    return math.floor(start_s - period_s), math.ceil(end_s + period_s)


def phase(seconds: Iterable[PowerSample], start_s: int, end_s: int) -> Phase:
    """Return what was measured between two whole seconds; nothing is filled in for a gap."""
    within = [second for second in seconds if start_s <= second.t_s < end_s]
    return Phase(
        start_s,
        end_s,
        math.fsum(second.energy_mj for second in within) / 1e3,
        math.fsum(second.covered_ms for second in within) / 1e3,
        sum(second.count for second in within),
    )


def seen(run: Run) -> bool:
    """Say whether the meter saw enough of both phases."""
    return min(run.baseline.covered, run.run.covered) >= LEAST_COVERED


# Conclusions


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a command with its interval; `doubt` says why nothing is concluded from it."""

    name: str
    unit: str
    estimate: Estimate | None
    doubt: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two commands compared; `words` conclude, or say why nothing is concluded."""

    first: int
    second: int
    test: inference.Test | None
    concluded: bool
    words: str


@dataclass(frozen=True, slots=True)
class Judge:
    """Says what runs allow to say. Intervals have 95 % confidence.

    `within` is how narrow half an interval must be, as a share of its value. `paired` compares
    the runs of a round with each other, else Welch's test takes them for independent.
    """

    period_s: float
    within: float = 0.1
    paired: bool = False

    def figures(self, runs: Sequence[Run]) -> list[Figure]:
        """Return the figures of one command, of the runs that the meter saw enough of."""
        found = [
            self._figure("energy", "J", [run.energy_j for run in runs], runs),
            self._figure("above idle", "J", [run.above_idle_j for run in runs], runs),
        ]
        if runs and all(run.units for run in runs):
            per_unit = [run.energy_j / run.units for run in runs if run.units]
            above = [run.above_idle_j / run.units for run in runs if run.units]
            found.append(self._figure("energy per unit", "J/unit", per_unit, runs))
            found.append(self._figure("above idle per unit", "J/unit", above, runs))
        return found

    def _figure(self, name: str, unit: str, values: list[float], runs: Sequence[Run]) -> Figure:
        if len(values) < LEAST_RUNS:
            return Figure(name, unit, None, _too_few(len(values)))
        estimate = inference.mean(values, CONFIDENCE)
        return Figure(name, unit, estimate, self._too_short(runs) or self._vague(estimate, values))

    def _too_short(self, runs: Sequence[Run]) -> str | None:
        shortest_s = min(run.duration_s for run in runs)
        if shortest_s >= LEAST_PERIODS * self.period_s:
            return None
        return (
            f"a run of {shortest_s:.2f} s is too short for a meter with a reading each"
            f" {self.period_s:g} s: let the command do more, for at least"
            f" {LEAST_PERIODS * self.period_s:g} s"
        )

    def _vague(self, estimate: Estimate, values: Sequence[float]) -> str | None:
        half = (estimate.high - estimate.low) / 2
        if estimate.low <= 0 <= estimate.high:
            return "it cannot be told from nothing: let the command do more, or run it more often"
        wanted = self.within * abs(estimate.value)
        if half <= wanted:
            return None
        return (
            f"known to {100 * half / abs(estimate.value):.0f} % only, and {100 * self.within:g} %"
            f" are wanted: about {runs_needed(len(values), half, wanted)} runs would do"
        )

    def comparisons(self, runs: Sequence[Run], commands: int) -> list[Comparison]:
        """Compare all commands with each other, so that all intervals hold together (Bonferroni).

        By energy per unit where units are known, else by energy.
        """
        pairs = list(combinations(range(commands), 2))
        return [self._compared(runs, a, b, 1 - (1 - CONFIDENCE) / len(pairs)) for a, b in pairs]

    def _compared(self, runs: Sequence[Run], a: int, b: int, confidence: float) -> Comparison:
        values = [
            {run.round: _compared_by(run) for run in runs if run.command == c} for c in (a, b)
        ]
        if self.paired:
            both = sorted(values[0].keys() & values[1].keys())
            values = [{n: of[n] for n in both} for of in values]
        least = min(map(len, values))
        if least < LEAST_RUNS:
            return Comparison(a, b, None, False, _too_few(least))
        first, second = (list(of.values()) for of in values)
        test = (inference.paired if self.paired else inference.welch)(first, second, confidence)
        short = self._too_short([run for run in runs if run.command in (a, b)])
        if short:
            return Comparison(a, b, test, False, short)
        difference = test.difference
        if difference.low <= 0 <= difference.high:
            return Comparison(a, b, test, False, _not_told_apart(difference, least))
        than = "more" if difference.value > 0 else "less"
        base = fmean(second)
        share = f"{100 * abs(difference.value / base):.1f} % " if base else ""
        return Comparison(a, b, test, True, share + than)


def _compared_by(run: Run) -> float:
    return run.energy_j / run.units if run.units else run.energy_j


def _too_few(runs: int) -> str:
    return f"{runs} runs that the meter saw are too few: at least {LEAST_RUNS} are needed"


def _not_told_apart(difference: Estimate, runs: int) -> str:
    half = (difference.high - difference.low) / 2
    words = "the noise does not allow to tell them apart"
    if not difference.value:
        return words
    needed = runs_needed(runs, half, abs(difference.value))
    return f"{words}; were the difference what it looks like, about {needed} runs would show it"
