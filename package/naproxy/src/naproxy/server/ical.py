"""When the events of a calendar file are (iCalendar, RFC 5545). python-dateutil reckons the rules.

Pure, but for the time it takes: the file may come from anybody, and a rule that never comes true is
looked for until the year 9999. So only `controller.calendar_reader` uses this, in a process that
has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from io import StringIO
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from dateutil.rrule import rrule, rrulestr
from dateutil.tz import tzical

from naproxy.core.hours import Event
from naproxy.core.processes import why
from naproxy.core.reason import Reason, WrongError, own_words

MOST_BYTES: Final = 1 << 20
MOST_EVENTS: Final = 1000
"""In the time that is looked at."""
_MOST_NAME: Final = 80
_LINE: Final = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*):(.*)')
_PARAM: Final = re.compile(r';([A-Za-z0-9-]+)=("[^"]*"|[^";:]*)')
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T([01]\d|2[0-3])([0-5]\d)([0-6]\d)(Z?))?")
_LENGTH: Final = re.compile(
    r"\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?"
)
_PERIODS_S: Final = {"WEEKLY": 7 * 86400, "DAILY": 86400, "HOURLY": 3600}
_OFTEN: Final = ("YEARLY", "MONTHLY", *_PERIODS_S)


@dataclass(frozen=True, slots=True)
class Agenda:
    """What is in a calendar, in order."""

    events: list[Event]
    left_out: int = 0
    """Entries that could not be understood."""
    why: Reason | None = None
    """Of the first of these."""


class _Property(NamedTuple):
    name: str
    params: Mapping[str, str]
    value: str


class _When(NamedTuple):
    """What clocks show somewhere, or the beginning of a day there."""

    local: datetime
    zone: tzinfo
    whole_day: bool

    @property
    def t_s(self) -> float:
        return self.local.replace(tzinfo=self.zone).timestamp()


@dataclass
class _Entry:
    """A VEVENT."""

    properties: dict[str, list[_Property]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        found = self.properties.get(name)
        return found[0].value if found else ""

    @property
    def name(self) -> str:
        text = re.sub(r"\\([,;\\])", r"\1", re.sub(r"\\[nN]", " ", self.text("SUMMARY")))
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= _MOST_NAME else f"{line[: _MOST_NAME - 1]}…"


def read(data: bytes, where: tzinfo, from_s: float, to_s: float) -> Agenda:
    """Return the events that are not over at `from_s` and begin before `to_s`, epoch seconds.

    `where`: the zone of whole days, and of times that name none. WrongError if it is no calendar.
    """
    return _Calendar(data, where).agenda(from_s, to_s)


class _Calendar:
    def __init__(self, data: bytes, where: tzinfo) -> None:
        if len(data) > MOST_BYTES:
            raise WrongError("server.calendar_large", high=MOST_BYTES)
        text = data.decode("utf-8-sig", errors="replace")
        lines = re.sub(r"\r?\n[ \t]", "", text).replace("\r\n", "\n").rstrip().split("\n")
        if lines[0].strip().upper() != "BEGIN:VCALENDAR":
            raise WrongError("server.calendar_other")
        if lines[-1].strip().upper() != "END:VCALENDAR":
            raise WrongError("server.calendar_cut_off")
        self._where = where
        self._zones: dict[str, tzinfo] = {}
        self._zone_texts: dict[str, str] = {}
        self._entries: list[_Entry] = []
        self._take(lines)

    def _take(self, lines: list[str]) -> None:
        """Take entries and time zones; what lies within an entry, as an alarm, is left."""
        inside: list[str] = []
        entry, zone, zone_name = _Entry(), [""], ""
        for line in lines:
            found = _LINE.fullmatch(line.rstrip("\r"))
            if not found:
                continue
            name, value = found[1].upper(), found[3].strip()
            within = inside[-1] if inside else ""
            if "VTIMEZONE" in inside or (name, value.upper()) == ("BEGIN", "VTIMEZONE"):
                zone.append(line)
            if name == "BEGIN":
                inside.append(value.upper())
                if inside[-1] == "VEVENT":
                    entry = _Entry()
                elif inside[-1] == "VTIMEZONE":
                    zone, zone_name = [line], ""
            elif name == "END":
                if within == "VEVENT":
                    self._entries.append(entry)
                elif within == "VTIMEZONE" and zone_name:
                    self._zone_texts.setdefault(zone_name, "\n".join(zone))
                inside = inside[:-1]
            elif within == "VEVENT":
                params = {k.upper(): v.strip('"') for k, v in _PARAM.findall(found[2])}
                entry.properties.setdefault(name, []).append(_Property(name, params, value))
            elif within == "VTIMEZONE" and name == "TZID":
                zone_name = value

    def agenda(self, from_s: float, to_s: float) -> Agenda:
        found: list[Event] = []
        wrong: list[Reason] = []
        moved = self._moved(wrong)
        for entry in self._entries:
            try:
                found.extend(self._events(entry, moved, from_s, to_s))
            except WrongError as error:
                if error.reason.code == "server.calendar_many":
                    raise
                wrong.append(_left(entry, error.reason))
            except Exception as error:
                # So much can be wrong with a rule that python-dateutil says it in many ways.
                wrong.append(_left(entry, own_words(why(error))))
            if len(found) > MOST_EVENTS:
                raise WrongError("server.calendar_many", high=MOST_EVENTS)
        found.sort(key=lambda each: (each.begin_s, each.end_s))
        return Agenda(found, len(wrong), wrong[0] if wrong else None)

    def _moved(self, wrong: list[Reason]) -> dict[str, set[float]]:
        """Return which times of a series have an entry of their own, by the series' UID."""
        moved: dict[str, set[float]] = {}
        for entry in self._entries:
            for each in entry.properties.get("RECURRENCE-ID", ()):
                try:
                    moved.setdefault(entry.text("UID"), set()).add(self._when(each).t_s)
                except (WrongError, ValueError, OverflowError) as error:
                    wrong.append(_left(entry, own_words(why(error))))
        return moved

    def _events(
        self, entry: _Entry, moved: Mapping[str, set[float]], from_s: float, to_s: float
    ) -> Iterator[Event]:
        if entry.text("STATUS").upper() == "CANCELLED":
            return
        if "DTSTART" not in entry.properties:
            raise WrongError("server.calendar_no_start")
        start = self._when(entry.properties["DTSTART"][0])
        length = self._length(entry, start)
        begins = {start.t_s: start}
        if "RECURRENCE-ID" not in entry.properties:
            earliest_s = from_s - length.total_seconds() - 86400
            for each in self._recurring(entry, start, earliest_s, to_s):
                begins[each.t_s] = each
            for without in moved.get(entry.text("UID"), ()):
                begins.pop(without, None)
            self._except(entry, begins)
        for begin_s, begin in begins.items():
            # Days are counted by clocks, hours are not.
            whole = start.whole_day
            end_s = (
                begin._replace(local=begin.local + length).t_s
                if whole
                else begin_s + length.total_seconds()
            )
            if begin_s < to_s and from_s < end_s and begin_s < end_s:
                yield Event(begin_s, end_s, entry.name)

    def _length(self, entry: _Entry, start: _When) -> timedelta:
        if "DTEND" in entry.properties:
            end = self._when(entry.properties["DTEND"][0])
            whole = start.whole_day and end.whole_day
            return end.local - start.local if whole else timedelta(seconds=end.t_s - start.t_s)
        if "DURATION" in entry.properties:
            return _length(entry.text("DURATION"))
        return timedelta(days=1 if start.whole_day else 0)

    def _recurring(
        self, entry: _Entry, start: _When, from_s: float, to_s: float
    ) -> Iterator[_When]:
        number = 0
        for each in entry.properties.get("RDATE", ()):
            for value in each.value.split(","):
                yield self._when(each._replace(value=value.partition("/")[0]))
        for each in entry.properties.get("RRULE", ()):
            first, last = (
                datetime.fromtimestamp(t_s, start.zone).replace(tzinfo=None)
                for t_s in (from_s, to_s)
            )
            for local in _rule(each.value, start, first).xafter(first, inc=True):
                if local > last:
                    break
                number += 1
                if number > MOST_EVENTS:
                    raise WrongError("server.calendar_many", high=MOST_EVENTS)
                yield start._replace(local=local)

    def _except(self, entry: _Entry, begins: dict[float, _When]) -> None:
        days: set[date] = set()
        for each in entry.properties.get("EXDATE", ()):
            for value in each.value.split(","):
                but = self._when(each._replace(value=value))
                begins.pop(but.t_s, None)
                if but.whole_day:
                    days.add(but.local.date())
        for t_s in [t_s for t_s, begin in begins.items() if begin.local.date() in days]:
            del begins[t_s]

    def _when(self, said: _Property) -> _When:
        """Read a day or a moment; WrongError."""
        zone = self._zone(said.params["TZID"]) if said.params.get("TZID") else self._where
        local, whole_day, utc = _time(said.value)
        return _When(local, UTC if utc else self._where if whole_day else zone, whole_day)

    def _zone(self, name: str) -> tzinfo:
        if name not in self._zones:
            self._zones[name] = self._known_zone(name)
        return self._zones[name]

    def _known_zone(self, name: str) -> tzinfo:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            text = self._zone_texts.get(name, "")
        if not text or re.search(r"FREQ=(SECOND|MINUTE|HOUR)LY", text, re.IGNORECASE):
            raise WrongError("server.calendar_zone", name=name)
        found = tzical(StringIO(text)).get(name)
        if found is None:
            raise WrongError("server.calendar_zone", name=name)
        return found


def _time(text: str) -> tuple[datetime, bool, bool]:
    """Return what it says, whether that is a whole day, and whether it is UTC; WrongError."""
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise WrongError("server.calendar_time", text=text[:_MOST_NAME])
    day = datetime(int(found[1]), int(found[2]), int(found[3]))
    if not found[4]:
        return day, True, False
    # A minute may have 61 seconds.
    moment = time(int(found[4]), int(found[5]), min(int(found[6]), 59))
    return datetime.combine(day.date(), moment), False, bool(found[7])


def _length(text: str) -> timedelta:
    found = _LENGTH.fullmatch(text)
    if not found:
        raise WrongError("server.calendar_time", text=text[:_MOST_NAME])
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _rule(text: str, start: _When, first: datetime) -> rrule:
    """Return a rule whose times before `first` may be left out; WrongError, ValueError."""
    parts = dict(part.upper().partition("=")[::2] for part in text.split(";"))
    often, every = parts.get("FREQ", ""), int(parts.get("INTERVAL", "1"))
    if often not in _OFTEN or every < 1:
        raise WrongError("server.calendar_rule", rule=text[:_MOST_NAME])
    if until := parts.get("UNTIL"):
        local, whole_day, utc = _time(until)
        if utc and not start.whole_day:
            local = local.replace(tzinfo=UTC).astimezone(start.zone).replace(tzinfo=None)
        elif whole_day:
            local = datetime.combine(local.date(), time.max)
        parts["UNTIL"] = local.strftime("%Y%m%dT%H%M%S")
    begin = start.local
    if often in _PERIODS_S and "COUNT" not in parts:
        # Who meets since years is not looked up from the beginning.
        period = timedelta(seconds=every * _PERIODS_S[often])
        begin += max(0, (first - begin) // period - 1) * period
    found = rrulestr(";".join("=".join(part) for part in parts.items()), dtstart=begin)
    assert isinstance(found, rrule)
    return found


def _left(entry: _Entry, reason: Reason) -> Reason:
    return Reason("server.calendar_entry", name=entry.name or "?", why=reason)
