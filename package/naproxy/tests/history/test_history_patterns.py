import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, tzinfo
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from history_box import CURL, DAY_S, GOOGLEBOT, Box, asks
from naproxy.core.state import Klass
from naproxy.history.read import patterns, queries
from naproxy.shm.page import Outcome

ZURICH = ZoneInfo("Europe/Zurich")
MONDAY_S = 1_774_828_800  # 30 March 2026, 0:00 UTC; clocks went forward the day before
ZONES = ["UTC", "Europe/Zurich", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    made.pass_s(MONDAY_S - 7 * DAY_S - made.wall_s)
    made.restart()
    yield made
    made.stop()


def opened(box: Box) -> "closing[sqlite3.Connection]":
    box.history.flush()
    return closing(queries.open_history(box.directory))


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize(("from_s", "days"), [(MONDAY_S, 400), (MONDAY_S - 5000, 1), (0, 9000)])
def test_pieces_join_and_have_one_offset_each(name: str, from_s: int, days: int) -> None:
    zone = ZoneInfo(name)
    found = list(patterns.pieces(zone, from_s, from_s + days * DAY_S))
    assert found[0].from_s == from_s
    assert found[-1].to_s == from_s + days * DAY_S
    for before, after in pairwise(found):
        assert before.to_s == after.from_s
        assert before.ahead_s != after.ahead_s
    for piece in found:
        assert patterns._ahead_s(zone, piece.from_s) == piece.ahead_s
        assert patterns._ahead_s(zone, piece.to_s - 1) == piece.ahead_s


def test_an_empty_range_has_no_piece() -> None:
    assert list(patterns.pieces(ZURICH, MONDAY_S, MONDAY_S)) == []


def test_hours_of_the_week_are_those_of_the_office(box: Box) -> None:
    # Monday 10:30 in winter, and a week later in summer: an hour apart in UTC.
    box.pass_s(9.5 * 3600)
    asks(box, CURL, Klass.API)
    box.pass_s(7 * DAY_S - 3600)
    asks(box, CURL, Klass.API)
    with opened(box) as db:
        found = patterns.by_hour_of_week(db, "web", 0, box.wall_s + 1, ZURICH)
    assert list(found) == [Klass.API]
    assert {hour: n for hour, n in enumerate(found[Klass.API]) if n} == {10: 2}


@pytest.mark.parametrize("unit", ["day", "week", "month"])
@pytest.mark.parametrize("name", ZONES)
def test_no_request_is_lost_between_pieces(box: Box, name: str, unit: str) -> None:
    for _ in range(300):
        asks(box)
        box.pass_s(3700)
    with opened(box) as db:
        zone = ZoneInfo(name)
        found = patterns.by_hour_of_week(db, "web", 0, box.wall_s, zone)
        days = list(patterns.by_part(db, "web", (0, box.wall_s), unit, zone))
    assert sum(found[Klass.CRAWLER]) == 300
    assert sum(share.requests for _, shares in days for share in shares) == 300
    assert [day for day, _ in days] == sorted({day for day, _ in days})


@pytest.mark.parametrize("zone", [None, ZURICH])
def test_every_hour_of_the_range_is_an_hour_of_the_week(box: Box, zone: tzinfo | None) -> None:
    asks(box)
    box.pass_s(14 * DAY_S)
    with opened(box) as db:
        times = patterns.hours_of_week(db, 0, box.wall_s, zone)
    # A machine whose zone is half an hour off cuts the first and the last.
    assert sum(times) - 14 * 24 in (0, 1)
    assert set(times) <= {1, 2, 3}


def test_days_have_what_became_of_requests(box: Box) -> None:
    asks(box, outcome=Outcome.HIT)
    asks(box, outcome=Outcome.HIT)
    box.pass_s(DAY_S)
    asks(box, CURL, Klass.API, Outcome.FETCH)
    with opened(box) as db:
        found = list(patterns.by_part(db, "web", (0, box.wall_s + 1), "day", ZURICH))
    assert found == [
        (date(2026, 3, 23), [(Klass.CRAWLER, Outcome.HIT, 2, 0)]),
        (date(2026, 3, 24), [(Klass.API, Outcome.FETCH, 1, 0)]),
    ]


def test_a_part_that_the_range_cuts_has_what_is_in_the_range(box: Box) -> None:
    for _ in range(3):
        asks(box)
        box.pass_s(DAY_S)
    with opened(box) as db:
        cut = (box.wall_s - 2 * DAY_S, box.wall_s)
        [(week, [share])] = patterns.by_part(db, "web", cut, "week", ZURICH)
    assert (week, share.requests) == (date(2026, 3, 23), 2)


def test_agents_of_a_range(box: Box) -> None:
    asks(box)
    box.pass_s(2 * DAY_S)
    asks(box, CURL, Klass.API, Outcome.HIT)
    asks(box, GOOGLEBOT)
    with opened(box) as db:
        found = list(patterns.by_agent(db, "web", box.wall_s - DAY_S, box.wall_s + 1))
    assert found == [
        ("Googlebot", (Klass.CRAWLER, Outcome.REFUSED, 1, 0)),
        ("curl", (Klass.API, Outcome.HIT, 1, 0)),
    ]


def test_a_server_that_never_was_has_nothing(box: Box) -> None:
    asks(box)
    with opened(box) as db:
        assert patterns.by_hour_of_week(db, "shop", 0, box.wall_s, ZURICH) == {}
        assert list(patterns.by_part(db, "shop", (0, box.wall_s), "day", ZURICH)) == []
        assert list(patterns.by_agent(db, "shop", 0, box.wall_s)) == []
