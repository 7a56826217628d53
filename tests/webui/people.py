"""Who may use the web interface of a stage or of the demonstration."""

from pathlib import Path

from naproxy_webui import passwords, users
from naproxy_webui.database import Database

USER, VIEWER, PASSWORD = "admin", "viewer", "Night watch 7"
"""On loopback, and gone afterwards."""


def make(state_dir: Path) -> None:
    """Write an administrator and a viewer, as the web interface itself would."""
    db = Database(state_dir / "webui.db", users.SCHEMA)
    kept = users.Users(db, lambda: passwords.Cost(p=1))
    for name, role in ((USER, "admin"), (VIEWER, "viewer")):
        kept.add(name, PASSWORD, role)
    db.close()
