"""A server's scheduled jobs and their times: its systemd timers and crontabs. Pure.

The server reports them in lines (`parse`). These include a clock and a time zone, so the reader
needs neither. The agent runs this very file on the server, beside its own: standard library of
Python 3.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from fnmatch import fnmatchcase
from operator import sub
from typing import Final

FIRST_LINE: Final = "naproxy-appointments 1"
LAST_LINE: Final = "end"
MOST_BYTES: Final = 1 << 18
"""Of all that a server may tell."""
ZoneOf = Callable[[str], tzinfo]
"""Makes a time zone of a name; LookupError, ValueError or OSError if there is none."""
MOST_NAME: Final = 60
AHEAD_S: Final = 366 * 86400.0
"""Later jobs are not known yet."""
OFTEN_S: Final = 3600.0
_MOST_LINES: Final = 4096
_MOST_ENTRIES: Final = 1024
_MOST_US: Final = 10**17
_GAP_MIN: Final = 180
"""No change of the clocks is longer."""


class UnreadableError(ValueError):
    """The server's report is incomplete or invalid."""


HOUSEKEEPING: Final = (
    "anacron.timer",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "apt-listchanges.timer",
    "apt-show-versions.timer",
    "cron.daily/apache2",
    "cron.daily/apt-show-versions",
    "cron.daily/calendar",
    "cron.daily/cracklib-runtime",
    "cron.daily/exim4-base",
    "cron.daily/lighttpd",
    "cron.daily/mlocate",
    "cron.daily/ntp",
    "cron.daily/ntpsec",
    "*/apt",
    "*/apt-compat",
    "*/apt-xapian-index",
    "*/aptitude",
    "*/bsdmainutils",
    "certbot.timer",
    "cron.d/anacron",
    "cron.d/certbot",
    "cron.d/e2scrub_all",
    "cron.d/php",
    "cron.d/sysstat",
    "*/0anacron",
    "*/dpkg",
    "dnf-makecache.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "exim4-base.timer",
    "fstrim.timer",
    "fwupd-refresh.timer",
    "*/locate",
    "logrotate.timer",
    "*/logrotate",
    "man-db.timer",
    "*/man-db",
    "motd-news.timer",
    "ntpsec-rotate-stats.timer",
    "*/passwd",
    "phpsessionclean.timer",
    "plocate-updatedb.timer",
    "*/plocate",
    "*/popularity-contest",
    "sysstat-*.timer",
    "*/sysstat",
    "systemd-tmpfiles-clean.timer",
    "ua-timer.timer",
    "unbound-anchor.timer",
    "update-notifier-*.timer",
)
"""Jobs of the operating system, which catch up by themselves once the server is awake."""


@dataclass(frozen=True)
class Job:
    """Something that a server does by itself."""

    name: str
    """A timer's, `cron.daily/backup`, `cron.d/backup`, or `user: program`."""
    in_s: float
    """When it begins, from when the server told of it."""
    often: bool = False
    """It does so every hour, or more often."""


def parse(text: str, local: tzinfo | None, zone: ZoneOf) -> list[Job]:
    """Return the jobs in the lines, each once, the next one first; UnreadableError.

    `zone` makes a time zone of a name; if that fails or there is no name, it is `local`
    (None: this machine's).

    The lines: the first one; `now`, epoch seconds; `zone NAME +0100`; `anacron` if there is one;
    `parts FOLDER NAME ...`, programs that run-parts would start; `timers LINE` for each that
    `TZ=UTC systemctl list-timers --output=json` prints, which is a table where systemd is too old;
    `crontab FILE`, and its lines, each after a `|`; `end`.
    """
    lines = text.split("\n")
    if lines[-1:] == [""]:
        lines.pop()
    if len(lines) < 2 or lines[0] != FIRST_LINE or lines[-1] != LAST_LINE:
        raise UnreadableError("it is not whole")
    if len(text) > MOST_BYTES or len(lines) > _MOST_LINES:
        raise UnreadableError("it is too long")
    found = _Lines(local, zone)
    for line in lines[1:-1]:
        found.take(line)
    if found.now_s is None:
        raise UnreadableError("it does not tell the time")
    return found.jobs(found.now_s)


@dataclass(frozen=True)
class _Entry:
    """A line of a crontab: minutes, hours, days, months, weekdays, and the command."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """A day may fit by its number or by its weekday (crontab(5))."""
    name: str
    command: str

    @property
    def daily(self) -> set[int]:
        """When it runs on each day, in minutes; empty: not on each day."""
        full = (len(self.days) == 31, len(self.weekdays) == 7)
        every_day = any(full) if self.either else all(full)
        if not every_day or len(self.months) < 12:
            return set()
        return {60 * hour + minute for hour in self.hours for minute in self.minutes}

    def on(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        fits = (day.day in self.days, day.isoweekday() % 7 in self.weekdays)
        return any(fits) if self.either else all(fits)

    def after(self, now_s: float, zone: tzinfo | None) -> Iterator[float]:
        """Yield the times after this one, in epoch seconds."""
        begin = datetime.fromtimestamp(now_s, zone).replace(
            hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0
        )
        for day in (begin + timedelta(n) for n in range(int(AHEAD_S // 86400))):
            if self.on(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        t_s = _instant(day.replace(hour=hour, minute=minute), zone)
                        if t_s > now_s:
                            yield t_s


def _instant(local: datetime, zone: tzinfo | None) -> float:
    """Return when clocks show that; where they skip it, when they go on: so does cron."""
    for minute in range(_GAP_MIN):
        shown = local + timedelta(minutes=minute)
        t_s = shown.replace(tzinfo=zone).timestamp()
        if datetime.fromtimestamp(t_s, zone).replace(tzinfo=None, fold=0) == shown:
            return t_s
    return local.replace(tzinfo=zone).timestamp()


class _Lines:
    """Takes what a server tells, line by line."""

    def __init__(self, local: tzinfo | None, zone: ZoneOf) -> None:
        self.now_s: float | None = None
        self._zone = local
        self._zone_of = zone
        self._anacron = False
        self._parts: dict[str, list[str]] = {}
        self._timers: list[object] = []
        self._crontab = ""
        self._entries: list[_Entry] = []

    def take(self, line: str) -> None:
        """Take one; UnreadableError. A crontab's that cron would not take is passed over."""
        if line[:1] == "|":
            entry = _entry(self._crontab, line[1:]) if self._crontab else None
            if entry:
                self._entries.append(entry)
            if len(self._entries) > _MOST_ENTRIES:
                raise UnreadableError("its crontabs have too many lines")
            return
        word, _, rest = line.partition(" ")
        if word == "now":
            self.now_s = _epoch(rest)
        elif word == "zone":
            self._zone = self._where(rest)
        elif word == "anacron":
            self._anacron = True
        elif word == "parts":
            folder, *names = rest.split() or [""]
            self._parts[folder] = names
        elif word == "timers":
            self._timers += _json_rows(rest) if rest[:1] == "[" else _table_row(rest)
        elif word == "crontab":
            self._crontab = rest
        else:
            raise UnreadableError(f"it has a bad line: {line[:40]!r}")

    def _where(self, text: str) -> tzinfo | None:
        name, _, ahead = text.rpartition(" ")
        try:
            if name:
                return self._zone_of(name)
        except (LookupError, ValueError, OSError):
            pass
        found = re.fullmatch(r"([+-])([0-9]{2})([0-9]{2})", ahead, re.ASCII)
        if not found or int(found[2]) > 23 or int(found[3]) > 59:
            return self._zone
        by = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-by if found[1] == "-" else by)

    def jobs(self, now_s: float) -> list[Job]:
        """Return what they tell."""
        found = [*self._by_timer(now_s), *self._by_cron(now_s)]
        first: dict[str, Job] = {}
        # A nightly line is not hidden by an hourly one of the same file.
        for job in sorted(found, key=lambda one: (one.often, one.in_s)):
            first.setdefault(job.name, job)
        return sorted(first.values(), key=lambda one: one.in_s)

    def _by_timer(self, now_s: float) -> Iterator[Job]:
        for row in self._timers:
            if not isinstance(row, dict):
                raise UnreadableError("its timers are no list of them")
            name, next_s, last_s = row.get("unit"), _s(row.get("next")), _s(row.get("last"))
            # One that is not set to anything has no next time.
            if isinstance(name, str) and next_s and 0 <= next_s - now_s <= AHEAD_S:
                yield Job(_short(name), next_s - now_s, 0 < next_s - last_s <= OFTEN_S)

    def _by_cron(self, now_s: float) -> Iterator[Job]:
        daily: dict[tuple[str, str], set[int]] = {}
        for entry in self._entries:
            daily.setdefault((entry.name, entry.command), set()).update(entry.daily)
        for entry in self._entries:
            if self._anacron and "anacron" in entry.command:
                continue  # it does this when it likes, and later if that was missed
            next_s = next(entry.after(now_s, self._zone), None)
            if next_s is None or next_s - now_s > AHEAD_S:
                continue
            often = _is_often(daily[entry.name, entry.command])
            for name in self._names(entry):
                yield Job(_short(name), next_s - now_s, often)

    def _names(self, entry: _Entry) -> list[str]:
        """Return its name; for a job that starts a whole folder, the names of its programs."""
        for folder, names in self._parts.items():
            if re.search(rf"run-parts\b.*{re.escape(folder)}(?![\w./-])", entry.command):
                return [f"{folder.rpartition('/')[2]}/{name}" for name in names]
        return [entry.name]


def _is_often(daily: set[int]) -> bool:
    """Whether no gap of the day is longer than an hour: two runs at night are not often."""
    if not daily:
        return False
    times = sorted(daily)
    following = [*times[1:], times[0] + 24 * 60]
    gap_min: int = max(map(sub, following, times))
    return 60 * gap_min <= OFTEN_S


def _s(us: object) -> float:
    return us / 1e6 if isinstance(us, int) and 0 < us < _MOST_US else 0.0


def _epoch(text: str) -> float:
    if not re.fullmatch("[0-9]{1,12}", text, re.ASCII):
        raise UnreadableError("its time is no number")
    now_s = float(text)
    if now_s > 32503680000.0:  # the year 3000: the calendar ends a little later
        raise UnreadableError("its time is no time")
    return now_s


_UTC: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}) UTC", re.ASCII)


def _table_row(text: str) -> list[object]:
    """Return a row of the table as one of the JSON; its first column is the next time."""
    unit = re.search(r"\S+\.timer\b", text)
    if not unit or not re.match(r"\w{3} [0-9]{4}-", text):
        return []
    try:
        times = [datetime.fromisoformat(f"{each}+00:00").timestamp() for each in _UTC.findall(text)]
    except ValueError:
        times = []
    if not times:
        raise UnreadableError("its timers have no times")
    us = [int(each * 1e6) for each in times]
    return [{"unit": unit[0], "next": us[0], "last": us[1] if len(us) > 1 else None}]


def _json_rows(text: str) -> list[object]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise UnreadableError("its timers are no list of them")
    return rows


def is_housekeeping(name: str) -> bool:
    """Whether that is nothing to wake a server for."""
    return any(fnmatchcase(name, each) for each in HOUSEKEEPING)


# ------------------------------------------------------------------------- crontab(5)

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SYSTEM: Final = ("/etc/crontab", "/etc/cron.d/")
_PART: Final = re.compile(r"(\*|(\w+)(?:-(\w+))?)(?:/([0-9]{1,3}))?", re.ASCII)


def _entry(file: str, line: str) -> _Entry | None:
    """Return what a line of a crontab orders, if it is such a line."""
    line = line.strip()
    if line[:1] == "@":
        nickname, *rest = line.split(None, 1)
        line = " ".join([_NICKNAMES.get(nickname, "#"), *rest])
    fields = line.split(None, 5)
    if len(fields) < 6 or line[:1] == "#" or "=" in fields[0]:
        return None
    try:
        minutes = _numbers(fields[0], 0, 59)
        hours = _numbers(fields[1], 0, 23)
        days = _numbers(fields[2], 1, 31)
        months = _numbers(fields[3], 1, 12, _MONTHS, 1)
        weekdays = frozenset(day % 7 for day in _numbers(fields[4], 0, 7, _WEEKDAYS))
    except ValueError:
        return None
    folder, _, base = file.rpartition("/")
    user, command = base, fields[5]
    if file.startswith(_SYSTEM):
        user, command = [*command.split(None, 1), ""][:2]
    name = f"cron.d/{base}" if folder == "/etc/cron.d" else f"{user}: {_program(command)}"
    either = fields[2][0] != "*" and fields[4][0] != "*"
    return _Entry(minutes, hours, days, months, weekdays, either, name, command)


def _numbers(
    text: str, low: int, high: int, names: Iterable[str] = (), first: int = 0
) -> frozenset[int]:
    """Return what a field of a crontab stands for; ValueError."""
    known = {name: number for number, name in enumerate(names, first)}
    found: set[int] = set()
    for part in text.lower().split(","):
        match = _PART.fullmatch(part)
        if not match:
            raise ValueError(part)
        begin, end = low, high
        if match[1] != "*":
            begin = known[match[2]] if match[2] in known else int(match[2])
            end = begin
            if match[3]:
                end = known[match[3]] if match[3] in known else int(match[3])
            elif match[4]:
                end = high
        step = int(match[4] or 1)
        if not (low <= begin <= end <= high and step):
            raise ValueError(part)
        found.update(range(begin, end + 1, step))
    return frozenset(found)


def _program(command: str) -> str:
    """Return the name of the program that a command is about: its arguments may be secret."""
    for part in re.split(r"&&|\|\||;|\{", command):
        words = [word for word in part.split() if "=" not in word]
        if words and words[0] not in ("cd", "test", "["):
            return words[0].rpartition("/")[2]
    return "?"


def _short(name: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in name).strip()
    return plain if len(plain) <= MOST_NAME else f"{plain[: MOST_NAME - 1]}…"
