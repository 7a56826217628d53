import json
from itertools import pairwise

import pytest
from naproxy.server.windows import HOUR_S, Usual, retry_at_s

MONDAY = 4 * 86400.0  # 5 January 1970, in UTC
WEEK_S = 7 * 86400.0
NINE = MONDAY + 9 * HOUR_S


def weeks(number: int, *, awake: range, on: range = range(7)) -> Usual:
    """See a server in so many weeks that is awake in these hours of these days."""
    usual = Usual()
    for step in range(round(number * WEEK_S / 30)):
        t_s = MONDAY + 30 * step
        day, hour = divmod(int((t_s - MONDAY) // HOUR_S), 24)
        usual.seen(t_s, awake=hour in awake and day % 7 in on)
    return usual


@pytest.fixture(scope="module")
def mornings() -> Usual:
    return weeks(3, awake=range(9, 12), on=range(5))


def test_a_robot_comes_when_the_office_has_opened() -> None:
    assert retry_at_s(NINE - 7200, NINE, None) == NINE + 60


def test_a_robot_comes_in_the_middle_of_an_hour_in_which_the_server_is_usually_awake() -> None:
    assert retry_at_s(NINE - 7200, None, NINE) == NINE + 1800


def test_the_sooner_of_both_counts() -> None:
    assert retry_at_s(NINE - 7200, NINE + 3600, NINE) == NINE + 1800


def test_nobody_is_sent_away_for_longer_than_a_day() -> None:
    assert retry_at_s(NINE - 86400, NINE, NINE) is None


def test_without_a_window_nothing_is_said() -> None:
    assert retry_at_s(NINE, None, None) is None


def test_hours_in_which_the_server_was_awake_are_usual(mornings: Usual) -> None:
    wednesday = MONDAY + 3 * WEEK_S + 2 * 86400
    assert mornings.next_s(wednesday) == wednesday + 9 * HOUR_S


def test_an_hour_that_is_half_over_is_no_window(mornings: Usual) -> None:
    monday = MONDAY + 3 * WEEK_S
    assert mornings.next_s(monday + 9.6 * HOUR_S) == monday + 10 * HOUR_S


def test_the_next_window_after_friday_is_on_monday(mornings: Usual) -> None:
    friday = MONDAY + 3 * WEEK_S + 4 * 86400
    assert mornings.next_s(friday + 12 * HOUR_S) == friday + 3 * 86400 + 9 * HOUR_S


def test_one_week_is_not_enough() -> None:
    assert weeks(1, awake=range(9, 12)).next_s(MONDAY + WEEK_S) is None


def test_a_server_that_sleeps_in_the_morning_now_does_so_usually_after_two_weeks() -> None:
    usual = weeks(3, awake=range(9, 12))
    after = [MONDAY + 3 * WEEK_S + 30 * step for step in range(round(2 * WEEK_S / 30))]
    for t_s in after:
        usual.seen(t_s, awake=False)
    assert usual.next_s(after[-1]) is None


def test_time_that_nobody_saw_is_not_counted() -> None:
    usual = Usual()
    times = [MONDAY + 600 * step for step in range(round(3 * WEEK_S / 600))]
    assert all(late - early > 60 for early, late in pairwise(times))
    for t_s in times:
        usual.seen(t_s, awake=True)
    assert usual.next_s(times[-1]) is None


def test_what_was_learned_survives_a_restart(mornings: Usual) -> None:
    again = Usual()
    again.load(json.loads(json.dumps(mornings.dump())))
    assert again.next_s(MONDAY) == MONDAY + 9 * HOUR_S


@pytest.mark.parametrize("bad", [None, [1.0] * 167, [-1.0] * 168, ["1"] * 168, [1e9] * 168])
def test_what_makes_no_sense_is_not_taken_up(mornings: Usual, bad: object) -> None:
    usual = Usual()
    usual.load({**mornings.dump(), "seen_s": bad})
    assert usual.next_s(MONDAY) is None
