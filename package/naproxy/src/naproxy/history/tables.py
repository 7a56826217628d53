"""The history's tables, and how they grow without leaving an older program behind.

The rule (docs/history.md): PRAGMA user_version stays GENERATION as long as a program of that
generation can read and write the file. A step only adds: a table, an index, a view, or a
column that has a default. A change that an older program could not live with goes into another
file with another name, so that a rolled-back image still finds its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

GENERATION: Final = 1
FILE: Final = "history.db"
PAGE_BYTES: Final = 1024
"""A batch changes a few rows at the end of each table: small pages are less to write."""

METER_BITS: Final = 6
METERS: Final = 1 << METER_BITS
"""Rows of power have the key `time << METER_BITS | meter`: they are appended at one end of
the table whatever the meter, so a batch for many meters touches few pages."""

WITH_TIME: Final = ("transitions", "wakes", "decisions")
"""The journal's tables, whose rows have a time, a server and a reason."""

_FIRST: Final = """
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

_POWER_COLUMNS: Final = """
    key INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    mean_mw INTEGER NOT NULL,
    min_mw INTEGER NOT NULL,
    max_mw INTEGER NOT NULL,
    energy_mj INTEGER NOT NULL,
    covered_ms INTEGER NOT NULL
"""

_COUNTS: Final = """
    t_s INTEGER NOT NULL,
    server INTEGER NOT NULL,
    {who} INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    PRIMARY KEY (t_s, server, {who}, outcome)
"""
_BY_CLASS, _BY_AGENT = _COUNTS.format(who="class"), _COUNTS.format(who="agent")

_HISTORY: Final = f"""
CREATE TABLE meters (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE servers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE seconds (
    key INTEGER PRIMARY KEY,
    block BLOB NOT NULL
) STRICT;
CREATE TABLE minutes ({_POWER_COLUMNS}) STRICT;
CREATE TABLE hours ({_POWER_COLUMNS}) STRICT;
CREATE TABLE traffic_minutes ({_BY_CLASS}) STRICT, WITHOUT ROWID;
CREATE TABLE traffic_hours ({_BY_CLASS}) STRICT, WITHOUT ROWID;
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    t_s REAL NOT NULL,
    server TEXT NOT NULL,
    sleep INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE TABLE clock (
    id INTEGER PRIMARY KEY,
    t_s REAL NOT NULL,
    what TEXT NOT NULL,
    shift_s REAL NOT NULL,
    since_s REAL NOT NULL
) STRICT;
CREATE VIEW power_minutes AS
    SELECT (key >> {METER_BITS}) * 60 AS t_s, name AS meter, count, mean_mw, min_mw, max_mw,
        energy_mj, covered_ms
    FROM minutes JOIN meters ON id = key & {METERS - 1};
CREATE VIEW power_hours AS
    SELECT (key >> {METER_BITS}) * 3600 AS t_s, name AS meter, count, mean_mw, min_mw, max_mw,
        energy_mj, covered_ms
    FROM hours JOIN meters ON id = key & {METERS - 1};
"""

_AGENTS: Final = f"""
CREATE TABLE agents (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    class INTEGER NOT NULL,
    UNIQUE (name, class)
) STRICT;
CREATE TABLE agent_days ({_BY_AGENT}) STRICT, WITHOUT ROWID;
CREATE TABLE agent_minutes ({_BY_AGENT}) STRICT, WITHOUT ROWID;
CREATE VIEW traffic_by_agent AS
    SELECT t_s, servers.name AS server, agents.name AS agent, class, outcome, requests, delayed
    FROM (SELECT * FROM agent_days UNION ALL SELECT * FROM agent_minutes) AS rows
    JOIN servers ON servers.id = rows.server JOIN agents ON agents.id = rows.agent;
"""

_REQUESTS: Final = """
CREATE TABLE request_blocks (
    key INTEGER PRIMARY KEY,
    requests INTEGER NOT NULL,
    left_out INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    watched_s REAL NOT NULL,
    bytes_before INTEGER NOT NULL,
    block BLOB NOT NULL
) STRICT;
"""

_STATES: Final = """
CREATE TABLE state_hours (
    server INTEGER NOT NULL,
    t_s INTEGER NOT NULL,
    state TEXT NOT NULL,
    ms INTEGER NOT NULL,
    entered INTEGER NOT NULL,
    PRIMARY KEY (server, t_s, state)
) STRICT, WITHOUT ROWID;
"""

_GAPS: Final = """
CREATE TABLE gap_days (
    server INTEGER NOT NULL,
    t_s INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    gaps INTEGER NOT NULL,
    sum_s INTEGER NOT NULL,
    PRIMARY KEY (server, t_s, bucket)
) STRICT, WITHOUT ROWID;
"""

_RULES: Final = """
CREATE TABLE rules (
    rule TEXT PRIMARY KEY,
    since_s REAL NOT NULL,
    last_s REAL,
    refused INTEGER NOT NULL DEFAULT 0,
    sleeps INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
"""

_CO2: Final = """
CREATE TABLE co2_hours (
    t_s INTEGER PRIMARY KEY,
    readings INTEGER NOT NULL,
    mean_g REAL NOT NULL
) STRICT;
"""

_BOX: Final = """
CREATE TABLE box_hours (
    t_s INTEGER PRIMARY KEY,
    managed_ms INTEGER NOT NULL
) STRICT;
"""

STEPS: Final = (
    ("transitions", _FIRST),
    ("meters", _HISTORY),
    ("agents", _AGENTS),
    ("request_blocks", _REQUESTS),
    ("state_hours", _STATES),
    ("gap_days", _GAPS),
    ("rules", _RULES),
    ("co2_hours", _CO2),
    ("box_hours", _BOX),
)
"""In their order: a table by which a step is known to have been taken, and its SQL."""


COLUMNS: Final = (("wakes", "stages", "TEXT NOT NULL DEFAULT '[]'"),)
"""Columns added to tables of an earlier step, with their defaults."""


class AnotherGenerationError(sqlite3.DatabaseError):
    """The file is of a program that this one cannot work with."""


def prepare(db: sqlite3.Connection) -> None:
    """Take the steps that were not taken, all or none; see that the tables are ours."""
    generation = db.execute("PRAGMA user_version").fetchone()[0]
    if generation not in (0, GENERATION):
        raise AnotherGenerationError(f"no such generation is known here: {generation}")
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    # Deleted visitors' addresses are overwritten where that costs no extra write.
    db.execute("PRAGMA secure_delete = FAST")
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
    due = [sql for table, sql in STEPS if table not in there]
    for table, column, kind in COLUMNS:
        # A table that is not there yet is made without it, by its own step.
        if column not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
            due.append(f"ALTER TABLE {table} ADD COLUMN {column} {kind};")
    if due:
        db.executescript(f"BEGIN; {' '.join(due)} PRAGMA user_version = {GENERATION}; COMMIT;")
    for table in ("transitions", "wakes", "saved", "minutes", "decisions"):
        db.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()


def key(t: int, meter: int) -> int:
    """Return the key of a row: `t` in the table's own unit, minutes or hours since 1970."""
    return t << METER_BITS | meter


def server_id(db: sqlite3.Connection, name: str) -> int:
    """Return the number that rows have for a server, a new one where it has none."""
    db.execute("INSERT OR IGNORE INTO servers (name) VALUES (?)", (name,))
    return number_of(db, "servers", name)


def rule_key(kind: str, text: str, treat_as: str, server: str) -> str:
    """Return the key of a rule in the table `rules`: its content."""
    return json.dumps({"kind": kind, "text": text, "treat_as": treat_as, "server": server})


def number_of(db: sqlite3.Connection, table: str, name: str) -> int:
    """Return the number of a server or meter; one that was never there has 0, as no row."""
    row = db.execute(f"SELECT id FROM {table} WHERE name = ?", (name,)).fetchone()
    return row[0] if row else 0


def dicts(found: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Yield what was found as dictionaries."""
    names = [column[0] for column in found.description]
    for row in found:
        yield dict(zip(names, row, strict=True))


def of_meter(
    db: sqlite3.Connection, table: str, columns: str, meter: int, between: tuple[int, int]
) -> sqlite3.Cursor:
    """Return a meter's rows of a table, by their times; `between` two in the table's own unit."""
    return db.execute(
        f"SELECT {columns} FROM {table}"
        f" WHERE key >= ? AND key < ? AND key & {METERS - 1} = ? ORDER BY key",
        (key(between[0], 0), key(between[1], 0), meter),
    )
