"""Conclusions from a few measurements: percentiles, intervals, t-tests and lines. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

_ENOUGH: Final = 1e-15
_MOST_TERMS: Final = 10000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its confidence interval, in the value's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Test:
    """A difference of two means, and whether it may be chance."""

    difference: Estimate
    t: float
    degrees: float
    p: float
    """How likely a difference as large is by chance alone, to either side."""

    __test__ = False  # pytest takes what is called Test for its own


def mean(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the mean of at least two values with its interval by Student's t."""
    return _estimate(fmean(values), _error(values), len(values) - 1, confidence)


def welch(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Test:
    """Compare the means of independent samples of at least two values; `a` minus `b`.

    Welch's test, with the degrees of freedom of Welch and Satterthwaite: NIST/SEMATECH
    e-Handbook of Statistical Methods, 1.3.5.3.
    """
    errors = [_error(values) ** 2 for values in (a, b)]
    degrees = float(len(a) + len(b) - 2)
    if sum(errors) > 0:
        # As shares of their sum, because squares of small numbers would be 0.
        shares = [error / sum(errors) for error in errors]
        degrees = 1 / sum(
            share**2 / (len(values) - 1) for share, values in zip(shares, (a, b), strict=True)
        )
    return _test(fmean(a) - fmean(b), math.sqrt(sum(errors)), degrees, confidence)


def paired(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Test:
    """Compare values that belong together two by two; `a` minus `b`. At least two pairs."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    return _test(fmean(differences), _error(differences), len(differences) - 1, confidence)


def runs_needed(runs: int, half: float, wanted_half: float) -> int:
    """Return about how many runs make an interval as narrow as wanted.

    `half` is half the interval's width with `runs` runs; it shrinks with their square root.
    """
    return max(runs + 1, math.ceil(runs * (half / wanted_half) ** 2))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return math.sqrt(variance(values) / len(values))


def _test(difference: float, error: float, degrees: float, confidence: float) -> Test:
    if error > 0:
        t = difference / error
    else:
        t = math.copysign(math.inf, difference) if difference else 0.0
    estimate = _estimate(difference, error, degrees, confidence)
    return Test(estimate, t, degrees, student_both_tails(abs(t), degrees))


def _estimate(value: float, error: float, degrees: float, confidence: float) -> Estimate:
    half = student_t(0.5 + confidence / 2, degrees) * error
    return Estimate(value, value - half, value + half)


def student_t(share: float, degrees: float) -> float:
    """Return the t below which `share` (0.5 to 1) of Student's distribution lies."""
    low, high = 0.0, 1.0
    while student_share(high, degrees) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, degrees) < share else (low, middle)
    return high


def student_share(t: float, degrees: float) -> float:
    """Return the share of Student's distribution below `t`, which is not negative."""
    return 1 - student_both_tails(t, degrees) / 2


def student_both_tails(t: float, degrees: float) -> float:
    """Return the share of Student's distribution farther from 0 than `t`, to either side.

    Abramowitz and Stegun, 26.7.1 with 26.5.27: the incomplete beta function.
    """
    if math.isinf(t):
        return 0.0
    square = t * t
    if square < degrees:
        return 1 - _beta_share(square / (degrees + square), 0.5, degrees / 2)
    return _beta_share(degrees / (degrees + square), degrees / 2, 0.5)


def _beta_share(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), for x from 0 to 1.

    The continued fraction of Abramowitz and Stegun, 26.5.8, by Lentz's method. It converges
    fast where x is below its mean; elsewhere I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    fraction, upper, lower = 1.0, 1.0, 0.0
    for n in range(1, _MOST_TERMS):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / (1 + term * lower)
        upper = 1 + term / upper
        fraction *= upper * lower
        if abs(upper * lower - 1) < _ENOUGH:
            break
    return front / (a * fraction)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of `values` lies, between two by a line."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Line:
    """A least-squares line with intervals, and the share of the variance that it explains."""

    slope: Estimate
    intercept: Estimate
    r_squared: float


def line(xs: Sequence[float], ys: Sequence[float], confidence: float = 0.95) -> Line:
    """Fit y = intercept + slope x to at least three points.

    NIST/SEMATECH e-Handbook of Statistical Methods, 4.1.4.1. ValueError if all x are equal.
    """
    n = len(xs)
    if n < 3 or len(ys) != n:
        raise ValueError("a line needs at least three points")
    x_mean, y_mean = fmean(xs), fmean(ys)
    x_square = math.fsum((x - x_mean) ** 2 for x in xs)
    if not x_square:
        raise ValueError("all x are equal")
    y_square = math.fsum((y - y_mean) ** 2 for y in ys)
    slope = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / x_square
    start = y_mean - slope * x_mean
    left = math.fsum((y - start - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    deviation = math.sqrt(left / (n - 2))
    return Line(
        _estimate(slope, deviation / math.sqrt(x_square), n - 2, confidence),
        _estimate(start, deviation * math.sqrt(1 / n + x_mean**2 / x_square), n - 2, confidence),
        1 - left / y_square if y_square else 1.0,
    )


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values that hold together, by Holm's step-down method, in the order given.

    S. Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for done, place in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - done) * ps[place]))
        adjusted[place] = largest
    return adjusted


def cohens_d(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the difference of two means in pooled standard deviations; infinite without any.

    J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, 2.5.2.
    """
    pooled = math.sqrt(
        ((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)) / (len(a) + len(b) - 2)
    )
    difference = fmean(a) - fmean(b)
    if pooled:
        return difference / pooled
    return math.copysign(math.inf, difference) if difference else 0.0
