"""One line of an access log, and its parser for the Common and the Combined Log Format.

Text is one character a byte (latin-1), so nothing in a log fails to decode and
`field.encode("latin-1")` gives back what the client sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from naproxy.core.reason import Reason
from naproxy.lab.estimate import logvalues as values

LINE_MAX = 65536  # bytes; Apache's own limit for a request line is 8190
TOO_LONG = f"the line is longer than {LINE_MAX} bytes"
NO_REQUEST = "the client sent no request"
NO_HTTP = "the client did not speak HTTP"
NO_CLIENT = "no client address"
NO_CLIENT_FIRST = "the client is not the first field"
NO_TIME = "no time"
NO_STATUS = "no status"
NONE = ("-", "")  # values of an empty field


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


Parse = Callable[[str], Entry]


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a log: `parse` raises Malformed for a line that is not an entry."""

    name: Reason | str
    client: Reason
    """Which field is taken for the client's address."""
    parse: Parse
    first_s: float = 0.0
    """The median of the sample's times."""
    newest_first: bool = False
    entries: int = 0
    """Of the sample."""


_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}")  # RFC 9110 5.6.2, less odd
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))  # the usual
_STATUSES = {f" {status} ": status for status in range(100, 600)}
_MINUTES = {f"{m // 60:02}:{m % 60:02}:": m * 60 for m in range(24 * 60)}  # of a day, in s
_SECONDS = {f"{s:02}": s for s in range(61)}  # 60: a leap second
_WORDS = 6  # host, ident, user, [27/Jan/2024:00:00:02, +0000], and nothing behind the last space
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
        raise Malformed(TOO_LONG)

    before, request, answer = parts[:3]
    words = before.split(" ")
    host = words[0]
    if not (host and host.isascii() and host.isprintable()):
        raise Malformed("no client address at the beginning")
    # host ident user [27/Jan/2024:00:00:02 +0000]
    if before[-29:-28] != "[" or before[-2:] != "] ":
        raise Malformed("no [time] before the request")
    if len(words) != _WORDS and _is_behind(words):
        raise Malformed(NO_CLIENT_FIRST)
    minute_s = _MINUTES.get(before[-16:-10])
    second = _SECONDS.get(before[-10:-8])
    if minute_s is None or second is None:
        raise Malformed(_BAD_TIME)
    t_s = _day(before[-28:-16] + before[-8:-2]) + minute_s + second

    words = request.split(" ")
    if len(words) != 3 or words[0] not in _METHODS or words[2][:5] != "HTTP/":
        words = odd_request(request)

    status = _STATUSES.get(answer[:5])
    size = answer[5:].strip(" \r")
    if size == "-":
        size = "0"
    if status is None or not size.isdecimal() or len(size) > 18:
        raise Malformed("no status and size after the request")

    path = words[1]
    if path[:1] != "/":
        path = values.path_of(path)  # as Varnish and Squid write it
    referer = agent = ""
    if len(parts) > 3:
        referer = parts[3] if parts[3] != "-" else ""
        agent = parts[5] if parts[5] != "-" else ""
    if escaped:
        path, referer, agent = unescape(path), unescape(referer), unescape(agent)
    # The same as Entry(...), in half the time.
    return _new(Entry, (t_s, host, words[0], path, status, int(size), referer, agent))


def _is_behind(words: list[str]) -> bool:
    """Is something before the client's address, or the address missing?"""
    if len(words) < _WORDS:
        return True
    first, second = values.address(words[0]), values.address(words[1])
    return second is not None and (first is None or values.has_port(words[0]))


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


def odd_request(request: str) -> list[str]:
    """Method, path and version of a request line out of the ordinary, such as HTTP/0.9's."""
    if request in ("-", ""):
        raise Malformed(NO_REQUEST)
    method, _, target = request.partition(" ")
    path, _, version = target.rpartition(" ")
    if version[:5] != "HTTP/":
        path, version = target, ""
    if not path or not _METHOD.fullmatch(method):
        raise Malformed(NO_HTTP)
    return [method, path, version]


def _unparted(line: str, parts: int) -> str:
    if not line.strip():
        return "the line is empty"
    if len(line) > LINE_MAX:
        return TOO_LONG
    if parts == 1:
        return 'no "request" in quotes'
    return "the line is cut, or a quote in it is not escaped"


def _respelled(line: str) -> str:
    r"""Spell escaped backslashes and quotes as nginx does, so that each quote left is a limit."""
    return line.replace(r"\\", r"\x5c").replace(r"\"", r"\x22")


_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([bfnrtv]))")
_CONTROLS = dict(zip("bfnrtv", "\b\f\n\r\t\v", strict=True))


def unescape(text: str) -> str:
    """Undo what Apache (mod_log_config) and nginx (escape=default) write for odd bytes."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _CONTROLS[m[2]], text)


def spelled(text: str) -> str:
    """Undo what servers write for odd bytes in a text of which the quotes are gone."""
    return unescape(text.replace(r"\\", r"\x5c").replace(r"\"", r"\x22"))


def asked_of(request: str) -> tuple[str, str]:
    """Return method and target of a request line."""
    words = request.split(" ")
    if len(words) != 3 or words[2][:5] != "HTTP/":
        words = odd_request(request)
    return words[0], words[1]


def entry_of(
    t_s: int,
    clients: Sequence[str],
    asked: tuple[str, str],
    *,
    status: str,
    size: str,
    referer: str,
    agent: str,
) -> Entry:
    """Return an entry of fields in words; Malformed if one cannot be what it should be."""
    method, target = asked
    if method in NONE or target in NONE:
        raise Malformed(NO_REQUEST)
    if not (method.isascii() and method.replace("_", "").replace("-", "").isalpha()):
        raise Malformed(NO_HTTP)
    if not values.is_status(status):
        raise Malformed(NO_STATUS)
    return Entry(
        t_s,
        _client(clients),
        method,
        values.path_of(target),
        int(status),
        int(size) if size.isdecimal() and size.isascii() and len(size) < 19 else 0,
        "" if referer == "-" else referer,
        "" if agent == "-" else agent,
    )


def _client(cells: Sequence[str]) -> str:
    for cell in cells:
        if found := values.address(cell):
            return found
    for cell in cells:
        if cell not in NONE and cell.isascii() and cell.isprintable():
            return cell
    raise Malformed(NO_CLIENT)


def entries_of(parse_line: Parse, lines: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries among some lines."""
    for line in lines:
        try:
            yield parse_line(line)
        except Malformed:
            continue
