"""A week of somebody who only wants the server awake: what he costs it, in virtual time.

The controller's own runner, policy and shares decide, see `tests/simulator/past`. The limits are
the default. A program that has not logged in has ten minutes a day for an address, thirty for a
network, and all robots have ten. Whoever claims to be a browser has none, but all who do not show
that they are people cost together what the office allows, 0.10 a day.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from naproxy.server.shares import PROGRAM_AWAKE_S, PROGRAM_NETWORK_AWAKE_S, Costs

from tests.bench.result import goal
from tests.simulator.past.test_shares import (
    BUDGET,
    DAY_S,
    ITSELF,
    PATIENT,
    USUAL,
    Doing,
    Lived,
    live,
    over_and_over,
)

DAYS: Final = 7
BEGIN_S: Final = 3 * 3600.0
"""By then the server sleeps again."""

LATE_S: Final = 10.0
"""A day, over what was set: a share may end amidst a wake, which is not called off."""

RULES: Final = {"timeout of 2 min": USUAL, "timeout of 2 h": PATIENT}
"""What a rule that learns does after a visit depends on all the others: no cost is anybody's."""

PROCESSES: Final = 2

_BUDGET_S: Final = int(BUDGET / Costs().awake_s)
"""So long a day it may be awake for strangers, without wakes."""
LAST_WAKE: Final = 0.001
"""The budget may end amidst a wake, which is not called off."""


def robot() -> Iterator[Doing]:
    """A robot sends forms of a minute without a pause; a program, too, wakes the server."""
    for n in itertools.count():
        yield Doing(58.0 * n, 57.0, address=70, network=71, robot=True)
        yield Doing(58.0 * n + 1, program=True)


def network() -> Iterator[Doing]:
    """200 addresses of one network take turns, a form of five minutes each."""
    return (
        Doing(300.0 * n, 300.0, address=1000 + n % 200, program=True) for n in itertools.count()
    )


def browsers(networks: int, addresses: int, lasts_s: float) -> Strategy:
    """Addresses that claim to be browsers take turns, each half minute one."""
    return lambda: (
        Doing(30.0 * n, lasts_s, address=1000 + n % addresses, network=10**6 + n % networks)
        for n in itertools.count()
    )


def one(every_s: float, lasts_s: float = 0.2, *, program: bool = True) -> Strategy:
    """One address asks so often, for so long: as a program, or as one that claims a browser."""
    return lambda: over_and_over(every_s, lasts_s, ITSELF, program=program)


Strategy = Callable[[], Iterator[Doing]]

NOBODY: Final = "nobody"
STRATEGIES: Final[dict[str, tuple[Strategy, int]]] = {
    # A WebSocket each hour, none of which ever ends.
    "tunnel": (one(3600.0, 30 * DAY_S), PROGRAM_AWAKE_S),
    # A form, a byte every 3 s for five minutes each, without a pause.
    "trickle": (one(300.0, 300.0), PROGRAM_AWAKE_S),
    "page_a_minute": (one(60.0), PROGRAM_AWAKE_S),
    # As soon as the server sleeps.
    "woken_again": (one(5.0), PROGRAM_AWAKE_S),
    # Two that cost something: all robots, and a program.
    "robot": (robot, 2 * PROGRAM_AWAKE_S),
    "network": (network, PROGRAM_NETWORK_AWAKE_S),
    "browser_tunnel": (one(3600.0, 30 * DAY_S, program=False), _BUDGET_S),
    "browser_page_a_minute": (one(60.0, program=False), _BUDGET_S),
    "browser_woken_again": (one(5.0, program=False), _BUDGET_S),
    "browser_forms": (one(300.0, 300.0, program=False), _BUDGET_S),
    "browsers_of_a_network": (browsers(1, 200, 0.2), _BUDGET_S),
    "browsers_of_a_botnet": (browsers(5000, 5000, 0.2), _BUDGET_S),
    "forms_of_a_botnet": (browsers(5000, 5000, 60.0), _BUDGET_S),
}
"""Each with the seconds a day that it may cost."""


def lived(name: str, rule: str, days: int) -> Lived:
    """Return how long the server was awake or waking in these days, and what strangers cost.

    One of the office comes once before: of a server that nobody has asked for yet the box does not
    know whom it is awake for.
    """
    doings = [] if name == NOBODY else _later(STRATEGIES[name][0]())
    doings = itertools.chain([Doing(60.0, address=0, network=0)], doings)
    with tempfile.TemporaryDirectory(prefix="naproxy-siege-") as directory:
        return live(Path(directory), RULES[rule], doings, days)


def _later(doings: Iterator[Doing]) -> Iterator[Doing]:
    for each in doings:
        each.t_s += BEGIN_S
        yield each


def energy(say: Callable[[str], None], days: int = DAYS) -> list[dict[str, Any]]:
    """Live a week with each of them under each rule; less what it is without them is the cost."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        awake = {
            (name, rule): pool.submit(lived, name, rule, days)
            for rule in RULES
            for name in (NOBODY, *STRATEGIES)
        }
        rows = []
        for rule in RULES:
            without_s = awake[NOBODY, rule].result().awake_s
            for name, (_, set_s) in STRATEGIES.items():
                found = awake[name, rule].result()
                took_s, cost = round((found.awake_s - without_s) / days, 1), round(found.cost, 4)
                row = {"strategy": name, "rule": rule, "s_a_day": took_s, "set_s": set_s}
                rows.append({**row, "cost": cost})
                say(f"{name}, {rule}: {took_s:.0f} s a day awake for it, {cost} on the worst day")
    return rows


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nobody costs more than was set, nor all together more than the budget."""
    over_s, where = max((row["s_a_day"] - row["set_s"], row["strategy"]) for row in rows)
    cost, dearest = max((row["cost"], row["strategy"]) for row in rows)
    return [
        goal(f"awake in s a day over what was set, most by {where}", over_s, LATE_S, "<="),
        goal(f"cost of strangers on a day, most by {dearest}", cost, BUDGET + LAST_WAKE, "<="),
    ]
