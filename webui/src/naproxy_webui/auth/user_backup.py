"""Users in a backup: taken out with passwords' digests and second factors, and put back."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from naproxy.core.words import LANGUAGES

from naproxy_webui.auth.guard import Keys
from naproxy_webui.auth.second import is_kept
from naproxy_webui.auth.users import MOST_USERS, NAME, ROLES, key

_DIGEST: Final = re.compile(
    r"scrypt\$(?P<n>[0-9]{1,6})\$(?P<r>[0-9]{1,2})\$(?P<p>[0-9]{1,2})"
    r"\$[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/=]{40,100}"
)
_FIELDS: Final = frozenset({"name", "role", "password", "language"})
_MOST_BYTES: Final = 64 << 20
"""Our digests (passwords.py) never need more memory to check."""


def export(keys: Keys) -> list[dict[str, Any]]:
    """Return everybody, for a backup with secrets."""
    seconds = {key(user.name): keys.seconds.export(user) for user in keys.users.all()}
    # Without the key where there is no second factor: boxes older than that restore these users.
    return [
        {**row, **({"second": second} if (second := seconds.get(key(row["name"]))) else {})}
        for row in keys.users.export()
    ]


def restore(keys: Keys, rows: list[Any]) -> int:
    """Replace all users by those of a backup; return their number.

    If any of them is invalid or none is an administrator, the existing users stay. After a
    restore everyone must log in again, with the password from the backup.
    """
    good = [row for row in rows if _is_user(row)]
    names = {key(row["name"]) for row in good}
    whole = len(good) == len(rows) == len(names) and len(rows) <= MOST_USERS
    if not whole or not any(row["role"] == "admin" for row in good):
        return 0
    keys.users.replace_all(good, time.time())
    kept = {key(row["name"]): row["second"] for row in good if "second" in row}
    for user in keys.users.all():
        if second := kept.get(key(user.name)):
            keys.seconds.put_back(user, second)
    keys.sessions.forget_all()
    return len(good)


def _is_user(row: object) -> bool:
    if not isinstance(row, dict) or set(row) - {"second"} != _FIELDS:
        return False
    if "second" in row and not is_kept(row["second"]):
        return False
    name, password = row["name"], row["password"]
    if not (isinstance(name, str) and re.fullmatch(NAME, name) and row["role"] in ROLES):
        return False
    if row["language"] is not None and row["language"] not in LANGUAGES:
        return False
    found = _DIGEST.fullmatch(password) if isinstance(password, str) else None
    if not found:
        return False
    n, r, p = (int(found[each]) for each in "nrp")
    return n > 1 and n & (n - 1) == 0 and r > 0 and p > 0 and 128 * n * r <= _MOST_BYTES
