"""`naproxy measure`: the meters' readings, second by second, and fitting the `model` meter.

`experimenting` measures commands, and `source` provides the seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final

from naproxy.api.command import CommandError, add_config_option, duration, socket_option
from naproxy.config import document as config
from naproxy.config.document import Config
from naproxy.core import log
from naproxy.core.schema import ConfigError
from naproxy.drivers import powermodel
from naproxy.drivers.meter import Fault, Site, model
from naproxy.drivers.powermodel import Fit, Utilisation
from naproxy.lab.measure import experimenting
from naproxy.lab.source import meters_of

FIT_S: Final = 600.0

Row = Mapping[str, Any]
"""A second of a meter: `meter`, and the fields of `reading.PowerSample`."""


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy measure`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "measure",
        help="show what the meters say, or measure what a command costs",
        description="Show what the meters say, second by second, until Ctrl-C. Asks the"
        " controller, or opens the meters itself if none runs. With -- COMMAND, measure what"
        " commands cost instead: see docs/measure.md.",
        parents=[socket_option()],
    )
    parser.add_argument("meter", nargs="?", metavar="METER", help="only this meter")
    parser.add_argument(
        "--seconds", type=duration, metavar="TIME", help="stop after this time, such as 60 or 5m"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, one object a line")
    parser.add_argument(
        "--fit",
        metavar="MODEL",
        help="fit this meter of the kind model against METER, and print its coefficients;"
        " meanwhile, vary the server's load",
    )
    parser.add_argument(
        "--form",
        choices=tuple(powermodel.FORMS),
        default="cpu",
        help="inputs of the model: the processors only, or memory, disk and network too",
    )
    add_config_option(parser)
    experimenting.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Show, fit, or measure commands."""
    log.to_standard_error()
    try:
        if args.commands is not None:
            return _experiment(args)
        asyncio.run(_fit(args) if args.fit else _show(args))
    except ConfigError as error:
        print(f"naproxy measure: {args.config}: {error}", file=sys.stderr)
        return 1
    except (CommandError, Fault) as error:
        print(f"naproxy measure: {error}", file=sys.stderr)
        return 1
    return 0


def _experiment(args: argparse.Namespace) -> int:
    if args.fit or args.json or args.seconds:
        raise CommandError("--fit, --json and --seconds do not work with -- COMMAND")
    return asyncio.run(experimenting.run(args))


async def seconds(args: argparse.Namespace) -> AsyncGenerator[Row, None]:
    """Yield the meters' seconds as they come; CommandError if there is no such meter."""
    async with meters_of(args) as (meters, heard):
        async for name, second in heard:
            if args.meter in (None, name):
                # The house's clock never steps, so the wall's may have gone ahead of it.
                ahead_s = round(time.time() - meters.house_s())
                row = dataclasses.asdict(second)
                yield {"meter": name, **row, "t_s": second.t_s + ahead_s}


# Showing


async def _show(args: argparse.Namespace) -> None:
    try:
        async with asyncio.timeout(args.seconds), aclosing(seconds(args)) as rows:
            async for row in rows:
                print(json.dumps(row) if args.json else line(row), flush=True)
    except TimeoutError:
        pass


def line(row: Row) -> str:
    """Return a second as a line for a terminal."""
    clock = time.strftime("%H:%M:%S", time.localtime(row["t_s"]))
    gap = "" if row["covered_ms"] >= 1000 else f"  {row['covered_ms'] / 10:.0f} % covered"
    return (
        f"{clock}  {row['meter']}  {row['mean_mw'] / 1e3:9.3f} W"
        f"  ({row['min_mw'] / 1e3:.3f} to {row['max_mw'] / 1e3:.3f})"
        f"  {row['energy_mj'] / 1e3:9.3f} J  {row['count']} readings{gap}"
    )


# Fitting


async def _fit(args: argparse.Namespace) -> None:
    if args.meter is None:
        raise CommandError("say which meter to fit against: naproxy measure METER --fit MODEL")
    driver = _model(config.read(args.config), args.fit)
    powers: dict[int, float] = {}
    used: list[tuple[float, Utilisation]] = []
    limit_s = args.seconds or FIT_S
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.gather(
                _gather_powers(args, powers), _gather_used(driver.utilisations(), used)
            )
    except TimeoutError:
        pass
    samples = paired(powers, used)
    try:
        found = powermodel.fit(samples, args.form)
    except ValueError as error:
        raise CommandError(str(error)) from None
    print("\n".join(described(found, args.form, args.meter)))


def _model(loaded: Config, name: str) -> model.Driver:
    options = next((m for m in loaded.meter if m.id == name), None)
    if not isinstance(options, model.Settings):
        raise CommandError(f'{name} is not a meter with driver = "model" in the configuration')
    address = next((s.address for s in loaded.server if s.id == options.of), "127.0.0.1")
    return model.Driver(options, Site(address, lambda: None))


async def _gather_powers(args: argparse.Namespace, powers: dict[int, float]) -> None:
    async with aclosing(seconds(args)) as rows:
        async for row in rows:
            powers[row["t_s"]] = row["mean_mw"] / 1e3


async def _gather_used(
    source: AsyncIterator[Utilisation | None], used: list[tuple[float, Utilisation]]
) -> None:
    async for utilisation in source:
        if utilisation:
            used.append((time.time(), utilisation))


def paired(
    powers: Mapping[int, float], used: list[tuple[float, Utilisation]]
) -> list[tuple[Utilisation, float]]:
    """Return each utilisation with the mean power of the seconds in the middle of its interval.

    `used` has the end of each interval, which began at the end of the one before.
    """
    found = []
    for (begun_s, _), (ended_s, utilisation) in pairwise(used):
        within = [
            powers[t_s]
            for t_s in range(int(begun_s), int(ended_s) + 1)
            if t_s in powers and begun_s < t_s + 0.5 <= ended_s
        ]
        if within:
            found.append((utilisation, sum(within) / len(within)))
    return found


def described(found: Fit, form: str, against: str) -> list[str]:
    """Return a fit as lines for the configuration, and how good it is as comments."""
    coefficients = dataclasses.asdict(found.coefficients)
    keys = {"on_w": coefficients.pop("base_w"), **coefficients}
    return [
        f"# form {form}, against {against}: {found.samples} samples,"
        f" {found.rms_w:.2f} W rms left, R squared {found.r_squared:.3f}",
        *(f"{name} = {value:.3f}" for name, value in keys.items()),
    ]
