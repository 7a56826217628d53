"""A log's format in the words of GoAccess (`--log-format`), Apache (`LogFormat`) or nginx.

Each field reaches to the text that follows it in the format and gives nothing of it back, so a
line is read in one pass whatever the format is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from naproxy.lab.estimate import logvalues as values
from naproxy.lab.estimate.logline import (
    LINE_MAX,
    NO_TIME,
    TOO_LONG,
    Entry,
    Malformed,
    asked_of,
    entry_of,
    spelled,
)

_LONGEST: Final = 2000

_NAMED: Final = {
    "COMMON": '%h %^[%d:%t %^] "%r" %s %b',
    "VCOMMON": '%v %h %^[%d:%t %^] "%r" %s %b',
    "COMBINED": '%h %^[%d:%t %^] "%r" %s %b "%R" "%u"',
    "VCOMBINED": '%v %h %^[%d:%t %^] "%r" %s %b "%R" "%u"',
}
"""As GoAccess names them."""

_GOACCESS: Final = {
    **{"h": "client", "r": "request", "m": "method", "U": "target", "q": "query", "s": "status"},
    **{"b": "size", "R": "referer", "u": "agent", "x": "time", "d": "day", "t": "clock"},
    **dict.fromkeys("^veHCMKkDTLnSg", ""),
}
_APACHE: Final = {
    **{"h": "client", "a": "client", "r": "request", "m": "method", "U": "target", "q": "query"},
    **{"s": "status", "b": "size", "B": "size", "O": "size?", "t": "bracketed"},
    **dict.fromkeys("AlufHDTpPvVXkISLR", ""),
}
_HEADERS: Final = {
    "user-agent": "agent",
    "referer": "referer",
    "x-forwarded-for": "forwarded",
    "x-real-ip": "forwarded",
    "cf-connecting-ip": "forwarded",
    "true-client-ip": "forwarded",
    "forwarded": "forwarded",
}
_NGINX: Final = {
    "remote_addr": "client",
    "time_local": "time",
    "time_iso8601": "time",
    "msec": "time",
    "request": "request",
    "request_method": "method",
    "request_uri": "target",
    "uri": "target?",
    "args": "query",
    "query_string": "query",
    "status": "status",
    "body_bytes_sent": "size",
    "bytes_sent": "size?",
    **{f"http_{name.replace('-', '_')}": role for name, role in _HEADERS.items()},
}

_GOACCESS_PART: Final = re.compile(r"%(?:~|[A-Za-z^%])|~h\{([^}]*)\}", re.ASCII)
_APACHE_PART: Final = re.compile(
    r"%(?:[!\d,]+)?[<>]?(?:\{([^}]*)\}(\^?[A-Za-z]{1,2})|([A-Za-z%]))", re.ASCII
)
_NGINX_PART: Final = re.compile(r"\$\{?(\w+)\}?", re.ASCII)


class FormatError(ValueError):
    """The format cannot be used."""


def compiled(text: str, zone_s: int = 0) -> Callable[[str], Entry]:
    """Return what reads a line that is written so; FormatError (a ValueError) if nothing can be."""
    if len(text) > _LONGEST:
        raise FormatError(f"--format is longer than {_LONGEST} characters")
    text = _NAMED.get(text.strip().upper(), text)
    if _is_apache(text):
        text = text.replace('\\"', '"').replace("\\t", "\t")
    text = text.replace("\\t", "\t")
    pieces = _pieces(text)
    roles = [role for role, _ in pieces if role]
    pattern = _pattern(pieces)
    made = _Described(pattern, {role: n for n, role in enumerate(roles)}, zone_s)
    made.check()
    return made.parse


def _is_apache(text: str) -> bool:
    goaccess = re.search(r"%[x^~]|~h\{|%d.*%t", text, re.DOTALL)
    return not goaccess and not re.search(r"\$[a-z{]", text)


def _pieces(text: str) -> list[tuple[str | None, str]]:
    """Return the parts of a format: role and "" for a field, None and the text between fields.

    An unneeded field has the role "".
    """
    if re.search(r"\$[a-z{]", text):
        return _parts(text, _NGINX_PART, lambda match: _NGINX.get(match[1], ""))
    if not _is_apache(text):
        # Times with their zone, which GoAccess has no word for.
        text = re.sub(r"%d([:T ])%t( ?)%\^", r"%x", text)
        text = re.sub(r"%d([:T ])%t", r"%x", text)
        return _parts(text, _GOACCESS_PART, _goaccess)
    return _parts(text, _APACHE_PART, _apache)


def _parts(
    text: str, pattern: re.Pattern[str], role_of: Callable[[re.Match[str]], str | None]
) -> list[tuple[str | None, str]]:
    found: list[tuple[str | None, str]] = []
    used: set[str] = set()
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            found.append((None, text[at : match.start()]))
        at = match.end()
        role = role_of(match)
        if role is None:
            found.append((None, "%" if match[0] == "%%" else " "))
            continue
        role = role.rstrip("?")
        found.append(("" if role in used else role, ""))
        used.add(role)
    if at < len(text):
        found.append((None, text[at:]))
    return found


def _goaccess(match: re.Match[str]) -> str | None:
    if match[0].startswith("~h"):
        return "forwarded"
    if match[0] in ("%%", "%~"):
        return None
    role = _GOACCESS.get(match[0][1])
    if role is None:
        raise FormatError(f"--format has {match[0]}, which GoAccess does not know")
    return role


def _apache(match: re.Match[str]) -> str | None:
    argument, letter = match[1], match[2] or match[3]
    if letter == "%":
        return None
    if argument is not None:
        if letter == "i":
            return _HEADERS.get(argument.lower(), "")
        if letter == "a" and argument != "c":
            return "client"
        return "time" if letter == "t" else ""
    role = _APACHE.get(letter)
    if role is None:
        raise FormatError(f"--format has {match[0]}, which Apache does not know")
    return role


def _pattern(pieces: list[tuple[str | None, str]]) -> re.Pattern[str]:
    made = []
    for n, (role, text) in enumerate(pieces):
        if role is None:
            made.append(re.escape(text).replace(r"\ ", " +") if text.strip() else " +")
            continue
        after = pieces[n + 1] if n + 1 < len(pieces) else (None, "")
        if after[0] is not None:
            raise FormatError("--format has two fields with nothing between them")
        quoted = n and pieces[n - 1][1][-1:] == '"' and after[1][:1] == '"'
        body = _body(role, after[1][:1], quoted=bool(quoted))
        made.append(f"({body})" if role else body)
    return re.compile("".join(made), re.DOTALL)


def _body(role: str, end: str, *, quoted: bool) -> str:
    """Return the expression of a field that ends before a character, or with the line."""
    if role == "bracketed":
        return r"\[[^\]]*+\]"
    if quoted:
        return r'[^"\\]*+(?:\\.[^"\\]*+)*+'
    if not end:
        return r"[^\r\n]*+"
    return f"[^{re.escape(end)}]*+"


@dataclass(frozen=True, slots=True)
class _Described:
    """Reads lines by an expression."""

    pattern: re.Pattern[str]
    roles: dict[str, int]
    zone_s: int

    def check(self) -> None:
        """Raise FormatError if a field is missing that each request needs."""
        has = self.roles
        if not {"client", "forwarded"} & has.keys():
            raise FormatError("--format has no client's address")
        if not ({"time", "bracketed"} & has.keys() or {"day", "clock"} <= has.keys()):
            raise FormatError("--format has no time")
        if "request" not in has and not {"method", "target"} <= has.keys():
            raise FormatError("--format has no request")
        if "status" not in has:
            raise FormatError("--format has no status")

    def parse(self, line: str) -> Entry:
        """Read a line."""
        if len(line) > LINE_MAX:
            raise Malformed(TOO_LONG)
        match = self.pattern.match(line)
        if not match:
            raise Malformed("the line is not in the format given" if line else "the line is empty")
        groups, roles = match.groups(), self.roles

        def get(role: str) -> str:
            return groups[roles[role]].strip() or "-" if role in roles else "-"

        time = get("time") if "time" in roles else get("bracketed")[1:-1]
        if "day" in roles:
            time = f"{get('day')} {get('clock')}"
        t_s = values.time_s(time.strip("[]"), self.zone_s)
        if t_s is None:
            raise Malformed(NO_TIME)
        if "request" in roles:
            method, target = asked_of(get("request"))
        else:
            method, target = get("method"), get("target")
            if get("query") not in ("-", "") and "?" not in target:
                target = f"{target}?{get('query').removeprefix('?')}"
        agent, referer = get("agent"), get("referer")
        if "\\" in line:
            target, agent, referer = spelled(target), spelled(agent), spelled(referer)
        clients = [get(role) for role in ("forwarded", "client") if role in roles]
        return entry_of(
            t_s,
            clients,
            (method, target),
            status=get("status"),
            size=get("size"),
            referer=referer,
            agent=agent,
        )
