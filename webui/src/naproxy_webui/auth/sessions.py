"""Sessions: kept by the box, in memory's file system; the browser has a random number only."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy_webui.auth.database import Database, hashed

IDLE_S: Final = 12 * 3600.0
ABSOLUTE_S: Final = 7 * 86400.0
SEEN_EVERY_S: Final = 60.0
MOST: Final = 200
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    user INTEGER NOT NULL,
    csrf TEXT NOT NULL,
    created_s REAL NOT NULL,
    seen_s REAL NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS boot (id TEXT NOT NULL) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that somebody logged in with; times are seconds of the monotonic clock."""

    id: int
    user: int
    csrf: str
    created_s: float
    seen_s: float
    address: str
    agent: str


class Sessions:
    """The table of sessions.

    Time is CLOCK_MONOTONIC, since a box without a battery sets its clock by years; so
    sessions end with the boot.
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """Forget the sessions of another boot."""
        self._db = db
        self.clock = clock
        boot = _BOOT_ID.read_text().strip()
        with db.transaction() as writer:
            if writer.execute("SELECT id FROM boot").fetchall() != [(boot,)]:
                writer.execute("DELETE FROM sessions")
                writer.execute("DELETE FROM boot")
                writer.execute("INSERT INTO boot VALUES (?)", (boot,))

    def begin(self, user: int, address: str, agent: str) -> tuple[Session, str]:
        """Return a new session and the value of its cookie."""
        secret, now_s = secrets.token_urlsafe(32), self.clock()
        with self._db.transaction() as db:
            db.execute(_DELETE_OVER, _over(now_s))
            db.execute(
                "DELETE FROM sessions WHERE id NOT IN"
                " (SELECT id FROM sessions ORDER BY seen_s DESC LIMIT ?)",
                (MOST - 1,),
            )
            made = db.execute(
                "INSERT INTO sessions (hash, user, csrf, created_s, seen_s, address, agent)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(hashed(secret), user, secrets.token_urlsafe(24), now_s, now_s),
                    *(address[:64], _printable(agent)[:200]),
                ),
            )
        row = self._db.row(f"{_SELECT} WHERE id = ?", made.lastrowid)
        assert row
        return Session(*row), secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie if it is not over."""
        row = self._db.row(f"{_SELECT} WHERE hash = ?", hashed(secret))
        if row is None:
            return None
        session, now_s = Session(*row), self.clock()
        if now_s - session.created_s > ABSOLUTE_S or now_s - session.seen_s > IDLE_S:
            self.end(session.id, session.user)
            return None
        if now_s - session.seen_s > SEEN_EVERY_S:
            self._db.write("UPDATE sessions SET seen_s = ? WHERE id = ?", now_s, session.id)
        return session

    def of(self, user: int) -> list[Session]:
        """Return a user's sessions that are not over, last used first."""
        found = self._db.rows(
            f"{_SELECT} WHERE user = ? AND NOT ({_OVER}) ORDER BY seen_s DESC, id DESC",
            *(user, *_over(self.clock())),
        )
        return [Session(*row) for row in found]

    def end(self, number: int, user: int) -> bool:
        """End one of a user's sessions; return whether it was there."""
        sql = "DELETE FROM sessions WHERE id = ? AND user = ?"
        return bool(self._db.write(sql, number, user))

    def end_all(self, user: int, but: int | None = None) -> None:
        """End all sessions of a user, or all but one."""
        self._db.write("DELETE FROM sessions WHERE user = ? AND id IS NOT ?", user, but)

    def forget_all(self) -> None:
        """End all sessions: there are no users."""
        self._db.write("DELETE FROM sessions")


_SELECT: Final = "SELECT id, user, csrf, created_s, seen_s, address, agent FROM sessions"
_OVER: Final = "created_s < ? OR seen_s < ?"
_DELETE_OVER: Final = f"DELETE FROM sessions WHERE {_OVER}"


def _over(now_s: float) -> tuple[float, float]:
    return now_s - ABSOLUTE_S, now_s - IDLE_S


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
