"""Each parameter of a transfer from 1 to 32, alone and combined: the paper's figures 3 to 5. Pure.

Alone, the two others stay at 1. Combined, pipelining and parallelism have the levels that moved the
most bytes for a joule alone, and the number of channels goes from 1 to 32.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, Protocol

LEVELS: Final = (1, 2, 4, 8, 16, 32)
ROUNDS: Final = 3
"""So often each level is measured, in a random order in each round."""

PARAMETERS: Final = ("pipelining", "parallelism", "concurrency")
COMBINED: Final = "combined"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Values that replace those of the equations; None keeps the equations' value."""

    pipelining: int | None = None
    parallelism: int | None = None
    concurrency: int | None = None


ONE: Final = Tuning(1, 1, 1)


class Moved(Protocol):
    """Bytes, seconds and joules of one transfer."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def bytes(self) -> int:
        """Bytes received."""

    @property
    def joules(self) -> float:
        """Energy used."""


@dataclass(frozen=True, slots=True)
class Level:
    """Means of `runs` transfers with the same tuning."""

    tuning: Tuning
    runs: int
    seconds: float
    bytes: float
    joules: float

    @property
    def bytes_s(self) -> float:
        """Throughput of all runs together."""
        return self.bytes / max(1e-9, self.seconds)

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / max(1e-9, self.seconds)

    @property
    def bytes_j(self) -> float:
        """Bytes for each joule: the paper's efficiency, of transfers that move the same."""
        return self.bytes / max(1e-9, self.joules)


Transfer = Callable[[Tuning], Moved]


def measured(tunings: Sequence[Tuning], transfer: Transfer, order: random.Random) -> list[Level]:
    """Run each tuning ROUNDS times, in a random order; return their means in the order given."""
    found: dict[Tuning, list[Moved]] = {tuning: [] for tuning in tunings}
    for _ in range(ROUNDS):
        shuffled = list(found)
        order.shuffle(shuffled)
        for tuning in shuffled:
            found[tuning].append(transfer(tuning))
    return [_mean(tuning, runs) for tuning, runs in found.items()]


def _mean(tuning: Tuning, runs: Sequence[Moved]) -> Level:
    return Level(
        tuning,
        len(runs),
        fmean(run.seconds for run in runs),
        fmean(run.bytes for run in runs),
        fmean(run.joules for run in runs),
    )


def alone(parameter: str) -> list[Tuning]:
    """Return the levels of one parameter, the others at 1."""
    return [replace(ONE, **{parameter: level}) for level in LEVELS]


def best(levels: Sequence[Level]) -> Tuning:
    """Return the tuning that moved the most bytes for a joule."""
    return max(levels, key=lambda level: level.bytes_j).tuning


def sweep(
    parameter: str, transfer: Transfer, order: random.Random
) -> Iterator[tuple[str, list[Level]]]:
    """Yield what was measured, by the parameter that went from 1 to 32.

    COMBINED yields pipelining and parallelism first, and then the channels with the best of both.
    """
    if parameter != COMBINED:
        yield parameter, measured(alone(parameter), transfer, order)
        return
    fixed = ONE
    for name in ("pipelining", "parallelism"):
        levels = measured(alone(name), transfer, order)
        yield name, levels
        fixed = replace(fixed, **{name: getattr(best(levels), name)})
    combined = [replace(fixed, concurrency=level) for level in LEVELS]
    yield COMBINED, measured(combined, transfer, order)


def table(parameter: str, levels: Sequence[Level]) -> Iterator[str]:
    """Yield it as lines for a terminal."""
    yield f"{parameter}, {levels[0].runs} runs of each level, means:"
    yield f"{'pipe':>6}{'parts':>6}{'chan.':>6}{'s':>9}{'Mbit/s':>9}{'J':>10}{'W':>9}{'MB/J':>9}"
    for level in levels:
        tuning = level.tuning
        yield (
            f"{tuning.pipelining:>6}{tuning.parallelism:>6}{tuning.concurrency:>6}"
            f"{level.seconds:>9.2f}{level.bytes_s * 8e-6:>9.1f}{level.joules:>10.1f}"
            f"{level.watts:>9.1f}{level.bytes_j / 1e6:>9.3f}"
        )
