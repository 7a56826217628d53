"""The history's file: opened, set aside when damaged, written in batches, synced now and then.

WAL with synchronous NORMAL: a commit writes to the side file without waiting for the disk. Only
`sync` waits for the disk. It may run in a thread of its own, because it takes no lock that the
writer needs.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from naproxy.history.tables import FILE, AnotherGenerationError, prepare
from naproxy.shm.page import give_to_group

_LOG: Final = logging.getLogger(__name__)
_ROOM: Final = "history.room"
_ROOM_BYTES: Final = 1 << 18
"""A statement writes a few pages of 4 KiB to the side file."""
_MOST_LOG_PAGES: Final = 16384
"""The side file is worked off earlier than `sync` does it only when it is this long."""


class Store:
    """One writer's connection. A disk that fails is said, and stops nothing else."""

    def __init__(self, data_dir: Path, clock: Callable[[], float], group: str) -> None:
        """Open `data_dir`/history.db; a file that is not one is set aside, and that is said.

        Where nothing can be written the history is kept in memory until the end.
        """
        self.path = data_dir / FILE
        self.error: str | None = None
        self._clock = clock
        self._group = group
        self._on_disk = True
        self._room = data_dir / _ROOM
        self._db = self._open_or_begin()
        self._take_room()

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
            _LOG.error("%s: %s: the history is kept in memory only", self.path, error)
            self._on_disk = False
            return _prepared(sqlite3.connect(":memory:", isolation_level=None))

    def _open_file(self) -> sqlite3.Connection:
        # SQLite gives its side files the mode and group that the file has.
        self.path.touch(mode=0o640)
        if self._group:
            give_to_group(self.path, self._group)
        return _prepared(sqlite3.connect(self.path, isolation_level=None, timeout=2))

    def _set_aside(self, why: str) -> None:
        bad = self.path.with_name(f"{FILE}.bad-{int(self._clock())}")
        self.path.rename(bad)
        for suffix in ("-wal", "-shm"):
            side = self.path.with_name(FILE + suffix)
            if side.exists():
                side.rename(bad.with_name(bad.name + suffix))
        _LOG.error("%s: %s; set aside as %s and begun anew", self.path, why, bad.name)

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor | None:
        """Carry out one statement; None if that failed, which is said once."""
        try:
            done = self._db.execute(sql, values)
        except sqlite3.Error as error:
            self._failed(error)
            return None
        self.error = None
        return done

    def execute_at_last(self, sql: str, *values: object) -> bool:
        """Carry out a statement that a full disk must not lose; return whether it was done."""
        done = self.execute(sql, *values)
        if done is None and self._on_disk:
            with suppress(OSError):
                self._room.unlink()
            done = self.execute(sql, *values)
            self._take_room()
        return done is not None

    def _take_room(self) -> None:
        """Keep some of the disk for `execute_at_last`."""
        try:
            if not self._on_disk or self._room.exists():
                return
            file = os.open(self._room, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, _ROOM_BYTES)
            finally:
                os.close(file)
        except OSError:
            # No space is left: the allocated part goes to others.
            with suppress(OSError):
                self._room.unlink()

    def batch(self, work: Callable[[sqlite3.Connection], None]) -> bool:
        """Do `work` in one transaction, all of it or nothing; returns whether it was done."""
        try:
            with _transaction(self._db):
                work(self._db)
        except sqlite3.Error as error:
            self._failed(error)
            return False
        self.error = None
        return True

    def _failed(self, error: sqlite3.Error) -> None:
        if self.error is None:
            _LOG.error("%s: %s: the history is not written", self.path, error)
        self.error = str(error)
        if _damaged(error):
            self._db.close()
            self._db = self._open_or_begin()

    def sync(self, *, checkpoint: bool) -> None:
        """Make what was committed survive a power cut: one fdatasync.

        A checkpoint also works the side file off into the file itself: two more, and one by
        the next commit. From any thread; OSError or sqlite3.Error where it fails.
        """
        log = self.path.with_name(FILE + "-wal")
        if not self._on_disk:
            return
        if checkpoint:
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=2)) as db:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        elif log.exists():
            # SQLite keeps its locks on the other two files: closing this one drops none.
            file = os.open(log, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fdatasync(file)
            finally:
                os.close(file)

    def close(self) -> None:
        """Close the file; SQLite works the side file off."""
        self._db.close()


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # A failed commit may have ended it already.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        db.execute(f"PRAGMA wal_autocheckpoint = {_MOST_LOG_PAGES}")
        prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _damaged(error: sqlite3.Error) -> bool:
    """Is it the file that is wrong, not the disk that is full or the lock that is taken?"""
    if isinstance(error, AnotherGenerationError):
        return True
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return (code is not None and code & 0xFF in damage) or "no such" in str(error)
