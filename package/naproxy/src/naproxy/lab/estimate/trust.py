"""What speaks against believing an access log."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from naproxy.core.reason import Reason


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

    def problems(self) -> list[Reason]:
        """Return why the figures may be wrong; empty if nothing was found."""
        return list(self._found())

    def _found(self) -> Iterator[Reason]:
        if self.entries:
            yield from self._of_times()
        else:
            yield Reason("log.empty")
        if self.cut:
            yield Reason("log.cut")
        if self.malformed > self.lines / 100:
            yield Reason("log.malformed", count=self.malformed, lines=self.lines)
        if self.entries >= 600 and max(self._seconds) > 0.99 * self.entries:
            yield Reason("log.minutes")
        elif self._alike():
            yield Reason("log.machine")

    def _of_times(self) -> Iterator[Reason]:
        if self.span_s < 2 * 86400:
            yield Reason("log.short", span_s=self.span_s)
        if self.steps_back:
            yield Reason("log.back", count=self.steps_back, most_s=self.furthest_back_s)
        per_s = self.entries / max(self.span_s, 1.0)
        holes = [gap for gap in sorted(self._long_s, reverse=True) if gap[0] * per_s >= 500]
        if holes:
            length_s = sum(gap_s for gap_s, _ in holes)
            yield Reason("log.holes", count=len(holes), length_s=length_s)

    def _alike(self) -> bool:
        minutes = self._minutes + bool(self._in_minute)
        if minutes < 120:
            return False
        mean = self.entries / minutes
        variance = (self._squares + self._in_minute**2) / minutes - mean**2
        # People come by chance: at least as varied as a Poisson process, variance = mean.
        return mean >= 2 and variance < 0.2 * mean
