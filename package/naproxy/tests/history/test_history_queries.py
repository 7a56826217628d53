import sqlite3
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from history_box import DAY_S, HOUR_S, START_S, Box, event
from naproxy.core.reason import own_words, stored_reason
from naproxy.core.state import State
from naproxy.history.read import queries
from naproxy.history.read.rows import Part, rows
from reading import opened


def chart(box: Box, from_s: float, to_s: float, points: int = 1000) -> queries.Chart:
    with opened(box) as db:
        return queries.chart(db, "web", from_s, to_s, points)


def test_the_tier_is_the_coarsest_that_is_fine_enough(box: Box) -> None:
    box.meter(1)
    for range_s, tier, step_s in (
        (900, "seconds", 1),
        (4 * 3600, "seconds", 15),
        (DAY_S, "minutes", 120),
        (60 * DAY_S, "hours", 7200),
    ):
        found = chart(box, START_S, START_S + range_s)
        assert (found.tier, found.step_s) == (tier, step_s), range_s


def test_there_are_never_more_points_than_asked_for(box: Box) -> None:
    for _ in range(200):
        box.meter(1)
        box.pass_s(499)
    for range_s, points in product((1, 59, 61, 3601, 100_000), (2, 7, 100, 1000)):
        found = chart(box, START_S + 7, START_S + 7 + range_s, points)
        assert len(found.points) <= points, (range_s, points)


def test_the_least_and_the_most_survive_however_coarse_the_chart(box: Box) -> None:
    box.meter(50, 40_000)
    box.meter(1, 90_000)
    box.meter(200, 40_000)
    found = chart(box, START_S, START_S + 251, 3)
    assert max(p.span.max_mw for p in found.points) == 90_400
    assert sum(p.span.energy_mj for p in found.points) == 250 * 40_000 + 90_000


def test_where_nothing_is_known_there_is_no_point_but_a_gap(box: Box) -> None:
    box.meter(10)
    box.pass_s(20)
    box.meter(10)
    found = chart(box, START_S - 5, START_S + 45)
    assert found.gaps == [
        (START_S - 5, START_S),
        (START_S + 10, START_S + 30),
        (START_S + 40, START_S + 45),
    ]
    seconds = [*range(START_S, START_S + 10), *range(START_S + 30, START_S + 40)]
    assert [p.t_s for p in found.points] == seconds


def test_a_short_range_of_long_ago_is_shown_by_minutes(box: Box) -> None:
    box.meter(120)
    box.pass_s(8 * DAY_S)
    box.meter(120)
    for _ in range(60):
        box.history.tick()
    found = chart(box, START_S, START_S + 120)
    assert (found.tier, len(found.points)) == ("minutes", 2)


def test_a_meter_that_never_was_is_one_gap(box: Box) -> None:
    found = chart(box, START_S, START_S + 100)
    assert (found.points, found.gaps) == ([], [(START_S, START_S + 100)])


def test_the_days_of_any_time_zone_add_up(box: Box) -> None:
    for _ in range(200):
        box.meter(5)
        box.pass_s(995)
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata"):
        part = Part(START_S, box.wall_s, "web", zone=ZoneInfo(zone))
        with opened(box) as db:
            days = list(rows(db, "energy", part))
        assert sum(d["energy_j"] for d in days) == pytest.approx(1000 * 43), zone
        assert sum(d["covered_s"] for d in days) == 1000, zone
        assert len({d["day"] for d in days}) == len(days) >= 3, zone


def test_todays_energy_has_what_the_hours_do_not_have_yet(box: Box, db: sqlite3.Connection) -> None:
    box.meter(120)
    box.history.tick()
    assert queries.energy(db, "web", HOUR_S, HOUR_S + 3600)[0] == 120 * 43_000


def test_events_of_a_range_come_oldest_first(box: Box, db: sqlite3.Connection) -> None:
    for number in range(5):
        box.journal.transition("web", State.AWAKE, State.ASLEEP, own_words(str(number)))
        box.pass_s(10)
    found = queries.events(db, "transitions", "web", START_S + 10, START_S + 30)
    assert [stored_reason(row["reason"]) for row in found] == [own_words("1"), own_words("2")]
    assert list(queries.events(db, "transitions", "shop", 0, 1e12)) == []
    with pytest.raises(ValueError, match="saved"):
        next(queries.events(db, "saved", None, 0, 1))


def test_traffic_is_in_words(box: Box, db: sqlite3.Connection) -> None:
    box.history.request("web", event(box))
    box.history.flush()
    [row] = queries.traffic(db, None, 0, 1e12)
    named = {"t_s": HOUR_S, "server": "web", "class": "person", "outcome": "hit"}
    assert row == {**named, "requests": 1, "delayed": 0}


def test_a_reader_cannot_write(db: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM saved")
