"""A week of somebody who only wants the server awake: what he costs it, in virtual time.

The controller's own runner, policy and shares decide, see `tests/simulator/past`. The limits are
the default. A program that has not logged in has ten minutes a day for an address, thirty for a
network, and all robots have ten. A stranger that poses as a browser has eight hours for an address;
three addresses of a network have the whole day.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from naproxy.server.shares import PROGRAM_AWAKE_S, PROGRAM_NETWORK_AWAKE_S, Settings

from tests.bench.result import goal
from tests.simulator.past.test_shares import (
    DAY_S,
    ITSELF,
    PATIENT,
    USUAL,
    Doing,
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

_SET: Final = Settings()


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
    "browser_tunnel": (one(3600.0, 30 * DAY_S, program=False), _SET.awake_s),
    "browser_page_a_minute": (one(60.0, program=False), _SET.awake_s),
}
"""Each with the seconds a day that were set for it."""


def awake_s(name: str, rule: str, days: int) -> float:
    """Return how long the server was awake or waking in these days.

    One of the office comes once before: of a server that nobody has asked for yet the box does not
    know whom it is awake for.
    """
    doings = [] if name == NOBODY else _later(STRATEGIES[name][0]())
    doings = itertools.chain([Doing(60.0, address=0, network=0)], doings)
    with tempfile.TemporaryDirectory(prefix="naproxy-siege-") as directory:
        return live(Path(directory), RULES[rule], doings, days).awake_s


def _later(doings: Iterator[Doing]) -> Iterator[Doing]:
    for each in doings:
        each.t_s += BEGIN_S
        yield each


def energy(say: Callable[[str], None], days: int = DAYS) -> list[dict[str, Any]]:
    """Live a week with each of them under each rule; less what it is without them is the cost."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        awake = {
            (name, rule): pool.submit(awake_s, name, rule, days)
            for rule in RULES
            for name in (NOBODY, *STRATEGIES)
        }
        rows = []
        for rule in RULES:
            without_s = awake[NOBODY, rule].result()
            for name, (_, set_s) in STRATEGIES.items():
                took_s = round((awake[name, rule].result() - without_s) / days, 1)
                rows.append({"strategy": name, "rule": rule, "s_a_day": took_s, "set_s": set_s})
                say(f"{name}, {rule}: {took_s:.0f} s a day awake for it, {set_s} are set")
    return rows


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nobody costs more than was set."""
    over_s, where = max((row["s_a_day"] - row["set_s"], row["strategy"]) for row in rows)
    return [goal(f"awake in s a day over what was set, most by {where}", over_s, LATE_S, "<=")]
