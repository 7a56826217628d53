"""The hours of carbon dioxide that the office's API said, for `core.rates`."""

from __future__ import annotations

import sqlite3


def hours(db: sqlite3.Connection, since_s: int = 0) -> dict[int, float]:
    """Return grams a kilowatt-hour by the starts of hours of UTC, from one on."""
    return dict(db.execute("SELECT t_s, mean_g FROM co2_hours WHERE t_s >= ?", (since_s,)))


def newest(db: sqlite3.Connection, now_s: float) -> tuple[int, int] | None:
    """Return the newest hour and its readings: as long as these stay, so do all hours until now.

    A clock that was wrong may have left later ones.
    """
    found: tuple[int, int] | None = db.execute(
        "SELECT t_s, readings FROM co2_hours WHERE t_s <= ? ORDER BY t_s DESC LIMIT 1", (now_s,)
    ).fetchone()
    return found
