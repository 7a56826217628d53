"""`naproxy measure -- COMMAND`: run commands, read a meter meanwhile, report their energy.

`experiment` has the plan and the conclusions, pure; here are the clock, the meter and the
processes.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import math
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, Generic, TextIO, TypeVar

from naproxy.api.command import CommandError, above_0, call, duration
from naproxy.controller.meters import Meters
from naproxy.core.reading import PowerSample
from naproxy.drivers.metering import patience_s
from naproxy.lab.measure import experiment
from naproxy.lab.measure.experiment import Comparison, Figure, Judge, Phase, Run
from naproxy.lab.source import Asked, Heard, meters_of

AND: Final = "--and"
NOT_CONCLUDED: Final = 3
"""Exit status when something was measured and at least one conclusion was refused."""

_POLL_S: Final = 0.25
_MOST_OUTPUT: Final = 1 << 20
_MOST_COMMANDS: Final = len(ascii_uppercase)
_LEAST_BASELINE_PERIODS: Final = 5
_COLUMNS: Final = (
    *("round", "command", "phase", "start_s", "end_s"),
    *("energy_j", "covered_s", "readings", "duration_s", "units"),
)

Said = TypeVar("Said")
Execute = Callable[[Sequence[str]], Awaitable[str]]
"""Runs a command to its end and returns what it said; CommandError if it failed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that go with commands."""
    group = parser.add_argument_group(
        "what commands cost", "naproxy measure METER [OPTION ...] -- COMMAND [--and COMMAND ...]"
    )
    add = group.add_argument
    add("--runs", type=_count, default=10, metavar="N", help="runs of each (default: %(default)s)")
    add(
        "--warm-up",
        type=int,
        choices=range(101),
        default=1,
        metavar="N",
        help="warm-up runs of each, not measured (default: %(default)s)",
    )
    add(
        "--settle",
        type=duration,
        default=10.0,
        metavar="TIME",
        help="idle time before the baseline (default: 10s)",
    )
    add(
        "--baseline",
        type=duration,
        default=10.0,
        metavar="TIME",
        help="measured idle time before each run (default: 10s, at least 5 readings)",
    )
    units = group.add_mutually_exclusive_group()
    units.add_argument("--units", type=above_0, metavar="N", help="units of work of a run")
    units.add_argument(
        "--units-from",
        type=_pattern,
        metavar="REGEX",
        help="its first group finds the run's units of work in the command's output",
    )
    add("--within", type=above_0, default=10.0, metavar="PERCENT",
        help="how exact a figure must be (default: 10)")  # fmt: skip
    add("--paired", action="store_true", help="compare runs of a round: paired t-test, not Welch's")
    add("--seed", type=int, metavar="N", help="seed of the random order (default: by the clock)")
    add("--csv", type=Path, metavar="FILE", help="write the measurements of each phase")


def _count(text: str) -> int:
    count = int(text)
    if not experiment.LEAST_RUNS <= count <= 10000:
        raise argparse.ArgumentTypeError(f"must be {experiment.LEAST_RUNS} to 10000")
    return count


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not pattern.groups:
        raise argparse.ArgumentTypeError(f"{text!r} has no group: (\\d+)")
    return pattern


def split(words: Sequence[str]) -> list[list[str]]:
    """Split what follows `--` into commands; CommandError if one is empty."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == AND:
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(commands):
        raise CommandError(f"a command is missing: -- COMMAND [{AND} COMMAND ...]")
    if len(commands) > _MOST_COMMANDS:
        raise CommandError(f"at most {_MOST_COMMANDS} commands can be compared")
    return commands


# Running


@dataclass(frozen=True)
class Plan:
    """The commands, and how often they run. `units` takes a command's output."""

    commands: Sequence[Sequence[str]]
    runs: int
    warm_up: int
    settle_s: float
    baseline_s: float
    seed: int
    units: Callable[[str], float | None] = lambda _: None


async def perform(
    plan: Plan, meter: Feed, execute: Execute, finished: Callable[[Run], None]
) -> list[Run]:
    """Run all there is to run. `finished` gets each run at once, so a Ctrl-C loses none."""
    for warmed in list(plan.commands) * plan.warm_up:
        plan.units(await execute(warmed))
    done: list[Run] = []
    for number, commands in enumerate(experiment.order(len(plan.commands), plan.runs, plan.seed)):
        for command in commands:
            done.append(await _run(plan, meter, execute, number, command))
            finished(done[-1])
    return done


@dataclass(frozen=True, slots=True)
class Measured(Generic[Said]):
    """One run with the idling before it, and the result of the work."""

    baseline: Phase
    run: Phase
    duration_s: float
    said: Said


async def measured(
    meter: Feed, settle_s: float, baseline_s: float, work: Callable[[], Awaitable[Said]]
) -> Measured[Said]:
    """Idle, then work, and measure both."""
    await meter.pause(settle_s)
    idle_s = int(meter.now_s()) + 1
    baseline_s = max(baseline_s, _LEAST_BASELINE_PERIODS * meter.period_s)
    # The run's window begins a reading, and up to a second, before the run.
    await meter.pause(idle_s + baseline_s + meter.period_s + 1 - meter.now_s())
    start_s = meter.now_s()
    said = await work()
    end_s = meter.now_s()
    window = experiment.run_window(start_s, end_s, meter.period_s)
    ran = await meter.phase(*window)
    return Measured(await meter.phase(idle_s, window[0]), ran, end_s - start_s, said)


async def _run(plan: Plan, meter: Feed, execute: Execute, number: int, command: int) -> Run:
    ran = await measured(
        meter, plan.settle_s, plan.baseline_s, lambda: execute(plan.commands[command])
    )
    return Run(number, command, ran.baseline, ran.run, ran.duration_s, plan.units(ran.said))


async def execute(command: Sequence[str]) -> str:
    """Run a command as `Execute` says; of its output the last megabyte is kept."""
    with tempfile.TemporaryFile() as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
            )
        except (OSError, ValueError) as error:
            raise CommandError(f"{shlex.join(command)}: {error}") from None
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            raise
        output.seek(max(0, os.fstat(output.fileno()).st_size - _MOST_OUTPUT))
        said = output.read().decode(errors="replace")
    if status:
        last = said.strip().rpartition("\n")[2][-200:]
        raise CommandError(f"{shlex.join(command)} ended with status {status}: {last!r}")
    return said


def units_from(pattern: re.Pattern[str], said: str) -> float:
    """Return the units of work that a command's output tells; CommandError if it tells none."""
    found = pattern.search(said)
    try:
        units = float(found[1]) if found else 0.0
    except (TypeError, ValueError):
        units = 0.0
    if not 0 < units < 1e15:
        what = repr(found[0][:60]) if found else "nothing"
        raise CommandError(
            f"no number above 0 in the command's output: {pattern.pattern!r} finds {what}"
        )
    return units


# The meter


class Feed:
    """One meter's seconds as they come, from the controller or from a device of our own."""

    def __init__(self, status: Mapping[str, Any], now_s: Callable[[], float]) -> None:
        """`status` is the meter's, as the control API gives it."""
        self.status = status
        self.period_s: float = status["period_s"]
        self.now_s = now_s
        self.seconds: list[PowerSample] = []
        self.task: asyncio.Future[None] | None = None

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def phase(self, start_s: int, end_s: int) -> Phase:
        """Return what was measured between two seconds, once no more can come of them."""
        silent_s = end_s + patience_s(self.period_s) + 2.0
        while self._heard_s() < end_s and self.now_s() < silent_s:
            if self.task and self.task.done():
                self.task.result()
            await asyncio.sleep(_POLL_S)
        return experiment.phase(self.seconds, start_s, end_s)

    async def hear(self) -> None:
        """Wait for the first second; CommandError if none comes."""
        start_s = int(self.now_s())
        heard = await self.phase(start_s, start_s + 2 + math.ceil(self.period_s))
        if not heard.readings:
            raise CommandError(f"meter {self.status['id']} says nothing: see naproxy measure")

    def _heard_s(self) -> float:
        return self.seconds[-1].t_s + 1.0 if self.seconds else 0.0


@asynccontextmanager
async def listening(args: argparse.Namespace) -> AsyncIterator[Feed]:
    """Listen to the meter; CommandError if there is none, or if its server may fall asleep."""
    async with meters_of(args) as (meters, heard):
        status = _chosen(args.meter, meters.status())
        if isinstance(meters, Asked):
            await asyncio.to_thread(_kept_awake, args.socket, status["of"])
        feed = Feed(status, meters.house_s)
        feed.task = asyncio.ensure_future(_follow(meters, heard, feed))
        try:
            yield feed
        finally:
            feed.task.cancel()


async def _follow(meters: Asked | Meters, heard: Heard, feed: Feed) -> None:
    async for name, second in heard:
        if name == feed.status["id"]:
            feed.seconds.append(second)
            feed.status = _chosen(name, meters.status())


def _chosen(wanted: str | None, known: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found = [status for status in known if wanted in (None, status["id"])]
    if len(found) > 1:
        names = ", ".join(status["id"] for status in known)
        raise CommandError(f"name the meter ({names}): naproxy measure METER -- COMMAND")
    return found[0]


def _kept_awake(socket: str, server: str) -> None:
    for status in call(socket, "status")["servers"]:
        if status["id"] == server and status["mode"] == "auto":
            raise CommandError(
                f"{server} may be put to sleep while it idles:"
                f" first naproxy mode {server} awake --for 2h"
            )


# Output


class Table:
    """The CSV file: a row a phase, written at once."""

    def __init__(self, file: TextIO) -> None:
        """Write the head."""
        self._file = file
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(_COLUMNS)

    def add(self, run: Run) -> None:
        """Write the two phases of a run; duration and units only with the second."""
        did = (f"{run.duration_s:.3f}", f"{run.units:.15g}" if run.units else "")
        for name, phase, rest in (("baseline", run.baseline, ("", "")), ("run", run.run, did)):
            energy = (f"{phase.energy_j:.3f}", f"{phase.covered_s:.3f}", phase.readings)
            place = (run.round + 1, ascii_uppercase[run.command], name)
            self._writer.writerow([*place, phase.start_s, phase.end_s, *energy, *rest])
        self._file.flush()


def report(
    status: Mapping[str, Any], plan: Plan, runs: Sequence[Run], judge: Judge
) -> tuple[list[str], bool]:
    """Return what is said, as lines, and whether all of it could be concluded."""
    lines = _head(status, plan, runs)
    concluded = status["problem"] is None
    if not concluded:
        lines.append(f"NOT CONCLUDED: the meter is in doubt: {status['problem']}")
    good = [run for run in runs if experiment.seen(run)]
    for number, command in enumerate(plan.commands):
        of = [run for run in good if run.command == number]
        left_out = sum(run.command == number for run in runs) - len(of)
        lines += ["", f"{ascii_uppercase[number]}: {shlex.join(command)}", f"   {_times(of)}"]
        if left_out:
            lines.append(f"   {left_out} runs left out: the meter was silent for part of them")
        for figure in judge.figures(of):
            concluded &= figure.doubt is None
            lines += _figure(figure)
    unit = "J/unit" if any(run.units for run in runs) else "J"
    for comparison in judge.comparisons(good, len(plan.commands)):
        concluded &= comparison.concluded
        lines += ["", *_comparison(comparison, unit, paired=judge.paired)]
    return lines, concluded


def _head(status: Mapping[str, Any], plan: Plan, runs: Sequence[Run]) -> list[str]:
    phases = [phase for run in runs for phase in (run.baseline, run.run)]
    covered_s = sum(phase.covered_s for phase in phases)
    rate = sum(phase.readings for phase in phases) / covered_s if covered_s else 0.0
    lines = [
        f"meter {status['id']} ({status['driver']}): {status['measures']};"
        f" accuracy: {status['accuracy']}",
        f"{rate:.2f} readings a second; {plan.runs} rounds in random order, seed {plan.seed};"
        " intervals have 95 % confidence",
    ]
    if status["estimated"]:
        lines.append("ESTIMATE: nothing was measured, the meter's figures are computed")
    return lines


def _times(runs: Sequence[Run]) -> str:
    if not runs:
        return "no run that the meter saw"
    spent_s = [run.duration_s for run in runs]
    idle_w = [run.baseline.mean_w for run in runs]
    return (
        f"{len(runs)} runs of {min(spent_s):.2f} to {max(spent_s):.2f} s;"
        f" idling took {min(idle_w):.3f} to {max(idle_w):.3f} W"
    )


def _figure(figure: Figure) -> list[str]:
    lines = []
    if figure.estimate:
        e = figure.estimate
        lines = [
            f"   {figure.name:<20} {e.value:12.6g} {figure.unit}  ({e.low:.6g} to {e.high:.6g})"
        ]
    if figure.doubt:
        lines.append(f"   {figure.name:<20} NOT CONCLUDED: {figure.doubt}")
    return lines


def _comparison(found: Comparison, unit: str, *, paired: bool) -> list[str]:
    first, second = ascii_uppercase[found.first], ascii_uppercase[found.second]
    lines = []
    if found.test:
        e = found.test.difference
        name = "paired t-test" if paired else "Welch's t-test"
        lines = [
            f"{first} - {second}: {e.value:.6g} {unit} ({e.low:.6g} to {e.high:.6g}); {name},"
            f" t = {found.test.t:.3f}, {found.test.degrees:.1f} degrees, p = {found.test.p:.3g}"
        ]
    if found.concluded:
        return [*lines, f"{first} takes {found.words} than {second}"]
    return [*lines, f"{first} and {second}: NOT CONCLUDED: {found.words}"]


def _units(args: argparse.Namespace) -> Callable[[str], float | None]:
    pattern: re.Pattern[str] | None = args.units_from
    if pattern:
        return lambda said: units_from(pattern, said)
    units: float | None = args.units
    return lambda _: units


async def run(args: argparse.Namespace) -> int:
    """Measure what `args.commands` cost; returns the exit status."""
    plan = Plan(
        split(args.commands),
        args.runs,
        args.warm_up,
        args.settle,
        args.baseline,
        time.time_ns() % 1_000_000 if args.seed is None else args.seed,
        _units(args),
    )
    count = 0
    async with listening(args) as feed:
        await feed.hear()
        # An older file is not overwritten: it took hours to make.
        with args.csv.open("x", encoding="utf-8") if args.csv else nullcontext() as file:
            table = Table(file) if file else None

            def finished(run: Run) -> None:
                nonlocal count
                count += 1
                if table:
                    table.add(run)
                name = f"{count}/{len(plan.commands) * plan.runs}: {ascii_uppercase[run.command]}"
                print(f"{name} {run.duration_s:.2f} s", file=sys.stderr, flush=True)

            runs = await perform(plan, feed, execute, finished)
    judge = Judge(feed.period_s, args.within / 100, args.paired)
    lines, concluded = report(feed.status, plan, runs, judge)
    print("\n".join(lines))
    return 0 if concluded else NOT_CONCLUDED
