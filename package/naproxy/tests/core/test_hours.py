import math
from datetime import UTC, date, datetime, tzinfo
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core import hours
from naproxy.core.hours import Calendar

ZURICH = ZoneInfo("Europe/Zurich")
OFFICE = "mon-fri 07:30-18:00"


def at(text: str, zone: tzinfo = ZURICH) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def calendar(*spans: str, closed: tuple[str, ...] = (), zone: tzinfo = ZURICH) -> Calendar:
    return Calendar([hours.span(s) for s in spans], [hours.dates(d) for d in closed], zone)


def test_office_hours_hold_on_their_days() -> None:
    for moment, within in (
        ("2026-11-20T07:29:59", False),
        ("2026-11-20T07:30:00", True),
        ("2026-11-20T17:59:59", True),
        ("2026-11-20T18:00:00", False),
        ("2026-11-21T12:00:00", False),  # a Saturday
        ("2026-11-23T12:00:00", True),
    ):
        assert bool(calendar(OFFICE).now(at(moment))) is within, moment


def test_hours_over_midnight_belong_to_the_day_they_begin_in() -> None:
    friday_night = calendar("fri 22:00-06:00")
    assert friday_night.now(at("2026-11-21T05:59:00"))
    assert not friday_night.now(at("2026-11-20T05:59:00"))


def test_days_may_go_over_the_end_of_the_week() -> None:
    weekend = calendar("sat-mon 08:00-09:00")
    days = [day for day in range(16, 23) if weekend.now(at(f"2026-11-{day}T08:30:00"))]
    assert days == [16, 21, 22]  # Monday, Saturday, Sunday


def test_days_may_be_listed() -> None:
    assert hours.span("mon,wed-fri 08:00-09:00").days == {0, 2, 3, 4}
    assert hours.dates("2026-12-25") == (date(2026, 12, 25), date(2026, 12, 25))


def test_a_closed_day_has_no_hours_but_those_of_its_date() -> None:
    office = calendar(OFFICE, closed=("2026-12-24..2027-01-01",))
    assert not office.now(at("2026-12-24T12:00:00"))
    assert not office.now(at("2027-01-01T12:00:00"))
    assert office.now(at("2026-12-23T12:00:00"))
    office = calendar(OFFICE, "2026-12-24 09:00-12:00", closed=("2026-12-24",))
    assert office.now(at("2026-12-24T09:30:00"))
    assert not office.now(at("2026-12-24T13:00:00"))


def test_summer_time_moves_the_instants_not_the_hours() -> None:
    office = calendar("mon-sun 07:30-18:00")
    begins = [office.now(at(f"2026-{day}T08:00:00")) for day in ("03-28", "03-29", "03-30")]
    gaps = [b.begin_s - a.begin_s for a, b in pairwise(begins) if a and b]
    assert gaps == [23 * 3600, 24 * 3600]


def test_hours_that_begin_in_the_hour_left_out_are_the_longer_ones() -> None:
    night = calendar("sun 02:30-04:00").now(at("2026-03-29T03:10:00"))
    assert night
    assert night.end_s == at("2026-03-29T04:00:00")
    assert night.begin_s <= at("2026-03-29T03:00:00")


def test_hours_in_the_hour_that_comes_twice_hold_both_times() -> None:
    night = calendar("sun 02:15-02:45")
    first = at("2026-10-25T02:30:00")
    assert night.now(first)
    assert night.now(first + 3600)
    assert night.now(first + 1800)


def test_the_day_of_a_change_is_as_long_as_it_is() -> None:
    whole = calendar("sun 00:00-24:00")
    lengths = []
    for day in ("2026-03-29", "2026-10-25", "2026-11-01"):
        stretch = whole.now(at(f"{day}T12:00:00"))
        assert stretch
        lengths.append((stretch.end_s - stretch.begin_s) / 3600)
    assert lengths == [23, 25, 24]


def test_next_is_the_first_begin_or_end() -> None:
    office = calendar(OFFICE)
    assert office.next_s(at("2026-11-20T12:00:00")) == at("2026-11-20T18:00:00")
    assert office.next_s(at("2026-11-20T18:00:00")) == at("2026-11-23T07:30:00")
    assert calendar().next_s(at("2026-11-20T18:00:00")) is None
    assert office.begins_s(at("2026-11-20T12:00:00")) == at("2026-11-23T07:30:00")


@given(
    st.floats(at("2026-01-01T00:00:00"), at("2027-12-31T00:00:00")),
    st.sampled_from(["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_nothing_changes_before_next(t_s: float, name: str) -> None:
    office = calendar(OFFICE, "fri-sun 22:00-03:00", zone=ZoneInfo(name))
    until_s = office.next_s(t_s)
    assert until_s is not None
    assert until_s > t_s
    for part in (0.25, 0.5, 0.99):
        # The last moment before it, where numbers are too coarse for a part of the time.
        between = office.now(min(t_s + part * (until_s - t_s), math.nextafter(until_s, 0)))
        assert bool(between) is bool(office.now(t_s))


@pytest.mark.parametrize(
    "text",
    [
        *("", "mon", "mon 7:30-18:00", "mon 07:30", "mon 07:30-24:30", "mon 25:00-26:00"),
        *("mo 07:30-18:00", "mon- 07:30-18:00", "mon,,tue 07:30-18:00", "mon 08:00-08:00"),
        *("2026-02-30 08:00-09:00", "2026-13-01 08:00-09:00", "mon 07:30-18:00 ", "x" * 1000),
        *("mon 07:30-18:00\n", "2026-02-01..2026-02-03 08:00-09:00", "mon 24:00-08:00"),
    ],
)
def test_bad_hours_are_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"must look like|is not|is empty|there is no|begins"):
        hours.span(text)


@pytest.mark.parametrize("text", ["", "2026-02-30", "2026-12-25..2026-12-24", "25.12.2026"])
def test_bad_dates_are_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"must look like|there is no|ends"):
        hours.dates(text)


@pytest.mark.parametrize(
    "name", ["No/Such", "../../etc/passwd", "/etc/localtime", "Europe/", "x\0"]
)
def test_an_unknown_time_zone_is_refused_in_words(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        hours.zone(name)


def test_without_a_time_zone_the_machines_counts(tmp_path: Path) -> None:
    there = next(Path(p) / "Europe/Zurich" for p in ("/usr/share/zoneinfo",))
    assert calendar(OFFICE, zone=hours.zone("", there)).now(at("2026-07-01T07:45:00"))
    assert hours.zone("", tmp_path / "none") is UTC
