"""The hours of carbon dioxide that an API said: written, kept, read."""

from __future__ import annotations

import sqlite3

import pytest
from history_box import HOUR_S, Box
from naproxy.history.read import carbon
from naproxy.history.write.carbon import MOST_WAITING, Carbon


def test_an_hour_has_the_mean_of_its_readings_also_over_a_restart(
    box: Box, db: sqlite3.Connection
) -> None:
    for co2_g in (100.0, 200.0):
        box.history.carbon(co2_g)
        box.history.tick()
    box.restart()
    box.history.carbon(600.0)
    box.history.flush()
    assert carbon.hours(db, 0) == {HOUR_S: pytest.approx(300.0)}
    assert carbon.newest(db, box.wall_s) == (HOUR_S, 3)


def test_each_hour_of_utc_has_its_own(box: Box, db: sqlite3.Connection) -> None:
    box.history.carbon(100.0)
    box.pass_s(3600)
    box.history.carbon(200.0)
    box.history.flush()
    assert carbon.hours(db, 0) == {HOUR_S: 100.0, HOUR_S + 3600: 200.0}
    assert carbon.hours(db, HOUR_S + 3600) == {HOUR_S + 3600: 200.0}


def test_an_hour_of_a_clock_that_was_ahead_hides_none_that_come(
    box: Box, db: sqlite3.Connection
) -> None:
    box.history.carbon(100.0)
    box.history.flush()
    ahead_s = HOUR_S + 90 * 3600
    box.journal.store.execute("INSERT INTO co2_hours VALUES (?, 1, 500)", ahead_s)
    assert carbon.newest(db, box.wall_s) == (HOUR_S, 1)
    box.pass_s(3600)
    box.history.carbon(200.0)
    box.history.flush()
    assert carbon.newest(db, box.wall_s) == (HOUR_S + 3600, 1)


def test_while_the_clock_is_a_guess_nothing_is_recorded(box: Box, db: sqlite3.Connection) -> None:
    box.synchronised = False
    box.reboot(box.wall_s + 60)
    box.history.carbon(100.0)
    box.history.flush()
    assert carbon.newest(db, box.wall_s) is None


def test_what_waits_for_a_disk_does_not_grow_for_ever() -> None:
    gathered = Carbon()
    for hour in range(MOST_WAITING + 5):
        gathered.add(3600.0 * hour, 100.0)
    assert len(gathered._waiting) == MOST_WAITING


def test_a_history_of_before_gets_the_table(box: Box, db: sqlite3.Connection) -> None:
    box.journal.store.execute("DROP TABLE co2_hours")
    box.restart()
    box.history.carbon(100.0)
    box.history.flush()
    assert carbon.hours(db, 0) == {HOUR_S: 100.0}
