"""When the events of a calendar file are (iCalendar, RFC 5545).

`recurring-ical-events` expands the series. It accepts the standard only, but many programs deviate.
So each entry's times are read here first, in one zone, and the library gets them without a zone.

Pure, except for its running time: the file is untrusted, and a rule that never matches is searched
until the year 9999. So only `controller.calendar_reader` uses this, in a process that
has a limit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import Any, Final, NamedTuple

import recurring_ical_events  # type: ignore[import-untyped]
from dateutil.rrule import rrule, rrulestr
from icalendar import Calendar, vRecur
from icalendar import Event as VEvent

from naproxy.core.hours import Event
from naproxy.core.processes import why
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.server.zones import UnsureZoneError, plain_name, printable, zone_of

MOST_BYTES: Final = 1 << 20
MOST_EVENTS: Final = 1000
"""In the time that is looked at."""
_MOST_NAME: Final = 80
_LINE: Final = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*):(.*)')
# A zone's name may have a colon, and programs forget the quotation marks.
_TIMES_LINE: Final = re.compile(
    r"(DTSTART|DTEND|RECURRENCE-ID|EXDATE|RDATE)((?:;.*)?):([^:]*)", re.IGNORECASE
)
_PARAM: Final = re.compile(r';([A-Za-z0-9-]+)=("[^"]*"|.*?)(?=;[A-Za-z0-9-]+=|$)')
_TIME: Final = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:T([01]\d|2[0-3]):?([0-5]\d):?([0-6]\d)?(Z?))?"
)
_LENGTH: Final = re.compile(
    r"([+-]?)P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?"
)
_PERIODS_S: Final = {"WEEKLY": 7 * 86400, "DAILY": 86400, "HOURLY": 3600}
_VERY_OFTEN: Final = {"MINUTELY": 60, "SECONDLY": 1}
_OFTEN: Final = ("YEARLY", "MONTHLY", *_PERIODS_S, *_VERY_OFTEN)
_PARTS: Final = re.compile(r"FREQ|UNTIL|COUNT|INTERVAL|WKST|BY[A-Z]+")
_TO_COME: Final = "THISANDFUTURE"


@dataclass(frozen=True, slots=True)
class Agenda:
    """The content of a calendar, in order."""

    events: list[Event]
    left_out: int = 0
    """Ignored entries that could not be understood."""
    why: Reason | None = None
    """Of the first of these, or else of the first in doubt."""
    doubted: int = 0
    """Entries that are among the events, and were not understood in every part."""


class _Property(NamedTuple):
    name: str
    params: Mapping[str, str]
    value: str


class _When(NamedTuple):
    """A local clock time, or the beginning of a local day."""

    local: datetime
    zone: tzinfo
    whole_day: bool

    @property
    def t_s(self) -> float:
        return self.local.replace(tzinfo=self.zone).timestamp()

    def shown_in(self, zone: tzinfo) -> datetime:
        if zone is self.zone:
            return self.local
        return self.local.replace(tzinfo=self.zone).astimezone(zone).replace(tzinfo=None)


@dataclass(eq=False)
class _Entry:
    """A VEVENT."""

    properties: dict[str, list[_Property]] = field(default_factory=dict)
    doubt: Reason | None = None
    """The part that is not understood, though its time is."""

    def text(self, name: str) -> str:
        found = self.properties.get(name)
        return found[0].value if found else ""

    @property
    def name(self) -> str:
        text = re.sub(r"\\([,;\\])", r"\1", re.sub(r"\\[nN]", " ", self.text("SUMMARY")))
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= _MOST_NAME else f"{line[: _MOST_NAME - 1]}…"

    @property
    def instance(self) -> str:
        return self.text("RECURRENCE-ID")

    @property
    def sequence(self) -> int:
        text = self.text("SEQUENCE")
        return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0

    @property
    def cancelled(self) -> bool:
        return self.text("STATUS").upper() == "CANCELLED"


@dataclass
class _Times:
    """When an entry begins, and how long it takes."""

    start: _When
    length: timedelta
    lengths: dict[datetime, timedelta] = field(default_factory=dict)
    """Of further times that have one of their own."""

    def event(self, begin: _When, length: timedelta, name: str) -> Event:
        # Days are counted by clocks, hours are not.
        if self.start.whole_day:
            return Event(begin.t_s, begin._replace(local=begin.local + length).t_s, name)
        return Event(begin.t_s, begin.t_s + length.total_seconds(), name)


def decoded(data: bytes) -> str:
    """Return a calendar's text: UTF-8, UTF-16, or Windows' encoding; its lines end in one way."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    elif data[1:2] == b"\0" or data[:1] == b"\0":
        text = data.decode("utf-16-le" if data[1:2] == b"\0" else "utf-16-be", errors="replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            # One that was cut within a letter is UTF-8 all the same.
            whole = error.start >= len(data) - 3
            text = data.decode("utf-8-sig" if whole else "cp1252", errors="replace")
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def read(data: bytes, where: tzinfo, from_s: float, to_s: float) -> Agenda:
    """Return the events that are not over at `from_s` and begin before `to_s`, epoch seconds.

    `where`: the zone of whole days, and of times without one. WrongError if it is not a calendar.
    """
    return _Calendar(data, where).agenda(from_s, to_s)


class _Calendar:
    def __init__(self, data: bytes, where: tzinfo) -> None:
        if len(data) > MOST_BYTES:
            raise WrongError("server.calendar_large", high=MOST_BYTES)
        lines = re.sub(r"\n+[ \t]", "", decoded(data).strip()).split("\n")
        if lines[0].strip().upper() != "BEGIN:VCALENDAR":
            raise WrongError("server.calendar_other")
        if lines[-1].strip().upper() != "END:VCALENDAR":
            raise WrongError("server.calendar_cut_off")
        self._where = where
        self._own: tzinfo | None = None
        self._zones: dict[str, tzinfo] = {}
        self._zone_texts: dict[str, str] = {}
        self._entries: list[_Entry] = []
        self._take(lines)
        if own := self._named.get("X-WR-TIMEZONE"):
            try:
                self._own = self._zone(own)
            except WrongError:
                self._own = None

    def _take(self, lines: list[str]) -> None:
        """Take entries and time zones; parts within an entry, such as an alarm, are ignored."""
        inside: list[str] = []
        entry, zone, zone_name = _Entry(), [""], ""
        self._named: dict[str, str] = {}
        for line in lines:
            found = _TIMES_LINE.fullmatch(line.strip()) or _LINE.fullmatch(line.strip())
            if not found:
                continue
            name, value = found[1].upper(), found[3].strip()
            within = inside[-1] if inside else ""
            if "VTIMEZONE" in inside[-2:] or (name, value.upper()) == ("BEGIN", "VTIMEZONE"):
                zone.append(line.strip())
            if name == "BEGIN":
                inside.append(value.upper())
                if inside[-1] == "VEVENT":
                    entry = _Entry()
                elif inside[-1] == "VTIMEZONE":
                    zone, zone_name = [line.strip()], ""
            elif name == "END":
                if within == "VEVENT":
                    self._entries.append(entry)
                elif within == "VTIMEZONE" and zone_name:
                    self._zone_texts.setdefault(zone_name, "\n".join(zone))
                del inside[-1:]
            elif within == "VEVENT":
                params = {k.upper(): v.strip('"') for k, v in _PARAM.findall(found[2])}
                entry.properties.setdefault(name, []).append(_Property(name, params, value))
            elif within == "VTIMEZONE" and name == "TZID":
                zone_name = plain_name(value)
            elif within == "VCALENDAR":
                self._named.setdefault(name, value)

    def agenda(self, from_s: float, to_s: float) -> Agenda:
        found: list[Event] = []
        left: list[Reason] = []
        doubted: list[Reason] = []
        for series in self._series():
            times: dict[_Entry, _Times] = {}
            wrong: dict[_Entry, Reason] = {}
            for entry in series:
                try:
                    times[entry] = self._times(entry)
                except (WrongError, ValueError, OverflowError) as error:
                    wrong[entry] = _reason_of(error)
            known: dict[_Entry, list[Event]] = {entry: [] for entry in times}
            for entry, event in self._events(times, wrong, from_s, to_s):
                known[entry].append(event)
            for entry in series:
                events = known.get(entry, [])
                found.extend(events)
                if len(found) > MOST_EVENTS:
                    raise WrongError("server.calendar_many", high=MOST_EVENTS)
                if entry in wrong and not entry.cancelled:
                    left.append(_named(entry, wrong[entry]))
                elif entry.doubt and not entry.cancelled:
                    (doubted if events else left).append(_named(entry, entry.doubt))
        found.sort(key=lambda each: (each.begin_s, each.end_s))
        return Agenda(found, len(left), next(iter(left + doubted), None), len(doubted))

    def _series(self) -> Iterable[list[_Entry]]:
        """Return entries that belong together; of one that was sent again the last counts."""
        latest: dict[tuple[str, str], int] = {}
        for entry in self._entries:
            key = entry.text("UID"), entry.instance
            latest[key] = max(latest.get(key, 0), entry.sequence)
        series: dict[object, list[_Entry]] = {}
        for entry in self._entries:
            uid = entry.text("UID")
            if entry.sequence == latest[uid, entry.instance] or not uid:
                series.setdefault(uid or entry, []).append(entry)
        return series.values()

    def _times(self, entry: _Entry) -> _Times:
        if "DTSTART" not in entry.properties:
            raise WrongError("server.calendar_no_start")
        start = self._when(entry, entry.properties["DTSTART"][0])
        times = _Times(start, self._length(entry, start))
        if times.length < timedelta(0):
            raise WrongError("server.calendar_backwards")
        return times

    def _length(self, entry: _Entry, start: _When) -> timedelta:
        day = timedelta(days=1 if start.whole_day else 0)
        if "DTEND" in entry.properties:
            end = self._when(entry, entry.properties["DTEND"][0], start.zone)
            if start.whole_day and end.whole_day:
                return max(end.local - start.local, day if end.local == start.local else -day)
            return timedelta(seconds=end.t_s - start.t_s)
        if "DURATION" in entry.properties:
            return _length(entry.text("DURATION")) or day
        return day

    def _events(
        self,
        times: Mapping[_Entry, _Times],
        wrong: Mapping[_Entry, Reason],
        from_s: float,
        to_s: float,
    ) -> Iterator[tuple[_Entry, Event]]:
        """Yield what there is of a series, and of its changes, in the time that is looked at."""
        changes = [entry for entry in times if entry.instance]
        masters = [entry for entry in times if not entry.instance]
        if not masters:
            for entry in changes:
                yield from _within(entry, times[entry], from_s, to_s)
        for master in masters:
            repeats = master.properties.keys() & {"RRULE", "RDATE"}
            if not (repeats or changes) or master.cancelled:
                yield from _within(master, times[master], from_s, to_s)
                continue
            # Of two series with one UID each would have the changes.
            own = changes if master is masters[0] else []
            try:
                yield from self._recurring(master, own, times, from_s, to_s)
            except Exception as error:
                # So much can be wrong with a series that libraries say it in many ways.
                master.doubt = _reason_of(error)
                if master.doubt.code == "server.calendar_many":
                    raise
                yield from self._once(master, own, times, from_s, to_s)

    @staticmethod
    def _once(
        master: _Entry,
        changes: Sequence[_Entry],
        times: Mapping[_Entry, _Times],
        from_s: float,
        to_s: float,
    ) -> Iterator[tuple[_Entry, Event]]:
        """Yield the times that stand in the file, where those of the rule are not known."""
        for entry in (master, *changes):
            yield from _within(entry, times[entry], from_s, to_s)

    def _recurring(
        self,
        master: _Entry,
        changes: Sequence[_Entry],
        times: Mapping[_Entry, _Times],
        from_s: float,
        to_s: float,
    ) -> list[tuple[_Entry, Event]]:
        own = times[master]
        zone, whole = own.start.zone, own.start.whole_day
        if self._own and zone is UTC:
            zone = self._own  # Google writes the times of a series so
        start = own.start.shown_in(zone)
        longest = max((times[each].length for each in (master, *changes)), default=timedelta(0))
        first, last = (
            datetime.fromtimestamp(t_s, zone).replace(tzinfo=None) for t_s in (from_s, to_s)
        )
        first -= longest + timedelta(days=1)
        further = self._further(master, own, zone)
        exact, days = self._exceptions(master, zone, whole=whole)
        ahead = any(_to_come(each) for each in changes)
        if ahead and not _MOVES_ALL:
            master.doubt = Reason("server.calendar_range")
        said = master.properties["DTSTART"][0]
        # As recurring-ical-events has it: only a series without a zone ends by its own clocks.
        ends_in = UTC if said.params.get("TZID") or said.value.upper().endswith("Z") else zone
        rules = [
            self._rule(each.value, zone, ends_in, whole=whole)
            for each in master.properties.get("RRULE", ())
            if each.value
        ]
        for each in master.properties.get("EXRULE", ()):
            # RFC 5545 has it no more: the series stays longer rather than shorter.
            master.doubt = Reason("server.calendar_rule", rule=f"EXRULE {printable(each.value)}")
        counted = sum(_count(parts, start, first, last) for parts in rules)
        if not (counted or further or changes or start >= first):
            return []
        if len(rules) == 1 and not ahead:
            start = _late_start(rules[0], start, first)

        calendar, entries = Calendar(), (master, *changes)
        series = _component(0, start, master.sequence, whole=whole)
        _repeat(series, rules, further, exact, whole=whole)
        calendar.add_component(series)
        for number, entry in enumerate(changes, 1):
            begin = times[entry].start.shown_in(zone)
            changed = self._instance(entry, own.start, zone, whole=whole)
            component = _component(number, begin, entry.sequence, whole=whole)
            params = {"RANGE": _TO_COME} if _to_come(entry) else {}
            component.add("recurrence-id", _moment(changed, whole=whole), params)
            calendar.add_component(component)
        found: list[tuple[_Entry, Event]] = []
        for each in recurring_ical_events.of(calendar).between(first, last + timedelta(days=1)):
            entry = entries[int(str(each["SUMMARY"]))]
            begin = _naive(each["DTSTART"].dt)
            if entry.cancelled or (entry is master and begin.date() in days):
                continue
            length = own.lengths.get(begin) if entry is master else None
            length = times[entry].length if length is None else length
            event = times[entry].event(_When(begin, zone, whole), length, entry.name)
            if _is_in(event, from_s, to_s):
                found.append((entry, event))
        return found

    def _further(self, entry: _Entry, own: _Times, zone: tzinfo) -> list[datetime]:
        """Read RDATE, whose times may have a length of their own."""
        found: list[datetime] = []
        for each in entry.properties.get("RDATE", ()):
            for value in filter(None, each.value.split(",")):
                text, _, until = value.strip().partition("/")
                try:
                    begin = self._when(entry, each._replace(value=text), own.start.zone)
                    if begin.whole_day and not own.start.whole_day:
                        clock = time() if until else own.start.shown_in(zone).time()
                        begin = _When(datetime.combine(begin.local.date(), clock), zone, False)
                    local = begin.shown_in(zone)
                    if until.lstrip("+-").startswith("P"):
                        own.lengths[local] = _length(until)
                    elif until:
                        end = self._when(entry, each._replace(value=until), own.start.zone)
                        end = end._replace(zone=zone) if end.whole_day else end
                        own.lengths[local] = timedelta(seconds=end.t_s - begin.t_s)
                    found.append(local)
                except (WrongError, ValueError, OverflowError) as error:
                    entry.doubt = _reason_of(error)
        return found

    def _exceptions(
        self, entry: _Entry, zone: tzinfo, *, whole: bool
    ) -> tuple[list[datetime], set[date]]:
        """Return the times, and the days, at which a series is not."""
        moments: list[datetime] = []
        days: set[date] = set()
        for each in entry.properties.get("EXDATE", ()):
            for value in filter(None, re.split("[,;]", each.value)):
                try:
                    said = self._when(entry, each._replace(value=value), zone)
                except (WrongError, ValueError, OverflowError) as error:
                    entry.doubt = _reason_of(error)
                    continue
                if said.whole_day or whole:
                    day = said.local.date() if said.whole_day else self._day(said)
                    days.add(day)
                    if whole:
                        moments.append(datetime.combine(day, time()))
                else:
                    moments.append(said.shown_in(zone))
        return moments, days

    def _instance(self, entry: _Entry, start: _When, zone: tzinfo, *, whole: bool) -> datetime:
        said = self._when(entry, entry.properties["RECURRENCE-ID"][0], start.zone)
        if whole:
            day = said.local.date() if said.whole_day else self._day(said)
            return datetime.combine(day, time())
        if said.whole_day:
            return datetime.combine(said.local.date(), start.shown_in(zone).time())
        return said.shown_in(zone)

    def _day(self, said: _When) -> date:
        """Return the day that a moment means: Exchange writes midnight, in UTC."""
        if said.zone is UTC:
            return next(self._midnights(said.local), said.local.date())
        return said.local.date()

    def _midnights(self, utc: datetime) -> Iterator[date]:
        """Yield the day that begins then, in the calendar's zones and the office's."""
        moment = utc.replace(tzinfo=UTC)
        zones = [self._own, self._where]
        for name in self._zone_texts:
            with contextlib.suppress(WrongError):
                zones.append(self._zone(name))
        for zone in filter(None, zones):
            local = moment.astimezone(zone)
            if local.time() == time():
                yield local.date()

    def _rule(self, text: str, zone: tzinfo, ends_in: tzinfo, *, whole: bool) -> dict[str, str]:
        """Return a rule's parts, UNTIL as the clocks of `zone` show it; WrongError, ValueError.

        `ends_in`: the zone of an UNTIL that names none.
        """
        parts = _parts(text)
        if until := parts.get("UNTIL"):
            local, day_only, utc = _time(until)
            if whole:
                day = next(self._midnights(local), local.date()) if utc else local.date()
                local = datetime.combine(day, time())
            elif day_only and ends_in is zone:
                local = datetime.combine(local.date(), time.max)
            else:
                local = _When(local, UTC if utc else ends_in, whole_day=False).shown_in(zone)
            parts["UNTIL"] = local.strftime("%Y%m%d" if whole else "%Y%m%dT%H%M%S")
        return parts

    def _when(self, entry: _Entry, said: _Property, other: tzinfo | None = None) -> _When:
        """Read a day or a moment; WrongError. `other`: the zone of one that names none."""
        local, whole_day, utc = _time(said.value)
        zone: tzinfo = UTC
        if not utc:
            zone = self._where if whole_day else other or self._own or self._where
            if name := said.params.get("TZID"):
                try:
                    zone = self._zone(name)
                except WrongError as error:
                    # That of the office is more likely than none.
                    entry.doubt = error.reason
                    zone = error.likely if isinstance(error, UnsureZoneError) else self._where
        return _When(local, zone, whole_day)

    def _zone(self, name: str) -> tzinfo:
        if name not in self._zones:
            self._zones[name] = zone_of(name, self._zone_texts)
        return self._zones[name]


_MOVES_ALL: Final = hasattr(recurring_ical_events, "CalendarQuery")
"""The library moves all that follows, where an entry says so: from version 3 on."""


def _repeat(
    component: VEvent,
    rules: Sequence[Mapping[str, str]],
    further: Sequence[datetime],
    without: Sequence[datetime],
    *,
    whole: bool,
) -> None:
    """Say when a series is, as the library takes it."""
    for parts in rules:
        component.add("rrule", vRecur.from_ical(_joined(parts)))
    for name, moments in (("rdate", further), ("exdate", without)):
        if moments:
            component.add(name, [_moment(each, whole=whole) for each in moments])


def _component(number: int, begin: datetime, sequence: int, *, whole: bool) -> VEvent:
    """Return an entry with its number as title, which identifies it in the library's result."""
    component = VEvent()
    component.add("uid", "1")
    component.add("summary", str(number))
    component.add("sequence", sequence)
    component.add("dtstart", _moment(begin, whole=whole))
    return component


def _moment(local: datetime, *, whole: bool) -> date:
    return local.date() if whole else local


def _to_come(entry: _Entry) -> bool:
    return entry.properties["RECURRENCE-ID"][0].params.get("RANGE", "").upper() == _TO_COME


def _within(
    entry: _Entry, times: _Times, from_s: float, to_s: float
) -> Iterator[tuple[_Entry, Event]]:
    event = times.event(times.start, times.length, entry.name)
    if not entry.cancelled and _is_in(event, from_s, to_s):
        yield entry, event


def _is_in(event: Event, from_s: float, to_s: float) -> bool:
    return event.begin_s < to_s and from_s < event.end_s and event.begin_s < event.end_s


def _naive(moment: Any) -> datetime:
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=None)
    return datetime.combine(moment, time())


def _time(text: str) -> tuple[datetime, bool, bool]:
    """Return what it says, whether that is a whole day, and whether it is UTC; WrongError."""
    found = _TIME.fullmatch(text.strip().upper())
    if not found:
        raise WrongError("server.calendar_time", text=printable(text))
    day = datetime(int(found[1]), int(found[2]), int(found[3]))
    if not found[4]:
        return day, True, False
    # A minute may have 61 seconds.
    moment = time(int(found[4]), int(found[5]), min(int(found[6] or 0), 59))
    return datetime.combine(day.date(), moment), False, bool(found[7])


def _length(text: str) -> timedelta:
    found = _LENGTH.fullmatch(text.strip().upper())
    if not found:
        raise WrongError("server.calendar_time", text=printable(text))
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -length if found[1] == "-" else length


def _parts(text: str) -> dict[str, str]:
    """Return a rule's parts, without what programs put between them; WrongError, ValueError."""
    wrong = WrongError("server.calendar_rule", rule=printable(text))
    plain = re.sub(r"[\s\"\\]", "", text.upper()).removeprefix("RRULE:")
    said = dict(part.partition("=")[::2] for part in plain.split(";") if part)
    if said.pop("RSCALE", "GREGORIAN") != "GREGORIAN":
        raise wrong
    parts = {
        name: ",".join(filter(None, value.split(",")))
        for name, value in said.items()
        if _PARTS.fullmatch(name)
    }
    if parts.get("FREQ") not in _OFTEN or int(parts.get("INTERVAL", "1")) < 1:
        raise wrong
    return parts


def _joined(parts: Mapping[str, str]) -> str:
    return ";".join("=".join(part) for part in parts.items())


def _late_start(parts: Mapping[str, str], start: datetime, first: datetime) -> datetime:
    """Return a begin near the wanted time, so that a series of many years needs no long search."""
    period_s = (_PERIODS_S | _VERY_OFTEN).get(parts["FREQ"])
    if period_s is None or "COUNT" in parts:
        return start
    period = timedelta(seconds=int(parts.get("INTERVAL", "1")) * period_s)
    return start + max(0, (first - start) // period - 1) * period


def _count(parts: Mapping[str, str], start: datetime, first: datetime, last: datetime) -> int:
    """Return how often it comes true in that time; WrongError if that is too often."""
    found = rrulestr(_joined(parts), dtstart=_late_start(parts, start, first))
    assert isinstance(found, rrule)
    number = 0
    for each in islice(found.xafter(first, inc=True), MOST_EVENTS + 1):
        if each > last:
            break
        number += 1
    if number <= MOST_EVENTS:
        return number
    if parts["FREQ"] in _VERY_OFTEN:
        raise WrongError("server.calendar_rule", rule=_joined(parts)[:_MOST_NAME])
    raise WrongError("server.calendar_many", high=MOST_EVENTS)


def _reason_of(error: Exception) -> Reason:
    return error.reason if isinstance(error, WrongError) else own_words(why(error))


def _named(entry: _Entry, reason: Reason) -> Reason:
    return Reason("server.calendar_entry", name=entry.name or "?", why=reason)
