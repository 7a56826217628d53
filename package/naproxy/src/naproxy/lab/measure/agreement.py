"""How well two meters agree: the method of Bland and Altman. Pure.

J. M. Bland, D. G. Altman, "Statistical methods for assessing agreement between two methods of
clinical measurement", Lancet 1986, and "Measuring agreement in method comparison studies", 1999. A
correlation would say nothing here: two meters of which one shows twice as much correlate perfectly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Final

from naproxy.core.inference import Estimate, student_t

LEAST: Final = 10
"""With fewer pairs nothing is said."""

LIMIT: Final = 1.96
"""So many standard deviations hold 95 % of the differences, if they are normal."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Differences a - b, in watts, with intervals of `confidence`."""

    pairs: int
    independent: float
    """As many pairs say as much that do not depend on the one before."""
    bias: Estimate
    deviation: float
    lower: Estimate
    upper: Estimate
    """Limits of agreement: 95 % of the differences lie between them."""
    slope: Estimate | None
    """By how much the difference grows for each watt; None where the power did not vary."""
    low_w: float
    high_w: float
    """The range of the means of each pair: it holds for no other power."""
    confidence: float = 0.95


def bland_altman(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Agreement:
    """Compare values that belong together; ValueError where there are too few or they are infinite.

    Readings that follow each other are alike, so the intervals are those of fewer pairs: of
    n (1 - r) / (1 + r), with r the correlation of each difference with the next one.
    """
    differences = [x - y for x, y in zip(a, b, strict=True)]
    means = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
    count = len(differences)
    if count < LEAST:
        raise ValueError(f"{count} pairs are too few: at least {LEAST}")
    if not all(map(math.isfinite, [*differences, *means])):
        raise ValueError("not all values are numbers")
    bias, deviation = fmean(differences), stdev(differences)
    independent = count * _independence(differences, bias)
    t = student_t(0.5 + confidence / 2, independent - 1)
    of_bias = t * deviation / math.sqrt(independent)
    of_limit = t * deviation * math.sqrt(3 / independent)
    low, high = bias - LIMIT * deviation, bias + LIMIT * deviation
    return Agreement(
        pairs=count,
        independent=independent,
        bias=Estimate(bias, bias - of_bias, bias + of_bias),
        deviation=deviation,
        lower=Estimate(low, low - of_limit, low + of_limit),
        upper=Estimate(high, high - of_limit, high + of_limit),
        slope=_slope(means, differences, independent, confidence),
        low_w=min(means),
        high_w=max(means),
        confidence=confidence,
    )


def _independence(values: Sequence[float], middle: float) -> float:
    """Return the share of the values that counts; never so few that nothing can be said."""
    whole = math.fsum((value - middle) ** 2 for value in values)
    if whole <= 0:
        return 1.0
    beside = math.fsum((x - middle) * (y - middle) for x, y in pairwise(values))
    r = min(max(beside / whole, 0.0), 1.0)
    return max((1 - r) / (1 + r), 3 / len(values))


def _slope(
    means: Sequence[float], differences: Sequence[float], independent: float, confidence: float
) -> Estimate | None:
    middle, bias = fmean(means), fmean(differences)
    spread = math.fsum((x - middle) ** 2 for x in means)
    if spread <= 1e-9 * len(means) * max(1.0, middle**2):
        return None
    together = math.fsum((x - middle) * (d - bias) for x, d in zip(means, differences, strict=True))
    slope = together / spread
    left = math.fsum(
        (d - bias - slope * (x - middle)) ** 2 for x, d in zip(means, differences, strict=True)
    )
    # As with `independent` pairs over the same spread: both sums shrink by the same share.
    degrees = independent - 2
    error = math.sqrt(max(0.0, left) / spread / degrees)
    half = student_t(0.5 + confidence / 2, degrees) * error
    return Estimate(slope, slope - half, slope + half)


def pairs(
    a: Mapping[int, float], b: Mapping[int, float], length_s: int
) -> tuple[list[float], list[float]]:
    """Return the mean powers of the stretches of `length_s` in which both meters said something.

    `a` and `b` have watts by the second. A meter that says something every seven seconds is
    compared over as many.
    """
    found: dict[int, tuple[list[float], list[float]]] = {}
    for side, seconds in enumerate((a, b)):
        for t_s, watts in seconds.items():
            found.setdefault(t_s // length_s, ([], []))[side].append(watts)
    both = [values for _, values in sorted(found.items()) if all(values)]
    return [fmean(x) for x, _ in both], [fmean(y) for _, y in both]
