"""Charts as SVG text: lines and bars, with axes, a legend and a description for screen readers.

A chart stands alone in a file, follows the reader's light or dark setting, and tells its
series apart by more than colour: lines by their dashes, bars by their order in the legend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 32, 84, 56
_TIERS = 3  # rows of labels under the bars
_PLOT_W, _PLOT_H = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
# Okabe and Ito's palette, made for the colour blind; without its yellow and its black,
# which vanish on white or on black.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_DASHES = ("none", "8 4", "2 3", "10 3 2 3", "5 5", "14 4")
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 }
.title { font-size: 16px; font-weight: 600 }
.grid { stroke: #ccc } .axis { stroke: #666 } .paper { fill: #fff }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #999 } .paper { fill: #16181c } }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A series of (x, y) points in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Bars:
    """A series with one value, not negative, for each category of its chart."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Scale:
    """A range of values and its ticks, on a straight or a logarithmic axis."""

    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value is, 0 at the low end and 1 at the high one."""
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


def line_chart(
    title: str,
    description: str,
    series: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    steps: bool = False,
    y_max: float | None = None,
) -> str:
    """Draw lines over numbers; `steps` for values that stay until the next point.

    On a logarithmic axis points at or below zero are drawn at its low end.
    """
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    x_scale = _log(xs) if log_x else _straight(min(xs, default=0), max(xs, default=1))
    y_high = y_max if y_max is not None else max(ys, default=1)
    y_scale = _log(ys) if log_y else _straight(min([0, *ys]), y_high)

    def draw() -> Iterator[str]:
        yield from _x_ticks((x_scale.at(tick), _number(tick)) for tick in x_scale.ticks)
        for i, line in enumerate(series):
            places = [(_x(x_scale.at(x)), _y(y_scale.at(y))) for x, y in line.points]
            yield (
                f'<path d="{_path(places, steps)}" fill="none" stroke-width="2.5" '
                f'stroke="{_colour(i)}" stroke-dasharray="{_DASHES[i % len(_DASHES)]}">'
                f"<title>{escape(line.name)}</title></path>"
            )

    names = [line.name for line in series]
    return _chart(
        title,
        description,
        draw,
        x_label=x_label,
        y_label=y_label,
        y_scale=y_scale,
        names=names,
        lines=True,
    )


def bar_chart(
    title: str,
    description: str,
    categories: Sequence[str],
    series: Sequence[Bars],
    *,
    y_label: str,
    x_label: str = "",
    stacked: bool = False,
    touching: bool = False,
) -> str:
    """Draw bars by category, side by side or `stacked`; `touching` for a histogram."""
    rows = list(zip(*(bars.values for bars in series), strict=True))
    y_scale = _straight(0, max((sum(row) if stacked else max(row) for row in rows), default=1))
    slot = 1 / max(1, len(categories))
    across = 1 if stacked else max(1, len(series))
    width = slot * (1 if touching else 0.7) / across
    # More labels than fit stand in rows where there is room for that, and are thinned out else.
    too_many = max(1, math.ceil(sum(len(c) + 2 for c in categories) * 7 / _PLOT_W))
    tiers = 1 if x_label else min(too_many, _TIERS)
    every = math.ceil(too_many / tiers)

    def draw() -> Iterator[str]:
        yield from _x_ticks(
            (
                ((i + 0.5) * slot, category)
                for i, category in enumerate(categories)
                if i % every == 0
            ),
            tiers,
        )
        for c, (category, row) in enumerate(zip(categories, rows, strict=True)):
            base = 0.0
            for i, value in enumerate(row):
                left = (c + 0.5) * slot + width * (0 if stacked else i) - width * across / 2
                top = _y(y_scale.at(base + value))
                yield (
                    f'<rect x="{_x(left):.1f}" y="{top:.1f}" width="{width * _PLOT_W:.1f}" '
                    f'height="{_y(y_scale.at(base)) - top:.1f}" fill="{_colour(i)}">'
                    f"<title>{escape(category)}, {escape(series[i].name)}: "
                    f"{_number(value)}</title></rect>"
                )
                base += value if stacked else 0

    names = [bars.name for bars in series]
    return _chart(
        title, description, draw, x_label=x_label, y_label=y_label, y_scale=y_scale, names=names
    )


def own_ids(svg: str, own: str) -> str:
    """Return a chart whose ids end so: several in one page must not share them."""
    svg = svg.replace('"title description"', f'"title-{own} description-{own}"')
    svg = svg.replace('id="title"', f'id="title-{own}"')
    return svg.replace('id="description"', f'id="description-{own}"')


def _chart(
    title: str,
    description: str,
    draw: Callable[[], Iterator[str]],
    *,
    x_label: str,
    y_label: str,
    y_scale: _Scale,
    names: Sequence[str],
    lines: bool = False,
) -> str:
    middle_x, middle_y = _LEFT + _PLOT_W / 2, _TOP + _PLOT_H / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(description)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text class="title" x="{_LEFT}" y="28">{escape(title)}</text>',
        *_legend(names, lines=lines),
    ]
    for tick in y_scale.ticks:
        y = _y(y_scale.at(tick))
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}h{_PLOT_W}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    parts += draw()
    parts += [
        f'<path class="axis" d="M{_LEFT} {_y(0)}h{_PLOT_W}"/>',
        f'<text x="{middle_x}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(18 {middle_y}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(names: Sequence[str], *, lines: bool) -> Iterator[str]:
    if len(names) < 2:
        return
    x, y = float(_LEFT), 50
    for i, name in enumerate(names):
        width = 38 + 7.2 * len(name)
        if x + width > _WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + 20
        if lines:
            yield (
                f'<path d="M{x:.1f} {y - 4}h22" stroke="{_colour(i)}" stroke-width="3" '
                f'stroke-dasharray="{_DASHES[i % len(_DASHES)]}"/>'
            )
        else:
            yield f'<rect x="{x:.1f}" y="{y - 11}" width="22" height="13" fill="{_colour(i)}"/>'
        yield f'<text x="{x + 28:.1f}" y="{y}">{escape(name)}</text>'
        x += width


def _x_ticks(places: Iterator[tuple[float, str]], tiers: int = 1) -> Iterator[str]:
    for n, (place, label) in enumerate(places):
        down = 14 * (n % tiers)
        yield f'<path class="axis" d="M{_x(place):.1f} {_y(0)}v5"/>'
        yield (
            f'<text x="{_x(place):.1f}" y="{_y(0) + 20 + down}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )


def _path(places: Sequence[tuple[float, float]], steps: bool) -> str:
    if not places:
        return "M0 0"
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    for (_, _before), (x, y) in pairwise(places):
        path += f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}"
    return path


def _straight(low: float, high: float) -> _Scale:
    """Ticks at 1, 2 or 5 times a power of ten; the ends are ticks too."""
    if high - low < 1e-9:  # nothing, or less than float can count in
        high = low + 1
    power = 10 ** math.floor(math.log10(high - low))
    step = next(m * power for m in (0.2, 0.5, 1, 2) if (high - low) / (m * power) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [i * step for i in range(first, last + 1)]
    return _Scale(ticks[0], ticks[-1], ticks)


def _log(values: Sequence[float]) -> _Scale:
    """Ticks at powers of ten, around the values above zero."""
    positive = [value for value in values if value > 1e-9] or [1.0]
    first = math.floor(math.log10(min(positive)))
    last = max(first + 1, math.ceil(math.log10(max(positive))))
    return _Scale(10.0**first, 10.0**last, [10.0**i for i in range(first, last + 1)], log=True)


def _x(place: float) -> float:
    return _LEFT + place * _PLOT_W


def _y(place: float) -> float:
    return _TOP + (1 - place) * _PLOT_H


def _colour(i: int) -> str:
    return _COLOURS[i % len(_COLOURS)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
