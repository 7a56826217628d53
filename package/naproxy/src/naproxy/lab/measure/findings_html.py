"""An experiment's findings as one HTML file: tables with every n, and charts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from naproxy.lab import svg
from naproxy.lab.measure.declared import Experiment, Levels, label
from naproxy.lab.measure.findings import Metric, series

_MOST_LINES: Final = 6
"""As many as the chart has colours and dashes."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto }
:root { color-scheme: light dark }
"""


def page(
    experiment: Experiment,
    about: Mapping[str, Any],
    metrics: Sequence[Metric],
    counts: tuple[int, int],
) -> str:
    """Return the page. `counts` are the valid runs and the repeated ones."""
    return "\n".join(_page(experiment, about, metrics, counts)) + "\n"


def _page(
    experiment: Experiment,
    about: Mapping[str, Any],
    metrics: Sequence[Metric],
    counts: tuple[int, int],
) -> Iterator[str]:
    valid, repeated = counts
    name = escape(experiment.name)
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<style>{_STYLE}</style><h1>{name}</h1>"
    yield (
        f"<p>{valid} valid runs in random order, seed {experiment.seed};"
        f" {repeated} runs failed a check and were repeated. Intervals have 95 % confidence."
        " Comparisons use Welch's t-test with Holm's correction.</p>"
    )
    if about.get("estimated"):
        yield "<p><strong>Estimate: the meter computes its figures, nothing was measured.</strong>"
    if about.get("meter"):
        yield f"<p>Meter: {escape(str(about['meter']))}; accuracy: {escape(about['accuracy'])}</p>"
    for number, metric in enumerate(metrics):
        yield f"<h2>{escape(metric.name)}</h2>"
        for place, chart in enumerate(_charts(experiment, metric)):
            yield svg.own_ids(chart, f"{number}-{place}")
        yield from _means(experiment, metric)
        yield from _comparisons(experiment, metric)
        yield from _lines(metric)
    yield "</html>"


def _charts(experiment: Experiment, metric: Metric) -> Iterator[str]:
    """Draw lines over the numeric factor with the most lines, or else a bar for each cell.

    Lines and bars are named by their levels; a factor with one level has no part in the name.
    """
    varied = [factor.name for factor in experiment.factors if len(factor.levels) > 1]
    known = {mean.cell: mean.estimate.value for mean in metric.means if mean.estimate}
    counts = [mean.n for mean in metric.means]
    n = f"n = {min(counts)}" + (f" to {max(counts)}" if max(counts) > min(counts) else "")
    numeric = [factor.name for factor in experiment.factors if factor.numeric]
    over = max(
        (name for name in numeric if name in varied),
        key=lambda name: sum(len(cells) > 1 for _, cells in series(experiment, name)),
        default=None,
    )
    named = [name for name in varied if name != over]
    title = f"{metric.name} by {', '.join(named)}; {n}" if named else f"{metric.name}; {n}"
    if over is None:
        values = [svg.Bars(metric.name, list(known.values()))]
        names = [_levels(experiment.cells[cell], named) for cell in known]
        if known and min(known.values()) >= 0:
            yield svg.bar_chart(title, "Means", names, values, y_label=metric.name)
        return
    lines = []
    for fixed, cells in series(experiment, over):
        points = [
            (float(experiment.cells[cell][over]), known[cell]) for cell in cells if cell in known
        ]
        if len(points) > 1:
            lines.append(svg.Line(_levels(fixed, named) or metric.name, sorted(points)))
    for first in range(0, len(lines), _MOST_LINES):
        some = lines[first : first + _MOST_LINES]
        yield svg.line_chart(title, f"Means over {over}", some, x_label=over, y_label=metric.name)


def _levels(cell: Levels, names: Sequence[str]) -> str:
    return ", ".join(
        f"{cell[name]:g}" if isinstance(cell[name], float) else str(cell[name]) for name in names
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "<table><thead><tr>" + "".join(f'<th scope="col">{h}' for h in head) + "<tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}" for cell in row)
    yield "</table>"


def _means(experiment: Experiment, metric: Metric) -> Iterator[str]:
    rows = []
    for mean in metric.means:
        name = label(experiment.cells[mean.cell]) or "all runs"
        e = mean.estimate
        said = (
            ("-", "too few runs")
            if e is None
            else (f"{e.value:.6g}", f"{e.low:.6g} to {e.high:.6g}")
        )
        rows.append([name, *said, str(mean.n)])
    yield from _table(["levels", "mean", "95 % interval", "n"], rows)


def _comparisons(experiment: Experiment, metric: Metric) -> Iterator[str]:
    if not metric.compared:
        return
    rows = []
    for pair in metric.compared:
        first, second = (label(experiment.cells[cell]) for cell in (pair.first, pair.second))
        d = pair.difference
        rows.append(
            [
                f"{first} - {second}",
                f"{d.value:.6g}",
                f"{d.low:.6g} to {d.high:.6g}",
                f"{pair.p:.3g}",
                f"{pair.d:.2f}",
                f"{pair.n[0]}, {pair.n[1]}",
                "yes" if pair.differ else "not shown",
            ]
        )
    head = ["compared", "difference", "95 % interval", "p (Holm)", "Cohen's d", "n", "different"]
    yield from _table(head, rows)


def _lines(metric: Metric) -> Iterator[str]:
    if not metric.trends:
        return
    rows = []
    for trend in metric.trends:
        slope, start = trend.line.slope, trend.line.intercept
        rows.append(
            [
                label(trend.fixed) or "all",
                f"{slope.value:.6g} per {trend.factor}",
                f"{slope.low:.6g} to {slope.high:.6g}",
                f"{start.value:.6g}",
                f"{trend.line.r_squared:.3f}",
                str(trend.n),
            ]
        )
    yield from _table(["line for", "slope", "95 % interval", "at 0", "R²", "n"], rows)
