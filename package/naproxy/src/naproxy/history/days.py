"""Days and longer stretches of the calendar, in a time zone: 23 and 25 hours long twice a year."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

_DAYS: Final = {"day": 1, "week": 7}
_MONTHS: Final = {"month": 1, "year": 12}
VIEWS: Final = (*_DAYS, *_MONTHS)


def day_of(t_s: float, zone: tzinfo | None = None) -> date:
    """Return the day that a time is in; `zone` None is the box's own."""
    return datetime.fromtimestamp(t_s, zone).date()


def start_s(day: date, zone: tzinfo | None = None) -> int:
    """Return when a day begins. Where midnight is skipped, that is when the clocks go forward."""
    if zone is None:
        # mktime knows the box's zone, also where its rules changed.
        return int(time.mktime((day.year, day.month, day.day, 0, 0, 0, 0, 0, -1)))
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def days(
    from_s: float, to_s: float, zone: tzinfo | None = None, unit: str = "day"
) -> Iterator[tuple[date, int, int]]:
    """Yield each day (or `unit` of VIEWS) that a range touches: its first day, start and end."""
    first = begin(day_of(from_s, zone), unit)
    begins_s = start_s(first, zone)
    while begins_s < to_s:
        following = step(first, unit, 1)
        ends_s = start_s(following, zone)
        yield first, begins_s, ends_s
        first, begins_s = following, ends_s


def begin(day: date, unit: str) -> date:
    """Return the first day of the day, week (from Monday), month or year that `day` is in."""
    match unit:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "year":
            return day.replace(month=1, day=1)
    raise ValueError(f"must be one of {', '.join(VIEWS)}")


def step(first: date, unit: str, by: int) -> date:
    """Return the first day of the unit `by` units after the one that begins with `first`."""
    if unit in _DAYS:
        return first + timedelta(days=by * _DAYS[unit])
    years, month = divmod(first.month - 1 + by * _MONTHS[unit], 12)
    return first.replace(year=first.year + years, month=month + 1)
