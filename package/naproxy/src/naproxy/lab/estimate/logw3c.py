"""The W3C's Extended Log File Format: a header names the columns. IIS and CloudFront write it."""

from __future__ import annotations

from collections.abc import Sequence

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
    entry_of,
)
from naproxy.lab.estimate.logtexts import cells_of


def look(lines: Sequence[str], zone_s: int) -> Format | None:
    """Of IIS, CloudFront and others: a header names the columns. Its times are UTC."""
    del zone_s
    if not any(line.startswith("#Fields:") for line in lines):
        return None
    reader = _W3c()
    rows: list[dict[str, str]] = []
    for line in lines:
        if line.startswith("#"):
            reader.directive(line)
        elif row := reader.row(line):
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in sorted(names, key=lambda each: each != "c-ip"):
        known = plain(name)
        if not SERVERS.search(name.lower()) and (known in PEERS or FORWARDED.search(known)):
            cells = [row.get(name, "-") for row in rows]
            columns.append(Column(name, cells, forwarded=name != "c-ip"))
    reader.clients = clients_of(columns)
    if not reader.clients:
        return None
    cloudfront = any(name.startswith("x-edge-") for name in names)
    name = "CloudFront" if cloudfront else "IIS (W3C)"
    again = _W3c()
    again.clients = reader.clients
    return Format(name, Reason("log.client_name", name=reader.clients[0]), again.parse)


class _W3c:
    """Reads lines by the last header before them."""

    def __init__(self) -> None:
        self.clients: list[str] = []
        self._fields: list[str] = []
        self._tabs = False
        self._date = ""

    def directive(self, line: str) -> None:
        """Take a line that begins with #."""
        name, _, said = line[1:].partition(":")
        if name == "Fields":
            self._fields = said.split()
            self._tabs = any(field.startswith("x-edge-") for field in self._fields)
        elif name == "Date":
            self._date = said.strip()[:10]

    def row(self, line: str) -> dict[str, str] | None:
        """Return the fields of a line, or None if they are not as many as the header says."""
        line = line.rstrip("\r")
        if self._tabs or "\t" in line:
            cells = line.split("\t")
        else:
            cells = cells_of(line) if '"' in line else line.split()
        if len(cells) != len(self._fields):
            return None
        return dict(zip(self._fields, cells, strict=True))

    def parse(self, line: str) -> Entry:
        """Read a line; Malformed if it is a directive, too."""
        if line.startswith("#"):
            self.directive(line)
            raise Malformed("the line is a comment")
        if len(line) > LINE_MAX:
            raise Malformed(TOO_LONG)
        row = self.row(line)
        if row is None:
            raise Malformed("other fields than the header names")
        get = row.get
        day = get("date") or self._date
        t_s = values.time_s(f"{day} {get('time', '')}", 0)
        if t_s is None:
            raise Malformed(NO_TIME)
        stem, query = get("cs-uri-stem") or get("cs-uri") or "", get("cs-uri-query", "-")
        path = stem if query in NONE or "?" in stem else f"{stem}?{query}"
        return entry_of(
            t_s,
            [get(name, "-") for name in self.clients],
            (get("cs-method", "-"), path),
            status=get("sc-status", ""),
            size=get("sc-bytes", "-"),
            referer=values.spaced(get("cs(Referer)", "-")),
            agent=values.spaced(get("cs(User-Agent)", "-")),
        )
