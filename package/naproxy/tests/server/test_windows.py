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


def test_a_robot_comes_when_the_office_has_opened_or_in_the_middle_of_a_usual_hour() -> None:
    for now_s, opens_s, usual_s, at_s in (
        (NINE - 7200, NINE, None, NINE + 60),
        (NINE - 7200, None, NINE, NINE + 1800),
        (NINE - 7200, NINE + 3600, NINE, NINE + 1800),  # the sooner of both
        (NINE - 86400, NINE, NINE, None),  # nobody is sent away for longer than a day
        (NINE, None, None, None),
    ):
        assert retry_at_s(now_s, opens_s, usual_s) == at_s, (now_s, opens_s, usual_s)


def test_the_next_window_is_a_usual_hour_that_is_not_half_over(mornings: Usual) -> None:
    monday = MONDAY + 3 * WEEK_S
    for day, hour, next_day, next_hour in ((2, 0, 2, 9), (0, 9.6, 0, 10), (4, 12, 7, 9)):
        found = mornings.next_s(monday + day * 86400 + hour * HOUR_S)
        assert found == monday + next_day * 86400 + next_hour * HOUR_S, (day, hour)


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


def test_learned_hours_survive_a_restart(mornings: Usual) -> None:
    again = Usual()
    again.load(json.loads(json.dumps(mornings.dump())))
    assert again.next_s(MONDAY) == MONDAY + 9 * HOUR_S


def test_invalid_kept_values_are_ignored(mornings: Usual) -> None:
    for bad in (None, [1.0] * 167, [-1.0] * 168, ["1"] * 168, [1e9] * 168):
        usual = Usual()
        usual.load({**mornings.dump(), "seen_s": bad})
        assert usual.next_s(MONDAY) is None, bad
