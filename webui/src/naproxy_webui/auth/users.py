"""Users of the web interface: an `admin` may do everything, a `viewer` only look."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy_webui.auth import passwords
from naproxy_webui.auth.database import Database
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t

ROLES: Final = ("admin", "viewer")
MOST_USERS: Final = 100
MOST_NAME: Final = 200
NAME: Final = r"^[\w@.+-]([\w@.+ -]{0,38}[\w@.+-])?$"

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('admin', 'viewer')),
    password TEXT NOT NULL,
    language TEXT,
    created_s REAL NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class User:
    """A person."""

    id: int
    name: str
    role: str
    language: str | None
    created_s: float


class Users:
    """The table of users. Words of a refusal are in the language of the request."""

    def __init__(self, db: Database, cost: Callable[[], passwords.Cost]) -> None:
        """`cost` is asked when a password is set."""
        self._db = db
        self._cost = cost

    def exist(self) -> bool:
        """Return whether the box was claimed."""
        return self._db.row("SELECT 1 FROM users LIMIT 1") is not None

    def all(self) -> list[User]:
        """Return everybody, by name."""
        return [User(*row) for row in self._db.rows(f"{_SELECT} ORDER BY key")]

    def get(self, number: int) -> User | None:
        """Return a user by number."""
        row = self._db.row(f"{_SELECT} WHERE id = ?", number)
        return User(*row) if row else None

    def check(self, name: str, password: str) -> User | None:
        """Return the user if name and password are right; both answers take as long."""
        row = self._db.row("SELECT id, password FROM users WHERE key = ?", key(name[:MOST_NAME]))
        good = passwords.matches(password, row[1] if row else None, self._cost())
        return self.get(row[0]) if good and row else None

    def digest(self, user: User) -> str:
        """Return what is kept of a user's password, empty if there is no such user."""
        row = self._db.row("SELECT password FROM users WHERE id = ?", user.id)
        return str(row[0]) if row else ""

    def add(
        self,
        name: str,
        password: str,
        role: str,
        *,
        language: str | None = None,
        first: bool = False,
    ) -> User:
        """Add somebody; ApiError if the name is taken. `first`: only if there is nobody yet."""
        name = " ".join(unicodedata.normalize("NFKC", name).split())
        if not re.fullmatch(NAME, name):
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("account.name_bad"), "name")
        _refuse(passwords.refusal(password, name), "password")
        kept = passwords.make(password, self._cost())
        with self._db.transaction() as db:
            (count,) = db.execute("SELECT count(*) FROM users").fetchone()
            if first and count:
                raise ApiError(HTTPStatus.CONFLICT, t("claim.done"))
            if count >= MOST_USERS:
                raise ApiError(HTTPStatus.CONFLICT, t("account.too_many", most=MOST_USERS))
            if db.execute("SELECT 1 FROM users WHERE key = ?", (key(name),)).fetchone():
                raise ApiError(HTTPStatus.CONFLICT, t("account.name_taken"), "name")
            made = db.execute(
                "INSERT INTO users (key, name, role, password, language, created_s)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (key(name), name, role, kept, language, time.time()),
            )
        user = self.get(made.lastrowid or 0)
        assert user
        return user

    def set_password(self, user: User, password: str) -> None:
        """Set a new password; ApiError if it is too easy to guess."""
        _refuse(passwords.refusal(password, user.name), "password")
        kept = passwords.make(password, self._cost())
        self._db.write("UPDATE users SET password = ? WHERE id = ?", kept, user.id)

    def set_language(self, user: User, language: str | None) -> None:
        """Set what language the user reads; None: the office's."""
        self._db.write("UPDATE users SET language = ? WHERE id = ?", language, user.id)

    def set_role(self, user: User, role: str) -> None:
        """Make somebody admin or viewer; ApiError for the last admin."""
        self._unless_last("UPDATE users SET role = ? WHERE id = ?", (role, user.id))

    def remove(self, user: User) -> None:
        """Remove a user with all their data; ApiError for the last admin."""
        self._unless_last("DELETE FROM users WHERE id = ?", (user.id,))

    def _unless_last(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._db.transaction() as db:
            db.execute(sql, values)
            (left,) = db.execute("SELECT count(*) FROM users WHERE role = 'admin'").fetchone()
            if not left:
                raise ApiError(HTTPStatus.CONFLICT, t("account.last_admin"))

    def export(self) -> list[dict[str, Any]]:
        """Return all users with their password digests, for a backup."""
        rows = self._db.rows("SELECT name, role, password, language FROM users ORDER BY key")
        return [
            dict(zip(("name", "role", "password", "language"), row, strict=True)) for row in rows
        ]

    def replace_all(self, rows: list[dict[str, Any]], now_s: float) -> None:
        """Replace all users by those of a backup, which were checked."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM users")
            db.executemany(
                "INSERT INTO users (key, name, role, password, language, created_s)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (key(r["name"]), r["name"], r["role"], r["password"], r["language"], now_s)
                    for r in rows
                ],
            )

    def forget_all(self) -> None:
        """Remove everybody: the box can be claimed again, by a new code."""
        self._db.write("DELETE FROM users")


_SELECT: Final = "SELECT id, name, role, language, created_s FROM users"


def key(name: str) -> str:
    """Return what two ways to write the same name have in common."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _refuse(why: str | None, where: str) -> None:
    if why:
        words = t(why, least=passwords.LEAST, most=passwords.MOST)
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, where)
