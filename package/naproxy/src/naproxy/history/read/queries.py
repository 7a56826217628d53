"""Queries of the web interface and `naproxy export`: plain SQL on a connection of their own.

The file may be read while the controller writes it. Times are epoch seconds, ranges are
from (included) to (not included). The last minute may not be there yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.block import Span, spans
from naproxy.history.tables import (
    FILE,
    METER_BITS,
    METERS,
    WITH_TIME,
    dicts,
    key,
    number_of,
    of_meter,
)

MOST_POINTS: Final = 1000
STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 60, 120, 300, 600, 900, 3600, 7200, 10800, 21600, 43200),
    *(86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400),
)
"""Lengths that a point of a chart may have: each a whole number of its tier's rows.

At most a quarter of the next tier's: from there on that tier answers sooner.
"""

TIERS: Final = {"seconds": 1, "minutes": 60, "hours": 3600}
"""Tier -> length of its rows in seconds."""

_SUMS: Final = (
    "sum(count), CAST(round(sum(mean_mw * covered_ms) * 1.0 / sum(covered_ms)) AS INTEGER),"
    " min(min_mw), max(max_mw), sum(energy_mj), sum(covered_ms)"
)


@dataclass(frozen=True, slots=True)
class Point:
    """Power in `length_s` seconds from `t_s` on; `span.covered_ms` says how much is known."""

    t_s: int
    length_s: int
    span: Span


@dataclass(frozen=True, slots=True)
class Chart:
    """At most as many points as were asked for. Where nothing is known there is no point."""

    tier: str
    step_s: int
    points: list[Point]
    gaps: list[tuple[int, int]]
    """Start and end of a time that no point covers."""


def open_history(data_dir: Path) -> sqlite3.Connection:
    """Open the history for reading only; sqlite3.OperationalError if there is none."""
    path = quote(str(data_dir / FILE))
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=5)
    db.execute("PRAGMA query_only = 1")
    return db


def meters(db: sqlite3.Connection) -> list[str]:
    """Return the names of all meters there have ever been."""
    return [name for (name,) in db.execute("SELECT name FROM meters ORDER BY name")]


def chart(
    db: sqlite3.Connection, meter: str, from_s: float, to_s: float, points: int = MOST_POINTS
) -> Chart:
    """Return the power in a range, from the finest tier that it needs and that reaches back."""
    first_s, end_s = int(from_s), max(int(to_s), int(from_s) + 1)
    points = max(2, min(points, MOST_POINTS))
    step_s = next((s for s in STEPS_S if (end_s - 1) // s - first_s // s < points), STEPS_S[-1])
    tier = _tier(db, step_s, first_s)
    step_s = max(step_s, TIERS[tier])
    first_s, number = first_s // step_s * step_s, number_of(db, "meters", meter)
    found = list(_points(db, tier, number, (first_s, end_s), step_s))
    return Chart(tier, step_s, found, list(_gaps(found, first_s, end_s)))


def _tier(db: sqlite3.Connection, step_s: int, first_s: int) -> str:
    """Return the coarsest tier that is fine enough, or a coarser one that goes further back."""
    names = list(TIERS)
    tier = max((n for n in names if TIERS[n] <= step_s), key=TIERS.__getitem__)
    for coarser in names[names.index(tier) + 1 :]:
        begins = _begins_s(db, tier)
        before = _begins_s(db, coarser)
        if before is None or (begins is not None and begins <= max(first_s, before + 3600)):
            break
        tier = coarser
    return tier


def _begins_s(db: sqlite3.Connection, tier: str) -> int | None:
    row = db.execute(f"SELECT min(key) FROM {tier}").fetchone()
    return None if row[0] is None else (row[0] >> METER_BITS) * max(TIERS[tier], 60)


def _points(
    db: sqlite3.Connection, tier: str, meter: int, range_s: tuple[int, int], step_s: int
) -> Iterator[Point]:
    if tier == "seconds":
        yield from _from_seconds(db, meter, range_s, step_s)
        return
    row_s = TIERS[tier]
    first, end = range_s[0] // row_s, -(-range_s[1] // row_s)
    for bucket, *values in db.execute(
        f"SELECT (key >> {METER_BITS}) / ? AS bucket, {_SUMS} FROM {tier}"
        f" WHERE key >= ? AND key < ? AND key & {METERS - 1} = ? GROUP BY bucket",
        (step_s // row_s, key(first, 0), key(end, 0), meter),
    ):
        yield Point(bucket * step_s, step_s, Span(*values))


def _from_seconds(
    db: sqlite3.Connection, meter: int, range_s: tuple[int, int], step_s: int
) -> Iterator[Point]:
    """Yield the parts of each block; a damaged one is a gap."""
    first_s, end_s = range_s
    minutes = first_s // 60, -(-end_s // 60)
    for row, blob in of_meter(db, "seconds", "key, block", meter, minutes):
        minute_s = (row >> METER_BITS) * 60
        with suppress(ValueError):
            for offset, span in spans(blob, step_s):
                if first_s <= minute_s + offset < end_s:
                    yield Point(minute_s + offset, step_s, span)


def _gaps(points: list[Point], first_s: int, end_s: int) -> Iterator[tuple[int, int]]:
    at_s = first_s
    for point in points:
        if point.t_s > at_s:
            yield at_s, point.t_s
        at_s = point.t_s + point.length_s
    if at_s < end_s:
        yield at_s, end_s


def energy(db: sqlite3.Connection, meter: str, from_s: int, to_s: int) -> tuple[int, int]:
    """Return (energy in mJ, time covered in ms) of a range of whole minutes.

    Whole hours are summed as such, the rest at the ends from the minutes. So is the newest hour,
    which is recomputed only now and then.
    """
    number = number_of(db, "meters", meter)
    newest = db.execute("SELECT max(key) FROM hours").fetchone()[0] or 0
    first, last = -(-from_s // 3600), min(to_s // 3600, newest >> METER_BITS)
    if first >= last:
        return _sum(db, "minutes", number, from_s // 60, to_s // 60)
    parts = (
        _sum(db, "minutes", number, from_s // 60, first * 60),
        _sum(db, "hours", number, first, last),
        _sum(db, "minutes", number, last * 60, to_s // 60),
    )
    return sum(p[0] for p in parts), sum(p[1] for p in parts)


def energy_by_time(
    db: sqlite3.Connection,
    meter: str,
    from_s: int,
    to_s: int,
    changes: Callable[[float, float], bool],
) -> Iterator[tuple[int, int, float]]:
    """Yield begin, end and energy (J) of the parts of a range of whole minutes: hours, and minutes
    at its ends, in the newest hour, and where something `changes` within an hour.
    """
    number = number_of(db, "meters", meter)
    newest = db.execute("SELECT max(key) FROM hours").fetchone()[0] or 0
    first, last = -(-from_s // 3600), min(to_s // 3600, newest >> METER_BITS)
    if first >= last:
        yield from _parts(db, "minutes", number, from_s // 60, to_s // 60)
        return
    yield from _parts(db, "minutes", number, from_s // 60, first * 60)
    for begin_s, end_s, energy_j in _parts(db, "hours", number, first, last):
        fine = []
        if changes(begin_s, end_s):
            fine = list(_parts(db, "minutes", number, begin_s // 60, end_s // 60))
        # Minutes are not kept for as long as hours.
        yield from fine or [(begin_s, end_s, energy_j)]
    yield from _parts(db, "minutes", number, last * 60, to_s // 60)


def _parts(
    db: sqlite3.Connection, tier: str, meter: int, first: int, end: int
) -> Iterator[tuple[int, int, float]]:
    row_s = {"minutes": 60, "hours": 3600}[tier]
    for row, energy_mj in of_meter(db, tier, "key, energy_mj", meter, (first, end)):
        begin_s = (row >> METER_BITS) * row_s
        yield begin_s, begin_s + row_s, energy_mj / 1000


def _sum(db: sqlite3.Connection, tier: str, meter: int, first: int, end: int) -> tuple[int, int]:
    if first >= end:
        return 0, 0
    sums = "coalesce(sum(energy_mj), 0), coalesce(sum(covered_ms), 0)"
    found: tuple[int, int] = of_meter(db, tier, sums, meter, (first, end)).fetchone()
    return found


def power(
    db: sqlite3.Connection, tier: str, meter: str, from_s: float, to_s: float
) -> Iterator[Point]:
    """Return every row of a tier in a range."""
    number = number_of(db, "meters", meter)
    yield from _points(db, tier, number, (int(from_s), int(to_s)), TIERS[tier])


def events(
    db: sqlite3.Connection, table: str, server: str | None, from_s: float, to_s: float
) -> Iterator[dict[str, Any]]:
    """Yield rows of transitions, wakes, decisions or clock in a range, oldest first."""
    if table not in (*WITH_TIME, "clock"):
        raise ValueError(f"there is no table {table}")
    of_server = "" if table == "clock" else " AND (?3 IS NULL OR server = ?3)"
    found = db.execute(
        f"SELECT * FROM {table} WHERE t_s >= ?1 AND t_s < ?2{of_server} ORDER BY t_s, id",
        (from_s, to_s) if table == "clock" else (from_s, to_s, server),
    )
    yield from dicts(found)


def traffic(
    db: sqlite3.Connection, server: str | None, from_s: float, to_s: float, tier: str = "hours"
) -> Iterator[dict[str, Any]]:
    """Return requests by hour (or minute, for a week), server, class and outcome."""
    if tier not in ("minutes", "hours"):
        raise ValueError(f"traffic is not kept by {tier}")
    return in_words(
        db.execute(
            "SELECT t_s, name AS server, class, outcome, requests, delayed"
            f" FROM traffic_{tier} JOIN servers ON id = server"
            " WHERE t_s >= ?1 AND t_s < ?2 AND (?3 IS NULL OR name = ?3)"
            " ORDER BY t_s, name, class, outcome",
            (int(from_s), int(to_s), server),
        )
    )


def rules(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the effect of each rule and the time since when it counts, by the rule's JSON.

    `refused` requests in `sleeps` sleeps of a server, the last at `last_s`. Empty if an older
    program wrote the history and did not count that.
    """
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'rules'").fetchone():
        return {}
    return {row.pop("rule"): row for row in dicts(db.execute("SELECT * FROM rules"))}


def in_words(found: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Yield rows whose class and outcome are numbers, with their names."""
    for row in dicts(found):
        words = {"class": class_word(row["class"]), "outcome": outcome_word(row["outcome"])}
        yield row | words


def class_word(number: int) -> str:
    """Return the name of a class; one of a later version has its number."""
    return Klass(number).name.lower() if 0 <= number < len(Klass) else f"class {number}"


def outcome_word(number: int) -> str:
    """Return the name of an outcome; one of a later version has its number."""
    return Outcome(number).name.lower() if 0 <= number < len(Outcome) else f"outcome {number}"
