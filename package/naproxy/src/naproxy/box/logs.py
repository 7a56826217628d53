"""Logs to look at: bounded, as text whatever is in them."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from naproxy.core import office_time
from naproxy.core.hours import zone

MOST_LINES: Final = 1000
MOST_CHARS: Final = 500
_MOST_BYTES: Final = 1 << 18
_KEPT: Final = 2000
_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
_STAMP: Final = re.compile(rf"({'|'.join(_MONTHS)}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?!\S)")
_EPOCH: Final = re.compile(r"\d{9,11}\.\d{6}(?!\S)")
_AHEAD_S: Final = 86400.0
"""The clock may have been set back meanwhile."""


class Ring(logging.Handler):
    """The last lines of the controller's log, with their time."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._lines: deque[tuple[float, str]] = deque(maxlen=_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is said."""
        lines = self.format(record).splitlines()
        self._lines.extend((record.created, line[:MOST_CHARS]) for line in lines)

    def since(self, t_s: float, most: int) -> list[tuple[float, str]]:
        """Return the last lines after a time with theirs, oldest first, safe to show."""
        found = [(at_s, _safe(line)) for at_s, line in list(self._lines) if at_s > t_s]
        return found[-most:]

    def lines(self) -> list[str]:
        """Return them, oldest first, with date and time by the office's clock."""
        return [f"{office_time.stamp(t_s)} {line}" for t_s, line in list(self._lines)]


def tail(path: Path) -> list[str]:
    """Return the last lines of a file, oldest first; OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MOST_BYTES))
        data = file.read(_MOST_BYTES)
    lines = data.decode(errors="replace").split("\n")
    # The first is cut where not the whole file was read.
    return [line for line in (lines[1:] if size > _MOST_BYTES else lines) if line]


def by_office_clock(lines: Iterable[str], now_s: float, box: tzinfo | None = None) -> list[str]:
    """Return lines of syslog or of `journalctl -o short-unix` with the office's time, as `Ring`.

    `box`: the zone of syslog's times. RFC 3164 has no year: it is the last year in which that day
    is not in the future. A line without such a time at its start stays as it is.
    """
    box = box or zone("")
    return [_by_office_clock(line, now_s, box) for line in lines]


def _by_office_clock(line: str, now_s: float, box: tzinfo) -> str:
    if since_epoch := _EPOCH.match(line):
        return office_time.stamp(float(since_epoch[0])) + line[since_epoch.end() :]
    found = _STAMP.match(line)
    if not found:
        return line
    day, hour, minute, second = map(int, found.groups()[1:])
    month = _MONTHS.index(found[1]) + 1
    latest = datetime.fromtimestamp(now_s + _AHEAD_S, box)
    for year in (latest.year, latest.year - 1):
        try:
            then = datetime(year, month, day, hour, minute, second, tzinfo=box)
        except ValueError:  # 29 February of another year
            continue
        if then <= latest:
            return office_time.stamp(then.timestamp()) + line[found.end() :]
    return line


def chosen(lines: Iterable[str], contains: str, limit: int) -> list[str]:
    """Return the last `limit` lines with these characters, as text that is safe to show."""
    wanted = contains.casefold()
    found = [line for line in lines if wanted in line.casefold()]
    return [_safe(line) for line in found[-max(1, min(limit, MOST_LINES)) :]]


def _safe(line: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[:MOST_CHARS])
