"""The history: transitions and the wake ledger, in SQLite, with one writer.

Times are epoch seconds by the wall clock: they are for people to read, no decision is
taken by them. WAL with synchronous NORMAL: a crash of the machine may lose the last rows,
never the file, and an SD card is written little.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from naproxy.datagram import Asker
from naproxy.page import give_to_group
from naproxy.policy.base import State

VERSION: Final = 1
FILE: Final = "history.db"
MOST_ROWS: Final = 1000

_SCHEMA: Final = """
CREATE TABLE transitions (
    id INTEGER PRIMARY KEY,
    t_s REAL NOT NULL,
    server TEXT NOT NULL,
    "from" TEXT NOT NULL,
    "to" TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX transitions_by_server ON transitions (server, t_s);
CREATE INDEX transitions_by_time ON transitions (t_s);
CREATE TABLE wakes (
    id INTEGER PRIMARY KEY,
    t_s REAL NOT NULL,
    server TEXT NOT NULL,
    who TEXT NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    method TEXT NOT NULL,
    agent TEXT NOT NULL,
    class TEXT NOT NULL,
    reason TEXT NOT NULL,
    waited_s REAL,
    packets INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT 'waiting'
) STRICT;
CREATE INDEX wakes_by_server ON wakes (server, t_s);
CREATE INDEX wakes_by_time ON wakes (t_s);
CREATE TABLE saved (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
"""

STATES: Final = {state: state.name.lower() for state in State}


class Journal:
    """Writes the history. A disk that fails is said, and stops nothing else."""

    def __init__(
        self,
        data_dir: Path,
        say: Callable[[str], None] = print,
        clock: Callable[[], float] = time.time,
        group: str = "",
    ) -> None:
        """Open `data_dir`/history.db; a file that is not one is set aside, and that is said.

        Where nothing can be written the history is kept in memory until the end.
        """
        self.path = data_dir / FILE
        self.error: str | None = None
        self._say = say
        self._clock = clock
        self._group = group
        self._db = self._open_or_begin()

    def _open_or_begin(self) -> sqlite3.Connection:
        try:
            try:
                return self._open_file()
            except sqlite3.DatabaseError as error:
                if not _damaged(error):
                    raise
                self._set_aside(str(error))
                return self._open_file()
        except (sqlite3.Error, OSError) as error:
            self.error = str(error)
            self._say(f"{self.path}: {error}: the history is kept in memory only")
            return _prepare(sqlite3.connect(":memory:", isolation_level=None))

    def _open_file(self) -> sqlite3.Connection:
        # SQLite gives its side files the mode and group that the file has.
        self.path.touch(mode=0o640)
        if self._group:
            give_to_group(self.path, self._group, self._say)
        return _prepare(sqlite3.connect(self.path, isolation_level=None, timeout=2))

    def _set_aside(self, why: str) -> None:
        bad = self.path.with_name(f"{FILE}.bad-{int(self._clock())}")
        self.path.rename(bad)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(FILE + suffix).unlink(missing_ok=True)
        self._say(f"{self.path}: {why}; set aside as {bad.name} and begun anew")

    def _execute(self, sql: str, *values: object) -> sqlite3.Cursor | None:
        try:
            done = self._db.execute(sql, values)
        except sqlite3.Error as error:
            if self.error is None:
                self._say(f"{self.path}: {error}: the history is not written")
            self.error = str(error)
            if _damaged(error):
                self._db.close()
                self._db = self._open_or_begin()
            return None
        self.error = None
        return done

    def transition(self, server: str, before: State, state: State, reason: str) -> None:
        """Write one change of state."""
        self._execute(
            'INSERT INTO transitions (t_s, server, "from", "to", reason) VALUES (?, ?, ?, ?, ?)',
            *(self._clock(), server, STATES[before], STATES[state], reason),
        )

    def wake_opened(self, server: str, asker: Asker) -> int | None:
        """Write the start of a wake; returns its row for `wake_closed`."""
        done = self._execute(
            "INSERT INTO wakes (t_s, server, who, host, path, method, agent, class, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self._clock(), server, asker.who, asker.host, asker.path),
            *(asker.method, asker.agent, asker.klass, asker.reason),
        )
        return done.lastrowid if done else None

    def wake_closed(self, row: int, outcome: str, waited_s: float, packets: int) -> None:
        """Complete a wake: seconds from the asking until the server was up."""
        self._execute(
            "UPDATE wakes SET outcome = ?, waited_s = ?, packets = ? WHERE id = ?",
            *(outcome, round(waited_s, 6), packets, row),
        )

    def close_forgotten(self) -> None:
        """Mark the wakes that a controller left open when it ended."""
        self._execute("UPDATE wakes SET outcome = 'controller ended' WHERE outcome = 'waiting'")

    def last_known(self, server: str) -> State:
        """Return the last state of a server that was known; UNKNOWN if there is none."""
        done = self._execute(
            'SELECT "to" FROM transitions WHERE server = ? AND "to" <> ? ORDER BY id DESC LIMIT 1',
            *(server, STATES[State.UNKNOWN]),
        )
        row = done.fetchone() if done else None
        return State[row[0].upper()] if row and row[0].upper() in State.__members__ else State(0)

    def save(self, key: str, value: Any) -> None:
        """Keep a JSON value over restarts."""
        self._execute(
            "INSERT INTO saved (key, value) VALUES (?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            *(key, json.dumps(value)),
        )

    def saved(self, key: str) -> dict[str, Any]:
        """Return what `save` kept, an empty object if there is none or it is no object."""
        done = self._execute("SELECT value FROM saved WHERE key = ?", key)
        row = done.fetchone() if done else None
        try:
            value = json.loads(row[0]) if row else {}
        except ValueError:
            value = {}
        return value if isinstance(value, dict) else {}

    def prune(self, keep_days: int) -> None:
        """Delete what is older than `keep_days`; the last transition of each server stays."""
        oldest_s = self._clock() - 86400 * keep_days
        self._execute("DELETE FROM wakes WHERE t_s < ?", oldest_s)
        self._execute(
            "DELETE FROM transitions WHERE t_s < ?"
            " AND id NOT IN (SELECT max(id) FROM transitions GROUP BY server)",
            oldest_s,
        )

    def rows(
        self, table: str, server: str | None, since_s: float, limit: int
    ) -> list[dict[str, Any]]:
        """Return rows of `transitions` or `wakes`, newest first, at most `limit`."""
        if table not in ("transitions", "wakes"):
            raise ValueError(f"there is no table {table}")
        found = self._execute(
            f"SELECT * FROM {table} WHERE t_s >= ?1 AND (?2 IS NULL OR server = ?2)"  # noqa: S608
            " ORDER BY id DESC LIMIT ?3",
            *(since_s, server, min(limit, MOST_ROWS)),
        )
        if found is None:
            return []
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _prepare(db: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables where there are none, and see that they are those of this version."""
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"no such version is known here: {version}")  # noqa: TRY301
        for table in ("transitions", "wakes", "saved"):
            db.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608
    except BaseException:
        db.close()
        raise
    return db


def _damaged(error: sqlite3.Error) -> bool:
    """Is it the file that is wrong, not the disk that is full or the lock that is taken?"""
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return (code is not None and code & 0xFF in damage) or "no such" in str(error)
