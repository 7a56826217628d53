"""The history as rows, for `naproxy export` and the web interface's downloads.

Names end in their unit: watts, joules and seconds. A row is made when it is asked for.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

from naproxy.core import office_time
from naproxy.core.reason import stored_reason
from naproxy.history.days import days
from naproxy.history.read import ledger, queries
from naproxy.history.tables import WITH_TIME

Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of the history: a range, one meter or server or all, a tier, a time zone.

    `tier` None is minutes of power and hours of traffic; `zone` None is the office's.
    `meters`: only these, where no one is named. `search`: only these wakes; its range and its
    server are those that count then.
    """

    from_s: float
    to_s: float
    name: str | None = None
    tier: str | None = None
    zone: tzinfo | None = None
    meters: tuple[str, ...] | None = None
    search: ledger.Search | None = None


_FORMULA: Final = re.compile(
    r"(?:^|(?<=[\s;,:|~^\"'\x1c-\x1f]))[=+@\uff0b\uff0d\uff1d\uff20-]|^[\t\r\n]"
)
"""Characters that begin a formula, in ASCII or full width, at the start or after a separator."""


class NoSuchMeterError(LookupError):
    """There has never been this meter; its text names those there are."""


def rows(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    """Yield the rows of `what`, one of COLUMNS; NoSuchMeterError, also while it is read."""
    return _ROWS[what](db, what, part)


def csv_lines(what: str, found: Rows) -> Iterator[str]:
    """Yield a head line and a line a row, each with its end of line.

    Visitors choose some texts. Wherever a spreadsheet could begin a cell, a character that begins
    a formula gets a `'` before it. That may be within a text: a spreadsheet that splits at `;`
    ends a cell there, quotes or not.
    """
    names = COLUMNS[what]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in found:
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        writer.writerow([_plain(row[name]) for name in names])
    yield buffer.getvalue()


def _plain(value: Any) -> Any:
    return _FORMULA.sub(r"'\g<0>", value) if isinstance(value, str) else value


def json_parts(what: str, found: Rows, head: dict[str, Any]) -> Iterator[str]:
    """Yield one JSON object in parts: `head`, and the rows as `rows`, texts as they came."""
    names = COLUMNS[what]
    yield f'{json.dumps(head, ensure_ascii=False)[:-1]}, "rows": ['
    comma = "\n"
    for row in found:
        yield comma + json.dumps({name: row[name] for name in names}, ensure_ascii=False)
        comma = ",\n"
    yield "\n]}\n"


def _time(t_s: float, zone: tzinfo | None) -> str:
    return office_time.local(t_s, zone).isoformat(timespec="seconds")


def _meters(db: sqlite3.Connection, part: Part) -> list[str]:
    known, name = queries.meters(db), part.name
    if name is None:
        return [m for m in known if part.meters is None or m in part.meters]
    if name in known:
        return [name]
    raise NoSuchMeterError(f"there is no meter {name}; there is {', '.join(known) or 'none'}")


def _power(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    for meter in _meters(db, part):
        for p in queries.power(db, part.tier or "minutes", meter, part.from_s, part.to_s):
            watts = (p.span.mean_mw / 1000, p.span.min_mw / 1000, p.span.max_mw / 1000)
            sums = (p.span.energy_mj / 1000, p.span.covered_ms / 1000, p.span.count)
            row = (_time(p.t_s, part.zone), p.t_s, p.length_s, meter, *watts, *sums)
            yield dict(zip(COLUMNS[what], row, strict=True))


def _energy(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    for meter in _meters(db, part):
        for day, start_s, end_s in days(part.from_s, part.to_s, part.zone or office_time.where()):
            energy_mj, covered_ms = queries.energy(db, meter, start_s, end_s)
            if covered_ms:
                sums = (energy_mj / 1000, covered_ms / 1000, float(end_s - start_s))
                yield dict(zip(COLUMNS[what], (day.isoformat(), meter, *sums), strict=True))


def _events(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    if part.search and what == "wakes":
        found = ledger.searched(db, part.search)
    else:
        found = queries.events(db, what, part.name, part.from_s, part.to_s)
    for row in found:
        if what in WITH_TIME:
            row["reason"] = str(stored_reason(row["reason"]))
        yield {"time": _time(row["t_s"], part.zone), **row}


def _traffic(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    tier = part.tier or "hours"
    for row in queries.traffic(db, part.name, part.from_s, part.to_s, tier):
        yield {"time": _time(row["t_s"], part.zone), **row}


def _agents(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    found = db.execute(
        "SELECT t_s, server, agent, class, outcome, requests, delayed FROM traffic_by_agent"
        " WHERE t_s >= ?1 AND t_s < ?2 AND (?3 IS NULL OR server = ?3) ORDER BY 1, 2, 3, 4, 5",
        (int(part.from_s), int(part.to_s), part.name),
    )
    for row in queries.in_words(found):
        yield {"day": _time(row["t_s"], part.zone)[:10], **row}


def _co2(db: sqlite3.Connection, what: str, part: Part) -> Rows:
    found = db.execute(
        "SELECT t_s, mean_g, readings FROM co2_hours WHERE t_s >= ? AND t_s < ? ORDER BY t_s",
        (int(part.from_s), int(part.to_s)),
    )
    for t_s, *rest in found:
        yield dict(zip(COLUMNS[what], (_time(t_s, part.zone), t_s, *rest), strict=True))


_ROWS: Final[dict[str, Callable[[sqlite3.Connection, str, Part], Rows]]] = {
    "power": _power,
    "energy": _energy,
    "transitions": _events,
    "wakes": _events,
    "decisions": _events,
    "clock": _events,
    "traffic": _traffic,
    "agents": _agents,
    "co2": _co2,
}

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "power": (
        *("time", "t_s", "length_s", "meter", "mean_w", "min_w", "max_w", "energy_j"),
        *("covered_s", "readings"),
    ),
    "energy": ("day", "meter", "energy_j", "covered_s", "length_s"),
    "transitions": ("time", "t_s", "server", "from", "to", "reason"),
    "wakes": (
        *("time", "t_s", "server", "who", "host", "path", "method", "agent", "class", "reason"),
        *("waited_s", "packets", "outcome", "stages"),
    ),
    "decisions": ("time", "t_s", "server", "sleep", "reason"),
    "clock": ("time", "t_s", "what", "shift_s", "since_s"),
    "traffic": ("time", "t_s", "server", "class", "outcome", "requests", "delayed"),
    "agents": ("day", "t_s", "server", "agent", "class", "outcome", "requests", "delayed"),
    "co2": ("time", "t_s", "co2_g_per_kwh", "readings"),
}
"""The exportable tables, and the names of their columns."""
