"""Whether an office should buy the box, as figures and as one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from naproxy.core.rates import J_PER_KWH, Worth
from naproxy.core.state import Klass
from naproxy.lab.estimate.lineup import OURS, Compared

NO_VERDICT: Final = 3
"""The command's exit status if a log is too doubtful for a verdict."""

BUSY_PER_DAY: Final = 45_000
"""More requests of people than this a day, and it usually does not pay."""

_PAYS: Final = 0.05  # of the server's energy, net: less is not worth the trouble


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures of the sentence; savings are shares of an always-on server's energy."""

    buy: bool
    busy: bool
    """If it does not pay: whether people leave too few pauses. Otherwise the pauses are useless."""
    fraction: float
    delta_s: float
    saving_gross: float
    saving_net: float
    """The box's own watts taken off."""
    kwh_a_year: float
    """Net, at this rate."""
    money_a_year: float | None
    proxy_w: float
    proxy_share: float
    """The box's watts over those of the server."""
    people_a_day: float
    """Requests of people and programs."""


def judge(compared: Compared) -> Verdict | None:
    """Judge by the first case that was compared.

    None if the box's own policy was not compared, or if the log is in doubt.
    """
    if compared.traffic.trust.doubts():
        return None
    rows = compared.rows
    ours = next((row for row in rows if row["policy"] == OURS), None)
    if ours is None:
        return None
    power = compared.server.power
    net = ours["saving_net"]
    kwh = net * power.on_w * 24 * 365 / 1000
    people = compared.traffic.daily(Klass.PERSON, Klass.API)
    share = power.proxy_w / power.on_w
    most = max(
        (row["saving_gross"] for row in rows if row["policy"] == "bound-reactive"), default=0.0
    )
    return Verdict(
        buy=net >= _PAYS,
        busy=people > BUSY_PER_DAY or most < _PAYS + share,
        fraction=ours["promise"]["f"],
        delta_s=ours["promise"]["delta_s"],
        saving_gross=ours["saving_gross"],
        saving_net=net,
        kwh_a_year=kwh,
        money_a_year=Worth(compared.price or None).of(kwh * J_PER_KWH).money if kwh > 0 else None,
        proxy_w=power.proxy_w,
        proxy_share=share,
        people_a_day=people,
    )


def advice(compared: Compared) -> str:
    """Say in one sentence whether this office should buy the box."""
    if doubts := compared.traffic.trust.doubts():
        return f"No verdict: {' '.join(map(str, doubts))}"
    found = judge(compared)
    if found is None:
        return "No advice: the box's own policy is not among those compared."
    kept = (
        f"with at most {found.fraction * 100:.3g} % of people's requests waiting longer than"
        f" {found.delta_s:g} s"
    )
    doubt = " But read above why this log may mislead." if compared.traffic.trust.problems() else ""
    if found.buy:
        worth = ""
        if found.money_a_year:
            worth = f", about {found.money_a_year:,.0f} at {compared.price:g} a kWh"
        return (
            f"Buy it: {kept}, the box would save {found.saving_net:.0%} of the server's energy"
            f" after its own {found.proxy_w:g} W, {found.kwh_a_year:,.0f} kWh a year{worth}.{doubt}"
        )
    why = (
        f"people ask for something {found.people_a_day:,.0f} times a day and leave too few pauses"
        if found.busy
        else "the pauses are too short or too hard to foresee for this promise"
    )
    less = (
        f"would save only {found.saving_net:.1%} of the server's energy after its own"
        f" {found.proxy_w:g} W"
        if found.saving_net > 0
        else f"would save {found.saving_gross:.1%} of the server's energy and draws"
        f" {found.proxy_share:.1%} of it itself"
    )
    return f"Do not buy it: {kept}, it {less}; {why}.{doubt}"
