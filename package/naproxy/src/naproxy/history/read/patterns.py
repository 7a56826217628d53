"""Times, senders and outcomes of requests: sums over a range for pages.

Epoch seconds; ranges are from (included) to (not included), in whole hours. Hours and days are
those of a time zone; None is the box's own. Traffic is kept by hours of UTC: where a zone is
half an hour off, an hour's requests belong to the hour of the zone in which it begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import Final, NamedTuple

from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.days import days
from naproxy.history.tables import number_of

WEEK_H: Final = 168
_MONDAY_H: Final = 72
"""1970 began on a Thursday."""

_HOUR_S, _DAY_S = 3600, 86400
_NEEDED: Final = (Outcome.FETCH, Outcome.PASS, Outcome.PIPE, Outcome.HELD, Outcome.WAITING_PAGE)


class Piece(NamedTuple):
    """A time in which the clocks of a zone are the same seconds ahead of UTC."""

    from_s: int
    to_s: int
    ahead_s: int


class Share(NamedTuple):
    """Requests of one class that came to one end."""

    klass: int
    outcome: int
    requests: int
    delayed: int


def pieces(zone: tzinfo | None, from_s: int, to_s: int) -> Iterator[Piece]:
    """Yield the parts of a range between two changes of the clocks."""
    begin_s = at_s = from_s
    while at_s < to_s:
        ahead_s = _ahead_s(zone, begin_s)
        at_s = min(to_s, at_s + _DAY_S)
        if at_s < to_s and _ahead_s(zone, at_s) == ahead_s:
            continue
        end_s = at_s
        if _ahead_s(zone, at_s - 1) != ahead_s:
            day_s = at_s - _DAY_S
            end_s = next(t for t in range(day_s, at_s, 900) if _ahead_s(zone, t) != ahead_s)
        yield Piece(begin_s, end_s, ahead_s)
        begin_s = at_s = end_s


def _ahead_s(zone: tzinfo | None, t_s: int) -> int:
    ahead = datetime.fromtimestamp(t_s, UTC).astimezone(zone).utcoffset()
    return int(ahead.total_seconds()) if ahead else 0


def begins_s(db: sqlite3.Connection) -> int | None:
    """Return the first hour of which traffic is known, None if there is none."""
    found: int | None = db.execute("SELECT min(t_s) FROM traffic_hours").fetchone()[0]
    return found


def _range(db: sqlite3.Connection, from_s: float, to_s: float) -> tuple[int, int]:
    begin_s = begins_s(db)
    first_s = int(from_s) if begin_s is None else max(int(from_s), begin_s)
    return first_s, max(first_s, int(to_s))


def by_hour_of_week(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float, zone: tzinfo | None
) -> dict[int, list[int]]:
    """Return, by class, the requests of each hour of the week from Monday 0:00 on."""
    found: dict[int, list[int]] = {}
    for piece in pieces(zone, *_range(db, from_s, to_s)):
        for hour, klass, requests in db.execute(
            "SELECT ((t_s + ?4) / 3600 + ?5) % ?6 AS hour, class, sum(requests)"
            " FROM traffic_hours WHERE t_s >= ?1 AND t_s < ?2"
            " AND server = (SELECT id FROM servers WHERE name = ?3) GROUP BY 1, 2",
            (piece.from_s, piece.to_s, server, piece.ahead_s, _MONDAY_H, WEEK_H),
        ):
            found.setdefault(klass, [0] * WEEK_H)[hour] += requests
    return found


def busy_hours_of_week(
    db: sqlite3.Connection,
    server: str,
    range_s: tuple[float, float],
    zone: tzinfo | None,
    *,
    least: int,
) -> list[int]:
    """Return how often each hour of the week had `least` requests of people that needed the server.

    As `by_hour_of_week` has the hours.
    """
    times = [0] * WEEK_H
    marks = ", ".join(str(int(each)) for each in _NEEDED)
    for piece in pieces(zone, *_range(db, *range_s)):
        for (hour,) in db.execute(
            "SELECT ((t_s + ?4) / 3600 + ?5) % ?6"
            " FROM traffic_hours WHERE t_s >= ?1 AND t_s < ?2"
            " AND server = (SELECT id FROM servers WHERE name = ?3)"
            f" AND class = ?7 AND outcome IN ({marks})"
            " GROUP BY t_s HAVING sum(requests) >= ?8",
            (
                *(piece.from_s, piece.to_s, server, piece.ahead_s, _MONDAY_H, WEEK_H),
                *(int(Klass.PERSON), least),
            ),
        ):
            times[hour] += 1
    return times


def hours_of_week(
    db: sqlite3.Connection, from_s: float, to_s: float, zone: tzinfo | None
) -> list[int]:
    """Return how often each hour of the week was in the range, as far as traffic is known."""
    times = [0] * WEEK_H
    for piece in pieces(zone, *_range(db, from_s, to_s)):
        first = (piece.from_s + piece.ahead_s) // _HOUR_S
        weeks, rest = divmod(max(0, -(-(piece.to_s + piece.ahead_s) // _HOUR_S) - first), WEEK_H)
        for number in range(WEEK_H):
            hour = (first + number + _MONDAY_H) % WEEK_H
            times[hour] += weeks + (number < rest)
    return times


def by_part(
    db: sqlite3.Connection,
    server: str,
    range_s: tuple[float, float],
    unit: str,
    zone: tzinfo | None,
) -> Iterator[tuple[date, list[Share]]]:
    """Yield each day, week or month that has requests, with outcomes by class.

    A part that the range cuts counts only within the range.
    """
    from_s, to_s = _range(db, *range_s)
    number = number_of(db, "servers", server)
    if from_s >= to_s:
        return
    for first, begin_s, end_s in days(from_s, to_s, zone, unit):
        # Part by part: sorting few rows often is faster than all of them once.
        found = db.execute(
            "SELECT class, outcome, sum(requests), sum(delayed) FROM traffic_hours"
            " WHERE t_s >= ? AND t_s < ? AND server = ? GROUP BY 1, 2",
            (max(from_s, begin_s), min(to_s, end_s), number),
        )
        if shares := [Share(*row) for row in found]:
            yield first, shares


def by_agent(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float
) -> Iterator[tuple[str, Share]]:
    """Yield the agents' names, the empty one for those without, with class and outcome.

    Of the days that begin in the range; people without a name are not here.
    """
    for name, *share in db.execute(
        "SELECT agent, class, outcome, sum(requests), sum(delayed) FROM traffic_by_agent"
        " WHERE t_s >= ?1 AND t_s < ?2 AND server = ?3 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        (int(from_s), int(to_s), server),
    ):
        yield name, Share(*share)
