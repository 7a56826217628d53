"""The second factor: a code by time (TOTP, RFC 6238) from an app, or a recovery code.

An app's code counts once (section 5.2): the box keeps the time step of the last one, and takes
only later ones. One step of 30 s before and after is taken too, as clocks differ (section 6).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyotp

from naproxy_webui.auth.claim import LETTERS
from naproxy_webui.auth.database import Database, hashed
from naproxy_webui.auth.users import User

STEP_S: Final = 30
DRIFT_STEPS: Final = 1
MOST_CODE: Final = 40
RECOVERY_CODES: Final = 10
_RECOVERY_LENGTH: Final = 12
"""58 bits, as the claim code has. A copy of the file has the secret too, so more would not help."""
WAITS_S: Final = 300.0
"""For so long a right password waits for its code."""
MOST_WAITING: Final = 1000

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS second_factors (
    user INTEGER PRIMARY KEY REFERENCES users ON DELETE CASCADE,
    secret TEXT NOT NULL,
    used_step INTEGER NOT NULL,
    on_since_s REAL
) STRICT;
CREATE TABLE IF NOT EXISTS recovery_codes (
    user INTEGER NOT NULL REFERENCES second_factors ON DELETE CASCADE,
    hash BLOB NOT NULL,
    PRIMARY KEY (user, hash)
) STRICT;
"""
# `on_since_s` is null until the first code has shown that the app has the secret.


@dataclass(frozen=True, slots=True)
class Second:
    """A user's second factor."""

    on_since_s: float
    recovery_codes: int


class Seconds:
    """The tables of second factors and recovery codes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        """`clock` is the time of day, which the app has too."""
        self._db = db
        self._clock = clock

    def of(self, user: User) -> Second | None:
        """Return a user's second factor, if it is on."""
        row = self._db.row(
            "SELECT on_since_s, (SELECT count(*) FROM recovery_codes r WHERE r.user = f.user)"
            " FROM second_factors f WHERE user = ? AND on_since_s IS NOT NULL",
            user.id,
        )
        return Second(*row) if row else None

    def begin(self, user: User, issuer: str) -> tuple[str, str]:
        """Return a new secret, and the link that gives it to an app. It is off until `turn_on`."""
        secret = pyotp.random_base32()
        with self._db.transaction() as db:
            db.execute(
                "DELETE FROM second_factors WHERE user = ? AND on_since_s IS NULL", (user.id,)
            )
            # One that is on stays as it is: the statement changes nothing.
            db.execute(
                "INSERT INTO second_factors (user, secret, used_step) VALUES (?, ?, 0)"
                " ON CONFLICT DO NOTHING",
                (user.id, secret),
            )
        return secret, pyotp.TOTP(secret).provisioning_uri(name=user.name, issuer_name=issuer)

    def turn_on(self, user: User, code: str) -> list[str] | None:
        """Turn it on if an app has the secret; return the recovery codes, None if it has not."""
        row = self._db.row(
            "SELECT secret FROM second_factors WHERE user = ? AND on_since_s IS NULL", user.id
        )
        step = self._step_of(row[0], code) if row else None
        if step is None:
            return None
        done = self._db.write(
            "UPDATE second_factors SET on_since_s = ?, used_step = ?"
            " WHERE user = ? AND on_since_s IS NULL",
            *(self._clock(), step, user.id),
        )
        return self.new_recovery_codes(user) if done else None

    def new_recovery_codes(self, user: User) -> list[str]:
        """Return new recovery codes, which are nowhere else; those before them are void."""
        made = [
            "".join(secrets.choice(LETTERS) for _ in range(_RECOVERY_LENGTH))
            for _ in range(RECOVERY_CODES)
        ]
        with self._db.transaction() as db:
            db.execute("DELETE FROM recovery_codes WHERE user = ?", (user.id,))
            db.executemany(
                "INSERT INTO recovery_codes VALUES (?, ?)",
                [(user.id, hashed(code)) for code in made],
            )
        return ["-".join(code[i : i + 4] for i in range(0, len(code), 4)) for code in made]

    def take(self, user: User, typed: str) -> bool:
        """Return whether a code is right; it does not count a second time."""
        code = _bare(typed)
        if len(code) == _RECOVERY_LENGTH:
            sql = "DELETE FROM recovery_codes WHERE user = ? AND hash = ?"
            return bool(self._db.write(sql, user.id, hashed(code)))
        row = self._db.row(
            "SELECT secret FROM second_factors WHERE user = ? AND on_since_s IS NOT NULL", user.id
        )
        step = self._step_of(row[0], code) if row else None
        if step is None:
            return False
        # Of two that come at once with the same code, one changes the row.
        sql = "UPDATE second_factors SET used_step = ? WHERE user = ? AND used_step < ?"
        return bool(self._db.write(sql, step, user.id, step))

    def turn_off(self, user: User) -> bool:
        """Forget a user's second factor; return whether it was on."""
        was_on = self.of(user) is not None
        self._db.write("DELETE FROM second_factors WHERE user = ?", user.id)
        return was_on

    def _step_of(self, secret: str, typed: str) -> int | None:
        """Return the latest time step that has this code, None if no near one has it."""
        code, now = _bare(typed), int(self._clock() // STEP_S)
        if not re.fullmatch(r"[0-9]{6}", code):
            return None
        otp, found = pyotp.TOTP(secret), None
        for step in range(max(0, now - DRIFT_STEPS), now + DRIFT_STEPS + 1):
            if hmac.compare_digest(otp.generate_otp(step), code):
                found = step
        return found

    def export(self, user: User) -> dict[str, Any] | None:
        """Return what a backup with secrets keeps of a user's second factor."""
        row = self._db.row(
            "SELECT secret, used_step, on_since_s FROM second_factors"
            " WHERE user = ? AND on_since_s IS NOT NULL",
            user.id,
        )
        if row is None:
            return None
        codes = self._db.rows("SELECT hash FROM recovery_codes WHERE user = ?", user.id)
        kept = dict(zip(("secret", "used_step", "on_since_s"), row, strict=True))
        return {**kept, "recovery": sorted(digest.hex() for (digest,) in codes)}

    def put_back(self, user: User, kept: dict[str, Any]) -> None:
        """Have a user's second factor from a backup, which `is_kept` has checked."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM second_factors WHERE user = ?", (user.id,))
            db.execute(
                "INSERT INTO second_factors (user, secret, used_step, on_since_s)"
                " VALUES (?, ?, ?, ?)",
                (user.id, kept["secret"], kept["used_step"], kept["on_since_s"]),
            )
            db.executemany(
                "INSERT INTO recovery_codes VALUES (?, ?)",
                [(user.id, bytes.fromhex(each)) for each in kept["recovery"]],
            )


def is_kept(kept: object) -> bool:
    """Return whether `export` may have made it, for a backup that is restored."""
    if not isinstance(kept, dict) or set(kept) != {"secret", "used_step", "on_since_s", "recovery"}:
        return False
    secret, step, on_since_s, recovery = (
        kept[each] for each in ("secret", "used_step", "on_since_s", "recovery")
    )
    return (
        isinstance(secret, str)
        and re.fullmatch(r"[A-Z2-7]{32}", secret) is not None
        and type(step) is int
        and 0 <= step < 1 << 40
        and type(on_since_s) in (int, float)
        and 0 <= on_since_s < 1 << 40
        and isinstance(recovery, list)
        and len(recovery) <= RECOVERY_CODES
        and all(isinstance(e, str) and re.fullmatch(r"[0-9a-f]{64}", e) for e in recovery)
        and len(set(recovery)) == len(recovery)
    )


def _bare(typed: str) -> str:
    text = unicodedata.normalize("NFKC", typed[:MOST_CODE]).upper()
    return "".join(c for c in text if c.isascii() and c.isalnum())


class Waiting:
    """Logins whose password was right, and whose code is awaited. In memory only.

    The browser gets a number that only the code's own route takes: it begins no session.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[int, bytes, float]] = {}

    def begin(self, user: User, password: str) -> str:
        """Return a random number for a browser; `password` is the digest that was matched."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._known) >= MOST_WAITING:
                del self._known[next(iter(self._known))]
            until_s = self._clock() + WAITS_S
            self._known[hashed(secret)] = (user.id, _digest(password), until_s)
        return secret

    def find(self, secret: str) -> tuple[int, bytes] | None:
        """Return the user's number and a digest for `same_password`, None if it is over."""
        with self._lock:
            user, password, until_s = self._known.get(hashed(secret), (0, b"", 0.0))
            return (user, password) if self._clock() < until_s else None

    def end(self, secret: str) -> bool:
        """Have it count no more; return whether it did until now."""
        with self._lock:
            return self._known.pop(hashed(secret), None) is not None


def same_password(kept: bytes, password: str) -> bool:
    """Return whether a user's digest is still the one that a login has matched."""
    return hmac.compare_digest(kept, _digest(password))


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
