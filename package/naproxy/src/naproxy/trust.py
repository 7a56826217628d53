"""What speaks against believing an access log."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Problem(NamedTuple):
    """Why the figures of a log may be wrong."""

    kind: str
    """empty, short, back, holes, cut, malformed, minutes or machine."""
    words: str
    figures: dict[str, float]
    """The numbers in the words: days, count, most_s, hours, lines."""


@dataclass
class Trust:
    """What speaks against believing a log, gathered while it is read."""

    lines: int = 0
    entries: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf
    steps_back: int = 0  # over STEP_BACK_S
    furthest_back_s: float = 0.0
    cut: bool = False
    malformed: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)  # of those: line, its text, cut
    _long_s: list[tuple[float, float]] = field(default_factory=list)  # longest gaps: length, end
    _seconds: list[int] = field(default_factory=lambda: [0] * 60)
    _minute: int = 0
    _in_minute: int = 0
    _minutes: int = 0  # minutes with requests
    _squares: int = 0

    @property
    def span_s(self) -> float:
        """From the first to the last entry, in seconds."""
        return max(0.0, self.last_s - self.first_s)

    def see(self, t_s: float) -> None:
        """Take the time of the next entry, made never to step back."""
        if self.entries == 0:
            self.first_s = self.last_s = t_s
        gap_s = t_s - self.last_s
        if gap_s >= 600:
            self._long_s.append((gap_s, t_s))
            if len(self._long_s) > 1000:
                self._long_s = sorted(self._long_s, reverse=True)[:100]
        self.entries += 1
        self.last_s = t_s
        minute = int(t_s // 60)
        self._seconds[int(t_s) % 60] += 1
        if minute != self._minute:
            self._close_minute()
            self._minute = minute
        self._in_minute += 1

    def _close_minute(self) -> None:
        if self._in_minute:
            self._minutes += 1
            self._squares += self._in_minute**2
        self._in_minute = 0

    def problems(self) -> list[str]:
        """Return why the figures may be wrong, in words; empty if nothing was found."""
        return [problem.words for problem in self.found()]

    def found(self) -> Iterator[Problem]:
        """Yield why the figures may be wrong."""
        if self.entries:
            yield from self._of_times()
        else:
            yield Problem("empty", "the log holds no request", {})
        if self.cut:
            yield Problem("cut", "a file is damaged or cut off", {})
        if self.malformed > self.lines / 100:
            yield Problem(
                "malformed",
                f"{self.malformed} of {self.lines} lines are not log entries",
                {"count": self.malformed, "lines": self.lines},
            )
        if self.entries >= 600 and max(self._seconds) > 0.99 * self.entries:
            yield Problem(
                "minutes",
                "all times are in the same second of their minute: shorter gaps cannot be seen",
                {},
            )
        elif self._alike():
            yield Problem(
                "machine", "all minutes look alike: a machine made this traffic, not people", {}
            )

    def _of_times(self) -> Iterator[Problem]:
        days = self.span_s / 86400
        if days < 2:
            yield Problem(
                "short",
                f"it spans {days:.1f} days: too little to know nights and weekends, and"
                " a rule that learns has hardly begun",
                {"days": days},
            )
        if self.steps_back:
            yield Problem(
                "back",
                f"the time steps back {self.steps_back} times, by up to"
                f" {self.furthest_back_s:.0f} s: it was taken to go on from there",
                {"count": self.steps_back, "most_s": self.furthest_back_s},
            )
        per_s = self.entries / max(self.span_s, 1.0)
        holes = [gap for gap in sorted(self._long_s, reverse=True) if gap[0] * per_s >= 500]
        if holes:
            hours = sum(gap_s for gap_s, _ in holes) / 3600
            yield Problem(
                "holes",
                f"{len(holes)} holes of together {hours:.1f} h, where at this rate hundreds of"
                " requests are missing: they were taken for quiet, the saving is overstated",
                {"count": len(holes), "hours": hours},
            )

    def _alike(self) -> bool:
        minutes = self._minutes + bool(self._in_minute)
        if minutes < 120:
            return False
        mean = self.entries / minutes
        variance = (self._squares + self._in_minute**2) / minutes - mean**2
        # People come by chance: at least as varied as a Poisson process, variance = mean.
        return mean >= 2 and variance < 0.2 * mean
