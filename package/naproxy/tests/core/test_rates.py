"""What energy costs by time: bands over midnight, changes of clocks, prices that changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from naproxy.core.rates import (
    Rate,
    Rates,
    Tariff,
    Worth,
    band,
    by_hour,
    by_tariff,
    flat,
    overlap,
    rates,
    since,
)
from naproxy.core.reason import WrongError

ZURICH = ZoneInfo("Europe/Zurich")
KWH_J = 3.6e6
HOUR_S = 3600


def at(text: str, where: tzinfo = ZURICH) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=where).timestamp()


def day_and_night() -> Rate:
    night = band("mon-sun 22:00-06:00 0.24")
    return by_tariff(None, [Tariff(date(2026, 1, 1), 0.32, (night,))], ZURICH)


# Reading


def test_a_band_is_days_hours_and_a_price() -> None:
    read = band("mon-fri 22:00-06:30 0.24")
    assert (read.price, read.parts()[0]) == (0.24, (22 * 60, 24 * 60 + 6 * 60 + 30))
    over_the_week = [(6 * 1440 + 1320, 7 * 1440), (0, 360)]
    assert band("sun 22:00-06:00 1").parts() == over_the_week


NO_BAND = (
    *("", "0.24", "mon-sun 22:00-06:00", "mon-sun 22:00-06:00 -0.24"),
    *("mon-sun 22:00-06:00 nan", "mon-sun 22:00-06:00 inf", "mon-sun 22:00-06:00 1e3"),
    *("mon-sun 22:00-06:00 0,24", "mon-sun 25:00-06:00 0.24", "mon-sun 22-06 0.24"),
    *("2026-12-24 22:00-06:00 0.24", "mon-sun 22:00-06:00 0.24 EUR", "mon-sun 22:00-06:00 ٣"),
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "config.band") for text in NO_BAND),
        ("mon-sun 22:00-06:00 100000.1", "config.value_between"),
        ("mon-sun 22:00-06:00 999999999999", "config.value_between"),
        ("someday 22:00-06:00 0.24", "config.day"),
        ("mon-sun 06:00-06:00 0.24", "config.no_length"),
    ],
)
def test_what_is_no_band_is_refused_with_what_is_wrong(text: str, code: str) -> None:
    with pytest.raises(WrongError) as error:
        band(text)
    assert error.value.reason.code == code


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-1-1", "2026-02-30", "1999-12-31", "9999-12-31", "2026-01-01T00"]
)
def test_a_tariff_begins_on_a_day_that_there_is(text: str) -> None:
    with pytest.raises(WrongError):
        since(text)


def test_overlapping_bands_are_found_over_the_end_of_the_week_too() -> None:
    for texts, found in (
        (["mon-sun 22:00-06:00 1", "mon-sun 06:00-22:00 2"], None),
        (["mon-sun 22:00-06:00 1", "mon-sun 05:59-07:00 2"], (0, 1)),
        (["sun 23:00-02:00 1", "mon 01:00-02:00 2"], (0, 1)),
        (["sun 23:00-02:00 1", "mon 02:00-03:00 2", "sat 00:00-24:00 3"], None),
        (["mon-fri 22:00-06:00 1", "sat,sun 00:00-24:00 1"], None),
        (["mon-fri 00:00-24:00 1", "sat 00:00-24:00 2", "fri 23:00-01:00 3"], (0, 2)),
        (["mon-sun 00:00-24:00 1", "tue 10:00-11:00 2", "wed 12:00-13:00 3"], (0, 1)),
    ):
        assert overlap([band(text) for text in texts]) == found, texts


# By the clock


def test_a_band_of_weekdays_ends_on_saturday_morning() -> None:
    price = by_tariff(0.3, [Tariff(date(2026, 1, 1), 0.3, (band("mon-fri 22:00-06:00 0.2"),))], UTC)
    assert price.at(at("2026-03-07T05:00", UTC)) == 0.2  # Friday's night
    assert price.at(at("2026-03-08T05:00", UTC)) == 0.3  # Saturday's
    assert price.at(at("2026-03-09T05:00", UTC)) == 0.3  # Sunday's


def test_a_mean_weights_each_price_by_its_time() -> None:
    dear = band("mon-sun 06:30-22:00 0.5")
    price = by_tariff(None, [Tariff(date(2026, 1, 1), 0.3, (dear,))], UTC)
    from_s = at("2026-03-03T06:00", UTC)
    assert price.mean(from_s, from_s + HOUR_S) == pytest.approx(0.4)
    assert price.mean(from_s, from_s + 1800) == 0.3
    day_s = at("2026-03-03T00:00", UTC)
    assert price.mean(day_s, day_s + 86400) == pytest.approx((8.5 * 0.3 + 15.5 * 0.5) / 24)


def test_a_change_within_a_stretch_is_seen_and_one_at_its_ends_is_none() -> None:
    price = day_and_night()
    night_s = at("2026-03-03T22:00")
    assert not price.changes(night_s - HOUR_S, night_s)
    assert not price.changes(night_s, night_s + 8 * HOUR_S)
    assert price.changes(night_s - 1, night_s + 1)
    assert price.changes(night_s, night_s + 9 * HOUR_S)


def test_every_second_of_a_strange_day_has_the_price_that_its_clock_says() -> None:
    for name, day in (
        ("Europe/Zurich", "2026-03-29"),  # 2 to 3 is left out
        ("Europe/Zurich", "2026-10-25"),  # 2 to 3 twice
        ("Asia/Kathmandu", "2026-03-03"),  # 5:45 ahead of UTC
        ("Australia/Lord_Howe", "2026-04-05"),  # clocks go back by half an hour
        ("America/Havana", "2026-03-08"),  # midnight is left out
        ("America/Havana", "2026-11-01"),  # 0 to 1 twice
        ("America/Santiago", "2026-04-04"),  # 23 to 24 twice
        ("Pacific/Apia", "2011-12-30"),  # this day was left out
    ):
        where = ZoneInfo(name)
        cheap = band("mon-sun 22:30-02:30 0.1")
        price = by_tariff(None, [Tariff(date(2000, 1, 1), 0.3, (cheap,))], where)
        begin_s = int(at(f"{day}T12:00", UTC)) - 2 * 86400
        seen = 0.0
        for t_s in range(begin_s, begin_s + 4 * 86400, 300):
            clock = datetime.fromtimestamp(t_s, where)
            minute = clock.hour * 60 + clock.minute
            expected = 0.1 if minute >= 22 * 60 + 30 or minute < 150 else 0.3
            assert price.at(t_s) == expected, clock
            seen += 300 * expected
        total, known_s = price.over(begin_s, begin_s + 4 * 86400)
        assert known_s == 4 * 86400, name
        assert total == pytest.approx(seen), name


# History


def test_a_new_price_changes_nothing_that_was_before_its_day() -> None:
    old = by_tariff(0.3, [], ZURICH)
    new = by_tariff(0.3, [Tariff(date(2026, 3, 1), 0.5)], ZURICH)
    change_s = at("2026-03-01T00:00")
    before = change_s - 30 * 86400, change_s
    assert new.mean(*before) == old.mean(*before) == 0.3
    assert new.mean(change_s, change_s + 86400) == pytest.approx(0.5)
    assert new.at(change_s - 1) == 0.3


def test_time_without_a_price_counts_nothing_and_is_told() -> None:
    price = by_tariff(None, [Tariff(date(2026, 3, 1), 0.5)], UTC)
    begin_s = at("2026-03-01T00:00", UTC)
    assert price.mean(begin_s - 86400, begin_s) is None
    assert price.mean(begin_s - 86400, begin_s + 86400) == 0.5
    assert price.known_since(begin_s - 86400, begin_s + 86400) == begin_s
    assert price.known_since(begin_s + 100, begin_s + 200) == begin_s + 100
    assert price.known_since(begin_s - 200, begin_s - 100) is None
    half = Rates(price, flat(None, UTC)).per_kwh(begin_s - 3600, begin_s + 3600)
    assert half.of(2 * KWH_J) == Worth(pytest.approx(0.5), None)


# Money and CO2


def test_energy_is_worth_the_price_of_its_time() -> None:
    known = Rates(day_and_night(), flat(400, ZURICH))
    noon_s, night_s = at("2026-03-03T12:00"), at("2026-03-03T23:00")
    by_day = known.per_kwh(noon_s, noon_s + HOUR_S).of(KWH_J)
    found = by_day + known.per_kwh(night_s, night_s + HOUR_S).of(2 * KWH_J)
    assert found.money == pytest.approx(0.32 + 2 * 0.24)
    assert found.co2_g == pytest.approx(3 * 400)


def test_co2_goes_by_the_hour_that_the_clock_shows() -> None:
    table = by_hour([100.0 + hour for hour in range(24)], ZURICH)
    assert table.at(at("2026-07-01T13:30")) == 113
    assert table.at(at("2026-01-01T13:30")) == 113
    total, _ = table.over(at("2026-10-25T02:00"), at("2026-10-25T03:00"))
    assert total == pytest.approx(7200 * 102)


def test_worths_add_up_and_what_is_not_known_stays_so() -> None:
    assert Worth(1.0, None) + Worth(2.0, None) == Worth(3.0, None)
    assert Worth(None, 5.0) + Worth(2.0, None) == Worth(2.0, 5.0)
    assert Worth(3.0, 4.0) - Worth(1.0, None) == Worth(2.0, 4.0)
    lost = Rates(flat(0.3, UTC), flat(None, UTC)).per_kwh(0, 60).of(-KWH_J)
    assert lost == Worth(pytest.approx(-0.3), None)


def configuration(**office: Any) -> dict[str, Any]:
    known = {"price_per_kwh": 0.0, "co2_g_per_kwh": 0.0, "co2_by_hour": []}
    return {"office": {**known, **office}, "tariff": []}


def test_a_box_without_prices_knows_none() -> None:
    assert rates(configuration(), UTC).per_kwh(0, 60).of(KWH_J) == Worth(None, None)
    assert rates({}, UTC).per_kwh(0, 60).of(KWH_J) == Worth(None, None)


def test_a_single_price_holds_until_the_first_tariff() -> None:
    said = configuration(price_per_kwh=0.3, co2_by_hour=[380.0] * 24)
    said["tariff"] = [
        {"since": "2026-03-01", "price_per_kwh": 0.4, "bands": ["sat,sun 00:00-24:00 0.1"]}
    ]
    known = rates(said, UTC)
    assert known.price.at(at("2020-02-02T00:00", UTC)) == 0.3
    assert known.price.at(at("2026-03-02T12:00", UTC)) == 0.4
    assert known.price.at(at("2026-03-07T12:00", UTC)) == 0.1
    assert known.co2.mean(0, 10) == 380


# What an API said of each hour


def recorded(*hours: tuple[str, float], where: tzinfo = ZURICH) -> dict[int, float]:
    return {int(at(text, where)): co2_g for text, co2_g in hours}


def test_a_recorded_hour_comes_before_what_the_office_knows() -> None:
    known = recorded(("2026-03-02T08:00", 100.0))
    co2 = rates({"office": {"co2_g_per_kwh": 400.0}}, ZURICH, known).co2
    times = ("07:59:59", "08:00", "08:59:59", "09:00")
    assert [co2.at(at(f"2026-03-02T{time}")) for time in times] == [400.0, 100.0, 100.0, 400.0]
    assert co2.mean(at("2026-03-02T08:00"), at("2026-03-02T10:00")) == pytest.approx(250.0)
    by_clock = {"office": {"co2_by_hour": [float(hour) for hour in range(24)]}}
    co2 = rates(by_clock, ZURICH, known).co2
    assert [co2.at(at(f"2026-03-02T{hour:02}:30")) for hour in (7, 8, 9)] == [7.0, 100.0, 9.0]


def test_where_nothing_was_recorded_and_nothing_else_is_known_nothing_counts() -> None:
    co2 = rates({}, ZURICH, recorded(("2026-03-02T08:00", 100.0))).co2
    assert co2.at(at("2026-03-02T09:30")) is None
    assert co2.cost(at("2026-03-02T08:00"), at("2026-03-02T10:00"), 2 * KWH_J) == 100.0
    assert co2.known_since(at("2026-03-02T00:00"), at("2026-03-03T00:00")) == at("2026-03-02T08:00")
    assert co2.mean(at("2026-03-01T00:00"), at("2026-03-04T00:00")) == 100.0
    assert co2.mean(at("2026-03-03T00:00"), at("2027-03-03T00:00")) is None


def test_an_hour_of_utc_counts_where_clocks_are_half_an_hour_off() -> None:
    india = ZoneInfo("Asia/Kolkata")
    begin_s = int(at("2026-03-02T00:00", india))
    known = {begin_s - 1800: 100.0}
    co2 = rates({"office": {"co2_g_per_kwh": 400.0}}, india, known).co2
    around = [co2.at(begin_s + s) for s in (-1801, -1800, -1, 0, 1799, 1800)]
    assert around == [400.0, 100.0, 100.0, 100.0, 100.0, 400.0]


def test_an_hour_as_a_whole_never_changes_within() -> None:
    """So a page reads it as one, and by the minute only where a price changes."""
    begin_s = int(at("2026-03-02T00:00"))
    known = {begin_s + HOUR_S * n: float(n) for n in range(24)}
    found = rates({}, ZURICH, known)
    assert not any(found.changes(t_s, t_s + HOUR_S) for t_s in known)
    assert found.changes(begin_s, begin_s + 2 * HOUR_S)
