"""One calendar file, read by the product and by recurring-ical-events alone: do they agree?"""

from __future__ import annotations

import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import recurring_ical_events  # type: ignore[import-untyped]
from icalendar import Calendar
from naproxy.core.reason import WrongError

ZONE: Final = ZoneInfo("Europe/Berlin")
"""The office's."""
_DAYS: Final = 30
_MOST_WINDOWS: Final = 4
_WHOLE_S: Final = 5.0
_BEGINS: Final = re.compile(rb"^(?:DTSTART|RECURRENCE-ID|RDATE)[^\r\n]*:(\d{8})", re.MULTILINE)

Spans = Counter[tuple[float, float]]
Read = Callable[..., Any]


@dataclass
class Found:
    """What a file has, by both."""

    said: str = ""
    """Why the product refuses it, leaves events out, or doubts them."""
    reference: str = ""
    """Why recurring-ical-events cannot read it."""
    more: Spans = field(default_factory=Counter)
    """Events that only the product has."""
    less: Spans = field(default_factory=Counter)
    """Events that only the library has."""
    events: int = 0

    @property
    def differs(self) -> bool:
        """Do they read it in two ways?"""
        return bool(self.more or self.less)


class _TooLongError(BaseException):
    pass


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def compared(data: bytes, read: Read) -> Found:
    """Read a file in both ways, at the times that are written in it."""
    found = Found()
    for first in _windows(data):
        last = first + timedelta(_DAYS)
        ours = _ours(data, read, first, last, found)
        if ours is None:
            break
        found.events += len(ours)
        theirs = _theirs(data, first, last, found)
        if theirs is None:
            break
        found.more |= ours - theirs
        found.less |= theirs - ours
    return found


def _windows(data: bytes) -> list[datetime]:
    days: list[datetime] = []
    for text in sorted(set(_BEGINS.findall(data.replace(b"\r", b"\n")))):
        try:
            day = datetime.strptime(text.decode(), "%Y%m%d").replace(tzinfo=ZONE)
        except ValueError:
            continue
        if 1902 < day.year < 2100 and (not days or day - days[-1] > timedelta(_DAYS - 2)):
            days.append(day)
    first = [day - timedelta(1) for day in days[:_MOST_WINDOWS]]
    return first or [datetime(2026, 1, 1, tzinfo=ZONE)]


def _ours(data: bytes, read: Read, first: datetime, last: datetime, found: Found) -> Spans | None:
    try:
        with _at_most(_WHOLE_S):
            agenda = read(data, ZONE, first.timestamp(), last.timestamp())
    except WrongError as error:
        found.said = str(error.reason)
        return None
    except _TooLongError:
        found.said = "its rules take too long to reckon"
        return None
    found.said = found.said or str(agenda.why or "")
    return Counter((each.begin_s, each.end_s) for each in agenda.events)


def _theirs(data: bytes, first: datetime, last: datetime, found: Found) -> Spans | None:
    spans: Spans = Counter()
    try:
        with _at_most(_WHOLE_S), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for calendar in Calendar.from_ical(data, multiple=True):
                for each in recurring_ical_events.of(calendar).between(first, last):
                    begin, end = _epoch(each["DTSTART"].dt), _epoch(each["DTEND"].dt)
                    cancelled = str(each.get("STATUS", "")).upper() == "CANCELLED"
                    inside = begin < last.timestamp() and end > first.timestamp()
                    if begin < end and inside and not cancelled:
                        spans[begin, end] += 1
    except (Exception, _TooLongError) as error:
        found.reference = f"{type(error).__name__}: {error}"[:120]
        return None
    return spans


def _epoch(moment: date) -> float:
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZONE)).timestamp()
