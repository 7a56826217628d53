"""Findings of an experiment's runs: means, comparisons and lines, each with its n. Pure.

Two cells are compared if they differ in one factor only. Welch's t-test takes the runs for
independent. Holm's correction makes all comparisons of a metric hold together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from naproxy.core import inference
from naproxy.core.inference import Estimate
from naproxy.lab.measure.declared import Experiment, Levels, label

LEAST_RUNS: Final = 3
SIGNIFICANT: Final = 0.05

Values = Mapping[str, float]
"""A run's metrics by name, with the unit at the name's end."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A metric of a cell; no estimate with fewer than three runs."""

    cell: int
    n: int
    estimate: Estimate | None


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric of two cells; `p` is Holm's. `first` minus `second`."""

    factor: str
    first: int
    second: int
    n: tuple[int, int]
    difference: Estimate
    p: float
    d: float

    @property
    def differ(self) -> bool:
        """Whether chance alone hardly explains the difference."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True, slots=True)
class Trend:
    """A metric over a numeric factor, the other factors fixed as in `fixed`."""

    factor: str
    fixed: Levels
    n: int
    line: inference.Line


@dataclass(frozen=True, slots=True)
class Metric:
    """Means, comparisons and lines of one metric."""

    name: str
    means: Sequence[Mean]
    compared: Sequence[Compared]
    trends: Sequence[Trend]


def findings(experiment: Experiment, runs: Sequence[tuple[int, Values]]) -> list[Metric]:
    """Return the findings of valid runs, each a cell's number and its metrics."""
    names = dict.fromkeys(name for _, values in runs for name in values)
    found = []
    for name in names:
        by_cell: list[list[float]] = [[] for _ in experiment.cells]
        for cell, values in runs:
            if name in values:
                by_cell[cell].append(values[name])
        found.append(_metric(experiment, name, by_cell))
    return found


def _metric(experiment: Experiment, name: str, by_cell: Sequence[Sequence[float]]) -> Metric:
    means = [
        Mean(cell, len(of), inference.mean(of) if len(of) >= LEAST_RUNS else None)
        for cell, of in enumerate(by_cell)
    ]
    return Metric(name, means, _compared(experiment, by_cell), list(_trends(experiment, by_cell)))


def _compared(experiment: Experiment, by_cell: Sequence[Sequence[float]]) -> list[Compared]:
    pairs = [
        (factor, a, b)
        for a, b in combinations(range(len(by_cell)), 2)
        if min(len(by_cell[a]), len(by_cell[b])) >= LEAST_RUNS
        for factor in [_only_difference(experiment.cells[a], experiment.cells[b])]
        if factor is not None
    ]
    tests = [inference.welch(by_cell[a], by_cell[b]) for _, a, b in pairs]
    adjusted = inference.holm([test.p for test in tests])
    return [
        Compared(
            factor,
            a,
            b,
            (len(by_cell[a]), len(by_cell[b])),
            test.difference,
            p,
            inference.cohens_d(by_cell[a], by_cell[b]),
        )
        for (factor, a, b), test, p in zip(pairs, tests, adjusted, strict=True)
    ]


def _only_difference(a: Levels, b: Levels) -> str | None:
    different = [name for name in a if a[name] != b[name]]
    return different[0] if len(different) == 1 else None


def series(experiment: Experiment, factor: str) -> Iterator[tuple[Levels, list[int]]]:
    """Yield the cells along a factor, for each combination of the other factors' levels."""
    grouped: dict[tuple[Any, ...], list[int]] = {}
    for number, cell in enumerate(experiment.cells):
        key = tuple((name, level) for name, level in cell.items() if name != factor)
        grouped.setdefault(key, []).append(number)
    for key, cells in grouped.items():
        yield dict(key), cells


def _trends(experiment: Experiment, by_cell: Sequence[Sequence[float]]) -> Iterator[Trend]:
    for factor in experiment.factors:
        if not factor.numeric or len(factor.levels) < 3:
            continue
        for fixed, cells in series(experiment, factor.name):
            points = [
                (float(experiment.cells[cell][factor.name]), value)
                for cell in cells
                for value in by_cell[cell]
            ]
            if len({x for x, _ in points}) >= 3:
                line = inference.line([x for x, _ in points], [y for _, y in points])
                yield Trend(factor.name, fixed, len(points), line)


def as_json(experiment: Experiment, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the findings as an object for JSON."""
    return {
        "name": experiment.name,
        "cells": [dict(cell) for cell in experiment.cells],
        "metrics": [
            {
                "name": metric.name,
                "means": [
                    {"cell": mean.cell, "n": mean.n, **_interval(mean.estimate)}
                    for mean in metric.means
                ],
                "compared": [
                    {
                        "factor": pair.factor,
                        "first": pair.first,
                        "second": pair.second,
                        "n": list(pair.n),
                        **_interval(pair.difference),
                        "p_holm": pair.p,
                        "cohens_d": pair.d if abs(pair.d) < float("inf") else None,
                        "differ": pair.differ,
                    }
                    for pair in metric.compared
                ],
                "lines": [
                    {
                        "factor": trend.factor,
                        "fixed": dict(trend.fixed),
                        "n": trend.n,
                        "slope": _interval(trend.line.slope),
                        "intercept": _interval(trend.line.intercept),
                        "r_squared": trend.line.r_squared,
                    }
                    for trend in metric.trends
                ],
            }
            for metric in metrics
        ],
    }


def _interval(estimate: Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {"value": None, "low": None, "high": None}
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def text(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the means as lines for a terminal."""
    for metric in metrics:
        yield ""
        yield metric.name
        for mean in metric.means:
            name = label(experiment.cells[mean.cell])
            if mean.estimate is None:
                yield f"   {name:<48} too few valid runs (n = {mean.n})"
            else:
                e = mean.estimate
                yield (
                    f"   {name:<48} {e.value:12.6g}  ({e.low:.6g} to {e.high:.6g}; n = {mean.n})"
                )
