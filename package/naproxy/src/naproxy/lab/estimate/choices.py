"""The yearly gain of each choice of waits, by a simulation of the box's own policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from naproxy.core.energy import Power
from naproxy.core.rates import J_PER_KWH, Worth
from naproxy.core.waiting import FRACTIONS, delta_s
from naproxy.lab.estimate.lineup import OURS, Compared, Promise, Row

WORDS: Final = {
    "hardly": "hardly anyone waits",
    "few": "a few wait",
    "first": "the first visitor after a pause waits",
}

_YEAR_S: Final = 365 * 86400


def promises(wake_s: float) -> dict[str, Promise]:
    """Return the promise of each choice for a server that wakes in `wake_s`."""
    return {name: Promise(f, delta_s(wake_s)) for name, f in FRACTIONS.items()}


@dataclass(frozen=True, slots=True)
class Card:
    """A choice and its gain, if a year is like the time of the log."""

    name: str
    """Of FRACTIONS."""
    fraction: float
    delta_s: float
    waits_a_day: float
    """How often a visitor waits, however shortly; further requests during a wake do not count."""
    mean_s: float
    """Mean of those waits, and the bound that nearly all of them keep."""
    usual_s: float
    asleep_h_a_day: float
    saving_net: float
    """Share of the energy of a server that is always on; the box's own watts taken off."""
    kwh_a_year: float
    """Net. Negative: the box draws more than it saves."""
    money_a_year: float | None
    pays: bool


def card(name: str, row: Row, power: Power, price: float | None = None) -> Card:
    """Return the card of a choice from a row of the box's own policy; `price` is of a kWh."""
    net = row["saving_net"]
    energy_j = net * power.on_w * _YEAR_S
    return Card(
        name=name,
        fraction=row["promise"]["f"],
        delta_s=row["promise"]["delta_s"],
        waits_a_day=row["waits_per_day"],
        mean_s=row["wait_mean_s"],
        usual_s=row["wait_usual_s"],
        asleep_h_a_day=row["asleep_h_per_day"],
        saving_net=net,
        kwh_a_year=energy_j / J_PER_KWH,
        money_a_year=Worth(price or None).of(energy_j).money,
        pays=net > 0,
    )


def cards(compared: Compared) -> list[Card]:
    """Return the choices, fewest waits first; none if they were not compared."""
    first, wanted = compared.choice.cases()[0], promises(compared.server.wake_s)
    found = []
    for name, promise in wanted.items():
        rows = compared.rows_of(first._replace(promise=promise))
        ours = next((row for row in rows if row["policy"] == OURS), None)
        if ours is not None:
            found.append(card(name, ours, compared.server.power, compared.price))
    return found if len(found) == len(wanted) else []


def lines(found: Sequence[Card]) -> list[str]:
    """Return the cards for a terminal."""
    made = [
        f"  {'who may wait':<38}{'waits':>12}{'mean':>8}{'usually':>9}{'asleep':>10}"
        f"{'net':>13}{'':>10}"
    ]
    for each in found:
        waits = f"{each.waits_a_day:,.1f}/day"
        kwh = f"{each.kwh_a_year:+,.0f} kWh/y"
        money = "" if each.money_a_year is None else f"{each.money_a_year:+,.0f}/y"
        made.append(
            f"  {WORDS[each.name]:<38}{waits:>12}{each.mean_s:>6.1f} s{each.usual_s:>7.1f} s"
            f"{each.asleep_h_a_day:>6.1f} h/d{kwh:>13}{money:>10}"
            f"{'' if each.pays else '  this does not pay'}"
        )
    return made
