"""Passwords: scrypt of the standard library, as expensive as the box can afford.

The memory is fixed at 16 MiB, which a box with 512 MB can spare for a moment. The time of one
round is measured once, at the first password. The number of rounds (`p`) is chosen so that one
check takes about `GOAL_S`. It never exceeds the OWASP value for this memory (N = 2^14, r = 8,
p = 5; Password Storage Cheat Sheet). Each hash stores its parameters, so a file can move between
boxes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

LEAST: Final = 10
MOST: Final = 200
GOAL_S: Final = 0.5
LEAST_DIFFERENT: Final = 5
_MOST_BYTES: Final = 64 << 20
_COMMON: Final = (
    *("1234567890", "0123456789", "0987654321", "qwertyuiop", "qwertzuiop", "asdfghjkl"),
    *("password", "passwort", "naproxy", "raspberry", "letmein", "welcome", "willkommen"),
    *("changeme", "abcdefghij", "iloveyou", "administrator", "geheim"),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """scrypt's parameters: memory is 128 n r bytes, time grows with n r p."""

    n: int = 1 << 14
    r: int = 8
    p: int = 5


_one = threading.Lock()
"""One at a time: memory for one, and a guesser gets no more than one core."""


def refusal(password: str, *names: str) -> str | None:
    """Return the key of the text that says why a password is rejected; None if it is accepted.

    `names` are an attacker's first guesses: the user's name, the box's.
    """
    text = normal(password)
    if len(text) < LEAST:
        return "account.password_short"
    if len(text) > MOST:
        return "account.password_long"
    if len(set(text)) < LEAST_DIFFERENT:
        return "account.password_simple"
    bare = text.casefold().strip("0123456789!.?-_ ")
    likely = {*_COMMON, *(normal(name).casefold() for name in names if name)}
    if text.casefold() in likely or bare in likely or not bare:
        return "account.password_simple"
    return None


def normal(password: str) -> str:
    """Return the one form of a text that may be typed in several (NFKC, as NIST 800-63B)."""
    return unicodedata.normalize("NFKC", password)


def make(password: str, cost: Cost) -> str:
    """Return what is kept of a password: `scrypt$n$r$p$salt$hash`."""
    salt = os.urandom(16)
    digest = _scrypt(password, salt, cost)
    parts = (base64.b64encode(each).decode() for each in (salt, digest))
    return "$".join(("scrypt", str(cost.n), str(cost.r), str(cost.p), *parts))


def matches(password: str, kept: str | None, cost: Cost) -> bool:
    """Return whether it is the password; with none kept (no such user) it takes as long."""
    if kept is None or len(password) > MOST:
        _scrypt(password[:MOST], bytes(16), cost)
        return False
    try:
        _, n, r, p, salt, digest = kept.split("$")
        found = _scrypt(password, base64.b64decode(salt), Cost(int(n), int(r), int(p)))
        return hmac.compare_digest(found, base64.b64decode(digest))
    except ValueError:
        return False  # the stored value is not in our format, so nothing matches it


def _scrypt(password: str, salt: bytes, cost: Cost) -> bytes:
    text = normal(password).encode("utf-8", "surrogatepass")
    with _one:
        return hashlib.scrypt(text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=_MOST_BYTES)


@lru_cache(maxsize=1)
def measured(clock: Callable[[], float] = time.perf_counter) -> Cost:
    """Return the cost for this machine: one round is timed, once."""
    once = replace(Cost(), p=1)
    begun_s = clock()
    _scrypt("how long does this take", bytes(16), once)
    return rounds(clock() - begun_s)


def rounds(one_s: float) -> Cost:
    """Return the cost of a machine that needs `one_s` for one round."""
    most = Cost()
    return replace(most, p=max(1, min(most.p, int(GOAL_S / max(one_s, 1e-6)))))
