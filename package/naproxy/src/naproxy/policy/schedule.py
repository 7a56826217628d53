"""Awake in office hours, asleep otherwise, like a timer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from naproxy.core.hours import Calendar, span
from naproxy.core.reason import Reason
from naproxy.core.schema import checked, option
from naproxy.policy import Setup
from naproxy.policy.base import Decision
from naproxy.policy.idle import IdlePolicy

_DAY_S: Final = 86400.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The office hours."""

    name: str = option("schedule: awake in office hours only", "schedule")
    hours: tuple[str, ...] = option(
        "The office's hours: the days, and from when to when; none: it never opens",
        ("mon-fri 07:00-19:00",),
        high=64,
        check=checked(span),
    )
    idle_s: float = option(
        "Outside office hours: go back to sleep after this idle time", 300.0, low=1, high=86400
    )


class Schedule(IdlePolicy):
    """Awake in office hours, woken a wake time before they begin; asleep otherwise.

    At other times a request wakes the server for as long as the request takes.
    """

    name = "schedule"

    def __init__(self, settings: Settings, wake_s: float, where: tzinfo) -> None:
        """`wake_s`: how long ahead of the office to wake; `where`: its zone."""
        super().__init__()
        self.settings = settings
        self._calendar = Calendar([span(text) for text in settings.hours], (), where)
        self._known = (0.0, 0.0, False)
        self._wake_s = wake_s

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        last_s = self.needed_s(t_s)
        opened, changes_s = self._office(t_s + self._wake_s)
        changes_s -= self._wake_s
        if opened:
            return Decision(False, Reason("policy.office_hours"), changes_s, wake=True)
        idle_s = t_s - last_s
        least_s = self.settings.idle_s
        reason = Reason("policy.outside_hours", idle_s=round(idle_s), least_s=least_s)
        if idle_s < least_s:
            at_s = min(changes_s, last_s + least_s)
            return Decision(False, reason, at_s, patient=True)
        return Decision(True, reason, changes_s)

    def _office(self, t_s: float) -> tuple[bool, float]:
        """Is the office open, and until when is that so?"""
        from_s, until_s, opened = self._known
        if not from_s <= t_s < until_s:
            stretch = self._calendar.now(t_s)
            until_s = stretch.end_s if stretch else self._calendar.begins_s(t_s) or t_s + _DAY_S
            opened = stretch is not None
            self._known = (t_s, until_s, opened)
        return opened, until_s


def make(settings: Settings, setup: Setup) -> Schedule:
    """Make the policy."""
    return Schedule(settings, setup.wake_s, setup.where)
