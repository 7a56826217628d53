"""The history as cells for `savings`: hours, and minutes where hours are not enough.

A whole hour is taken as such when its meter covered all or nothing of it, so that a year is
read in little time. Minutes are taken at the ends of a range, for the newest hours, and where a
meter fell silent while the server was in more than one state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from naproxy.history.read import states, timeline
from naproxy.history.read.queries import energy
from naproxy.history.read.savings import NOTHING, Cell, Measured, cell
from naproxy.history.read.states import HOUR_S, InState, States
from naproxy.history.tables import METER_BITS, number_of, of_meter

MINUTE_S: Final = 60
ALL: Final = 0.995
"""An hour with this share of readings counts as covered: meters miss a reading now and then."""

LEAST_S: Final = 600.0
"""A mean is one from so much measured time on."""

_MOST_STRETCHES: Final = 200
_NEWEST_S: Final = 30 * 86400
_SETTLE_S: Final = 60
"""Left out at both ends of a stretch of a state: the power still moves."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose cells: a server, and the meters of it and of the box, where there are any."""

    server: str
    meter: str | None = None
    box_meter: str | None = None


_Sums = dict[int, Measured]


def cells(
    db: sqlite3.Connection,
    source: Source,
    from_s: int,
    to_s: int,
    changes: Callable[[float, float], bool] | None = None,
) -> Iterator[Cell]:
    """Yield the cells of a range of whole minutes, by their times; all of it is in one.

    It must not reach beyond now: the last state seen would be taken to last. Hours in which
    something `changes`, such as a price, are minutes as far back as minutes are kept.
    """
    first, end = from_s // HOUR_S, -(-to_s // HOUR_S)
    rolled = states.read(db, source.server, first * HOUR_S, end * HOUR_S)
    meters = [_sums(db, "hours", name, first, end) for name in (source.meter, source.box_meter)]
    begun_s, newest_s = timeline.begun_s(db, source.server), _newest_s(db, source.server)
    oldest_s = _oldest_s(db) if changes else 0
    shares = states.box_shares(db, first * HOUR_S, min(end * HOUR_S, to_s))
    for t_s in range(first * HOUR_S, end * HOUR_S, HOUR_S):
        server, box = (sums.get(t_s, NOTHING) for sums in meters)
        known, share = rolled.get(t_s, {}), shares.get(t_s, 1.0)
        made = t_s < newest_s or begun_s is None or t_s + HOUR_S <= begun_s
        whole = made and from_s <= t_s and t_s + HOUR_S <= to_s
        fine = changes is not None and t_s >= oldest_s and changes(t_s, t_s + HOUR_S)
        if whole and not _mixed(server, known) and not fine:
            yield cell(t_s, HOUR_S, known, server, box, box_share=share)
        else:
            from_to_s = max(from_s, t_s), min(to_s, t_s + HOUR_S)
            for minute in _minutes(db, source, *from_to_s, known):
                yield replace(minute, box_share=share)


def _mixed(server: Measured, known: States) -> bool:
    """Is the hour covered in part, while the server was in more than one state?"""
    return 0 < server.covered_s < ALL * HOUR_S and len(known) > 1


def _oldest_s(db: sqlite3.Connection) -> int:
    """Return the time from which on there are minutes of power, where there are any at all."""
    (oldest,) = db.execute("SELECT min(key) FROM minutes").fetchone()
    return 0 if oldest is None else -(-((oldest >> METER_BITS) * MINUTE_S) // HOUR_S) * HOUR_S


def _newest_s(db: sqlite3.Connection, server: str) -> int:
    """Return the time up to which hours of power and of states are final."""
    (newest,) = db.execute("SELECT max(key) FROM hours").fetchone()
    (rolled_s,) = db.execute(
        "SELECT max(t_s) FROM state_hours JOIN servers ON id = server WHERE name = ?", (server,)
    ).fetchone()
    states_s = 0 if rolled_s is None else rolled_s + HOUR_S
    return int(states_s if newest is None else min(states_s, (newest >> METER_BITS) * HOUR_S))


def _sums(db: sqlite3.Connection, tier: str, meter: str | None, first: int, end: int) -> _Sums:
    """Return what a meter measured in each row of a tier, by its time in seconds."""
    if meter is None:
        return {}
    row_s = {"hours": HOUR_S, "minutes": MINUTE_S}[tier]
    return {
        (row >> METER_BITS) * row_s: Measured(energy_mj / 1000, covered_ms / 1000)
        for row, energy_mj, covered_ms in of_meter(
            db, tier, "key, energy_mj, covered_ms", number_of(db, "meters", meter), (first, end)
        )
    }


def _minutes(
    db: sqlite3.Connection, source: Source, from_s: int, to_s: int, known: States
) -> Iterator[Cell]:
    """Yield a cell a minute; of an hour whose transitions are gone, each with its share."""
    seen = states.in_range(db, source.server, from_s, to_s, MINUTE_S)
    shared = {s: InState(k.seconds / 60, 0) for s, k in known.items()} if not seen else {}
    switches = known["asleep"].entered if shared and "asleep" in known else 0
    first, end = from_s // MINUTE_S, -(-to_s // MINUTE_S)
    meters = [_sums(db, "minutes", name, first, end) for name in (source.meter, source.box_meter)]
    for t_s in range(from_s, to_s, MINUTE_S):
        server, box = (sums.get(t_s, NOTHING) for sums in meters)
        made = cell(t_s, MINUTE_S, seen.get(t_s, shared), server, box)
        if switches and t_s % HOUR_S == 0:
            made = replace(made, switches=switches)
        yield made


def mean_w(db: sqlite3.Connection, source: Source, state: str, now_s: float) -> float | None:
    """Return the mean power that was measured in a state, over its newest stretches; or None.

    Beginning and end of each stretch are left out.
    """
    if source.meter is None:
        return None
    found = NOTHING
    looked = 0
    for stretch in reversed(timeline.stretches(db, source.server, now_s - _NEWEST_S, now_s)):
        from_s = -(-int(stretch.t_s + _SETTLE_S) // MINUTE_S) * MINUTE_S
        to_s = int(stretch.end_s - _SETTLE_S) // MINUTE_S * MINUTE_S
        if stretch.state != state or to_s <= from_s:
            continue
        energy_mj, covered_ms = energy(db, source.meter, from_s, to_s)
        found += Measured(energy_mj / 1000, covered_ms / 1000)
        looked += 1
        if looked == _MOST_STRETCHES:
            break
    return found.energy_j / found.covered_s if found.covered_s >= LEAST_S else None
