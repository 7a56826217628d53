"""Power and energy of each meter: seconds for a week, minutes for 400 days, hours for ever."""

from __future__ import annotations

import dataclasses
import logging
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from naproxy.core.reading import PowerSample
from naproxy.history.block import Span, merge, pack, unpack
from naproxy.history.tables import METER_BITS, METERS, key

_LOG: Final = logging.getLogger(__name__)
SECONDS_DAYS: Final = 7
MINUTES_DAYS: Final = 400
MOST_WAITING: Final = 360
"""Minutes of meters that wait for a disk that cannot be written; older ones are given up."""

_MOST_MW: Final = 2**31 - 1
_MOST_MJ: Final = 2**40
_MOST_COUNT: Final = 2**31 - 1
_COLUMNS: Final = "count, mean_mw, min_mw, max_mw, energy_mj, covered_ms"
_INSERT: Final = f"INSERT OR REPLACE INTO {{}} (key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_OF_METER: Final = f"key BETWEEN ? AND ? AND key & {METERS - 1} = ?"

Minutes = dict[tuple[int, str], dict[int, PowerSample]]
"""Start of a minute and meter -> start of a second -> the second."""


class Power:
    """Gathers seconds in memory and writes them, with their minutes and hours, in a batch."""

    def __init__(self) -> None:
        """Nothing is gathered yet."""
        self._waiting: Minutes = {}
        self._ids: dict[str, int] = {}
        self._refused: set[str] = set()
        self._hours: set[tuple[int, int]] = set()
        self.given_up_s = 0
        self.totals_mj: dict[str, int] = {}

    def add(self, meter: str, second: PowerSample) -> None:
        """Take one second by the history's clock; one that cannot be true is said and left."""
        wrong = _what_is_wrong(second)
        if wrong:
            self._refuse(meter, wrong)
            return
        self.totals_mj[meter] = self.totals_mj.get(meter, 0) + second.energy_mj
        self._waiting.setdefault((second.t_s // 60 * 60, meter), {})[second.t_s] = second
        while len(self._waiting) > MOST_WAITING:
            self.given_up_s += len(self._waiting.pop(next(iter(self._waiting))))

    def _refuse(self, meter: str, why: str) -> None:
        if meter not in self._refused:
            self._refused.add(meter)
            _LOG.warning("meter %s: not written, and later ones not said: %s", meter, why)

    def write(self, db: sqlite3.Connection) -> None:
        """Write what is gathered, beside what is there; `written` once that is committed."""
        self._merge(db, self._waiting)

    def roll_up(self, db: sqlite3.Connection) -> None:
        """Make the hours what their minutes are; `written` once that is committed."""
        _roll_up(db, self._hours)

    def begin(self, db: sqlite3.Connection) -> None:
        """Recompute the newest hour and those after it, since a run that was cut off did not."""
        newest = db.execute("SELECT max(key) FROM hours").fetchone()[0] or 0
        first = key((newest >> METER_BITS) * 60, 0)
        rows = db.execute("SELECT key FROM minutes WHERE key >= ?", (first,))
        _roll_up(db, {((k >> METER_BITS) // 60, k & METERS - 1) for (k,) in rows})
        self.totals_mj = dict(
            db.execute(
                "SELECT name, sum(energy_mj) FROM hours"
                f" JOIN meters ON id = key & {METERS - 1} GROUP BY id"
            )
        )

    def written(self, *, rolled_up: bool) -> None:
        """Forget what was written, and the hours if they were made."""
        self._waiting = {}
        if rolled_up:
            self._hours = set()

    def not_written(self) -> None:
        """The batch failed: discard its knowledge of the file."""
        self._ids = {}

    def _merge(self, db: sqlite3.Connection, minutes: Minutes) -> None:
        for (minute_s, name), fresh in minutes.items():
            meter = self._id(db, name)
            if meter is not None:
                here = {s.t_s: s for s in _seconds(db, minute_s, meter)} | fresh
                _write_minute(db, minute_s, meter, here)
                self._hours.add((minute_s // 3600, meter))

    def _id(self, db: sqlite3.Connection, name: str) -> int | None:
        if name not in self._ids:
            db.execute("INSERT OR IGNORE INTO meters (name) VALUES (?)", (name,))
            found = db.execute("SELECT id FROM meters WHERE name = ?", (name,)).fetchone()[0]
            if found >= METERS:
                db.execute("DELETE FROM meters WHERE id = ?", (found,))
                self._refuse(name, f"there have been {METERS - 1} other meters already")
                return None
            self._ids[name] = found
        return self._ids[name]

    def shift(self, db: sqlite3.Connection, since_s: float, by_s: int) -> None:
        """Move all seconds from `since_s` on by whole seconds; minutes and hours follow."""
        later: Minutes = {}
        names = dict(db.execute("SELECT id, name FROM meters"))
        first = key(int(since_s // 60), 0)
        for row, blob in db.execute(
            "SELECT key, block FROM seconds WHERE key >= ?", (first,)
        ).fetchall():
            minute_s, meter = (row >> METER_BITS) * 60, row & METERS - 1
            self._hours.add((minute_s // 3600, meter))
            kept: dict[int, PowerSample] = {}
            for second in _unpacked(minute_s, blob):
                if second.t_s < int(since_s):
                    kept[second.t_s] = second
                    continue
                t_s = second.t_s + by_s
                minute = later.setdefault((t_s // 60 * 60, names[meter]), {})
                minute[t_s] = moved(second, by_s)
            _write_minute(db, minute_s, meter, kept)
        self._merge(db, later)
        self.roll_up(db)


def prune(db: sqlite3.Connection, now_s: float, most: int) -> int:
    """Delete at most `most` rows of each table that are too old; returns how many."""
    done = 0
    for table, days in (("seconds", SECONDS_DAYS), ("minutes", MINUTES_DAYS)):
        oldest = key(int(now_s // 60) - 1440 * days, 0)
        done += db.execute(
            f"DELETE FROM {table} WHERE key IN"
            f" (SELECT key FROM {table} WHERE key < ? ORDER BY key LIMIT ?)",
            (oldest, most),
        ).rowcount
    return done


def _what_is_wrong(second: PowerSample) -> str | None:
    s = second
    if not 0 < s.covered_ms <= 1000:
        return f"a second of which {s.covered_ms} ms are covered"
    if not 0 < s.count <= _MOST_COUNT:
        return f"a second with {s.count} readings"
    if not -_MOST_MW <= s.min_mw <= s.mean_mw <= s.max_mw <= _MOST_MW:
        return f"power of {s.min_mw} to {s.max_mw} mW with a mean of {s.mean_mw} mW"
    if abs(s.energy_mj) > _MOST_MJ:
        return f"{s.energy_mj} mJ in a second"
    return None


def moved(second: PowerSample, by_s: int) -> PowerSample:
    """Return the second `by_s` seconds later."""
    return dataclasses.replace(second, t_s=second.t_s + by_s)


def _seconds(db: sqlite3.Connection, minute_s: int, meter: int) -> list[PowerSample]:
    found = db.execute("SELECT block FROM seconds WHERE key = ?", (key(minute_s // 60, meter),))
    row = found.fetchone()
    return _unpacked(minute_s, row[0]) if row else []


def _unpacked(minute_s: int, blob: bytes) -> list[PowerSample]:
    """Return the seconds; none of a block that is damaged: its minute is still known."""
    try:
        return unpack(minute_s, blob)
    except ValueError:
        return []


def _write_minute(
    db: sqlite3.Connection, minute_s: int, meter: int, seconds: Mapping[int, PowerSample]
) -> None:
    row = key(minute_s // 60, meter)
    if not seconds:
        for table in ("seconds", "minutes"):
            db.execute(f"DELETE FROM {table} WHERE key = ?", (row,))
        return
    blob = pack(minute_s, seconds.values())
    db.execute("INSERT OR REPLACE INTO seconds (key, block) VALUES (?, ?)", (row, blob))
    _write_span(db, "minutes", row, merge(list(seconds.values())))


def _roll_up(db: sqlite3.Connection, hours: Iterable[tuple[int, int]]) -> None:
    for hour, meter in hours:
        parts = db.execute(
            f"SELECT {_COLUMNS} FROM minutes WHERE {_OF_METER}",
            (key(60 * hour, 0), key(60 * hour + 60, 0) - 1, meter),
        ).fetchall()
        row = key(hour, meter)
        if parts:
            _write_span(db, "hours", row, merge([Span(*part) for part in parts]))
        else:
            db.execute("DELETE FROM hours WHERE key = ?", (row,))


def _write_span(db: sqlite3.Connection, table: str, row: int, s: Span) -> None:
    values = (row, s.count, s.mean_mw, s.min_mw, s.max_mw, s.energy_mj, s.covered_ms)
    db.execute(_INSERT.format(table), values)
