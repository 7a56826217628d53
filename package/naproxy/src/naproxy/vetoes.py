"""Why a server must not be put to sleep, whatever the policy says: its section `awake`.

Pure: times and readings are arguments. A veto is a reason in words; with none, it may sleep.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from naproxy.hours import Calendar, dates, span, zone
from naproxy.page import RULE_LEN, RULES
from naproxy.reason import Reason
from naproxy.schema import checked, is_url_path, option

CLOCK_SET_S: Final = 1767225600.0
"""2026-01-01: a clock before this has not been set since the box was switched on."""


def _is_work_path(text: str) -> Reason | None:
    if len(text.encode()) >= RULE_LEN:
        return Reason("config.bytes_most", high=RULE_LEN - 1)
    return is_url_path(text)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """When the server must stay awake, and when it must be left alone."""

    hours: tuple[str, ...] = option(
        'Kept awake at these times, as "mon-fri 07:30-18:00" or "2026-12-12 09:00-12:00", and'
        " woken when they begin",
        (),
        high=64,
        check=checked(span),
    )
    closed: tuple[str, ...] = option(
        'Days without those hours, as "2026-12-25" or "2026-12-24..2027-01-01"; hours given for'
        " a date hold all the same",
        (),
        high=64,
        check=checked(dates),
    )
    quiet: tuple[str, ...] = option(
        "Quiet hours, in the form of `hours`: woken by requests and by hand only, not ahead of"
        " need",
        (),
        high=64,
        check=checked(span),
    )
    time_zone: str = option(
        'Time zone of these hours, as "Europe/Zurich"; empty: the box\'s',
        "",
        high=64,
        check=checked(zone),
    )
    least_s: float = option(
        "Stays awake at least this long after a wake, whatever the policy says",
        0.0,
        low=0,
        high=86400,
    )
    work_paths: tuple[str, ...] = option(
        "Starts of paths whose requests mean work, as /backup: no sleep while one is at the"
        " server, nor soon after",
        (),
        high=RULES,
        check=_is_work_path,
    )
    work_s: float = option(
        "How long after such a request it may still be at work", 300.0, low=0, high=86400
    )


@dataclass(frozen=True, slots=True)
class Readings:
    """What is seen of a server now."""

    wall_s: float
    """The wall clock, epoch seconds: hours are those that clocks show."""
    lead_s: float = 0.0
    """So long before its hours begin it would be woken for them."""
    awake_s: float = math.inf
    """Since it woke."""
    worked_s: float = math.inf
    """Since the last request that means work ended."""
    fetching: int = 0
    piping: int = 0


class Guard:
    """One server's rules."""

    def __init__(self, settings: Settings) -> None:
        """Take settings that were checked."""
        self._settings = settings
        self._zone = zone(settings.time_zone)
        closed = [dates(text) for text in settings.closed]
        self._hours = Calendar([span(text) for text in settings.hours], closed, self._zone)
        self._quiet = Calendar([span(text) for text in settings.quiet], (), self._zone)

    def vetoes(self, seen: Readings, *, by_hand: bool = False) -> list[str]:
        """Return what speaks against sleeping.

        By hand neither the hours nor the least time count, and requests are given a moment
        to end.
        """
        said = [] if by_hand else self._untimely(seen)
        if seen.fetching and not by_hand:
            said.append(f"requests at the server: {seen.fetching}")
        if seen.piping:
            said.append(f"open connections (WebSocket) to the server: {seen.piping}")
        left_s = self._settings.work_s - seen.worked_s
        if self._settings.work_paths and left_s > 0:
            paths = ", ".join(self._settings.work_paths)
            said.append(f"work behind {paths} {seen.worked_s:.0f} s ago; {left_s:.0f} s left")
        return said

    def _untimely(self, seen: Readings) -> list[str]:
        said = []
        stretch = self._hours.now(seen.wall_s) or self._hours.now(seen.wall_s + seen.lead_s)
        if self._settings.hours and seen.wall_s < CLOCK_SET_S:
            said.append("the box's clock is not set: it cannot know the office hours")
        elif stretch:
            said.append(f"office hours until {self._clock(stretch.end_s, seen.wall_s)}")
        left_s = self._settings.least_s - seen.awake_s
        if left_s > 0:
            said.append(f"it woke {seen.awake_s:.0f} s ago; {left_s:.0f} s left")
        return said

    def wake_due(self, wall_s: float, asleep_since_s: float, lead_s: float) -> str | None:
        """Say why it should be woken now: its hours begin within `lead_s`, and it sleeps.

        Who put it to sleep within the hours knew better.
        """
        stretch = self._hours.now(wall_s + lead_s)
        if wall_s < CLOCK_SET_S or not stretch or asleep_since_s >= stretch.begin_s:
            return None
        return f"office hours until {self._clock(stretch.end_s, wall_s)}"

    def quiet(self, wall_s: float) -> str | None:
        """Say that these are quiet hours."""
        stretch = self._quiet.now(wall_s)
        return f"quiet hours until {self._clock(stretch.end_s, wall_s)}" if stretch else None

    def change_s(self, wall_s: float, lead_s: float) -> float:
        """Return in how many seconds hours, with their lead, or quiet hours begin or end."""
        calendars = ((self._hours, lead_s), (self._hours, 0.0), (self._quiet, 0.0))
        changes = ((each.next_s(wall_s + early_s), early_s) for each, early_s in calendars)
        return min((at_s - early_s for at_s, early_s in changes if at_s), default=math.inf) - wall_s

    def _clock(self, t_s: float, now_s: float) -> str:
        then, now = (datetime.fromtimestamp(x, self._zone) for x in (t_s, now_s))
        return then.strftime("%H:%M" if then.date() == now.date() else "%Y-%m-%d %H:%M")


def alike(words: str) -> str:
    """Return a veto without its figures: what tells whether it is another one."""
    return re.sub(r"\d+", "#", words)
