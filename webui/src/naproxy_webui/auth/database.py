"""A small SQLite file of ours: one connection, one thread at a time."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Database:
    """Tables made by `schema` where they are missing. Nobody but us may read the file."""

    def __init__(self, path: Path, schema: str) -> None:
        """Open or make it. A damaged file is set aside, which is said; it is not deleted."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.RLock()
        try:
            self._db = _open(path, schema)
        except sqlite3.OperationalError:
            raise  # the disk is full or read-only: the file is not to blame
        except sqlite3.DatabaseError as error:
            aside = path.with_name(f"{path.name}.bad-{int(time.time())}")
            path.rename(aside)
            print(f"{path} is damaged ({error}); it is now {aside}", file=sys.stderr, flush=True)
            self._db = _open(path, schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; nobody else reads or writes meanwhile."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Read."""
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Read the first row, if there is one."""
        found = self.rows(sql, *values)
        return found[0] if found else None

    def write(self, sql: str, *values: object) -> int:
        """Write at once; return how many rows it changed."""
        with self._lock:
            return self._db.execute(sql, values).rowcount

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()


def _open(path: Path, schema: str) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    try:
        db.execute("PRAGMA foreign_keys = 1")
        _check(db)
        db.executescript(schema)
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection) -> None:
    (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise sqlite3.DatabaseError(said)


def hashed(secret: str) -> bytes:
    """Return what is kept of a long random secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
