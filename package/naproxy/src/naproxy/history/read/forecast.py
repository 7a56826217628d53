"""Expected savings until the month ends and in a whole year: a pure function of recorded days.

A future day is assumed to save the mean of the known days of its weekday, or of all known days if
there are none: an office's Sundays are not like its Mondays. The result includes the number of
days, and there is no result with too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from naproxy.core.reason import Reason
from naproxy.history.days import step

LEAST_DAYS: Final = 7
"""With fewer no weekend may be among them."""
LOOK_BACK_DAYS: Final = 28
"""Each weekday four times; older days say less about the future."""
LEAST_KNOWN: Final = 0.75
"""Of a day that counts, so much is known: less of it may be its nights only."""
YEAR_DAYS: Final = 365


@dataclass(frozen=True, slots=True)
class Amount:
    """Energy in joules, and its worth in the office's currency; None without a known price."""

    energy_j: float = 0.0
    money: float | None = None

    def __add__(self, other: Amount) -> Amount:
        """Return both together."""
        if self.money is None or other.money is None:
            money = other.money if self.money is None else self.money
        else:
            money = self.money + other.money
        return Amount(self.energy_j + other.energy_j, money)

    def times(self, factor: float) -> Amount:
        """Return so much of it."""
        return Amount(self.energy_j * factor, None if self.money is None else self.money * factor)


@dataclass(frozen=True, slots=True)
class Day:
    """A whole past day: its savings, and the share of it that is known."""

    day: date
    saved: Amount
    known: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The savings of this calendar month and of 365 such days, from `days` known days."""

    days: int
    month: Amount
    year: Amount


def forecast(days: Iterable[Day], today: date, so_far: Amount) -> Forecast | Reason:
    """Return the forecast, or the reason why there is none.

    `so_far`: this month's savings until now, including today's. The rest of today does not count,
    so the month's figure is a little low.
    """
    first = today - timedelta(LOOK_BACK_DAYS)
    known = [each for each in days if first <= each.day < today and each.known >= LEAST_KNOWN]
    if len(known) < LEAST_DAYS:
        return Reason("overview.few_days", days=len(known), least=LEAST_DAYS)
    of_all = _mean(known)
    week = [_mean([each for each in known if each.day.weekday() == n]) or of_all for n in range(7)]
    month, coming = so_far, today + timedelta(1)
    end = step(today.replace(day=1), "month", 1)
    while coming < end:
        month += week[coming.weekday()] or Amount()
        coming += timedelta(1)
    year = Amount()
    for each in week:
        year += (each or Amount()).times(YEAR_DAYS / 7)
    return Forecast(len(known), month, year)


def _mean(found: Sequence[Day]) -> Amount | None:
    """Return what one of the days saved on average; of days without a price, no money."""
    if not found:
        return None
    energy_j = sum(each.saved.energy_j for each in found) / len(found)
    priced = [each.saved.money for each in found if each.saved.money is not None]
    return Amount(energy_j, sum(priced) / len(priced) if priced else None)
