"""Why a server must stay awake, even if the policy lets it sleep: its section `awake`.

Pure: times and readings are arguments. An inhibitor is a reason; with none, it may sleep.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import chain
from typing import Final
from urllib.parse import urlsplit

from naproxy.core.hours import Calendar, Event, dates, span
from naproxy.core.page_h import RULE_LEN, RULES
from naproxy.core.reason import Reason
from naproxy.core.schema import checked, fits, fixed, is_url_path, option, or_empty
from naproxy.server import services

CLOCK_SET_S: Final = 1767225600.0
"""2026-01-01: a clock before this has not been set since the box was switched on."""

CALENDAR_S: Final = 86400.0
"""So long a server stays awake for a calendar that nobody could read yet."""


def _is_work_path(text: str) -> Reason | None:
    if len(text.encode()) >= RULE_LEN:
        return Reason("config.bytes_most", high=RULE_LEN - 1)
    return is_url_path(text)


def _is_calendar(text: str) -> Reason | None:
    ok = text.startswith("/")
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        # An invalid port raises an error when it is read.
        web = (
            parts.scheme in ("http", "https", "webcal", "webcals")
            and parts.hostname
            and parts.port != 0
        )
        ok = ok or bool(web and re.fullmatch(r"[!-~]+", text))
    return None if ok else Reason("config.calendar")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """When the server must stay awake, and when it must be left alone."""

    hours: tuple[str, ...] = option(
        'The server stays awake at these times, such as "mon-fri 07:30-18:00" or'
        ' "2026-12-12 09:00-12:00", and wakes when they begin',
        (),
        high=64,
        check=checked(span),
    )
    closed: tuple[str, ...] = option(
        'Days without those hours, such as "2026-12-25" or "2026-12-24..2027-01-01"; hours given'
        " for a date still apply",
        (),
        high=64,
        check=checked(dates),
    )
    quiet: tuple[str, ...] = option(
        "Quiet hours, in the form of `hours`: only requests and people wake the server, Naproxy"
        " does not wake it ahead of need",
        (),
        high=64,
        check=checked(span),
    )
    calendar: str = option(
        "Calendar with further such times, whatever days are closed: the address of an iCalendar"
        " file (http or https), or a file on the box",
        "",
        high=1000,
        check=or_empty(_is_calendar),
        secret=True,
    )
    work_paths: tuple[str, ...] = option(
        "Starts of paths whose requests start work, such as /backup: the server does not sleep"
        " while it handles one, nor soon after",
        (),
        high=RULES,
        check=_is_work_path,
    )
    work_s: float = fixed(300.0)
    """How long after such a request it may still be at work, unseen."""
    ignore_timers: tuple[str, ...] = option(
        "The server's own timers and cron jobs that it is not woken for, besides those that run"
        ' every hour or more often and the system\'s housekeeping, such as "backup.timer" or'
        ' "cron.daily/*"; with "!" in front, one of these that it is woken for',
        (),
        high=64,
        check=fits(r"!?[^!\s][^\n]{0,79}", Reason("config.timer_name")),
    )
    services: tuple[str, ...] = option(
        "What the office has chosen for what else the server does: a service that the doctor names,"
        ' or a port, and "never" (it must not sleep), "used" (it stays awake while somebody is'
        ' connected) or "ignore", such as "dns never" or "5000/tcp ignore"',
        (),
        high=64,
        check=checked(services.chosen),
    )
    busy_path: str = option(
        "Path that the box asks before each sleep: an application there says whether it is busy",
        "",
        high=255,
        check=or_empty(is_url_path),
    )
    busy_field: str = option(
        'Field of its JSON that says so, such as "jobs.running"; empty: its status does, 503, 423'
        " or 409",
        "",
        high=100,
        check=or_empty(fits(r"[\w-]+(\.[\w-]+)*", Reason("config.json_field"))),
    )


@dataclass(frozen=True, slots=True)
class Readings:
    """The current observations of a server."""

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


@dataclass(frozen=True, slots=True)
class Agenda:
    """The known content of a server's calendar."""

    events: tuple[Event, ...] = ()
    """In order; those that begin before `until_s`."""
    since_s: float = math.inf
    """When it was tried for the first time."""
    read_s: float | None = None
    """When it was found to be so."""
    until_s: float = 0.0
    problem: Reason | None = None

    def failed(self, problem: Reason, now_s: float) -> Agenda:
        """Return what is known after nothing could be learned."""
        return replace(self, problem=problem, since_s=min(self.since_s, now_s))


class Guard:
    """One server's rules."""

    def __init__(self, settings: Settings, where: tzinfo) -> None:
        """Take settings that were checked; `where`: the office's zone."""
        self._settings = settings
        self._never = services.Office(settings.services).never()
        closed = [dates(text) for text in settings.closed]
        self._hours = Calendar([span(text) for text in settings.hours], closed, where)
        self._quiet = Calendar([span(text) for text in settings.quiet], (), where)
        self.agenda = Agenda()

    def inhibitors(self, seen: Readings, *, by_hand: bool = False) -> list[Reason]:
        """Return what speaks against sleeping.

        By hand neither the hours nor the least time count, and requests are given a moment
        to end.
        """
        said = [] if by_hand else self._untimely(seen)
        said += [Reason("server.never_sleeps", service=each) for each in self._never]
        if seen.fetching and not by_hand:
            said.append(Reason("server.fetching", number=seen.fetching))
        if seen.piping:
            said.append(Reason("server.connections", number=seen.piping))
        left_s = self._settings.work_s - seen.worked_s
        if self._settings.work_paths and left_s > 0:
            paths = list(self._settings.work_paths)
            ago_s, left_s = round(seen.worked_s), round(left_s)
            said.append(Reason("server.work", paths=paths, ago_s=ago_s, left_s=left_s))
        return said

    def _untimely(self, seen: Readings) -> list[Reason]:
        said = []
        stretch = self._hours.now(seen.wall_s) or self._hours.now(seen.wall_s + seen.lead_s)
        if (self._settings.hours or self._settings.calendar) and seen.wall_s < CLOCK_SET_S:
            said.append(Reason("server.clock_not_set"))
        else:
            if stretch:
                said.append(Reason("server.office_hours", until_at_s=stretch.end_s))
            said.extend(self._by_calendar(seen.wall_s, seen.lead_s))
        return said

    def _by_calendar(self, wall_s: float, lead_s: float) -> Iterator[Reason]:
        if running := list(self._events(wall_s, lead_s)):
            yield _event(max(running, key=lambda each: each.end_s))
        unread = self._settings.calendar and wall_s >= self.agenda.until_s
        left_s = self.agenda.since_s + CALENDAR_S - wall_s
        if unread and left_s > 0:
            yield Reason("server.calendar_unread", left_s=round(min(left_s, CALENDAR_S)))

    def _events(self, wall_s: float, lead_s: float) -> Iterator[Event]:
        """Yield those of the calendar that are now, or within `lead_s`."""
        for each in self.agenda.events:
            if each.begin_s <= wall_s + lead_s and wall_s < each.end_s:
                yield each

    def wake_due(self, wall_s: float, asleep_since_s: float, lead_s: float) -> Reason | None:
        """Say why it should be woken now: its hours begin within `lead_s`, and it sleeps.

        A sleep ordered within the hours was intended, so it is not undone.
        """
        if wall_s < CLOCK_SET_S:
            return None
        stretch = self._hours.now(wall_s + lead_s)
        if stretch and asleep_since_s < stretch.begin_s:
            return Reason("server.office_hours", until_at_s=stretch.end_s)
        coming = self._events(wall_s, lead_s)
        event = next((each for each in coming if asleep_since_s < each.begin_s), None)
        return _event(event) if event else None

    def hours_begin_s(self, wall_s: float) -> float | None:
        """Return when its hours begin next, epoch seconds."""
        events = (each.begin_s for each in self.agenda.events if each.begin_s > wall_s)
        hours = self._hours.begins_s(wall_s)
        return min(chain(events, () if hours is None else (hours,)), default=None)

    def quiet(self, wall_s: float) -> Reason | None:
        """Say that these are quiet hours."""
        stretch = self._quiet.now(wall_s)
        if not stretch:
            return None
        return Reason("server.quiet_hours", until_at_s=stretch.end_s)

    def change_s(self, wall_s: float, lead_s: float) -> float:
        """Return in how many seconds hours, with their lead, or quiet hours begin or end."""
        calendars = ((self._hours, lead_s), (self._hours, 0.0), (self._quiet, 0.0))
        hours = ((each.next_s(wall_s + early_s), early_s) for each, early_s in calendars)
        events = (
            change for each in self.agenda.events for change in (each.begin_s - lead_s, each.end_s)
        )
        changes = chain((at_s - early_s for at_s, early_s in hours if at_s), events)
        return min((at_s for at_s in changes if at_s > wall_s), default=math.inf) - wall_s


def _event(event: Event) -> Reason:
    return Reason("server.calendar_event", name=event.name or "?", until_at_s=event.end_s)
