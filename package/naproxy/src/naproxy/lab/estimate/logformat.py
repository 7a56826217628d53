"""Detect the format of an access log from its first thousand lines.

A line is split in the same way for every program: into words, texts in quotes and brackets
(`logtexts`), members of a JSON object (`logobjects`), or the columns that a `#Fields:` header names
(`logw3c`). The values show the content of a column: most of them are times, or addresses, or look
like user agents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from naproxy.core.reason import Reason
from naproxy.lab.estimate import logobjects, logtexts, logw3c
from naproxy.lab.estimate import logvalues as values
from naproxy.lab.estimate.logline import LINE_MAX, Entry, Format, Parse, entries_of
from naproxy.lab.estimate.logobjects import object_of

SAMPLE: Final = 1000  # lines
_LONGEST: Final = 8192  # characters of a line that the format is found out from


def detect(lines: Sequence[str], zone_s: int = 0) -> Format | None:
    """Return the format of most lines, or None if they are not an access log.

    `zone_s`: the office's offset from UTC in seconds, for times without a zone.
    """
    sample = [line for line in lines if line.strip() and len(line) <= _LONGEST]
    wrappers, inner = _unwrapped(sample)
    best, read = _best(inner, zone_s)
    if wrappers and read * 2 < len(sample):
        # A seeming prefix may be the line's first fields.
        plain, more = _best(sample, zone_s)
        if more > read:
            best, wrappers = plain, []
    return _finished(best, wrappers, sample) if best else None


def _best(lines: Sequence[str], zone_s: int) -> tuple[Format | None, int]:
    """Return the format that reads most of these lines, and how many."""
    best: Format | None = None
    most = 0
    for look in (logw3c.look, logobjects.look, logtexts.look):
        found = look(lines, zone_s)
        read = _read_by(found, lines) if found else 0
        if found and read > most:
            best, most = found, read
    return best, most


def named(name: str, parse_line: Parse, lines: Sequence[str]) -> Format:
    """Return the format that somebody described, of which these are the first lines."""
    made = Format(name, Reason("log.client_told"), parse_line)
    return _finished(made, [], lines)


def _read_by(found: Format, lines: Sequence[str]) -> int:
    return sum(1 for _ in entries_of(found.parse, lines))


def _finished(made: Format, wrappers: Sequence[_Wrapper], lines: Sequence[str]) -> Format:
    name, parse_line = made.name, made.parse
    for wrapper in reversed(wrappers):
        name = Reason("log.wrapped", by=wrapper.name, format=name)
        parse_line = partial(_inside, wrapper.open, parse_line)
    times = [entry.t_s for entry in entries_of(parse_line, lines)]
    later = sum(b > a for a, b in pairwise(times))
    earlier = sum(b < a for a, b in pairwise(times))
    middle_s = sorted(times)[len(times) // 2] if times else 0
    return Format(name, made.client, parse_line, middle_s, earlier > 2 * later + 2, len(times))


# ------------------------------------------------------------------- what others put around


class _Wrapper(NamedTuple):
    name: str
    open: Callable[[str], str]


def _inside(open_line: Callable[[str], str], parse_line: Parse, line: str) -> Entry:
    return parse_line(open_line(line))


_STAMP: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_PRI: Final = r"(?:<\d{1,3}>)?"
_TAG: Final = r"[A-Za-z_/][\w./@-]{0,99}(?:\[\d{1,10}\])?:(?![0-9A-Fa-f:]*:) ?"
"""A program's name, not a client's address with its port."""
_DATA: Final = r"(?:-|(?:\[[^\]]{0,1000}\])+)"
_RFC3164: Final = r"[A-Z][a-z]{2} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_PREFIXES: Final = tuple(
    (name, re.compile(pattern, re.ASCII))
    for name, pattern in (
        ("syslog", rf"{_PRI}1 {_STAMP} (?:\S+ ){{4}}{_DATA} (?:\xef\xbb\xbf)?"),  # RFC 5424
        ("syslog", rf"{_PRI}{_RFC3164} (?:\S+ )?{_TAG}"),
        ("syslog", rf"{_PRI}{_STAMP} (?:\S+ )?{_TAG}"),
        ("Kubernetes", rf"{_STAMP} std(?:out|err) [FP] "),
        ("Kubernetes", r"\[pod/\S+\] "),
        ("docker compose", r"(?:\x1b\[[\d;]*m)*[\w.-]{1,100} +\| ?(?:\x1b\[[\d;]*m)* ?"),
    )
)
_MEMBERS: Final = ("MESSAGE", "log", "message", "msg", "line", "textPayload", "_raw")
"""Of an object that has a whole line as text: journald's, Docker's, Fluent Bit's."""
_MOST_WRAPPERS: Final = 4


def _unwrapped(lines: Sequence[str]) -> tuple[list[_Wrapper], list[str]]:
    """Return what is around most lines, the outermost first, and the lines without it."""
    found: list[_Wrapper] = []
    inner = list(lines)
    while len(found) < _MOST_WRAPPERS and (wrapper := _wrapper(inner)):
        found.append(wrapper)
        inner = [wrapper.open(line) for line in inner]
    return found, inner


def _wrapper(lines: Sequence[str]) -> _Wrapper | None:
    for name, pattern in _PREFIXES:
        if values.share(list(lines), pattern.match) > 0.2:
            return _Wrapper(name, partial(_without_prefix, pattern))
    objects = [each for each in map(object_of, lines) if each]
    if len(objects) * 5 > len(lines):
        for member in _MEMBERS:
            texts = [_message(each.get(member)) for each in objects]
            if values.share(texts, _may_be_line) > 0.3:
                name = "journald" if member == "MESSAGE" else "Docker"
                return _Wrapper(name, partial(_member, member))
    return None


def _without_prefix(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line)
    return line[match.end() :] if match else line


_LINE: Final = re.compile(r'"[A-Z]{3,20} \S[^"]* HTTP/\d|^\{".*"status', re.ASCII)


def _may_be_line(text: str) -> bool:
    return bool(_LINE.search(text[:LINE_MAX]))


def _member(name: str, line: str) -> str:
    found = object_of(line)
    return _message(found.get(name)) if found else ""


def _message(said: Any) -> str:
    """Return a text; journald writes one with odd bytes as their numbers."""
    if isinstance(said, list):
        try:
            return bytes(said).decode("latin-1").rstrip("\n")
        except (TypeError, ValueError):
            return ""
    return values.as_bytes(said).rstrip("\n") if isinstance(said, str) else ""
