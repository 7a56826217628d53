"""The policies that learn nothing: timeout and schedule."""

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from naproxy import policy
from naproxy.core import schema
from naproxy.core.energy import Power
from naproxy.core.reason import Reason, together
from naproxy.core.state import Klass, State
from naproxy.policy import schedule, timeout
from naproxy.policy.base import Request

SETUP = policy.Setup(Power().break_even_s, 0.01, 1.0, 4.0, 30.0)
MONDAY_S = 1_700_438_400.0  # 20 November 2023, 0:00 UTC
HOUR_S = 3600.0


def request(t_s: float, *, needs: bool = True, klass: Klass = Klass.PERSON) -> Request:
    return Request(t_s, 1, klass, needs, page_load=False)


def test_a_timeout_counts_from_the_last_need_or_wake() -> None:
    made = policy.make(timeout.Settings(idle_s=60), SETUP)
    made.request(request(1000))
    made.request(request(1030, needs=False))
    made.request(request(1040, klass=Klass.CRAWLER))
    decision = made.decide(1050)
    assert (decision.sleep, decision.check_at_s) == (False, 1060)
    assert decision.reason == Reason("policy.idle_of", idle_s=50, least_s=60)
    assert made.decide(1060).sleep
    made.observed(1100, State.AWAKE)
    assert not made.decide(1101).sleep


def test_a_tool_that_polls_sees_it_at_its_next_tick() -> None:
    made = policy.make(timeout.Settings(idle_s=60, tick_s=20), SETUP)
    made.request(request(1005))
    assert made.decide(1066).check_at_s == 1080
    assert made.decide(1080).sleep


def test_robots_count_where_a_tool_does_not_know_them() -> None:
    made = policy.make(timeout.Settings(idle_s=60, robots=True), SETUP)
    made.request(request(1000, klass=Klass.CRAWLER))
    assert not made.decide(1050).sleep


def opened(hour: float, setup: policy.Setup = SETUP, **changes: Any) -> bool:
    made = policy.make(schedule.Settings(**changes), setup)
    made.request(request(MONDAY_S + hour * HOUR_S - 1000))
    return not made.decide(MONDAY_S + hour * HOUR_S).sleep


def test_awake_in_office_hours_of_working_days_of_its_own_time() -> None:
    for hour, expected in ((6.9, False), (7.1, True), (18.9, True), (19.1, False)):
        assert opened(hour) is expected, hour
    assert opened(4 * 24 + 12)
    assert not opened(5 * 24 + 12)
    assert not opened(12, hours=())
    new_york = replace(SETUP, where=ZoneInfo("America/New_York"))
    assert not opened(7.1, new_york)
    assert opened(12.1, new_york)


def test_an_office_that_closes_after_midnight_is_open_until_then() -> None:
    assert opened(24 + 1.9, hours=("mon-fri 20:00-02:00",))
    assert not opened(24 + 2.1, hours=("mon-fri 20:00-02:00",))


def test_it_wakes_a_wake_time_before_the_office_opens_again() -> None:
    for hour, opens_hour in ((3, 7), (4 * 24 + 20, 7 * 24 + 7)):
        made = policy.make(schedule.Settings(), SETUP)
        made.request(request(MONDAY_S))
        decision = made.decide(MONDAY_S + hour * HOUR_S)
        assert (decision.sleep, decision.wake) == (True, False), hour
        assert decision.check_at_s == MONDAY_S + opens_hour * HOUR_S - SETUP.wake_s, hour
        assert made.decide(decision.check_at_s).wake, hour


def test_at_night_it_goes_back_to_sleep_when_idle() -> None:
    made = policy.make(schedule.Settings(idle_s=300), SETUP)
    made.request(request(MONDAY_S + HOUR_S))
    decision = made.decide(MONDAY_S + HOUR_S + 100)
    assert (decision.sleep, decision.check_at_s) == (False, MONDAY_S + HOUR_S + 300)
    assert made.decide(MONDAY_S + HOUR_S + 300).sleep


def test_hours_and_days_that_are_none_are_refused() -> None:
    hours = ("25:00", "07:60", "", "+07:00", "24:30", "07.00")
    for text in (*(f"mon {each}-20:00" for each in hours), "monday 07:00-20:00"):
        wrong = {"hours": [text]}
        problems: list[schema.Problem] = []
        assert schema.load(schedule.Settings, wrong, "policy", problems) is None, wrong
        [problem] = problems
        assert problem.where == "policy.hours[0]", wrong


# Who is over a share


def test_a_timeout_waits_for_who_asked_before_a_spender() -> None:
    made = policy.make(timeout.Settings(idle_s=600), SETUP)
    made.request(request(1000))
    made.request(request(1500))
    assert made.decide(1599).patient
    made.forget(1000)
    assert made.decide(1599).check_at_s == 1600
    assert made.decide(1600).sleep
    made.request(request(1601))
    assert not made.decide(1602).sleep


def test_outside_its_hours_a_schedule_waits_for_no_spender() -> None:
    made = policy.make(schedule.Settings(idle_s=600), SETUP)
    t_s = MONDAY_S + 22 * HOUR_S
    made.request(request(t_s))
    assert made.decide(t_s + 10).patient
    made.forget(t_s - 1e9)
    assert made.decide(t_s + 10).sleep
    opened = made.decide(MONDAY_S + 12 * HOUR_S)
    assert (opened.sleep, opened.patient) == (False, False)


def test_a_reason_told_later_says_how_long_it_has_been_so_by_then() -> None:
    idle = Reason("policy.idle_of", idle_s=0, least_s=30)
    told = together(idle, Reason("policy.budget_today", used=1, allowed=5))
    assert told.aged(12.4).parts()[0] == Reason("policy.idle_of", idle_s=12, least_s=30)
    assert told.aged(12.4).parts()[1] == told.parts()[1]
    assert Reason("policy.awake_of", awake_s=3, least_s=60).aged(2).params["awake_s"] == 5
    assert Reason("a", why=idle).aged(5).params["why"].params["idle_s"] == 5
