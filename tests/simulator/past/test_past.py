"""The past is made by the controller's own code, the same every time, and ends when asked."""

import sqlite3
from pathlib import Path

import pytest
from naproxy.core.reason import stored_reason
from naproxy.history.read import queries
from naproxy.lab.estimate.accesslog import Entry

from tests.simulator.demo import generated
from tests.simulator.past import house, log

END_S = 1_795_305_600.0  # a Sunday, 0:00 UTC
DAY_S = 86400.0
DAYS = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("past")
    house.make(directory, DAYS, END_S, list(generated.weeks()))
    return directory


def rows(directory: Path, table: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(directory / "history.db") as db:
        return db.execute(f"SELECT * FROM {table}").fetchall()


def test_every_second_is_measured_from_the_beginning_to_the_end(made: Path) -> None:
    energy_mj, covered_ms = queries.energy(
        queries.open_history(made), house.METER, int(END_S - DAYS * DAY_S), int(END_S)
    )
    assert covered_ms == DAYS * 86_400_000
    assert 1.6 < energy_mj / covered_ms < 43.3


def test_the_server_sleeps_is_woken_by_people_and_nothing_is_later_than_the_end(
    made: Path,
) -> None:
    db = queries.open_history(made)
    states = {row["to"] for row in queries.events(db, "transitions", "web", 0, END_S + 1)}
    assert states >= {"falling_asleep", "asleep", "waking", "awake"}
    wakes = list(queries.events(db, "wakes", "web", 0, END_S + 1))
    assert any(wake["class"] == "person" and wake["outcome"] == "up" for wake in wakes)
    assert list(queries.events(db, "transitions", "web", END_S + 1, 2e9)) == []


def test_a_past_that_begins_at_the_hour_of_the_backup_has_sleep_too(tmp_path: Path) -> None:
    start_s = END_S + 3.1 * 3600
    house.make(tmp_path, 0.1, start_s + 0.1 * DAY_S, list(generated.weeks()))
    assert "asleep" in {row[4] for row in rows(tmp_path, "transitions")}


def test_requests_in_the_history_are_those_of_the_log(made: Path) -> None:
    counted = sum(
        row["requests"] for row in queries.traffic(queries.open_history(made), "web", 0, END_S + 1)
    )
    due = len(list(log.timed(list(generated.weeks()), END_S - DAYS * DAY_S, END_S)))
    pages = sum(
        row["requests"]
        for row in queries.traffic(queries.open_history(made), "web", 0, END_S + 1)
        if row["outcome"] == "waiting_page"
    )
    # Who saw the waiting page comes back, but for those who wait at the very end.
    assert due <= counted <= due + pages


def test_it_was_commissioned_before_it_slept_by_itself(made: Path) -> None:
    db = queries.open_history(made)
    slept = [
        stored_reason(row["reason"]).code
        for row in queries.events(db, "transitions", "web", 0, END_S + 1)
        if row["to"] == "falling_asleep"
    ]
    assert slept[:5] == ["server.commissioned_now"] * 5
    assert slept[5] != "server.commissioned_now"


def test_it_is_the_same_every_time(made: Path, tmp_path: Path) -> None:
    house.make(tmp_path, DAYS, END_S, list(generated.weeks()))
    for table in ("transitions", "wakes", "decisions", "hours", "traffic_hours"):
        assert rows(tmp_path, table) == rows(made, table)


# ------------------------------------------------------------------- the log


def entry(t_s: int) -> Entry:
    return Entry(t_s, "198.18.0.1", "GET", f"/{t_s}", 200, 0, "", "Mozilla/5.0")


def test_requests_come_at_the_hour_of_the_week_at_which_they_came() -> None:
    entries = [entry(t_s) for t_s in range(1_706_313_600, 1_706_313_600 + 3 * log.WEEK_S, 7200)]
    timed = list(log.timed(entries, END_S - 2 * log.WEEK_S, END_S))
    assert len(timed) == 2 * log.WEEK_S // 7200
    assert all((int(t_s) - e.t_s) % log.WEEK_S == 0 for t_s, e in timed)
    assert [t_s for t_s, _ in timed] == sorted(t_s for t_s, _ in timed)


def test_a_log_that_is_too_short_is_begun_again() -> None:
    entries = [entry(t_s) for t_s in range(1_706_313_600, 1_706_313_600 + 2 * 86400, 7200)]
    timed = list(log.timed(entries, END_S - 5 * DAY_S, END_S))
    assert len(timed) == 5 * 12
    assert all((int(t_s) - e.t_s) % 86400 == 0 for t_s, e in timed)
