import math
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from naproxy.core.hours import Event
from naproxy.core.reason import Reason
from naproxy.server.inhibitors import Agenda, Guard, Readings, Settings

ZONE = "Europe/Zurich"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE)).timestamp()


NOON = at("2026-11-20T12:00:00")  # a Friday
NIGHT = at("2026-11-20T23:00:00")


def guard(**settings: Any) -> Guard:
    return Guard(Settings(**settings), ZoneInfo(ZONE))


@pytest.fixture
def office() -> Guard:
    return guard(hours=("mon-fri 07:30-18:00",))


def test_a_clock_that_is_not_set_keeps_only_a_server_with_hours_awake(office: Guard) -> None:
    assert office.inhibitors(Readings(0.0)) == [Reason("server.clock_not_set")]
    for wall_s in (0.0, NOON):
        assert guard().inhibitors(Readings(wall_s)) == [], wall_s


def test_office_hours_and_the_time_just_before_are_an_inhibitor_that_says_until_when(
    office: Guard,
) -> None:
    midnight = guard(hours=("fri 22:00-06:00",))
    for made, readings, until in (
        (office, Readings(NOON), "2026-11-20T18:00"),
        (office, Readings(at("2026-11-20T07:29:57"), lead_s=5), "2026-11-20T18:00"),
        (midnight, Readings(NIGHT), "2026-11-21T06:00"),
    ):
        until_at_s = at(until)
        expected = [Reason("server.office_hours", until_at_s=until_at_s)]
        assert made.inhibitors(readings) == expected, readings
    assert office.inhibitors(Readings(NIGHT)) == []


def test_requests_and_open_connections_are_inhibitors() -> None:
    said = guard().inhibitors(Readings(NOON, fetching=2, piping=1))
    assert said == [
        Reason("server.fetching", number=2),
        Reason("server.connections", number=1),
    ]


def test_work_is_an_inhibitor_for_a_while_after_it_ended_unless_no_path_is_configured() -> None:
    backup = guard(work_paths=("/backup",), work_s=300.0)
    assert backup.inhibitors(Readings(NOON, worked_s=10.0)) == [
        Reason("server.work", paths=["/backup"], ago_s=10, left_s=290)
    ]
    for worked_s in (300.0, math.inf):
        assert backup.inhibitors(Readings(NOON, worked_s=worked_s)) == [], worked_s
    assert guard().inhibitors(Readings(NOON, worked_s=1.0)) == []


def test_a_person_overrides_hours_but_not_work() -> None:
    strict = guard(hours=("mon-fri 07:30-18:00",), work_paths=("/backup",))
    seen = Readings(NOON, awake_s=1.0, worked_s=1.0, fetching=1, piping=1)
    said = strict.inhibitors(seen, by_hand=True)
    assert [inhibitor.code for inhibitor in said] == ["server.connections", "server.work"]


def test_it_is_woken_a_wake_time_before_its_hours_unless_put_to_sleep_within_them(
    office: Guard,
) -> None:
    due = Reason("server.office_hours", until_at_s=at("2026-11-20T18:00"))
    for now, slept, expected in (
        ("2026-11-20T07:29:54", "2026-11-19T20:00:00", None),
        ("2026-11-20T07:29:55", "2026-11-19T20:00:00", due),
        ("2026-11-20T12:00:00", "2026-11-20T11:00:00", None),
    ):
        assert office.wake_due(at(now), at(slept), 5.0) == expected, now
    # A clock that is not set wakes no server.
    assert guard(hours=("mon-sun 00:00-24:00",)).wake_due(1000.0, 0.0, 5.0) is None


def test_quiet_hours_say_until_when() -> None:
    night = guard(quiet=("mon-sun 22:00-06:00",))
    assert night.quiet(NIGHT) == Reason("server.quiet_hours", until_at_s=at("2026-11-21T06:00"))
    assert night.quiet(NOON) is None
    assert night.inhibitors(Readings(NIGHT)) == []


def test_the_next_change_is_the_wake_before_the_hours(office: Guard) -> None:
    assert office.change_s(at("2026-11-20T07:00:00"), 5.0) == 30 * 60 - 5
    assert office.change_s(at("2026-11-20T07:29:58"), 5.0) == 2.0
    assert office.change_s(NOON, 5.0) == pytest.approx(6 * 3600 - 5)
    assert guard().change_s(NOON, 5.0) == math.inf


# A calendar that others keep

MEETING = Event(at("2026-11-20T19:00:00"), at("2026-11-20T20:30:00"), "Choir")


def with_calendar(agenda: Agenda, **settings: Any) -> Guard:
    made = guard(calendar="https://calendar.example/office.ics", **settings)
    made.agenda = agenda
    return made


@pytest.fixture
def choir() -> Guard:
    return with_calendar(Agenda((MEETING,), NOON, NOON, NOON + 9 * 86400))


def test_an_event_counts_like_hours(choir: Guard) -> None:
    said = [Reason("server.calendar_event", name="Choir", until_at_s=at("2026-11-20T20:30"))]
    before, begin, end = (at(f"2026-11-20T{clock}") for clock in ("18:50", "19:00", "20:30"))
    assert choir.inhibitors(Readings(NOON)) == []
    assert choir.inhibitors(Readings(begin - 4, lead_s=5)) == said
    assert choir.inhibitors(Readings(end - 1)) == said
    assert choir.inhibitors(Readings(end)) == []
    assert choir.inhibitors(Readings(begin), by_hand=True) == []
    assert choir.wake_due(begin - 6, before, 5) is None
    assert choir.wake_due(begin - 5, before, 5) == said[0]
    assert choir.wake_due(begin + 60, begin + 30, 5) is None
    assert choir.hours_begin_s(NOON) == begin
    assert choir.change_s(begin - 65, 5) == 60
    assert choir.change_s(begin, 5) == end - begin


def test_events_hold_on_closed_days_and_beside_hours() -> None:
    agenda = Agenda((MEETING,), NOON, NOON, NOON + 86400)
    both = with_calendar(agenda, hours=("fri 08:00-22:00",), closed=("2026-11-20",))
    codes = [each.code for each in both.inhibitors(Readings(MEETING.begin_s))]
    assert codes == ["server.calendar_event"]


def test_a_calendar_that_nobody_could_read_keeps_it_awake_for_a_day_and_no_longer() -> None:
    first = with_calendar(Agenda())
    assert first.inhibitors(Readings(NOON)) == [Reason("server.calendar_unread", left_s=86400)]
    failed = with_calendar(Agenda().failed(Reason("server.calendar_other"), NOON))
    said = failed.inhibitors(Readings(NOON + 86000))
    assert said == [Reason("server.calendar_unread", left_s=400)]
    assert failed.inhibitors(Readings(NOON + 86400)) == []
    assert first.inhibitors(Readings(0.0)) == [Reason("server.clock_not_set")]
