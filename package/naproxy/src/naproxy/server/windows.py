"""When robots that are refused should come back: when the server is awake anyway.

Pure: times are arguments, epoch seconds of the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any, Final

from naproxy.core.hours import local_hour

HOUR_S: Final = 3600
_WEEK_H: Final = 168
USUAL: Final = 0.8
"""An hour of the week in which the server was awake for so much of the time is a window."""
_LEAST_SEEN_S: Final = 1.4 * HOUR_S
"""That much of an hour must have been seen: two weeks of it."""
_KEEP: Final = 0.5
"""An hour's observation loses half its weight in a week."""
_MOST_STEP_S: Final = 60.0
"""After a longer time without a look nobody knows what the server did meanwhile."""
FURTHEST_S: Final = 86400.0
"""A robot is not sent away for longer than a day."""
_INTO_OFFICE_S: Final = 60.0
_INTO_HOUR_S: Final = HOUR_S / 2


def retry_at_s(wall_s: float, office_s: float | None, usual_s: float | None) -> float | None:
    """Return when a robot should come; None: nothing is known.

    `office_s`: when the office's hours begin next; `usual_s`: the next hour in which the server is
    usually awake.
    """
    office = [] if office_s is None else [office_s + _INTO_OFFICE_S]
    usual = [] if usual_s is None else [usual_s + _INTO_HOUR_S]
    return min((t for t in office + usual if wall_s < t <= wall_s + FURTHEST_S), default=None)


class Usual:
    """The hours of the week in which one server is usually awake, for any visitor."""

    def __init__(self, where: Callable[[], tzinfo] = lambda: UTC) -> None:
        """Nothing is known. `where`: the office's zone, whose clocks name the hours."""
        self._where = where
        self._awake_s = [0.0] * _WEEK_H
        self._seen_s = [0.0] * _WEEK_H
        self._last: tuple[float, int] | None = None

    def seen(self, wall_s: float, *, awake: bool) -> None:
        """Learn that the server is awake now, or not."""
        slot = self._slot(wall_s)
        before = self._last
        self._last = wall_s, slot
        if before is None:
            return
        if slot != before[1]:
            self._awake_s[slot] *= _KEEP
            self._seen_s[slot] *= _KEEP
        gone_s = wall_s - before[0]
        if 0 < gone_s <= _MOST_STEP_S:
            self._seen_s[slot] += gone_s
            self._awake_s[slot] += gone_s * awake

    def next_s(self, wall_s: float) -> float | None:
        """Return when the first such hour begins whose middle is still to come."""
        first = int(wall_s // HOUR_S)
        for hour in range(first, first + _WEEK_H):
            if self._usual(self._slot(hour * HOUR_S)) and hour * HOUR_S + _INTO_HOUR_S > wall_s:
                return float(hour * HOUR_S)
        return None

    def _slot(self, t_s: float) -> int:
        return local_hour(t_s, self._where()) % _WEEK_H

    def _usual(self, slot: int) -> bool:
        seen_s = self._seen_s[slot]
        return seen_s >= _LEAST_SEEN_S and self._awake_s[slot] >= USUAL * seen_s

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {"awake_s": self._awake_s, "seen_s": self._seen_s}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values; ignore invalid ones."""
        lists = [saved.get("awake_s"), saved.get("seen_s")]
        for each in lists:
            if not isinstance(each, list) or len(each) != _WEEK_H:
                return
            if not all(isinstance(x, (int, float)) and 0 <= x <= 2 * HOUR_S for x in each):
                return
        self._awake_s, self._seen_s = (list(map(float, each)) for each in lists if each)
