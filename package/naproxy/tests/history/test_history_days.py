from datetime import date
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from naproxy.history import days

ZURICH = ZoneInfo("Europe/Zurich")


def lengths_h(first: date, count: int, zone: ZoneInfo) -> list[float]:
    from_s = days.start_s(first, zone)
    found = days.days(from_s, from_s + count * 86400 - 7200, zone)
    return [(end_s - start_s) / 3600 for _, start_s, end_s in found]


def test_a_day_has_23_or_25_hours_when_summer_time_begins_or_ends() -> None:
    assert lengths_h(date(2026, 3, 28), 3, ZURICH) == [24, 23, 24]
    assert lengths_h(date(2026, 10, 24), 3, ZURICH) == [24, 25, 24]


def test_a_day_whose_midnight_is_skipped_begins_when_the_clocks_go_forward() -> None:
    santiago = ZoneInfo("America/Santiago")
    [(_, start_s, end_s)] = days.days(
        days.start_s(date(2025, 9, 7), santiago),
        days.start_s(date(2025, 9, 7), santiago) + 1,
        santiago,
    )
    assert days.day_of(start_s, santiago) == date(2025, 9, 7)
    assert days.day_of(start_s - 1, santiago) == date(2025, 9, 6)
    assert end_s - start_s == 23 * 3600


def test_units_begin_where_the_calendar_says() -> None:
    for unit, first, following in (
        ("day", date(2026, 2, 28), date(2026, 3, 1)),
        ("week", date(2026, 2, 23), date(2026, 3, 2)),
        ("month", date(2026, 2, 1), date(2026, 3, 1)),
        ("year", date(2026, 1, 1), date(2027, 1, 1)),
    ):
        assert days.begin(date(2026, 2, 28), unit) == first, unit
        assert days.step(first, unit, 1) == following, unit
        assert days.step(following, unit, -1) == first, unit
    assert days.step(date(2026, 1, 1), "month", -1) == date(2025, 12, 1)
    assert days.step(date(2025, 12, 1), "month", 1) == date(2026, 1, 1)


def test_another_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="day, week, month, year"):
        days.begin(date(2026, 1, 1), "decade")


def test_the_days_of_a_range_leave_nothing_out() -> None:
    found = list(days.days(1_700_000_000, 1_740_000_000, ZURICH))
    assert all(one[2] == other[1] for one, other in pairwise(found))
    assert found[0][1] <= 1_700_000_000
    assert found[-1][2] >= 1_740_000_000
