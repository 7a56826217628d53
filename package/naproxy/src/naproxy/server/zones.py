"""The time zone that a calendar's TZID means: IANA's names, Windows' names, offsets.

RFC 5545 lets a TZID be any text; a VTIMEZONE in the file then says what it is. Many files have
none, or one that other programs do not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from io import StringIO
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from dateutil.tz import tzical

from naproxy.core.reason import WrongError

try:  # CLDR's table (Unicode License v3), which icalendar brings
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON
except ImportError:  # before icalendar 6
    from icalendar.windows_to_olson import (  # type: ignore[import-not-found,no-redef]
        WINDOWS_TO_OLSON,
    )

_OFFSET: Final = re.compile(
    r"\(?(?:UTC|GMT|Z)? ?([+\-\u2212])(\d{1,2})(?:[:.]?([0-5]\d))?\)?", re.IGNORECASE | re.ASCII
)
_OFTEN: Final = re.compile(r"FREQ=(SECOND|MINUTE|HOUR)LY", re.IGNORECASE)
_DEFINES: Final = re.compile(
    r"(BEGIN|END|TZID|DTSTART|TZOFFSETFROM|TZOFFSETTO|RRULE|RDATE|TZNAME)\b[^:]*:", re.IGNORECASE
)
_IN_SUMMER: Final = datetime(2026, 7, 1)
_IN_WINTER: Final = datetime(2026, 1, 1)
UTC_NAMES: Final = ("utc", "gmt", "z", "etc/utc", "coordinated universal time", "(utc)", "(gmt)")


class UnsureZoneError(WrongError):
    """Only the zone's distance from UTC is known: it may have a summer time."""

    def __init__(self, name: str, likely: tzinfo) -> None:
        """Take the zone that is likely."""
        super().__init__("server.calendar_zone", name=name)
        self.likely = likely


def plain_name(name: str) -> str:
    """Return a TZID without quotation marks, and without the escapes that programs add."""
    return re.sub(r"\\([,;\\])", r"\1", name.strip().strip("\"'").strip())


def zone_of(name: str, defined: Mapping[str, str]) -> tzinfo:
    """Return the zone of a TZID; `defined` has the lines of each VTIMEZONE. WrongError."""
    name = plain_name(name)
    if found := _iana(name):
        return found
    if (text := defined.get(name)) and (found := _defined(name, text)):
        return found
    for guess in (_by_path, _by_windows, _by_offset, _by_cities):
        if found := guess(name):
            return found
    raise WrongError("server.calendar_zone", name=printable(name))


def printable(text: str) -> str:
    """Return what may be shown of a text that a stranger wrote."""
    return "".join(c if c.isprintable() else "?" for c in text[:80])


def _iana(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None


@cache
def _by_small_letters() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


@cache
def _by_windows_name() -> dict[str, str]:
    return {name.lower(): zone for name, zone in WINDOWS_TO_OLSON.items()}


def _any_case(name: str) -> tzinfo | None:
    if name.lower() in UTC_NAMES:
        return UTC
    return _iana(_by_small_letters().get(name.lower().replace(" ", "_"), ""))


def _by_path(name: str) -> tzinfo | None:
    """Find the name at the end of one such as /mozilla.org/20050126_1/Europe/Berlin."""
    parts = [part for part in re.split(r"[/\\]", name) if part]
    for number in range(max(0, len(parts) - 3), len(parts)):
        # A part alone may be any word: it must be all of the name, or have a folder before it.
        if (found := _any_case("/".join(parts[number:]))) and (
            number == 0 or number < len(parts) - 1 or name.lower().startswith("tzone:")
        ):
            return found
    return None


def _by_windows(name: str) -> tzinfo | None:
    return _iana(_by_windows_name().get(" ".join(name.lower().split()), ""))


def _by_offset(name: str) -> tzinfo | None:
    """Read `UTC+05:30`, and `(UTC+01:00) Amsterdam, Berlin`, which has a summer time."""
    if name.lower().startswith(("(utc) ", "(gmt) ")):
        ahead, rest = timedelta(0), name[6:]
    else:
        found = _OFFSET.match(name)
        if not found or int(found[2]) > 14:
            return None
        ahead, rest = (
            timedelta(hours=int(found[2]), minutes=int(found[3] or 0)),
            name[found.end() :],
        )
        ahead = ahead if found[1] == "+" else -ahead
        if rest and not rest[0].isspace():
            return None
    for zone in _places(rest):
        if ahead in (_IN_WINTER.replace(tzinfo=zone).utcoffset(), _standard(zone)):
            return zone
    if rest.strip() and rest.strip().lower() not in UTC_NAMES:
        raise UnsureZoneError(printable(name), timezone(ahead))
    return timezone(ahead)


def _by_cities(name: str) -> tzinfo | None:
    """Read `Kuala Lumpur, Singapore`: the names of zones in older Outlooks."""
    return next(_places(name), None)


def _standard(zone: tzinfo) -> timedelta | None:
    offsets = [each.replace(tzinfo=zone).utcoffset() for each in (_IN_SUMMER, _IN_WINTER)]
    return min(each for each in offsets if each is not None)


def _places(text: str) -> Iterator[tzinfo]:
    """Yield the zones of the cities, or of `Eastern Time (US & Canada)`."""
    by_city = {name.rpartition("/")[2]: name for name in _by_small_letters()}
    for place in re.split(r"[,;/]", text):
        plain = re.sub(r"\(.*?\)", "", place).strip().lower()
        windows = re.sub(r" time$", " standard time", plain)
        for name in (by_city.get(plain.replace(" ", "_"), ""), _by_windows_name().get(windows, "")):
            if name and (found := _any_case(name)):
                yield found


def _defined(name: str, text: str) -> tzinfo | None:
    """Return a VTIMEZONE's; of its lines only those count that say when clocks change."""
    lines = [line for line in text.split("\n") if _DEFINES.match(line)]
    if any(_OFTEN.search(line) for line in lines):
        raise WrongError("server.calendar_zone", name=printable(name))
    lines = [f"TZID:{name}" if line.upper().startswith("TZID") else line for line in lines]
    try:
        return tzical(StringIO("\n".join(lines))).get(name)
    except Exception:  # python-dateutil says in many ways that it cannot read one
        return None
