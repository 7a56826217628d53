"""Awake in office hours, asleep otherwise: what a timer does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.core.state import State
from naproxy.policy import Setup
from naproxy.policy.base import Decision, Policy, Request

_DAY_S: Final = 86400.0
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EPOCH_DAY: Final = 3  # 1 January 1970 was a Thursday
_CLOCK: Final = re.compile(r"([+-]?)(\d\d):([0-5]\d)")


def clock_s(text: str) -> float:
    """Seconds of "07:30" or "-05:00"; ValueError if it is neither."""
    match = _CLOCK.fullmatch(text)
    if not match or int(match[2]) > 24:
        raise ValueError(f"{text!r} is not a time")
    seconds = 3600.0 * int(match[2]) + 60.0 * int(match[3])
    return -seconds if match[1] == "-" else seconds


def _is_time(text: str) -> Reason | None:
    ok = not text.startswith(("+", "-")) and _is_offset(text) is None and clock_s(text) <= _DAY_S
    return None if ok else Reason("config.time_of_day", name="07:30")


def _is_offset(text: str) -> Reason | None:
    try:
        clock_s(text)
    except ValueError:
        return Reason("config.hours_minutes", name="+01:00")
    return None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The office hours."""

    name: str = option("schedule: awake in office hours only", "schedule")
    days: tuple[str, ...] = option("Working days", _DAYS[:5], low=0, high=7, choices=_DAYS)
    opens: str = option("The office opens", "07:00", check=_is_time)
    closes: str = option("The office closes", "19:00", check=_is_time)
    utc_offset: str = option("How far its clock is ahead of UTC", "+00:00", check=_is_offset)
    idle_s: float = option(
        "Outside office hours: go back to sleep after this idle time", 300.0, low=1, high=86400
    )


class Schedule(Policy):
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
        if self.counts(request):
            self._last_s = request.t_s

    def forget(self, since_s: float) -> None:
        """Wait as if nobody had asked after that."""
        self._last_s = since_s if self._last_s is None else min(self._last_s, since_s)

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
            return Decision(False, Reason("policy.office_hours"), changes_s, wake=True)
        idle_s = t_s - self._last_s
        least_s = self.settings.idle_s
        reason = Reason("policy.outside_hours", idle_s=round(idle_s), least_s=least_s)
        if idle_s < least_s:
            at_s = min(changes_s, self._last_s + least_s)
            return Decision(False, reason, at_s, patient=True)
        return Decision(True, reason, changes_s)

    def _office(self, t_s: float) -> tuple[bool, float]:
        """Is the office open, and until when is that so?"""
        ahead_s = clock_s(self.settings.utc_offset)
        today = int((t_s + ahead_s) // _DAY_S)
        for day in range(today, today + 9):
            midnight_s = day * _DAY_S - ahead_s
            opens_s = midnight_s + clock_s(self.settings.opens)
            closes_s = midnight_s + clock_s(self.settings.closes)
            if _DAYS[(day + _EPOCH_DAY) % 7] in self.settings.days and t_s < closes_s:
                return (True, closes_s) if t_s >= opens_s else (False, opens_s)
        return False, t_s + _DAY_S


def make(settings: Settings, setup: Setup) -> Schedule:
    """Make the policy."""
    return Schedule(settings, setup.wake_s)
