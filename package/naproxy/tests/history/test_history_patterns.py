from collections.abc import Iterator
from datetime import date
from itertools import pairwise, product
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from history_box import CURL, DAY_S, GOOGLEBOT, Box, asks
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.read import patterns
from reading import opened

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


def test_pieces_join_and_have_one_offset_each() -> None:
    ranges = ((MONDAY_S, 400), (MONDAY_S - 5000, 1), (0, 9000))
    for name, (from_s, days) in product(ZONES, ranges):
        zone, to_s = ZoneInfo(name), from_s + days * DAY_S
        found = list(patterns.pieces(zone, from_s, to_s))
        assert (found[0].from_s, found[-1].to_s) == (from_s, to_s), name
        for before, after in pairwise(found):
            assert before.to_s == after.from_s, name
            assert before.ahead_s != after.ahead_s, name
        for piece in found:
            assert patterns._ahead_s(zone, piece.from_s) == piece.ahead_s, name
            assert patterns._ahead_s(zone, piece.to_s - 1) == piece.ahead_s, name
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


def test_no_request_is_lost_between_pieces(box: Box) -> None:
    for _ in range(300):
        asks(box)
        box.pass_s(3700)
    with opened(box) as db:
        for name in ZONES:
            zone = ZoneInfo(name)
            hours = patterns.by_hour_of_week(db, "web", 0, box.wall_s, zone)
            assert sum(hours[Klass.CRAWLER]) == 300, name
            for unit in ("day", "week", "month"):
                parts = list(patterns.by_part(db, "web", (0, box.wall_s), unit, zone))
                requests = sum(share.requests for _, shares in parts for share in shares)
                assert requests == 300, (name, unit)
                begun = [day for day, _ in parts]
                assert begun == sorted(set(begun)), (name, unit)


def test_every_hour_of_the_range_is_an_hour_of_the_week(box: Box) -> None:
    asks(box)
    box.pass_s(14 * DAY_S)
    with opened(box) as db:
        for zone in (None, ZURICH):
            times = patterns.hours_of_week(db, 0, box.wall_s, zone)
            # A machine whose zone is half an hour off cuts the first and the last.
            assert sum(times) - 14 * 24 in (0, 1), zone
            assert set(times) <= {1, 2, 3}, zone


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
