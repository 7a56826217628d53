"""Opens a history after a crash and says what is missing in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from naproxy.core.reason import stored_reason
from naproxy.history.read import queries
from naproxy.history.write.writer import BATCH_S, LATE_S, SYNC_EVERY

from tests.powercut.writer import METERS, Run, second

KILL_COSTS_S = BATCH_S + LATE_S
POWER_CUT_COSTS_S = SYNC_EVERY * BATCH_S + KILL_COSTS_S


def end_s(data_dir: Path, since_s: int) -> int:
    """Open the file as the controller would, check all from `since_s` on; the end of it.

    The seconds are there without a gap but those between runs, each as it was measured, and
    minutes and hours are what their seconds are together.
    """
    run = Run(data_dir, since_s)
    run.journal.close()
    assert run.said == []
    with closing(queries.open_history(data_dir)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for meter in METERS:
            end_s = _check_meter(db, meter, since_s // 3600 * 3600)
    return end_s


def _check_meter(db: sqlite3.Connection, meter: str, since_s: int) -> int:
    forever = 1 << 40
    found = list(queries.power(db, "seconds", meter, since_s, forever))
    for point in found:
        wanted = second(meter, point.t_s)
        assert (point.span.mean_mw, point.span.energy_mj) == (wanted.mean_mw, wanted.energy_mj)
    for tier in ("minutes", "hours"):
        energy_mj = sum(p.span.energy_mj for p in queries.power(db, tier, meter, since_s, forever))
        assert energy_mj == sum(p.span.energy_mj for p in found)
    return found[-1].t_s + 1 if found else since_s


def transitions(data_dir: Path, since_s: int) -> list[int]:
    """The times of the transitions that are there."""
    with closing(queries.open_history(data_dir)) as db:
        rows = queries.events(db, "transitions", "web", since_s, 1e12)
        return [int(str(stored_reason(row["reason"]))) for row in rows]
