"""Times of the week and of single days: `mon-fri 07:30-18:00`, `2026-12-12 09:00-12:00`.

Pure: the time zone is an argument, times are epoch seconds. Local times become instants before any
comparison, so summer time changes the length of a day and nothing else.
Where a clock shows a time twice, or leaves it out, a stretch is the longer one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from naproxy.core.reason import WrongError

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
AHEAD_DAYS: Final = 8
"""So far `next_s` looks ahead: a week, and the day it began in."""

_CLOCK: Final = r"([01]\d|2[0-3]):([0-5]\d)"
_SPAN: Final = re.compile(rf"(\S+) +{_CLOCK}-(?:{_CLOCK}|(24:00))")
_DATE: Final = r"\d{4}-\d\d-\d\d"
_DATES: Final = re.compile(rf"({_DATE})(?:\.\.({_DATE}))?")


@dataclass(frozen=True, slots=True)
class Span:
    """On `days` of the week or on `day`; minutes since midnight, past 1440 on the next day."""

    days: frozenset[int]
    day: date | None
    begin_min: int
    end_min: int

    def on(self, day: date) -> bool:
        """Does it begin on this day?"""
        return day == self.day if self.day else day.weekday() in self.days


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `begin_s` until `end_s`, epoch seconds."""

    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Event(Stretch):
    """A stretch of a calendar that others keep."""

    name: str


def span(text: str) -> Span:
    """Read one entry; WrongError. An end before the begin is on the next day."""
    found = _SPAN.fullmatch(text)
    if not found:
        raise WrongError("config.hours")
    begin_min = 60 * int(found[2]) + int(found[3])
    end_min = 1440 if found[6] else 60 * int(found[4]) + int(found[5])
    if begin_min == end_min:
        raise WrongError("config.no_length")
    if end_min < begin_min:
        end_min += 1440
    if re.fullmatch(_DATE, found[1]):
        return Span(frozenset(), _day(found[1]), begin_min, end_min)
    return Span(_weekdays(found[1]), None, begin_min, end_min)


def _weekdays(text: str) -> frozenset[int]:
    """Read mon, mon-fri or mon,wed-fri; sat-mon goes over the end of the week."""
    days: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not set(ends) <= set(DAYS):
            raise WrongError("config.day", name=part)
        begin, end = map(DAYS.index, ends)
        days |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return frozenset(days)


def dates(text: str) -> tuple[date, date]:
    """Read 2026-12-25 or 2026-12-24..2027-01-01: first and last day; WrongError."""
    found = _DATES.fullmatch(text)
    if not found:
        raise WrongError("config.dates")
    first, last = _day(found[1]), _day(found[2] or found[1])
    if last < first:
        raise WrongError("config.backwards")
    return first, last


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WrongError("config.no_day", name=text) from None


def place_of_zone(name: str) -> str:
    """Return a time zone's name without the folder that some systems have it in.

    `posix/Europe/Zurich` and `right/Europe/Zurich` are files below /usr/share/zoneinfo, but names
    that no browser knows; the latter also counts leap seconds.
    """
    while name.startswith(("posix/", "right/")):
        name = name.partition("/")[2]
    return name


def zone(name: str, localtime: Path = Path("/etc/localtime")) -> tzinfo:
    """Return a time zone by its name, `Europe/Zurich`; empty: the machine's, UTC if it has none.

    The machine's is `TZ` of the environment, if that names one, else that of `localtime`.

    WrongError if there is no such zone here.
    """
    try:
        if name:
            return ZoneInfo(place_of_zone(name))
        with contextlib.suppress(KeyError, OSError, ValueError):
            return ZoneInfo(os.environ["TZ"])
        with localtime.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        if name:
            raise WrongError("config.time_zone", name=name) from error
        return UTC
    except KeyError:
        raise WrongError("config.time_zone", name=name) from None


def ahead_s(t_s: float, where: tzinfo) -> float:
    """Return how many seconds the clocks of a zone are ahead of UTC then."""
    ahead = datetime.fromtimestamp(t_s, where).utcoffset()
    return ahead.total_seconds() if ahead else 0.0


def local_hour(t_s: float, where: tzinfo) -> int:
    """Return the hours that clocks of a zone show, counted from 1 January 1970, a Thursday."""
    return int((t_s + ahead_s(t_s, where)) // 3600)


class Calendar:
    """Some times of the week, without the days in `closed`; dated entries hold there too."""

    def __init__(
        self, spans: Sequence[Span], closed: Sequence[tuple[date, date]], where: tzinfo
    ) -> None:
        """`where`: the office's time zone."""
        self._spans = spans
        self._closed = closed
        self._zone = where

    def now(self, t_s: float) -> Stretch | None:
        """Return the stretch that `t_s` is in, the one that lasts longest."""
        within = [s for s in self._stretches(t_s, days=1) if s.begin_s <= t_s < s.end_s]
        return max(within, key=lambda s: s.end_s) if within else None

    def next_s(self, t_s: float) -> float | None:
        """Return when the next stretch begins or one ends, if that is within a week."""
        stretches = self._stretches(t_s, days=AHEAD_DAYS)
        return min((x for s in stretches for x in (s.begin_s, s.end_s) if x > t_s), default=None)

    def begins_s(self, t_s: float) -> float | None:
        """Return when the next stretch begins, if that is within a week."""
        stretches = self._stretches(t_s, days=AHEAD_DAYS)
        return min((s.begin_s for s in stretches if s.begin_s > t_s), default=None)

    def _stretches(self, t_s: float, days: int) -> Iterator[Stretch]:
        """Yield those that begin from yesterday on; the longest is a day and a night."""
        today = datetime.fromtimestamp(t_s, self._zone).date()
        for day in (today + timedelta(n) for n in range(-2, days)):
            for each in self._spans:
                if each.on(day) and (each.day or not self._is_closed(day)):
                    yield self._stretch(day, each)

    def _is_closed(self, day: date) -> bool:
        return any(first <= day <= last for first, last in self._closed)

    def _stretch(self, day: date, each: Span) -> Stretch:
        begin = min(self._instants(day, each.begin_min))
        end = max(self._instants(day, each.end_min))
        return Stretch(begin, end)

    def _instants(self, day: date, minutes: int) -> tuple[float, float]:
        """Return when clocks show that, by the time before and after a change (PEP 495)."""
        days, left = divmod(minutes, 1440)
        local = datetime(day.year, day.month, day.day, *divmod(left, 60), tzinfo=self._zone)
        local += timedelta(days)
        return local.timestamp(), local.replace(fold=1).timestamp()
