"""`naproxy meter compare A B`: two meters on the same machine, by Bland and Altman."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from naproxy.api.command import CommandError
from naproxy.core.inference import Estimate
from naproxy.core.schema import ConfigError
from naproxy.drivers.meter import Fault
from naproxy.lab.measure.agreement import Agreement, bland_altman, pairs
from naproxy.lab.source import meters_of

LISTEN_S: Final = 600.0
NOT_CONCLUDED: Final = 3
VARIED: Final = 0.2
"""A power that varied by less than this share of its mean says nothing of other powers."""

Powers = Mapping[str, dict[int, float]]


def run(args: argparse.Namespace) -> int:
    """Listen to both, and say how well they agree; 3 if nothing can be said."""
    if args.a == args.b:
        raise CommandError(f"{args.a} is only one meter: name two")
    try:
        told, powers = asyncio.run(_listen(args))
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None
    except Fault as error:
        raise CommandError(str(error)) from None
    length_s = stretch_s([told[name]["period_s"] for name in (args.a, args.b)])
    try:
        found = bland_altman(*pairs(powers[args.a], powers[args.b], length_s))
    except ValueError as error:
        sys.stderr.write(f"NOT CONCLUDED: {error}; listen longer with --seconds\n")
        return NOT_CONCLUDED
    print("\n".join(described(args.a, args.b, told, found, length_s)))
    return 0


def stretch_s(periods_s: Sequence[float]) -> int:
    """Return the whole seconds over which both meters say something."""
    return max(1, *(math.ceil(period_s) for period_s in periods_s))


async def _listen(
    args: argparse.Namespace,
) -> tuple[dict[str, Mapping[str, Any]], Powers]:
    names = (args.a, args.b)
    powers: Powers = {name: {} for name in names}
    wanted = argparse.Namespace(socket=args.socket, config=args.config, meter=None)
    async with meters_of(wanted) as (meters, heard):
        told = {str(status["id"]): status for status in meters.status()}
        for name in names:
            if name not in told:
                raise CommandError(f"there is no meter {name}, only {', '.join(told)}")
        of = [told[name]["of"] for name in names]
        if of[0] != of[1]:
            raise CommandError(
                f"{args.a} measures {of[0]} and {args.b} measures {of[1]}: plug both in before the"
                " same machine, and say so in the configuration (of)"
            )
        try:
            async with asyncio.timeout(args.seconds or LISTEN_S), aclosing(heard):
                async for name, second in heard:
                    if name in powers:
                        powers[name][second.t_s] = second.mean_mw / 1e3
        except TimeoutError:
            pass
    return told, powers


def described(
    a: str, b: str, told: Mapping[str, Mapping[str, Any]], found: Agreement, length_s: int
) -> Iterator[str]:
    """Yield the result as lines for a terminal."""
    for name in (a, b):
        status = told[name]
        guessed = ", ESTIMATED" if status["estimated"] else ""
        yield f"{name} ({status['driver']}): accuracy: {status['accuracy']}{guessed}"
    yield (
        f"{found.pairs} pairs of {length_s} s, worth {found.independent:.0f} that do not depend on"
        f" each other; {found.low_w:.1f} to {found.high_w:.1f} W"
    )
    yield f"{a} - {b}, on average      {_interval(found.bias, 'W')}"
    yield f"95 % of differences from  {_interval(found.lower, 'W')}"
    yield f"                    to    {_interval(found.upper, 'W')}"
    middle_w = (found.low_w + found.high_w) / 2
    if found.slope is None or found.high_w - found.low_w < VARIED * middle_w:
        yield "the power hardly varied, so this holds for no other power: vary the load"
    elif found.slope.low <= 0 <= found.slope.high:
        yield "the difference does not depend on the power, as far as can be seen"
    else:
        share = Estimate(*(100 * x for x in (found.slope.value, found.slope.low, found.slope.high)))
        yield f"it changes with the power: {_interval(share, '% of it')}"
    if found.bias.low <= 0 <= found.bias.high:
        yield "no offset can be told from chance"


def _interval(estimate: Estimate, unit: str) -> str:
    return f"{estimate.value:+.2f} {unit}  ({estimate.low:+.2f} to {estimate.high:+.2f})"
