"""Logs of words and of texts in quotes and brackets, in an order that is found from the values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from naproxy.core.reason import Reason
from naproxy.lab.estimate import logvalues as values
from naproxy.lab.estimate.logclient import Column, clients_of
from naproxy.lab.estimate.logline import (
    LINE_MAX,
    NO_TIME,
    NONE,
    TOO_LONG,
    Entry,
    Format,
    Malformed,
    Parse,
    asked_of,
    entries_of,
    entry_of,
    parse,
    spelled,
)

_MOST_COLUMNS: Final = 200
_DATE: Final = (
    r"\d{4}[-/]\d\d[-/]\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})?(?: [+-]\d{4})?"
)
_CELL: Final = re.compile(
    r'(?:[\w.-]{1,40}=)?"([^"\\]*+(?:\\.[^"\\]*+)*+)"'  # a text in quotes, perhaps named
    r"|\[([^\]]{0,300}+)\](?=\s|$)"
    r"|\{([^}]{0,4000}+)\}(?=\s|$)"
    rf"|({_DATE})(?=\s|$)"
    r"|(\S+)"
)
_QUOTED: Final = 1


def cells_of(line: str) -> list[str]:
    """Return the fields of a line, without their quotes and brackets."""
    return ["".join(groups) for groups in _CELL.findall(line)]


def _tabs(line: str) -> list[str]:
    return [cell.strip(' "[]') for cell in line.rstrip("\r").split("\t")]


def _separated(by: str, line: str) -> list[str]:
    return [cell.strip(' "[]') for cell in line.rstrip("\r").split(by)]


_SPLITS: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("\t", _tabs),
    ("", cells_of),
    ("|", partial(_separated, "|")),
    (";", partial(_separated, ";")),
    (",", partial(_separated, ",")),
)


def look(lines: Sequence[str], zone_s: int) -> Format | None:
    """Return how to read lines of fields in a fixed order."""
    sample = [line for line in lines if not line.startswith("#")]
    for by, split in sorted(_SPLITS, key=lambda each: not _is_separated(sample, each[0])):
        if by and values.share(sample, lambda line, by=by: line.count(by) >= 4) < 0.5:  # type: ignore[misc]
            continue
        if found := _Roles(sample, split).format(zone_s, plain=not by):
            return found
    return None


def _is_separated(lines: Sequence[str], by: str) -> bool:
    """Have most lines the same number of separators, so that words in between belong together?"""
    counts = Counter(line.count(by) for line in lines) if by else Counter[int]()
    [(count, usual)] = counts.most_common(1) or [(0, 0)]
    return count >= 4 and usual > 0.9 * len(lines)


class _Cell(NamedTuple):
    """Where a field is: its place in the line, and among those that `|` separates in it."""

    place: int
    part: int | None = None

    def of(self, cells: Sequence[str], shift: int = 0) -> str:
        """Return its text, or `-` if the line has no such field."""
        place = self.place + shift
        if not 0 <= place < len(cells):
            return "-"
        cell = cells[place]
        if self.part is None:
            return cell
        parts = cell.strip("{}").split("|")
        return parts[self.part] if self.part < len(parts) else "-"


class _Roles:
    """Finds the role of each field in lines of the same shape."""

    def __init__(self, lines: Sequence[str], split: Callable[[str], list[str]]) -> None:
        self._lines = lines
        self._split = split
        rows = [split(line)[:_MOST_COLUMNS] for line in lines]
        self._anchor, self._whole = _anchor(rows)
        at, check = self._anchor, values.is_request if self._whole else values.is_method
        if at < 0:
            self._rows = []
            return
        # Of the rows with the usual number of fields before the request, and of them
        # those with the usual number after it.
        aligned = [row for row in rows if len(row) > at and check(row[at])]
        usual = Counter(map(len, aligned)).most_common(1)[0][0] if aligned else 0
        self._rows = [row for row in aligned if len(row) >= usual]
        self._width = usual

    def _column(self, cell: _Cell) -> list[str]:
        return [cell.of(row) for row in self._rows]

    def _columns(self) -> Iterator[_Cell]:
        for place in range(self._width):
            column = self._column(_Cell(place))
            if place != self._anchor and values.share(column, _is_captured) > 0.8:
                counts = Counter(text.count("|") for text in column)
                yield from (_Cell(place, part) for part in range(max(counts) + 1))
            else:
                yield _Cell(place)

    def format(self, zone_s: int, *, plain: bool) -> Format | None:
        """Return the format; `plain`: lines of words, not of separated columns."""
        if not self._rows:
            return None
        columns = {cell: self._column(cell) for cell in self._columns()}
        times = [
            cell
            for cell, column in columns.items()
            if values.share(column, lambda text: values.time_s(text) is not None) > 0.8
        ]
        at = self._anchor
        time = min(times, key=lambda cell: (cell.place > at, abs(at - cell.place)), default=None)
        target = _Cell(at) if self._whole else self._target(columns)
        status = self._status(columns)
        clients = self._clients(columns, time)
        if time is None or target is None or status is None or not clients:
            return None
        size = self._size(columns, status)
        agent = self._agent(columns)
        after = _Cell(target.place + 1)
        query = None if self._whole else after if _has_queries(columns.get(after, ())) else None
        roles = _Places(
            split=self._split,
            zone_s=zone_s,
            anchor=at,
            whole=self._whole,
            time=time,
            target=target,
            query=query,
            status=status,
            clients=clients,
            size=size,
            agent=agent,
            referer=self._referer(columns),
        )
        return (plain and self._usual(roles)) or self._own(roles)

    def _target(self, columns: Mapping[_Cell, Sequence[str]]) -> _Cell | None:
        found = [
            cell
            for cell, column in columns.items()
            if cell.place > self._anchor and values.share(list(column), values.is_target) > 0.9
        ]
        return found[0] if found else None

    def _status(self, columns: Mapping[_Cell, Sequence[str]]) -> _Cell | None:
        found = [
            cell
            for cell, column in columns.items()
            if values.share(list(column), values.is_status) > 0.95
            and values.share(list(column), values.is_common_status) > 0.6
        ]
        # The nearest: others are those of a server behind.
        return min(found, key=lambda cell: abs(cell.place - self._anchor), default=None)

    def _size(self, columns: Mapping[_Cell, Sequence[str]], status: _Cell) -> _Cell | None:
        for cell, column in columns.items():
            after = cell.place > status.place and cell.part is None
            labelled = values.share(list(column), lambda text: text.startswith("Length ")) > 0.9
            if labelled:
                return cell
            if after and values.share(list(column), values.is_size) > 0.95:
                statuses = values.share(list(column), values.is_common_status) > 0.9
                if not statuses and values.share(list(column), str.isdecimal) > 0.05:
                    return self._sent(columns, cell)
        return None

    def _sent(self, columns: Mapping[_Cell, Sequence[str]], size: _Cell) -> _Cell:
        """Return the bytes sent where those received stand before them."""
        after = _Cell(size.place + 1)
        both = size.place < after.place < self._anchor and after in columns
        return after if both and values.share(list(columns[after]), str.isdecimal) > 0.9 else size

    def _agent(self, columns: Mapping[_Cell, Sequence[str]]) -> _Cell | None:
        found = {
            cell: values.share(list(column), values.is_agent)
            for cell, column in columns.items()
            if cell.place != self._anchor
        }
        best = max(found, key=lambda cell: found[cell], default=None)
        if (
            best is not None
            and self._split is cells_of
            and best.place not in self._quoted()
            and values.share(list(columns[best]), _is_cut) > 0.5
        ):
            return None  # its words are fields of their own
        return best if best is not None and found[best] >= 0.05 else None

    def _referer(self, columns: Mapping[_Cell, Sequence[str]]) -> _Cell | None:
        for cell, column in columns.items():
            links = values.share(list(column), lambda text: text[:4] == "http" and "://" in text)
            nothing = values.share(list(column), lambda text: text in NONE)
            if cell.place != self._anchor and links and links + nothing > 0.9:
                return cell
        return None

    def _clients(self, columns: Mapping[_Cell, Sequence[str]], time: _Cell | None) -> list[_Cell]:
        quoted = self._quoted()
        found: list[_Cell] = clients_of(
            [
                Column(cell, column, cell.place in quoted, before=cell.place < self._anchor)
                for cell, column in columns.items()
                if cell.place != self._anchor
            ]
        )
        if found:
            return found
        # Names of machines, or the field at the client's place in the usual formats.
        first = [cell for cell in columns if cell.place < self._anchor and cell != time]
        named = [cell for cell in first if values.share(list(columns[cell]), _is_host) > 0.8]
        if named:
            return [max(named, key=lambda cell: len(set(columns[cell])))]
        return first[:1]

    def _quoted(self) -> set[int]:
        """Return the places of fields in quotes."""
        found: Counter[int] = Counter()
        for line in self._lines[:50]:
            matches = enumerate(_CELL.finditer(line))
            found.update(place for place, match in matches if match.lastindex == _QUOTED)
        return set(found)

    def _usual(self, roles: _Places) -> Format | None:
        """Return the format if it is the common or combined one, perhaps with a virtual host."""
        at, first = roles.anchor, roles.clients[0]
        client = first.place
        standard = (
            roles.whole
            and client in (0, 1)
            and roles.time == _Cell(at - 1)
            and roles.status == _Cell(at + 1)
            and (roles.size is None or roles.size == _Cell(at + 2))
            and roles.agent in (None, _Cell(at + 4))
        )
        # With its port, each connection of a visitor would be another one.
        spelled_other = [values.address(text) not in (None, text) for text in self._column(first)]
        if sum(spelled_other) * 10 > len(spelled_other):
            return None
        combined = self._width >= at + 5
        if not standard or (combined and roles.agent is None and not self._plain_agents(at + 4)):
            return None
        read: Parse = _behind_first if client else parse
        if _count(read, self._lines) < 0.95 * _count(roles.parse, self._lines):
            return None
        name: Reason | str = "combined" if combined else "common"
        if client:
            hosts = values.share(self._column(_Cell(0)), values.is_name) > 0.5
            name = Reason("log.vhost", format=name) if hosts else Reason("log.own_format")
        return Format(name, Reason("log.client_field", number=client + 1), read)

    def _plain_agents(self, place: int) -> bool:
        """Is there nothing where the agent usually is, or a word that may be a program's name?"""
        column = self._column(_Cell(place))
        return (
            values.share(column, lambda text: values.is_target(text) or values.is_name(text)) < 0.1
        )

    def _own(self, roles: _Places) -> Format | None:
        return Format(
            self._name(roles),
            Reason("log.client_field", number=roles.clients[0].place + 1),
            roles.parse,
        )

    def _name(self, roles: _Places) -> Reason | str:
        line = self._lines[len(self._lines) // 2]
        if "[Client " in line and "[Sent-to " in line:
            return "Nginx Proxy Manager"
        if re.match(r"(?:https?|h2|grpcs|wss?) \d{4}-\S+ app/", line):
            return "AWS ALB"
        if re.search(r" \d+/-?\d+/-?\d+/-?\d+/\+?\d+ ", line):
            return "HAProxy"
        return Reason("log.own_format")


def _is_cut(text: str) -> bool:
    """Is it only the first word of a browser's user agent?"""
    return text.startswith("Mozilla/") and ")" not in text


def _is_captured(text: str) -> bool:
    """Is it a list of headers as HAProxy captures them?"""
    return text[:1] == "{" or "|" in text


def _has_queries(column: Sequence[str]) -> bool:
    """Is it the part of an address behind `?`, where there is one?"""
    queries = values.share(list(column), lambda text: "=" in text and " " not in text)
    return bool(queries) and queries + values.share(list(column), lambda text: text in NONE) > 0.95


def _is_host(text: str) -> bool:
    return values.is_name(text) or values.address(text) is not None


def _behind_first(line: str) -> Entry:
    """Read a line with a virtual host before it."""
    return parse(line.partition(" ")[2])


def _count(parse_line: Parse, lines: Sequence[str]) -> int:
    return sum(1 for _ in entries_of(parse_line, lines))


def _anchor(rows: Sequence[Sequence[str]]) -> tuple[int, bool]:
    """Return where the request is, and whether it is a whole line; else it is the method."""
    for check, whole in ((values.is_request, True), (values.is_method, False)):
        places = Counter(
            place
            for row in rows
            if (place := next((n for n, cell in enumerate(row) if check(cell)), -1)) >= 0
        )
        # A single request's line is one; a method may be any text's word.
        if places and (whole or places.total() * 4 > len(rows)):
            return places.most_common(1)[0][0], whole
    return -1, False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Reads lines whose fields are in known places, counted from the request where it moves."""

    split: Callable[[str], list[str]]
    zone_s: int
    anchor: int
    whole: bool
    time: _Cell
    target: _Cell
    query: _Cell | None
    status: _Cell
    clients: Sequence[_Cell]
    size: _Cell | None
    agent: _Cell | None
    referer: _Cell | None

    def parse(self, line: str) -> Entry:
        """Read a line."""
        if len(line) > LINE_MAX:
            raise Malformed(TOO_LONG)
        cells = self.split(line)
        if not cells:
            raise Malformed("the line is empty")
        shift = self._shift(cells)
        t_s = values.time_s(self.time.of(cells, shift), self.zone_s)
        if t_s is None and shift:
            t_s = values.time_s(self.time.of(cells), self.zone_s)
        if t_s is None:
            raise Malformed(NO_TIME)
        if self.whole:
            method, target = asked_of(self.target.of(cells, shift))
        else:
            method = cells[self.anchor + shift] if self.anchor + shift < len(cells) else "-"
            target = self.target.of(cells, shift)
            query = self.query.of(cells, shift) if self.query else "-"
            if query not in NONE and "?" not in target:
                target = f"{target}?{query.removeprefix('?')}"
        clients = [
            cell.of(cells, shift if cell.place > self.anchor else 0) for cell in self.clients
        ]
        agent = self.agent.of(cells, shift) if self.agent else "-"
        referer = self.referer.of(cells, shift) if self.referer else "-"
        if "\\" in line:
            target, agent, referer = spelled(target), spelled(agent), spelled(referer)
        agent = values.spaced(agent)
        size = self.size.of(cells, shift).removeprefix("Length ") if self.size else "-"
        status = self.status.of(cells, shift)
        return entry_of(
            t_s,
            clients,
            (method, target),
            status=status,
            size=size,
            referer=referer,
            agent=agent,
        )

    def _shift(self, cells: Sequence[str]) -> int:
        """Return by how many fields the request is later, as behind a user with spaces."""
        check = values.is_request if self.whole else values.is_method
        at = self.anchor
        if at < len(cells) and check(cells[at]):
            return 0
        found = next((n for n, cell in enumerate(cells) if check(cell)), at)
        return found - at
