"""The forecast: days to come are like those of their weekday, and too few days say nothing."""

from datetime import date, timedelta

import pytest
from naproxy.core.reason import Reason
from naproxy.history.read.forecast import LEAST_DAYS, Amount, Day, Forecast, forecast

TODAY = date(2026, 11, 20)
"""A Friday; ten days of the month are to come: two Saturdays and two Sundays among them."""


def days(number: int, *, weekday: float = 10.0, weekend: float = 30.0) -> list[Day]:
    found = []
    for back in range(1, number + 1):
        day = TODAY - timedelta(back)
        saved_j = weekend if day.weekday() >= 5 else weekday
        found.append(Day(day, Amount(saved_j, saved_j / 10), 1.0))
    return found


def told(found: Forecast | Reason) -> Forecast:
    assert isinstance(found, Forecast)
    return found


def test_days_to_come_are_like_those_of_their_weekday_and_a_year_is_365_of_them() -> None:
    found = told(forecast(days(28), TODAY, Amount(500.0, 50.0)))
    assert found.month.energy_j == pytest.approx(500 + 6 * 10 + 4 * 30)
    assert found.month.money == pytest.approx(50 + 6 * 1 + 4 * 3)
    assert found.year.energy_j == pytest.approx(365 / 7 * (5 * 10 + 2 * 30))


def test_it_says_on_how_many_days_it_rests() -> None:
    assert told(forecast(days(12), TODAY, Amount())).days == 12
    assert told(forecast(days(200), TODAY, Amount())).days == 28


def test_with_too_few_days_it_says_nothing_but_why() -> None:
    refused = forecast(days(LEAST_DAYS - 1), TODAY, Amount(500.0))
    assert refused == Reason("overview.few_days", days=6, least=7)
    assert isinstance(forecast(days(LEAST_DAYS), TODAY, Amount(500.0)), Forecast)


def test_a_day_of_which_little_is_known_does_not_count() -> None:
    hardly = [Day(each.day, each.saved, 0.4) for each in days(28)]
    assert isinstance(forecast(hardly, TODAY, Amount()), Reason)


def test_a_weekday_that_is_not_known_is_like_the_mean() -> None:
    known = [each for each in days(28) if each.day.weekday() < 5]
    found = told(forecast(known, TODAY, Amount()))
    assert found.month.energy_j == pytest.approx(10 * 10)


def test_without_a_price_there_is_no_money() -> None:
    free = [Day(each.day, Amount(each.saved.energy_j), 1.0) for each in days(28)]
    found = told(forecast(free, TODAY, Amount(1.0)))
    assert (found.month.money, found.year.money) == (None, None)


def test_what_was_lost_is_told_as_a_loss() -> None:
    found = told(forecast(days(28, weekday=-5.0, weekend=-5.0), TODAY, Amount(-100.0)))
    assert found.month.energy_j == pytest.approx(-150)
    assert found.year.energy_j == pytest.approx(-5 * 365)


def test_on_the_last_day_of_the_month_nothing_is_to_come() -> None:
    last = date(2026, 11, 30)
    known = [Day(last - timedelta(n), Amount(10.0), 1.0) for n in range(1, 20)]
    assert told(forecast(known, last, Amount(77.0))).month.energy_j == 77.0
