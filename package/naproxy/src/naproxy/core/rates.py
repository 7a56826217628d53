"""Price and emissions of a kilowatt-hour, by the office's clock: pure functions of time.

A *rate* is constant between its steps. A *tariff* is a price with bands of the week in which
another price holds, from a day on. CO2 is an hour's recorded value, else one value, or one for each
hour of the day. Every sum of money or CO2 in Naproxy is made here: energy by time, each part by the
rate of that time. So a new price changes sums from its day on, and none before.

Where clocks change, an hour that they show twice has its rate twice, and one that they leave out
costs nothing. Standing charges are left out, because a sleeping server pays them as well.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from itertools import combinations
from typing import Any, Final

from naproxy.core.hours import Span, ahead_s, span
from naproxy.core.reason import WrongError

J_PER_KWH: Final = 3.6e6
MOST_PRICE: Final = 100_000.0
"""Of a kilowatt-hour, in any currency."""
MOST_CO2: Final = 5000.0
"""Grams a kilowatt-hour; coal is at about a thousand."""
WEEK_MIN: Final = 7 * 1440
_DAY_MIN: Final = 1440
_HOUR_S: Final = 3600
_SCAN_S: Final = 900
"""Clocks change at quarters of an hour."""
_PRICE: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_SINCE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST: Final = date(2000, 1, 1)
_LAST: Final = date(2200, 1, 1)
_MOST_DAYS: Final = 4000
"""So many days are kept, about as many as a page shows."""

Steps = Sequence[tuple[int, float | None]]
"""Minutes since midnight by the clock, and the value from then on; the first is 0."""


@dataclass(frozen=True, slots=True)
class Band:
    """Times of the week in which a price of its own holds."""

    span: Span
    price: float

    def parts(self) -> list[tuple[int, int]]:
        """Return begin and end of each time, in minutes since Monday 00:00."""
        found = []
        for day in self.span.days:
            begin, end = (day * _DAY_MIN + m for m in (self.span.begin_min, self.span.end_min))
            found += [(begin, min(end, WEEK_MIN))]
            if end > WEEK_MIN:  # Sunday night goes on in the week's first hours
                found += [(0, end - WEEK_MIN)]
        return found


def band(text: str) -> Band:
    """Read `mon-fri 22:00-06:00 0.24`: days and hours, and the price of a kWh; WrongError."""
    times, _, price = text.strip().rpartition(" ")
    if not times or not _PRICE.fullmatch(price):
        raise WrongError("config.band")
    try:
        read = span(times.strip())
    except WrongError as error:
        if error.reason.code == "config.hours":
            raise WrongError("config.band") from None
        raise
    if read.day is not None:
        raise WrongError("config.band")
    if not 0 <= float(price) <= MOST_PRICE:
        raise WrongError("config.value_between", low=0, high=int(MOST_PRICE))
    return Band(read, float(price))


def since(text: str) -> date:
    """Read the day from which a tariff holds; WrongError."""
    if not _SINCE.fullmatch(text):
        raise WrongError("config.since")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise WrongError("config.no_day", name=text) from None
    if not _FIRST <= day <= _LAST:
        raise WrongError("config.since")
    return day


def overlap(bands: Sequence[Band]) -> tuple[int, int] | None:
    """Return the numbers, from 0, of two bands with different prices at the same time, or None."""
    parts = [(n, each.price, *part) for n, each in enumerate(bands) for part in each.parts()]
    for (one, price, begin, end), (other, another, from_, until) in combinations(parts, 2):
        if price != another and begin < until and from_ < end:
            return one, other
    return None


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of a kilowatt-hour from `since` on: `price`, and other prices in `bands`."""

    since: date
    price: float
    bands: tuple[Band, ...] = ()

    def week(self) -> Steps:
        """Return its prices through the week: minutes since Monday 00:00, and the price."""
        edges = {0}
        parts = [(*part, each.price) for each in self.bands for part in each.parts()]
        for begin, end, _ in parts:
            edges |= {begin, end % WEEK_MIN}
        return [
            (at, next((price for begin, end, price in parts if begin <= at < end), self.price))
            for at in sorted(edges)
        ]


class Rate:
    """A value a kilowatt-hour that changes by a clock; None where it is not known.

    `of_day` says the steps of a day, `where` is the zone whose clocks count.
    """

    def __init__(self, of_day: Callable[[date], Steps], where: tzinfo) -> None:
        """Days are worked out when they are asked for."""
        self._of_day = of_day
        self._where = where
        self._days: dict[date, tuple[list[float], list[float | None], float]] = {}
        self._last = (0.0, 0.0, date.min)
        """When the day that was asked for last begins and ends: most ask for the same again."""

    def at(self, t_s: float) -> float | None:
        """Return the value at a time."""
        begins, values, _ = self._day(self._date(t_s))
        return values[max(0, bisect_right(begins, t_s) - 1)]

    def over(self, from_s: float, to_s: float) -> tuple[float, float]:
        """Return the integral of the value over a stretch of time, and its seconds with a value."""
        total = known_s = 0.0
        day, t_s = self._date(from_s), from_s
        while t_s < to_s:
            begins, values, end_s = self._day(day)
            until_s = min(end_s, to_s)
            at = max(0, bisect_right(begins, t_s) - 1)
            while t_s < until_s:
                next_s = min(begins[at + 1] if at + 1 < len(begins) else end_s, until_s)
                value = values[at]
                if value is not None:
                    total += value * (next_s - t_s)
                    known_s += next_s - t_s
                t_s, at = next_s, at + 1
            day += timedelta(1)
        return total, known_s

    def mean(self, from_s: float, to_s: float) -> float | None:
        """Return the mean value of a stretch, of as much of it as has one; None: nothing has."""
        total, known_s = self.over(from_s, to_s)
        return total / known_s if known_s else None

    def cost(self, from_s: float, to_s: float, energy_j: float) -> float | None:
        """Return the value of an energy that was used evenly in a stretch.

        Parts without a value count as 0; None: no part of the stretch has one.
        """
        each = self.per_kwh(from_s, to_s)
        return None if each is None else energy_j / J_PER_KWH * each

    def per_kwh(self, from_s: float, to_s: float) -> float | None:
        """Return the same of a kilowatt-hour; of no time the value then."""
        if to_s <= from_s:
            return self.at(from_s)
        begins, values, end_s = self._day(self._date(from_s))
        at = max(0, bisect_right(begins, from_s) - 1)
        if to_s <= (begins[at + 1] if at + 1 < len(begins) else end_s):
            return values[at]
        total, known_s = self.over(from_s, to_s)
        return total / (to_s - from_s) if known_s else None

    def changes(self, from_s: float, to_s: float) -> bool:
        """Does the value change within a stretch, its ends not counted?"""
        day, first = self._date(from_s), self.at(from_s)
        while True:
            begins, values, end_s = self._day(day)
            for begin_s, value in zip(begins, values, strict=True):
                if from_s < begin_s < to_s and value != first:
                    return True
            if end_s >= to_s:
                return False
            day += timedelta(1)

    def known_since(self, from_s: float, to_s: float) -> float | None:
        """Return when the value is first known in a stretch; None: never."""
        day, t_s = self._date(from_s), from_s
        while t_s < to_s:
            begins, values, t_s = self._day(day)
            for begin_s, end_s, value in zip(begins, [*begins[1:], t_s], values, strict=True):
                if value is not None and end_s > from_s and begin_s < to_s:
                    return max(begin_s, from_s)
            day += timedelta(1)
        return None

    def _date(self, t_s: float) -> date:
        begin_s, end_s, day = self._last
        if not begin_s <= t_s < end_s:
            day = datetime.fromtimestamp(t_s, self._where).date()
            begins, _, end_s = self._day(day)
            self._last = (begins[0], end_s, day)
        return day

    def _day(self, day: date) -> tuple[list[float], list[float | None], float]:
        """Return when the steps of a day begin, their values, and the day's end."""
        found = self._days.get(day)
        if found is None:
            if len(self._days) >= _MOST_DAYS:
                self._days.clear()
            found = self._days[day] = self._worked_out(day)
        return found

    def _worked_out(self, day: date) -> tuple[list[float], list[float | None], float]:
        begin_s, end_s = self._midnight_s(day), self._midnight_s(day + timedelta(1))
        minutes, values = zip(*self._of_day(day), strict=True)
        begins: list[float] = []
        kept: list[float | None] = []
        for from_s, to_s in self._stretches(begin_s, end_s):
            clock = datetime.fromtimestamp(from_s, self._where)
            clock_min = 60 * clock.hour + clock.minute + clock.second / 60
            at = max(0, bisect_right(minutes, clock_min) - 1)
            begins.append(from_s)
            kept.append(values[at])
            for minute, value in zip(minutes[at + 1 :], values[at + 1 :], strict=True):
                t_s = from_s + (minute - clock_min) * 60
                if t_s >= to_s:
                    break
                begins.append(t_s)
                kept.append(value)
        return begins, kept, end_s

    def _midnight_s(self, day: date) -> float:
        return datetime(day.year, day.month, day.day, tzinfo=self._where).timestamp()

    def _stretches(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """Return the parts of a day in each of which its clock runs evenly."""
        ahead = ahead_s(begin_s, self._where)
        if ahead == ahead_s(end_s - 1, self._where):
            return [(begin_s, end_s)]
        found, since_s = [], begin_s
        for t_s in range(math.ceil(begin_s / _SCAN_S) * _SCAN_S, math.ceil(end_s), _SCAN_S):
            if (now := ahead_s(t_s, self._where)) != ahead:
                found.append((since_s, float(t_s)))
                since_s, ahead = float(t_s), now
        return [*found, (since_s, end_s)]


class Recorded(Rate):
    """A rate by the recorded values of hours of UTC, by their starts; else another rate."""

    def __init__(self, hours: Mapping[int, float], otherwise: Rate) -> None:
        """`otherwise` says what counts in hours of which nothing was recorded."""
        super().__init__(otherwise._of_day, otherwise._where)
        self._hours = hours

    def _worked_out(self, day: date) -> tuple[list[float], list[float | None], float]:
        begins, values, end_s = super()._worked_out(day)
        first, end = int(begins[0] // _HOUR_S) * _HOUR_S, math.ceil(end_s)
        known = [t_s for t_s in range(first, end, _HOUR_S) if t_s in self._hours]
        if not known:
            return begins, values, end_s
        edges = {*begins, *(float(t_s + s) for t_s in known for s in (0, _HOUR_S))}
        times = sorted(t_s for t_s in edges if begins[0] <= t_s < end_s)
        return times, [self._of(t_s, begins, values) for t_s in times], end_s

    def _of(
        self, t_s: float, begins: Sequence[float], values: Sequence[float | None]
    ) -> float | None:
        otherwise = values[bisect_right(begins, t_s) - 1]
        return self._hours.get(int(t_s // _HOUR_S) * _HOUR_S, otherwise)


def flat(value: float | None, where: tzinfo) -> Rate:
    """Return a rate that is always the same; None: not known."""
    return Rate(lambda _: ((0, value),), where)


def by_hour(values: Sequence[float], where: tzinfo) -> Rate:
    """Return a rate of 24 values, one for each hour that the clock shows."""
    steps = tuple((60 * hour, value) for hour, value in enumerate(values))
    return Rate(lambda _: steps, where)


def by_tariff(before: float | None, tariffs: Sequence[Tariff], where: tzinfo) -> Rate:
    """Return the price by tariffs; `before` is that before the first of them."""
    known = sorted(tariffs, key=lambda each: each.since)
    begins = [each.since for each in known]
    weeks = [each.week() for each in known]

    def of_day(day: date) -> Steps:
        at = bisect_right(begins, day) - 1
        if at < 0:
            return ((0, before),)
        from_min = day.weekday() * _DAY_MIN
        return _cut(weeks[at], from_min, from_min + _DAY_MIN)

    return Rate(of_day, where)


def _cut(week: Steps, from_min: int, to_min: int) -> Steps:
    first = max(n for n, (at, _) in enumerate(week) if at <= from_min)
    return [(max(0, at - from_min), value) for at, value in week[first:] if at < to_min]


@dataclass(frozen=True, slots=True)
class Worth:
    """Money and CO2 of an energy, in the office's currency and grams.

    None without a price or factor for any part of it; parts without one count as 0.
    """

    money: float | None = None
    co2_g: float | None = None

    def __add__(self, other: Worth) -> Worth:
        """Return both together."""
        return Worth(_sum(self.money, other.money), _sum(self.co2_g, other.co2_g))

    def __neg__(self) -> Worth:
        """Return what it takes away."""
        return Worth(
            None if self.money is None else -self.money,
            None if self.co2_g is None else -self.co2_g,
        )

    def __sub__(self, other: Worth) -> Worth:
        """Return the difference."""
        return self + -other

    def of(self, energy_j: float) -> Worth:
        """Return what an energy is worth where this is the worth of a kilowatt-hour."""
        kwh = energy_j / J_PER_KWH
        return Worth(
            None if self.money is None else self.money * kwh,
            None if self.co2_g is None else self.co2_g * kwh,
        )


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


@dataclass(frozen=True, slots=True)
class Rates:
    """The price of an office's kilowatt-hour, and its grams of CO2."""

    price: Rate
    co2: Rate

    def per_kwh(self, from_s: float, to_s: float) -> Worth:
        """Return what a kilowatt-hour is worth that is used evenly from `from_s` until `to_s`."""
        return Worth(self.price.per_kwh(from_s, to_s), self.co2.per_kwh(from_s, to_s))

    def changes(self, from_s: float, to_s: float) -> bool:
        """Does one of them change within a stretch?"""
        return self.price.changes(from_s, to_s) or self.co2.changes(from_s, to_s)


def rates(
    config: Mapping[str, Any], where: tzinfo, recorded: Mapping[int, float] | None = None
) -> Rates:
    """Return those of a configuration, as plain data; 0 of `[office]` is not known.

    `recorded`: the CO2 that the office's API said of hours of UTC, by their starts.
    """
    office = config.get("office", {})
    tariffs = [
        Tariff(since(each["since"]), each["price_per_kwh"], tuple(map(band, each["bands"])))
        for each in config.get("tariff", ())
    ]
    hours = office.get("co2_by_hour")
    co2 = by_hour(hours, where) if hours else flat(office.get("co2_g_per_kwh") or None, where)
    return Rates(
        by_tariff(office.get("price_per_kwh") or None, tariffs, where),
        Recorded(recorded, co2) if recorded else co2,
    )
