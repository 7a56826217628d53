"""A server's own appointments: it is woken for them, and not put to sleep just before. Pure.

The server reports them before each sleep; each report replaces the one before. Times are those of
the box's wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import Any, Final

from naproxy.core.hours import Calendar, span
from naproxy.core.reason import Reason
from naproxy.server.inhibitors import Settings
from naproxy.server.jobs import Job, is_housekeeping

SOON_S: Final = 300.0
"""For an appointment so soon after it would have to be woken, it stays awake."""
BEGIN_S: Final = 300.0
"""So long it stays awake for a job to begin; then what runs there decides."""
LONGEST_S: Final = 86400.0
"""After so long a server wakes by its own clock, also if nobody wakes it."""
_MARGIN_S: Final = 60.0
_LEAST_ALARM_S: Final = 60.0
_MOST_KEPT: Final = 16
_MOST_LEAD_S: Final = 3600.0


@dataclass(frozen=True)
class Appointment:
    """The work due then."""

    t_s: float
    name: str


class Appointments:
    """Those of one server."""

    def __init__(self, settings: Settings, where: tzinfo) -> None:
        """None is known."""
        self._next: list[Appointment] = []
        self._begun: dict[Appointment, float] = {}
        """When the server was first seen awake after each."""
        self.configure(settings, where)

    def configure(self, settings: Settings, where: tzinfo) -> None:
        """Take checked settings; appointments that they ignore are forgotten at once.

        `where`: the office's zone.
        """
        self._ignore = [each for each in settings.ignore_timers if not each.startswith("!")]
        self._keep = [each[1:] for each in settings.ignore_timers if each.startswith("!")]
        self._quiet = Calendar([span(text) for text in settings.quiet], (), where)
        self._take(each for each in self._next if not self._ignored(each.name))

    def _take(self, kept: Iterable[Appointment]) -> None:
        self._next = list(kept)[:_MOST_KEPT]
        self._begun = {each: t_s for each, t_s in self._begun.items() if each in self._next}

    def _ignored(self, name: str) -> bool:
        return any(fnmatchcase(name, each) for each in self._ignore)

    def _matters(self, job: Job) -> bool:
        if any(fnmatchcase(job.name, each) for each in self._keep):
            return True
        return not (self._ignored(job.name) or job.often or is_housekeeping(job.name))

    def told(self, jobs: Iterable[Job], now_s: float) -> None:
        """Take what the server told now, instead of all that it told before.

        In quiet hours nobody wakes it, so nothing is expected of it then.
        """
        matter = (Appointment(now_s + job.in_s, job.name) for job in jobs if self._matters(job))
        kept = sorted((each for each in matter if not self._quiet.now(each.t_s)), key=_when)
        self._take(kept)

    def next(self, now_s: float) -> list[Appointment]:
        """Return those that are not over, the next one first."""
        return [each for each in self._next if now_s < each.t_s + BEGIN_S]

    def soon(self, now_s: float, wake_s: float) -> Reason | None:
        """Say for which one it is not worth to put it to sleep."""
        within_s = SOON_S + lead_s(wake_s)
        found = next((each for each in self.next(now_s) if each.t_s - now_s <= within_s), None)
        return _reason(found) if found else None

    def due(self, now_s: float, asleep_since_s: float, wake_s: float) -> Reason | None:
        """Say for which one it should be woken now: one that it would miss while it sleeps."""
        early_s = lead_s(wake_s)
        for each in self._next:
            if asleep_since_s < each.t_s <= now_s + early_s:
                return _reason(each)
        return None

    def begins(self, now_s: float, awake_s: float, wake_s: float) -> Reason | None:
        """Say for which one it stays awake: one that is soon, or had no moment to begin yet.

        One that it slept through begins when it wakes. After a restart of the controller `awake_s`
        is short again, so when each began is kept.
        """
        woke_s = now_s - awake_s
        for each in self._next:
            if each.t_s <= now_s:
                self._begun.setdefault(each, max(each.t_s, woke_s))
        if soon := self.soon(now_s, wake_s):
            return soon
        for each, begun_s in self._begun.items():
            # The clock may have been set back.
            if woke_s - LONGEST_S < each.t_s and abs(now_s - begun_s) < BEGIN_S:
                return _reason(each)
        return None

    def change_s(self, now_s: float, wake_s: float) -> float:
        """Return in how many seconds the server is to be woken for one, or one is over."""
        early_s = lead_s(wake_s)
        changes = [at for x in self._next for at in (x.t_s - early_s, x.t_s + BEGIN_S)]
        return min((at for at in changes if at > now_s), default=math.inf) - now_s

    def alarm_s(self, now_s: float, wake_s: float) -> int:
        """Return in how many seconds the server's own clock is to wake it, if nobody has."""
        coming = self.next(now_s)
        at_s = coming[0].t_s - now_s - wake_s if coming else LONGEST_S
        return round(max(_LEAST_ALARM_S, min(at_s, LONGEST_S)))

    def dump(self) -> list[list[Any]]:
        """Return what is kept over a restart, as JSON."""
        return [
            [each.t_s, each.name, *([self._begun[each]] if each in self._begun else [])]
            for each in self._next
        ]

    def load(self, saved: Any) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        try:
            found = [
                (Appointment(float(t_s), str(name)), [float(each) for each in begun[:1]])
                for t_s, name, *begun in saved
            ]
        except (TypeError, ValueError):
            return
        self._begun = {each: begun[0] for each, begun in found if begun}
        self._take(each for each, _ in found)


def _reason(found: Appointment) -> Reason:
    return Reason("sleep.appointment", name=found.name, due_at_s=found.t_s)


def lead_s(wake_s: float) -> float:
    """Return how long before an appointment the server is woken for it."""
    return min(1.5 * wake_s + _MARGIN_S, _MOST_LEAD_S)


def _when(each: Appointment) -> float:
    return each.t_s
