"""The thesis' figures of hours, gaps and thresholds for any log, and how many robots are unlisted.

Each one is data first, then SVG. *Robots* are the estimate's; with `--classes table-4.1` they are
those of the thesis. *Behind the cache* follows the thesis' footnote: a cache that is empty at
first, in Varnish's default configuration. It keeps static files for `TTL_S`; a log does not show
which pages it might keep.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Final, NamedTuple

from naproxy.core.energy import Power
from naproxy.core.state import Klass
from naproxy.lab.estimate.cachemodel import TTL_S, Fetched
from naproxy.lab.estimate.traffic import CACHEABLE_FLAG, LISTED_FLAG, STATIC_FLAG, Chunk
from naproxy.lab.papers.numbers import caption
from naproxy.lab.svg import Line, line_chart

HOUR_S: Final = 3600
WEEK_H: Final = 168
_MONDAY_H: Final = 72  # the epoch began on a Thursday
_FILE: Final = CACHEABLE_FLAG | STATIC_FLAG
_JOULES_PER_KWH: Final = 3.6e6

THRESHOLDS_S: Final = range(1, 61)
"""Of figures 4.8 and 4.9."""


class Kind(NamedTuple):
    """Which requests a curve is of."""

    robots: bool
    cached: bool

    @property
    def name(self) -> str:
        """Its name in a legend."""
        return ("all requests" if self.robots else "without robots") + (
            ", with the cache" if self.cached else ""
        )


KINDS: Final = tuple(Kind(robots, cached) for cached in (False, True) for robots in (True, False))


class Unlisted(NamedTuple):
    """Section 4.2: requests whose User-Agent is not in table 4.1, and how many are robots' yet."""

    requests: int
    robots: int

    @property
    def share(self) -> float:
        """The share that the thesis estimated at 5 %, from a sample checked by hand."""
        return self.robots / max(1, self.requests)


@dataclass(slots=True)
class Chapter4:
    """The data of the figures; times in seconds, hours since the epoch."""

    gaps: Mapping[Kind, Counter[float]] = field(
        default_factory=lambda: {kind: Counter() for kind in KINDS}
    )
    """Length, rounded, -> how many."""
    all_hours: Counter[int] = field(default_factory=Counter)
    robot_hours: Counter[int] = field(default_factory=Counter)
    not_listed: int = 0
    not_listed_robots: int = 0
    _first_s: dict[Kind, float] = field(default_factory=dict)
    _last_s: dict[Kind, float] = field(default_factory=dict)
    _fetched: Fetched = field(default_factory=Fetched)

    def take(self, chunk: Chunk) -> None:
        """Take the requests of the next stretch of time."""
        for t_s, path, number, flags, age_s in zip(
            chunk.t_s, chunk.path, chunk.klass, chunk.flags, chunk.age_s, strict=True
        ):
            robot = Klass(number).robot
            hour = int(t_s // HOUR_S)
            self.all_hours[hour] += 1
            self.robot_hours[hour] += robot
            if not flags & LISTED_FLAG:
                self.not_listed += 1
                self.not_listed_robots += robot
            is_file = flags & _FILE == _FILE
            self._need(Kind(robots=True, cached=False), t_s)
            if not (is_file and 0 <= self._fetched.age_s(t_s, path) < TTL_S):
                self._need(Kind(robots=True, cached=True), t_s)
            if robot:
                continue
            self._need(Kind(robots=False, cached=False), t_s)
            if not (is_file and 0 <= age_s < TTL_S):
                self._need(Kind(robots=False, cached=True), t_s)

    def _need(self, kind: Kind, t_s: float) -> None:
        last_s = self._last_s.get(kind)
        if last_s is None:
            self._first_s[kind] = t_s
        elif t_s > last_s:
            self.gaps[kind][rounded(t_s - last_s)] += 1
        self._last_s[kind] = t_s

    def pauses(self, kind: Kind) -> Counter[float]:
        """Return the gaps, and the time of the log before the first request and after the last."""
        found = self.gaps[kind].copy()
        if kind in self._first_s:
            everyone = KINDS[0]
            found[self._first_s[kind] - self._first_s[everyone]] += 1
            found[self._last_s[everyone] - self._last_s[kind]] += 1
        return found

    @property
    def unlisted(self) -> Unlisted:
        """Return how many robots are not in table 4.1."""
        return Unlisted(self.not_listed, self.not_listed_robots)


def rounded(gap_s: float) -> float:
    """Keep three digits, so that a long log has not too many lengths."""
    if gap_s < 1000:
        return round(gap_s, 1)
    unit = 10 ** (math.floor(math.log10(gap_s)) - 2)
    return float(round(gap_s / unit) * unit)


class Week(NamedTuple):
    """Requests in each hour of the week, from Monday 0:00 UTC on; None where the log has none."""

    medians: Sequence[float | None]
    means: Sequence[float | None]


def week(hours: Counter[int], first: int, last: int) -> Week:
    """Return median and mean over the weeks of a log, which has the hours `first` to `last`."""
    found: list[list[int]] = [[] for _ in range(WEEK_H)]
    for hour in range(first, last + 1):
        found[(hour + _MONDAY_H) % WEEK_H].append(hours[hour])
    return Week(
        [median(each) if each else None for each in found],
        [fmean(each) if each else None for each in found],
    )


def weeks(data: Chapter4) -> tuple[Week, Week]:
    """Return those of all requests and of robots."""
    first, last = min(data.all_hours, default=0), max(data.all_hours, default=-1)
    return week(data.all_hours, first, last), week(data.robot_hours, first, last)


def lengths(gaps: Counter[float]) -> list[tuple[float, int]]:
    """Return how many gaps have each length, in whole seconds; those under one are left out."""
    found: Counter[int] = Counter()
    for gap_s, number in gaps.items():
        found[int(gap_s)] += number
    return [(float(gap_s), found[gap_s]) for gap_s in sorted(found) if gap_s >= 1]


def energy_kwh(gaps: Counter[float], threshold_s: float, span_s: float, power: Power) -> float:
    """Return what the idealised model draws that sleeps through gaps of at least `threshold_s`.

    Section 4.4; N is the number of the gaps that it sleeps in, where the thesis prints the others.
    """
    slept = [(gap_s, number) for gap_s, number in gaps.items() if gap_s >= threshold_s]
    off_s = sum(gap_s * number for gap_s, number in slept)
    switches = sum(number for _, number in slept)
    return power.energy_j(max(0.0, span_s - off_s), off_s, switches) / _JOULES_PER_KWH


def figures(data: Chapter4, span_s: float, power: Power) -> Iterator[str]:
    """Yield what `as_json` has the data of, as SVG."""
    everything, robots = weeks(data)
    yield _figure_of_week("4.2", everything.medians, robots.medians)
    yield _figure_of_week("4.3", everything.means, robots.means)
    everyone, people, behind, people_behind = KINDS
    for number, kind in (("4.4", everyone), ("4.5", behind), ("4.6", people)):
        yield line_chart(
            caption(number),
            "A line of how many gaps between requests last how many seconds, from one second on.",
            [Line(kind.name, lengths(data.gaps[kind]))],
            x_label="length of the gap in seconds",
            y_label="gaps",
            log_x=True,
            log_y=True,
        )
    for number, kinds in (
        ("4.8", (everyone, people)),
        ("4.9", (everyone, people, behind, people_behind)),
    ):
        curves = [Line(kind.name, _over_thresholds(data, kind, span_s, power)) for kind in kinds]
        always = energy_kwh(Counter(), 1, span_s, power)
        curves.append(Line("always on", [(float(t), always) for t in THRESHOLDS_S]))
        yield line_chart(
            caption(number),
            "Lines of the energy that the idealised model draws, over its threshold.",
            curves,
            x_label="threshold in seconds",
            y_label="energy, kWh",
        )


def _over_thresholds(
    data: Chapter4, kind: Kind, span_s: float, power: Power
) -> list[tuple[float, float]]:
    pauses = data.pauses(kind)
    return [
        (float(threshold), energy_kwh(pauses, threshold, span_s, power))
        for threshold in THRESHOLDS_S
    ]


def _figure_of_week(
    number: str, everything: Sequence[float | None], robots: Sequence[float | None]
) -> str:
    lines = [
        Line(name, [(float(hour), n) for hour, n in enumerate(of) if n is not None])
        for name, of in (("all requests", everything), ("robots", robots))
    ]
    return line_chart(
        caption(number),
        "Lines of the requests in each of the week's 168 hours, of all and of robots.",
        lines,
        x_label="hour of the week, UTC, from Monday 0:00",
        y_label="requests an hour",
    )


def as_json(data: Chapter4, span_s: float, power: Power) -> dict[str, Any]:
    """Return the figures' data by their numbers, and the unlisted robots."""
    everything, robots = weeks(data)
    everyone, people, behind, people_behind = KINDS
    unlisted = data.unlisted

    def curves(*kinds: Kind) -> dict[str, list[tuple[float, float]]]:
        return {kind.name: _over_thresholds(data, kind, span_s, power) for kind in kinds}

    return {
        "4.2": {"all": everything.medians, "robots": robots.medians},
        "4.3": {"all": everything.means, "robots": robots.means},
        "4.4": lengths(data.gaps[everyone]),
        "4.5": lengths(data.gaps[behind]),
        "4.6": lengths(data.gaps[people]),
        "4.8": curves(everyone, people),
        "4.9": curves(everyone, people, behind, people_behind),
        "unlisted": {**unlisted._asdict(), "share": unlisted.share},
    }
