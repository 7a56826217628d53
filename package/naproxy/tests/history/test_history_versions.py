"""A program that was rolled back meets the file of a newer one, and the other way round."""

import sqlite3
from pathlib import Path

from history_box import Box
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.tables import FILE

# What the first version had, word for word: its tables, its check on opening, its statements.
FIRST_SCHEMA = """
CREATE TABLE transitions (
    id INTEGER PRIMARY KEY, t_s REAL NOT NULL, server TEXT NOT NULL,
    "from" TEXT NOT NULL, "to" TEXT NOT NULL, reason TEXT NOT NULL
) STRICT;
CREATE INDEX transitions_by_server ON transitions (server, t_s);
CREATE INDEX transitions_by_time ON transitions (t_s);
CREATE TABLE wakes (
    id INTEGER PRIMARY KEY, t_s REAL NOT NULL, server TEXT NOT NULL, who TEXT NOT NULL,
    host TEXT NOT NULL, path TEXT NOT NULL, method TEXT NOT NULL, agent TEXT NOT NULL,
    class TEXT NOT NULL, reason TEXT NOT NULL, waited_s REAL,
    packets INTEGER NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT 'waiting'
) STRICT;
CREATE INDEX wakes_by_server ON wakes (server, t_s);
CREATE INDEX wakes_by_time ON wakes (t_s);
CREATE TABLE saved (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""


def first_opens(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    db.execute("PRAGMA journal_mode = WAL")
    if version == 0:
        db.executescript(f"BEGIN; {FIRST_SCHEMA} PRAGMA user_version = 1; COMMIT;")
    else:
        assert version == 1
    for table in ("transitions", "wakes", "saved"):
        db.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()
    return db


def first_writes(db: sqlite3.Connection, t_s: float) -> None:
    db.execute(
        'INSERT INTO transitions (t_s, server, "from", "to", reason) VALUES (?, ?, ?, ?, ?)',
        (t_s, "web", "awake", "asleep", "by the first"),
    )
    db.execute(
        "INSERT INTO saved (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        ("key", '{"by": "the first"}'),
    )


def test_the_first_version_reads_and_writes_this_ones_file(tmp_path: Path, said: list[str]) -> None:
    box = Box(tmp_path)
    box.journal.transition("web", State.UNKNOWN, State.AWAKE, own_words("by this one"))
    box.journal.save("key", {"by": "this one"})
    box.meter(60)
    box.stop()
    old = first_opens(tmp_path / FILE)
    [(kept,)] = old.execute("SELECT reason FROM transitions")
    assert kept == own_words("by this one").text()
    assert old.execute("SELECT value FROM saved WHERE key = 'key'").fetchall()
    first_writes(old, box.wall_s)
    old.close()
    box.start()
    assert [r["reason"] for r in box.journal.rows("transitions", "web", 0, 9)] == [
        own_words("by the first").plain(),
        own_words("by this one").plain(),
    ]
    assert box.journal.saved("key") == {"by": "the first"}
    assert box.energy("minutes") == 60 * 43_000
    assert said == []
    box.stop()


def test_this_version_takes_over_the_firsts_file(tmp_path: Path, said: list[str]) -> None:
    old = first_opens(tmp_path / FILE)
    first_writes(old, 1.0)
    old.close()
    box = Box(tmp_path)
    box.meter(60)
    box.history.flush()
    assert box.energy("minutes") == 60 * 43_000
    assert box.journal.saved("key") == {"by": "the first"}
    assert said == []
    box.stop()


def test_wakes_of_an_earlier_version_have_no_stages(tmp_path: Path, said: list[str]) -> None:
    old = first_opens(tmp_path / FILE)
    wake = "INSERT INTO wakes (t_s, server, who, host, path, method, agent, class, reason)"
    old.execute(f"{wake} VALUES (1.0, 'web', '', '', '', '', '', 'person', 'page')")
    old.close()
    box = Box(tmp_path)
    [row] = box.journal.rows("wakes", "web", 0, 9)
    assert row["stages"] == []
    box.stop()
    # The next start finds the column.
    box.start()
    assert len(box.journal.rows("wakes", "web", 0, 9)) == 1
    assert said == []
    box.stop()


def test_a_table_and_a_column_of_a_later_version_disturb_nothing(
    tmp_path: Path, said: list[str]
) -> None:
    box = Box(tmp_path)
    box.stop()
    later = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    later.execute("ALTER TABLE minutes ADD COLUMN voltage_mv INTEGER NOT NULL DEFAULT 0")
    later.execute("ALTER TABLE transitions ADD COLUMN whim TEXT NOT NULL DEFAULT ''")
    later.execute("CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT")
    later.close()
    box.start()
    box.meter(60)
    box.journal.transition("web", State.AWAKE, State.ASLEEP, own_words("x"))
    assert box.history.flush()
    assert box.energy("hours") == 60 * 43_000
    assert said == []
    box.stop()
