"""Visits that came past the box, and whether it still sees the server's visitors at all. Pure.

A box that nobody but robots comes through, while some come past it, no longer knows whom it would
put the server to sleep under: so it stops. Days are ordinals of the office's calendar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from naproxy.core.reason import Reason

SILENT_S: Final = 1800.0
"""A client that returns after this pause makes another visit."""
BLIND_DAYS: Final = 3
_AROUND_DAYS: Final = 2
_KEPT_DAYS: Final = 8


class Around:
    """The known visits to one server."""

    def __init__(self) -> None:
        """Nothing is."""
        self._days: dict[int, int] = {}
        self._through: int | None = None
        self._now = (0.0, 0)
        self._told: tuple[str, int] | None = None
        self.total = 0

    def connected(self, t_s: float, day: int, number: int) -> None:
        """Take that so many visitors were seen to be connected past the box now.

        Those who were at the last sight of them are the same ones.
        """
        then_s, before = self._now
        same = before if 0 <= t_s - then_s < SILENT_S else 0
        self._now = (t_s, number)
        self._came(day, max(0, number - same), number)

    def counted(self, day: int, run: str, visits: int, here: int) -> bool:
        """Take what the server itself has counted; return whether that is news.

        Its `visits` go up as long as `run` is the same; so many of them are `here` now.
        """
        before = self.dump()
        then = self._told[1] if self._told and self._told[0] == run else 0
        self._told = (run, visits)
        came = visits - then if visits >= then else 0
        if came or here:
            self._came(day, came, here)
        return self.dump() != before

    def _came(self, day: int, came: int, number: int) -> None:
        self.total += came
        # A visit that lasts over midnight bypassed the box today, too.
        self._days[day] = max(self._days.get(day, 0) + came, number)
        self._days = {each: n for each, n in self._days.items() if day - _KEPT_DAYS < each <= day}
        if self._through is None:
            self._through = day

    def through(self, day: int) -> bool:
        """Record a visitor, not a robot, who came through the box; return whether that is news."""
        news = self._through != day
        self._through = day
        return news

    @property
    def tells(self) -> bool:
        """Has the server ever told what it counted?"""
        return self._told is not None

    def on(self, day: int) -> int:
        """Return how many visits came past the box on a day."""
        return self._days.get(day, 0)

    def blind(self, day: int) -> Reason | None:
        """Return why the box cannot judge when the server may sleep; None if it can."""
        if self._through is None or day - self._through < BLIND_DAYS:
            return None
        seen = [n for each, n in self._days.items() if day - BLIND_DAYS < each <= day and n]
        if len(seen) < _AROUND_DAYS:
            return None
        return Reason("server.blind", days=day - self._through, around=sum(seen))

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        days = sorted(self._days.items())
        return {
            "days": days,
            "through": self._through,
            "now": self._now,
            "told": self._told,
            "total": self.total,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        try:
            days = {int(day): int(number) for day, number in saved["days"]}
            through = None if saved["through"] is None else int(saved["through"])
            now, total = (float(saved["now"][0]), int(saved["now"][1])), int(saved["total"])
            told = saved.get("told")  # older ones kept none
            told = (str(told[0]), int(told[1])) if told else None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return
        if min([total, now[1], *days.values()]) >= 0:
            self._days, self._through, self._now, self.total = days, through, now, total
            self._told = told
