"""The small files of ours: damaged, private, shared by threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from naproxy_webui.auth.database import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS t (x INTEGER) STRICT;"


def test_a_damaged_file_is_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damages = (b"this is no database" * 100, b"SQLite format 3\x00" + b"x" * 5000)
    for number, damage in enumerate(damages):
        file = tmp_path / f"{number}.db"
        file.write_bytes(damage)
        Database(file, SCHEMA).write("INSERT INTO t VALUES (1)")
        (aside,) = tmp_path.glob(f"{number}.db.bad-*")
        assert aside.read_bytes() == damage
        assert "is damaged" in capsys.readouterr().err, damage


def test_the_file_is_ours_alone(tmp_path: Path) -> None:
    Database(tmp_path / "folder/x.db", SCHEMA)
    assert (tmp_path / "folder").stat().st_mode & 0o077 == 0
    assert (tmp_path / "folder/x.db").stat().st_mode & 0o077 == 0


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    db = Database(tmp_path / "x.db", SCHEMA)

    def half() -> None:
        with db.transaction() as writer:
            writer.execute("INSERT INTO t VALUES (1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert db.rows("SELECT * FROM t") == []


def test_threads_do_not_meet_in_a_transaction(tmp_path: Path) -> None:
    db = Database(tmp_path / "x.db", SCHEMA)

    def count() -> None:
        for _ in range(20):
            with db.transaction() as writer:
                (most,) = writer.execute("SELECT coalesce(max(x), 0) FROM t").fetchone()
                writer.execute("INSERT INTO t VALUES (?)", (most + 1,))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.row("SELECT count(DISTINCT x), max(x) FROM t") == (80, 80)
