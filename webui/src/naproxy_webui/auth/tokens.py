"""API tokens: for programs, shown once, kept as a hash, with a scope."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from naproxy_webui.auth.database import Database, hashed
from naproxy_webui.auth.users import User
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t

SCOPES: Final = ("metrics", "read", "change")
"""Each may what those before it may."""
PREFIX: Final = "naproxy_"
MOST_OF_A_USER: Final = 50
USED_EVERY_S: Final = 86400.0
"""When a token was used last is written so often: the card should last."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_s REAL NOT NULL,
    used_s REAL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without its secret."""

    id: int
    user: int
    name: str
    scope: str
    created_s: float
    used_s: float | None

    def may(self, scope: str) -> bool:
        """Return whether it may do what needs a scope; `session` is for people only."""
        return scope in SCOPES and SCOPES.index(scope) <= SCOPES.index(self.scope)


class Tokens:
    """The table of tokens."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    def of(self, user: User) -> list[Token]:
        """Return a user's tokens, oldest first."""
        return [Token(*row) for row in self._db.rows(f"{_SELECT} WHERE user = ?", user.id)]

    def make(self, user: User, name: str, scope: str) -> tuple[Token, str]:
        """Return a new token and its secret, which is nowhere else."""
        if scope == "change" and user.role != "admin":
            raise ApiError(HTTPStatus.FORBIDDEN, t("account.token_scope"), "scope")
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._db.transaction() as db:
            count = db.execute("SELECT count(*) FROM tokens WHERE user = ?", (user.id,))
            if count.fetchone()[0] >= MOST_OF_A_USER:
                words = t("account.too_many_tokens", most=MOST_OF_A_USER)
                raise ApiError(HTTPStatus.CONFLICT, words)
            made = db.execute(
                "INSERT INTO tokens (user, name, scope, hash, created_s) VALUES (?, ?, ?, ?, ?)",
                (user.id, name, scope, hashed(secret), self._clock()),
            )
        row = self._db.row(f"{_SELECT} WHERE id = ?", made.lastrowid)
        assert row
        return Token(*row), secret

    def find(self, secret: str) -> Token | None:
        """Return the token that has this secret, and note that it was used."""
        # Found by its hash, so that how long it takes says nothing of the secret.
        row = self._db.row(f"{_SELECT} WHERE hash = ?", hashed(secret))
        if row is None:
            return None
        token, now_s = Token(*row), self._clock()
        if token.used_s is None or abs(now_s - token.used_s) > USED_EVERY_S:
            self._db.write("UPDATE tokens SET used_s = ? WHERE id = ?", now_s, token.id)
        return token

    def remove(self, user: User, number: int) -> None:
        """Remove one of a user's tokens; ApiError if it is not his."""
        if not self._db.write("DELETE FROM tokens WHERE id = ? AND user = ?", number, user.id):
            raise ApiError(HTTPStatus.NOT_FOUND, t("account.no_token"))


_SELECT: Final = "SELECT id, user, name, scope, created_s, used_s FROM tokens"
