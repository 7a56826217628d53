"""Read web servers' access logs: Common and Combined Log Format, plain or gzip, as a stream.

Text is one character a byte (latin-1), so nothing in a log fails to decode and
`field.encode("latin-1")` gives back what the client sent. A line that does not parse is
counted and skipped; the first few are kept with their number and what is wrong.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

LINE_MAX = 65536  # bytes; Apache's own limit for a request line is 8190
_CHUNK = 1 << 20
_TOO_LONG = f"the line is longer than {LINE_MAX} bytes"
_EXAMPLES = 5
_EXAMPLE_LEN = 120


class Entry(NamedTuple):
    """One request as it was logged."""

    t_s: int  # epoch seconds, when the request arrived
    host: str  # the client's address or name
    method: str
    path: str  # with its query, the log's escapes undone
    status: int
    size: int  # bytes of the body sent; 0 if none
    referer: str  # empty if none, and in the Common format
    agent: str  # the same


class Malformed(ValueError):  # noqa: N818 it is the line that is, not the program
    """A line that is not a log entry of an HTTP request; its text says why."""


@dataclass(frozen=True, slots=True)
class Example:
    """A malformed line, for the person who owns the log."""

    file: str
    line: int  # 1 is the first
    why: str
    text: str  # cut


@dataclass
class Log:
    """The entries of one or several files ("-" is standard input), in the files' order.

    Iterating reads the files once more each time and starts the counts again. Servers write
    a line when the answer is sent, so times may step back a little from one entry to the next.
    """

    files: Sequence[str | Path]
    lines: int = 0  # up to date after each file
    read_bytes: int = 0  # of the files, compressed as they are
    malformed: Counter[str] = field(default_factory=Counter)  # reason -> lines
    examples: list[Example] = field(default_factory=list)

    def __iter__(self) -> Iterator[Entry]:
        """Stream the entries; OSError if a file cannot be read."""
        self.lines = self.read_bytes = 0
        self.malformed.clear()
        self.examples.clear()
        for name in self.files:
            yield from self._entries(str(name))

    def _entries(self, name: str) -> Iterator[Entry]:
        number = 0
        try:
            for line in _lines(name, self._count):
                number += 1
                try:
                    entry = parse(line)
                except Malformed as error:
                    self._skip(name, number, str(error), line)
                else:
                    yield entry
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self._skip(name, number + 1, "the gzip file is damaged or cut here", "")
        finally:
            self.lines += number

    def _count(self, read: int) -> None:
        self.read_bytes += read

    def _skip(self, name: str, number: int, why: str, text: str) -> None:
        self.malformed[why] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Example(name, number, why, text[:_EXAMPLE_LEN]))


def _lines(name: str, count: Callable[[int], None]) -> Iterator[str]:
    """Lines without their newline; one over LINE_MAX comes as its beginning, over-long.

    `count` is told how many bytes more of the file were read.
    """
    standard_input = cast(io.BufferedReader, sys.stdin.buffer)
    with nullcontext(standard_input) if name == "-" else Path(name).open("rb") as raw:
        zipped = raw.peek(2)[:2] == b"\x1f\x8b"
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw) if zipped else raw)
        carry = ""
        at = 0
        while chunk := stream.read(_CHUNK):
            if raw.seekable():
                at, before = raw.tell(), at
                count(at - before)
            lines = (carry + chunk.decode("latin-1")).split("\n")
            # Of a line without an end only enough is kept to see that it is too long.
            carry = lines.pop()[: LINE_MAX + 1]
            yield from lines
        if carry:
            yield carry


_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}")  # RFC 9110 5.6.2, less odd
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))  # the usual
_STATUSES = {f" {status} ": status for status in range(100, 600)}
_MINUTES = {f"{m // 60:02}:{m % 60:02}:": m * 60 for m in range(24 * 60)}  # of a day, in s
_SECONDS = {f"{s:02}": s for s in range(61)}  # 60: a leap second
_BAD_TIME = "the time is not a time"
_new = tuple.__new__


def parse(line: str) -> Entry:
    """Parse one line without its newline, given one character a byte; raises Malformed."""
    # Backslashes are rare and may escape a quote: only then more than one split is needed.
    escaped = "\\" in line
    parts = (_respelled(line) if escaped else line).split('"')
    # host ident user [time] "request" status size                    3 parts
    # host ident user [time] "request" status size "referer" "agent"  7 parts, or more fields
    if (len(parts) < 7 or not len(parts) & 1) and len(parts) != 3:
        raise Malformed(_unparted(line, len(parts)))
    if len(line) > LINE_MAX:
        raise Malformed(_TOO_LONG)

    before, request, answer = parts[:3]
    host = before.partition(" ")[0]
    if not (host and host.isascii() and host.isprintable()):
        raise Malformed("no client address at the beginning")
    # host ident user [27/Jan/2024:00:00:02 +0000]
    if before[-29:-28] != "[" or before[-2:] != "] ":
        raise Malformed("no [time] before the request")
    minute_s = _MINUTES.get(before[-16:-10])
    second = _SECONDS.get(before[-10:-8])
    if minute_s is None or second is None:
        raise Malformed(_BAD_TIME)
    t_s = _day(before[-28:-16] + before[-8:-2]) + minute_s + second

    words = request.split(" ")
    if len(words) != 3 or words[0] not in _METHODS or words[2][:5] != "HTTP/":
        words = _odd_request(request)

    status = _STATUSES.get(answer[:5])
    size = answer[5:].strip(" \r")
    if size == "-":
        size = "0"
    if status is None or not size.isdecimal() or len(size) > 18:
        raise Malformed("no status and size after the request")

    path = words[1]
    referer = agent = ""
    if len(parts) > 3:
        referer = parts[3] if parts[3] != "-" else ""
        agent = parts[5] if parts[5] != "-" else ""
    if escaped:
        path, referer, agent = _unescape(path), _unescape(referer), _unescape(agent)
    # What Entry(...) does, in half the time.
    return _new(Entry, (t_s, host, words[0], path, status, int(size), referer, agent))


_DAY = re.compile(r"(\d\d)/(...)/(\d{4}): ([+-]\d\d)([0-5]\d)", re.ASCII)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"  # in every locale


@lru_cache(maxsize=4096)
def _day(text: str) -> int:
    """Epoch seconds at the start of a day such as "27/Jan/2024: +0000"."""
    match = _DAY.fullmatch(text)
    month0, odd = divmod(_MONTHS.find(match[2]), 3) if match else (0, 1)
    if match is None or odd:
        raise Malformed(_BAD_TIME)
    day, _, year, zone_h, zone_min = match.groups()
    try:
        start = datetime(int(year), month0 + 1, int(day), tzinfo=UTC)
    except ValueError:
        raise Malformed(_BAD_TIME) from None
    zone = timedelta(hours=int(zone_h), minutes=int(zone_h[0] + zone_min))
    return int(start.timestamp() - zone.total_seconds())


def _odd_request(request: str) -> list[str]:
    """Method, path and version of a request line out of the ordinary, such as HTTP/0.9's."""
    if request in ("-", ""):
        raise Malformed("the client sent no request")
    method, _, target = request.partition(" ")
    path, _, version = target.rpartition(" ")
    if version[:5] != "HTTP/":
        path, version = target, ""
    if not path or not _METHOD.fullmatch(method):
        raise Malformed("the client did not speak HTTP")
    return [method, path, version]


def _unparted(line: str, parts: int) -> str:
    if not line.strip():
        return "the line is empty"
    if len(line) > LINE_MAX:
        return _TOO_LONG
    if parts == 1:
        return 'no "request" in quotes'
    return "the line is cut, or a quote in it is not escaped"


def _respelled(line: str) -> str:
    r"""Spell escaped backslashes and quotes as nginx does, so that each quote left is a limit."""
    return line.replace(r"\\", r"\x5c").replace(r"\"", r"\x22")


_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([bfnrtv]))")
_CONTROLS = dict(zip("bfnrtv", "\b\f\n\r\t\v", strict=True))


def _unescape(text: str) -> str:
    """Undo what Apache (mod_log_config) and nginx (escape=default) write for odd bytes."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _CONTROLS[m[2]], text)
