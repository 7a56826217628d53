"""Awake in office hours, asleep otherwise: what a timer does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.policy import Setup
from naproxy.policy.base import Decision, Request, State
from naproxy.schema import option

_HOUR_S: Final = 3600.0
_DAY_S: Final = 86400.0
_EPOCH_DAY: Final = 3  # 1 January 1970 was a Thursday; Monday is 0


def _is_day(value: int) -> str | None:
    return None if 0 <= value <= 6 else "must be 0 (Monday) to 6 (Sunday)"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The office hours."""

    name: str = option("schedule: awake in office hours only", "schedule")
    days: tuple[int, ...] = option(
        "Working days, 0 is Monday", (0, 1, 2, 3, 4), low=0, high=7, check=_is_day
    )
    from_h: float = option("Office hours begin", 7.0, low=0, high=24)
    to_h: float = option("Office hours end", 19.0, low=0, high=24)
    utc_offset_h: float = option("The office's clock is ahead of UTC by", 0.0, low=-14, high=14)
    idle_s: float = option(
        "Outside office hours: back to sleep when idle for so long", 300.0, low=1, high=86400
    )


class Schedule:
    """Awake in office hours, woken a wake time before they begin; asleep otherwise.

    Who needs the server at other times wakes it for as long as it takes.
    """

    name = "schedule"

    def __init__(self, settings: Settings, wake_s: float) -> None:
        """`wake_s`: how long ahead of the office to wake."""
        self.settings = settings
        self._wake_s = wake_s
        self._last_s: float | None = None

    def request(self, request: Request) -> None:
        """Learn of one request."""
        if request.needs_server and not request.klass.robot:
            self._last_s = request.t_s

    def observed(self, t_s: float, state: State) -> None:
        """Being awake again is a reason to stay so for a while."""
        if state is State.AWAKE:
            self._last_s = t_s

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        if self._last_s is None:
            self._last_s = t_s
        opened, changes_s = self._office(t_s + self._wake_s)
        changes_s -= self._wake_s
        if opened:
            return Decision(False, "office hours", changes_s, wake=True)
        idle_s = t_s - self._last_s
        reason = f"outside office hours, idle {idle_s:.0f} s of {self.settings.idle_s:.0f} s"
        if idle_s < self.settings.idle_s:
            return Decision(False, reason, min(changes_s, self._last_s + self.settings.idle_s))
        return Decision(True, reason, changes_s)

    def _office(self, t_s: float) -> tuple[bool, float]:
        """Is the office open, and until when is that so?"""
        settings = self.settings
        local_s = t_s + settings.utc_offset_h * _HOUR_S
        day = int(local_s // _DAY_S)
        for later in range(9):
            midnight_s = (day + later) * _DAY_S - settings.utc_offset_h * _HOUR_S
            works = (day + later + _EPOCH_DAY) % 7 in settings.days
            opens_s = midnight_s + settings.from_h * _HOUR_S
            closes_s = midnight_s + settings.to_h * _HOUR_S
            if works and t_s < closes_s:
                return (True, closes_s) if t_s >= opens_s else (False, opens_s)
        return False, t_s + _DAY_S

    def dump(self) -> dict[str, Any]:
        """Return what to keep over a restart: nothing worth it."""
        return {}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take back what `dump` gave."""


def make(settings: Settings, setup: Setup) -> Schedule:
    """Make the policy."""
    return Schedule(settings, setup.wake_s)
