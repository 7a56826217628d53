"""Logs of JSON objects, one a line, and of pairs such as `method=GET`: members by their names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.lab.estimate import logvalues as values
from naproxy.lab.estimate.logclient import FORWARDED, PEERS, SERVERS, Column, clients_of, plain
from naproxy.lab.estimate.logline import (
    LINE_MAX,
    NO_TIME,
    NONE,
    TOO_LONG,
    Entry,
    Format,
    Malformed,
    asked_of,
    entry_of,
)

_MOST_COLUMNS: Final = 200
_Path = tuple[str, ...]

_TIMES: Final = (
    *("startutc", "startlocal", "ts", "timestamp", "time", "timeiso8601", "timelocal", "msec"),
    *("datetime", "date", "starttime", "requesttime", "eventtime", "received", "t"),
)
_METHODS: Final = ("requestmethod", "httpmethod", "csmethod", "method", "verb", "m")
_TARGETS: Final = (
    *("requesturi", "requesturl", "requestpath", "originalurl", "uri", "urloriginal", "url"),
    *("path", "urlpath", "httppath", "requesttarget", "csuristem", "documenturi"),
)
_QUERIES: Final = ("querystring", "args", "query", "urlquery", "csuriquery", "requestquery")
_LINES: Final = ("requestline", "request", "httprequest", "req")
_STATUSES: Final = (
    *("downstreamstatus", "status", "statuscode", "responsestatus", "httpstatus", "scstatus"),
    *("responsecode", "httpstatuscode", "responsestatuscode", "httpresponsestatuscode", "code"),
)
_SIZES: Final = (
    *("downstreamcontentsize", "bodybytessent", "bytessent", "responsesize", "responsebytes"),
    *("responselength", "size", "bytes", "contentlength", "httpresponsebodybytes", "scbytes"),
    *("bytesout", "length"),
)
_AGENTS: Final = (
    *("requestuseragent", "httpuseragent", "useragent", "useragentoriginal", "agent", "ua"),
    *("requestheadersuseragent", "headersuseragent"),
)
_REFERERS: Final = ("httpreferer", "referer", "referrer", "requestreferer", "requestheadersreferer")


def look(lines: Sequence[str], zone_s: int) -> Format | None:
    """Return how to read lines that are objects, or pairs of names and values."""
    for load, form in ((object_of, "JSON"), (_pairs, "logfmt")):
        rows = [row for row in map(load, lines) if row]
        if rows and (found := _of_members(load, form, rows, zone_s)):
            return found
    return None


def object_of(line: str) -> dict[str, Any] | None:
    """Return the object that a line is, or ends with after a tab, as Caddy's on a terminal."""
    begin = 0 if line[:1] == "{" else line.find("\t{") + 1
    if not begin and line[:1] != "{":
        return None
    try:
        found = json.loads(line[begin:])
    except (ValueError, RecursionError):
        return None
    if begin and isinstance(found, dict):
        found.setdefault("ts", line.partition("\t")[0])
    return found if isinstance(found, dict) else None


_PAIR: Final = re.compile(r'([\w.@-]{1,60})=(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|(\S*))', re.ASCII)


def _pairs(line: str) -> dict[str, Any] | None:
    """Return the names and values of a line such as `method=GET path="/"`."""
    found = {name: quoted or bare for name, quoted, bare in _PAIR.findall(line)}
    return found if len(found) >= 5 else None


def _flat(found: Mapping[str, Any]) -> dict[_Path, str]:
    """Return the texts and numbers in an object, by their path."""
    flat: dict[_Path, str] = {}
    todo: list[tuple[_Path, Any]] = [((), found)]
    while todo and len(flat) < _MOST_COLUMNS:
        path, said = todo.pop()
        if isinstance(said, Mapping):
            if len(path) < 6:
                todo += [((*path, name), each) for name, each in reversed(list(said.items()))]
        elif (text := _text(said)) is not None:
            flat[path] = text
    return flat


def _text(said: Any) -> str | None:
    if isinstance(said, str):
        return values.as_bytes(said)
    if isinstance(said, bool) or said is None:
        return None
    if isinstance(said, list):
        texts = [each for each in said if isinstance(each, str)]
        return values.as_bytes(", ".join(texts)) if texts else None
    return str(said)


class _Members:
    """Finds the members that have a role: by their names, if their values agree."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.cells: dict[_Path, list[str]] = {}
        for row in rows:
            for path, text in _flat(row).items():
                self.cells.setdefault(path, []).append(text)
        self.rows = len(rows)

    def find(
        self, names: Sequence[str], check: Callable[[str], object], least: float = 0.8
    ) -> _Path | None:
        """Return the best member of these names, or else one that has such values."""
        found: list[tuple[float, bool, int, _Path]] = []
        for path, cells in self.cells.items():
            if len(cells) * 10 >= self.rows and values.share(cells, check) >= least:
                whole, last = plain("".join(path)), plain(path[-1])
                rank = min(
                    names.index(whole) if whole in names else len(names),
                    names.index(last) + 0.5 if last in names else len(names),
                )
                other = bool(SERVERS.search(".".join(path).lower()))
                found.append((rank, other, len(found), path))
        return min(found)[3] if found else None

    def named(self, names: Sequence[str], check: Callable[[str], object]) -> _Path | None:
        """Return a member only if it has one of these names."""
        path = self.find(names, check, 0.5)
        return path if path and {plain("".join(path)), plain(path[-1])} & set(names) else None

    def clients(self) -> list[_Path]:
        """Return the members that have the visitor's address."""
        peers, forwarded = [], []
        for path, cells in self.cells.items():
            whole = ".".join(path).lower()
            if values.share(cells, values.address) < 0.5 or len(cells) * 2 < self.rows:
                continue
            if FORWARDED.search(plain(whole)):
                forwarded.append(path)
            elif "client" in whole or "remote" in whole or not SERVERS.search(whole):
                peers.append(path)
        ranks = {
            path: PEERS.index(last) if (last := plain(path[-1])) in PEERS else len(PEERS)
            for path in peers
        }
        peers.sort(key=lambda path: ranks[path])
        # A proxy's header repeats what the visitor's address was: an odd row more or less matters
        # nothing, so the columns are cut to the same length.
        some = [*peers, *forwarded]
        length = min((len(self.cells[path]) for path in some), default=0)
        return clients_of(
            [Column(path, self.cells[path][:length], forwarded=path in forwarded) for path in some]
        )


def _anything(text: str) -> bool:
    """Accept any value: a text that most clients do not send is empty in most lines."""
    del text
    return True


def _of_members(
    load: Callable[[str], dict[str, Any] | None],
    form: str,
    rows: Sequence[Mapping[str, Any]],
    zone_s: int,
) -> Format | None:
    members = _Members(rows)
    time = members.find(_TIMES, lambda text: values.time_s(text) is not None)
    clients = members.clients()
    request = members.find(_LINES, values.is_request, 0.5)
    method = members.find(_METHODS, values.is_method)
    target = members.named(_TARGETS, values.is_target) or members.find(_TARGETS, values.is_target)
    status = members.find(_STATUSES, values.is_status)
    if not (time and clients and status and (request or (method and target))):
        return None
    reader = _Object(
        load=load,
        zone_s=zone_s,
        time=time,
        clients=clients,
        request=request,
        method=method,
        target=target,
        query=members.named(_QUERIES, lambda text: text[:1] != "/"),
        status=status,
        size=members.named(_SIZES, values.is_size),
        agent=members.named(_AGENTS, _anything) or members.find((), values.is_agent, 0.3),
        referer=members.named(_REFERERS, _anything),
    )
    paths = {".".join(path) for path in members.cells}
    if {"request.method", "request.uri"} <= paths:
        form = "Caddy (JSON)"
    elif {"RequestMethod", "DownstreamStatus"} <= paths:
        form = "Traefik (JSON)"
    return Format(form, Reason("log.client_name", name=".".join(clients[0])), reader.parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """Reads lines that are objects."""

    load: Callable[[str], dict[str, Any] | None]
    zone_s: int
    time: _Path
    clients: Sequence[_Path]
    request: _Path | None
    method: _Path | None
    target: _Path | None
    query: _Path | None
    status: _Path
    size: _Path | None
    agent: _Path | None
    referer: _Path | None

    def parse(self, line: str) -> Entry:
        """Read a line."""
        if len(line) > LINE_MAX:
            raise Malformed(TOO_LONG)
        row = self.load(line)
        if row is None:
            raise Malformed(
                "the line is not a JSON object" if line.strip() else "the line is empty"
            )
        get = partial(_at, row)
        t_s = values.time_s(get(self.time), self.zone_s)
        if t_s is None:
            raise Malformed(NO_TIME)
        if self.method and self.target:
            path, query = get(self.target), get(self.query) if self.query else "-"
            if query not in NONE and "?" not in path:
                path = f"{path}?{query.removeprefix('?')}"
            asked = get(self.method), path
        else:
            assert self.request
            asked = asked_of(get(self.request))
        return entry_of(
            t_s,
            [get(path) for path in self.clients],
            asked,
            status=get(self.status),
            size=get(self.size) if self.size else "-",
            referer=get(self.referer) if self.referer else "-",
            agent=get(self.agent) if self.agent else "-",
        )


def _at(row: Any, path: _Path) -> str:
    for name in path:
        if not isinstance(row, dict):
            return "-"
        row = row.get(name)
    return _text(row) or "-"
