"""The users of the web interface of a stage or of the demonstration."""

from pathlib import Path

from naproxy_webui.auth import passwords, users
from naproxy_webui.auth.database import Database

USER, VIEWER, PASSWORD = "admin", "viewer", "Night watch 7"
"""On loopback, and gone afterwards."""

GERMAN = "greta"
"""An administrator who reads German; `add` makes her."""


def make(state_dir: Path) -> None:
    """Write an administrator and a viewer, as the web interface itself would."""
    for name, role in ((USER, "admin"), (VIEWER, "viewer")):
        add(state_dir, name, role)


def add(state_dir: Path, name: str, role: str, language: str | None = None) -> None:
    """Write one more."""
    db = Database(state_dir / "webui.db", users.SCHEMA)
    users.Users(db, lambda: passwords.Cost(p=1)).add(name, PASSWORD, role, language=language)
    db.close()
