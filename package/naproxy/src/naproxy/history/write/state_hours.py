"""Adds up how long each server was in which state, once an hour is over.

It also adds up how long at least one server's state was known: the time in which the box's own
energy belongs to its servers.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from naproxy.history.read.states import HOUR_S, States, in_range, managed
from naproxy.history.read.timeline import begun_s, servers
from naproxy.history.tables import server_id

SETTLED_S: Final = 300.0
"""An hour is added up so long after its end: nothing about it is still to be written."""


_AT_ONCE: Final = 720  # hours


def roll_up(db: sqlite3.Connection, now_s: float) -> None:
    """Add up the hours that are over and were not yet."""
    end = int((now_s - SETTLED_S) // HOUR_S)
    for name in servers(db):
        server = server_id(db, name)
        first = _first(db, name, server)
        while first is not None and first < end:
            until = min(end, first + _AT_ONCE)
            span_s = first * HOUR_S, until * HOUR_S
            _write(db, server, in_range(db, name, *span_s))
            first = until
    _roll_up_box(db, end)


def _roll_up_box(db: sqlite3.Connection, end: int) -> None:
    last_s, begun_s = db.execute(
        "SELECT (SELECT max(t_s) FROM box_hours), (SELECT min(t_s) FROM transitions)"
    ).fetchone()
    first_s = begun_s if last_s is None else last_s + HOUR_S
    first = end if first_s is None else int(first_s // HOUR_S)
    while first < end:
        until = min(end, first + _AT_ONCE)
        db.executemany(
            "INSERT OR REPLACE INTO box_hours (t_s, managed_ms) VALUES (?, ?)",
            (
                (t_s, round(1000 * seconds))
                for t_s, seconds in managed(db, first * HOUR_S, until * HOUR_S).items()
            ),
        )
        first = until


def shift(db: sqlite3.Connection, since_s: float) -> None:
    """Forget the hours from that of `since_s` on; they are added up again."""
    for table in ("state_hours", "box_hours"):
        db.execute(f"DELETE FROM {table} WHERE t_s >= ?", (int(since_s // HOUR_S) * HOUR_S,))


def _write(db: sqlite3.Connection, server: int, hours: dict[int, States]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO state_hours (server, t_s, state, ms, entered)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            (server, t_s, state, round(1000 * known.seconds), known.entered)
            for t_s, states in hours.items()
            for state, known in states.items()
        ),
    )


def _first(db: sqlite3.Connection, name: str, server: int) -> int | None:
    """Return the first hour that was not added up; None if nothing is known of the server."""
    (last_s,) = db.execute(
        "SELECT max(t_s) FROM state_hours WHERE server = ?", (server,)
    ).fetchone()
    if last_s is not None:
        return int(last_s) // HOUR_S + 1
    first_s = begun_s(db, name)
    return None if first_s is None else int(first_s // HOUR_S)
