"""Runs a declared experiment: order, meter, processes, counters, and a file that outlives a crash.

A run that fails a check is written with its fault and repeated. Valid runs are never repeated, so
an experiment that was stopped continues at the same place.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from naproxy.api.command import CommandError
from naproxy.lab.measure import declared, experiment
from naproxy.lab.measure.declared import Experiment, Host, label
from naproxy.lab.measure.experimenting import Execute, Feed, measured

MOST_FAULTS: Final = 3
"""A cell whose runs fail so often in a row ends the experiment: something is wrong with it."""

_COUNTERS: Final = ("cat", "/proc/stat", "/proc/net/dev")


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one cell, valid if it has no fault."""

    round: int
    cell: int
    duration_s: float
    metrics: Mapping[str, float]
    fault: str | None = None
    began_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters of a machine since its start: busy seconds of its processors, and bytes."""

    cpu_s: float
    in_bytes: int
    out_bytes: int


def counted(text: str, ticks_s: float = 100.0) -> Counted:
    """Read /proc/stat and /proc/net/dev, one after the other; ValueError if they are not both.

    Busy is all but idle and iowait (proc(5)). The loopback does not count.
    """
    cpu: list[int] = []
    received = sent = 0
    interfaces = False
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if line.startswith("cpu ") and not cpu:
            cpu = [int(word) for word in line.split()[1:9]]
        elif line.startswith("Inter-|"):
            interfaces = True
        elif interfaces and rest and name.strip() != "lo":
            words = rest.split()
            received += int(words[0])
            sent += int(words[8])
    if len(cpu) < 5 or not interfaces:
        raise ValueError("not /proc/stat and /proc/net/dev")
    return Counted((sum(cpu) - cpu[3] - cpu[4]) / ticks_s, received, sent)


# The file


def read_runs(path: Path, what: Experiment) -> tuple[dict[str, Any], list[Trial]]:
    """Return the head and the runs of a file, without a last line that a crash tore.

    CommandError if it is damaged or another declaration's; an empty head if it has none.
    """
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    try:
        head, *rows = [json.loads(line) for line in whole.splitlines()] or [{}]
        trials = [Trial(**row) for row in rows]
        digest = head.get("digest", what.digest)
        damaged = any(not 0 <= trial.cell < len(what.cells) for trial in trials)
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandError(f"{path} is damaged: {error}") from None
    if digest != what.digest:
        raise CommandError(
            f"{path} has runs of another declaration: give another folder, or change the"
            " declaration back"
        )
    if damaged:
        raise CommandError(f"{path} is damaged: it has a run of an unknown combination")
    return head, trials


@dataclass
class Journal:
    """The runs of one experiment, a JSON object a line, the first about the experiment."""

    path: Path
    trials: list[Trial] = field(default_factory=list)
    _file: TextIO | None = None

    def open(self, what: Experiment, about: Mapping[str, Any]) -> None:
        """Continue the file, or begin it; CommandError if it is another experiment's."""
        new = not self.path.exists() or not read_runs(self.path, what)[0]
        if not new:
            self.trials = read_runs(self.path, what)[1]
            raw = self.path.read_bytes()
            os.truncate(self.path, raw.rfind(b"\n") + 1)  # A crash may have torn the last line.
        self._file = self.path.open("a" if not new else "w", encoding="utf-8")
        if new:
            self._write({"digest": what.digest, "name": what.name, **about})

    def add(self, trial: Trial) -> None:
        """Write a run, so that it survives a power cut."""
        self.trials.append(trial)
        self._write(asdict(trial))

    def _write(self, what: Mapping[str, Any]) -> None:
        if self._file is None:
            raise CommandError(f"{self.path} is not open")
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


# The missing runs


def left(what: Experiment, trials: Sequence[Trial]) -> Iterator[tuple[int, int]]:
    """Yield round and cell of the missing runs, each round in its own random order."""
    done = {(trial.round, trial.cell) for trial in trials if trial.fault is None}
    orders = experiment.order(len(what.cells), what.repeats, what.seed)
    for number, cells in enumerate(orders):
        yield from ((number, cell) for cell in cells if (number, cell) not in done)


def ends_s(trials: Sequence[Trial], remaining: int, now_s: float) -> float | None:
    """Return the expected end, from the time between the runs so far; None if unknown."""
    began = [trial.began_s for trial in trials[-50:]]
    if len(began) < 2:
        return None
    return now_s + remaining * (began[-1] - began[0]) / (len(began) - 1)


# Running


@dataclass
class Runner:
    """Runs the missing runs. Without a `meter` it measures time, processor and bytes only."""

    what: Experiment
    journal: Journal
    meter: Feed | None
    execute: Execute
    told: Callable[[str], None]
    now_s: Callable[[], float] = time.time
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Run all missing runs; CommandError if a cell fails again and again."""
        todo = list(left(self.what, self.journal.trials))
        if todo and not self.journal.trials:
            for cell in range(len(self.what.cells)):
                for _ in range(self.what.warm_up):
                    await self._work(cell)
        for place, (number, cell) in enumerate(todo):
            faults = 0
            while True:
                trial = await self._trial(number, cell)
                self.journal.add(trial)
                self._tell(trial, len(todo) - place - 1)
                if trial.fault is None:
                    break
                faults += 1
                if faults == MOST_FAULTS:
                    raise CommandError(
                        f"{label(self.what.cells[cell]) or self.what.name} failed"
                        f" {faults} times in a row: {trial.fault}"
                    )

    def _tell(self, trial: Trial, remaining: int) -> None:
        total = self.what.repeats * len(self.what.cells)
        until = ends_s(self.journal.trials, remaining, self.now_s())
        end = f"; ends about {time.strftime('%a %H:%M', time.localtime(until))}" if until else ""
        fault = f"; repeated: {trial.fault}" if trial.fault else ""
        cell = label(self.what.cells[trial.cell])
        self.told(f"{total - remaining}/{total}: {cell} {trial.duration_s:.2f} s{fault}{end}")

    async def _work(self, cell: int) -> tuple[str, float, Mapping[str, float]]:
        """Run the command; return its output, its seconds, and the counters of each host."""
        levels = self.what.cells[cell]
        command = self.what.words(self.what.command, levels)
        before = await self._counters()
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self.what.limit_s):
                said = await self.execute(command)
        except TimeoutError:
            raise CommandError(
                f"{shlex.join(command)} took longer than limit_s = {self.what.limit_s:g}"
            ) from None
        duration_s = time.monotonic() - began_s
        used: dict[str, float] = {}
        for host, now in (await self._counters()).items():
            since = before[host]
            used[f"{host}_cpu_s"] = now.cpu_s - since.cpu_s
            used[f"{host}_in_bytes"] = now.in_bytes - since.in_bytes
            used[f"{host}_out_bytes"] = now.out_bytes - since.out_bytes
        return said, duration_s, used

    async def _counters(self) -> dict[str, Counted]:
        return {host.name: await self._counted(host) for host in self.what.hosts}

    async def _counted(self, host: Host) -> Counted:
        command: Sequence[str] = _COUNTERS
        if host.ssh:
            login = self.what.words([host.ssh], {})
            command = ["ssh", "-oBatchMode=yes", "--", *login, *_COUNTERS]
        try:
            return counted(await self.execute(command))
        except ValueError as error:
            raise CommandError(f"host {host.name}: {error}") from None

    async def _trial(self, number: int, cell: int) -> Trial:
        began_s = self.now_s()
        metrics: dict[str, float] = {}
        prepared = ""
        try:
            if self.what.before:
                words = self.what.words(self.what.before, self.what.cells[cell])
                prepared = await self.execute(words)
            if self.meter is None:
                await self.pause(self.what.settle_s)
                said, duration_s, used = await self._work(cell)
            else:
                ran = await measured(
                    self.meter, self.what.settle_s, self.what.baseline_s, lambda: self._work(cell)
                )
                said, duration_s, used = ran.said
                one = experiment.Run(number, cell, ran.baseline, ran.run, duration_s)
                if not experiment.seen(one):
                    fault = "the meter was silent for part of it"
                    return Trial(number, cell, duration_s, {}, fault, began_s)
                metrics |= {
                    "energy_j": one.energy_j,
                    "above_idle_j": one.above_idle_j,
                    "power_w": one.energy_j / duration_s,
                }
        except CommandError as error:
            return Trial(number, cell, self.now_s() - began_s, {}, str(error), began_s)
        metrics |= {"duration_s": duration_s, **used}
        wrong = self._said(f"{prepared}\n{said}", metrics)
        return Trial(number, cell, duration_s, {} if wrong else metrics, wrong, began_s)

    def _said(self, said: str, metrics: dict[str, float]) -> str | None:
        """Add the output's numbers to the metrics; return the reason why the run is not valid."""
        for check in self.what.checks:
            fault = check.fault(said)
            if fault:
                return fault
        try:
            for name, pattern in self.what.metrics.items():
                metrics[name] = declared.number(pattern, said)
            if self.what.units_from:
                units = declared.number(self.what.units_from, said)
                if units <= 0:
                    return f"{units:g} of {self.what.unit} were done"
                metrics[f"{self.what.unit}_per_s"] = units / metrics["duration_s"]
                for name in [name for name in metrics if name.endswith(("_j", "_cpu_s"))]:
                    metrics[f"{name}_per_{self.what.unit}"] = metrics[name] / units
        except ValueError as error:
            return str(error)
        return None
