"""What the configuration says of prices by time: from which day on, and at which hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from naproxy.core.rates import MOST_PRICE, band, overlap, since
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, checked, option

TARIFFS: Final = 32
BANDS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Tariff:
    """What a kilowatt-hour costs from a day on."""

    since: str = option("The day from which it holds, such as 2026-01-01", check=checked(since))
    price_per_kwh: float = option(
        "Price of a kilowatt-hour, in the office's currency; without what is paid for each month",
        low=0,
        high=MOST_PRICE,
    )
    bands: tuple[str, ...] = option(
        "Times of the week with another price: days, hours and the price, such as"
        ' "mon-sun 22:00-06:00 0.24"',
        (),
        high=BANDS,
        check=checked(band),
    )


def conflicts(tariffs: Sequence[Tariff]) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    days = Counter(each.since for each in tariffs)
    for number, each in enumerate(tariffs, 1):
        here = f"tariff.{number}"
        if days[each.since] > 1:
            yield Problem(f"{here}.since", Reason("config.tariff_twice"), each.since)
        both = overlap([band(text) for text in each.bands])
        if both:
            one, other = (each.bands[n] for n in both)
            wrong = Reason("config.bands_overlap", one=one, other=other)
            yield Problem(f"{here}.bands", wrong)
