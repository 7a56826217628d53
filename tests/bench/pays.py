"""Does it pay? Net savings by wake time, promise and cache on every log: build/bench/pays.json.

The box's own rule, as a box has it, over the real logs beside the project and over made ones
that nobody tuned to. `pays.md` beside the file has the table of docs/deciding.md.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

from naproxy.core.state import Klass
from naproxy.lab.estimate.lineup import ENTRANTS, Case, Promise, Server, simulation
from naproxy.lab.estimate.traffic import Traffic

from tests.bench.policy import eligible, real_logs, unseen
from tests.bench.result import goal, output_path, write

WAKES_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
USUAL_S: Final = 5.0
FRACTIONS: Final = (0.01, 0.02, 0.05, 0.10)
CACHES: Final = {"box-frozen": "files", "box-pages": "pages too"}
DELTA_S: Final = 1.0
OURS: Final = "teacher"
DAYS: Final = 14
"""Of a made log."""
QUIET_PER_DAY: Final = 30_000
"""Requests of people: the goals are means over logs that have fewer."""


class Cell(NamedTuple):
    """One combination."""

    cache: str
    wake_s: float
    fraction: float

    @property
    def key(self) -> str:
        """Return it in words."""
        return f"{CACHES[self.cache]}, {self.wake_s:g} s, {self.fraction:.0%}"


CELLS: Final = [Cell(*each) for each in product(CACHES, WAKES_S, FRACTIONS)]
_logs: list[Traffic] = []  # inherited by the processes that work


def main() -> None:
    """Measure, and write the files."""
    path = output_path()
    with ExitStack() as stack:
        real = real_logs(stack)
        _logs[:] = [*real, *unseen(real, stack, DAYS, fewer=True)]
        people = {log.name: log.daily(Klass.PERSON, Klass.API) for log in _logs}
        found = _measure()
    quiet = [name for name, daily in people.items() if daily < QUIET_PER_DAY]
    means = {cell: statistics.fmean(found[name][cell] for name in quiet) for cell in CELLS}
    goals = [
        goal(f"mean net saving, {cell.key}", means[cell], wanted, ">=")
        for cell, wanted in (
            (Cell("box-pages", USUAL_S, 0.05), 0.50),
            (Cell("box-pages", 1.0, 0.05), 0.70),
        )
    ]
    logs = {
        name: {"people_a_day": people[name], "net": {c.key: net for c, net in cells.items()}}
        for name, cells in found.items()
    }
    write(path, goals, {"logs": logs, "averaged": quiet})
    table = _table(found, quiet, means)
    path.with_suffix(".md").write_text(table)


def _measure() -> dict[str, dict[Cell, float]]:
    """Return the net saving of each log and cell, as a share of an always-on server's energy.

    A log that is busy day and night takes most of the time and saves nothing: it has one wake.
    """
    jobs = [
        (number, cache, wake_s)
        for number, log in enumerate(_logs)
        for cache, wake_s in product(CACHES, WAKES_S if eligible(log) else (USUAL_S,))
    ]
    found: dict[str, dict[Cell, float]] = {log.name: {} for log in _logs}
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        for (number, _, _), cells in zip(jobs, pool.map(_job, jobs), strict=True):
            found[_logs[number].name] |= cells
            for cell, net in cells.items():
                sys.stdout.write(f"{_logs[number].name:<34}{cell.key:<26}{net:7.1%}\n")
            sys.stdout.flush()
    return found


def _job(job: tuple[int, str, float]) -> dict[Cell, float]:
    number, cache, wake_s = job
    log, server = _logs[number], replace(Server(), wake_s=wake_s)
    running = {}
    for fraction in FRACTIONS:
        case = Case(cache, "closed", Promise(fraction, DELTA_S))
        made = ENTRANTS[OURS].make(server, case)
        cell = Cell(cache, wake_s, fraction)
        running[cell] = simulation(made, server.cache(cache), server, case)
    for chunk in log:
        for each in running.values():
            each.feed(chunk)
    power = server.power
    return {
        cell: each.finish().saving_j(power) / (power.on_w * log.span_s) - power.proxy_w / power.on_w
        for cell, each in running.items()
    }


def _table(
    found: dict[str, dict[Cell, float]], quiet: Sequence[str], means: dict[Cell, float]
) -> str:
    """Return the means, and each log at 5 s, as two tables in Markdown."""
    heads = [f"{words}: {f:.0%}" for words in CACHES.values() for f in FRACTIONS]
    lines = [f"| wakes in | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]

    def row(name: str, wake_s: float, nets: dict[Cell, Any]) -> str:
        cells = [Cell(cache, wake_s, f) for cache in CACHES for f in FRACTIONS]
        return f"| {name} | {' | '.join(f'{nets[cell]:.1%}' for cell in cells)} |"

    lines += [row(f"{wake_s:g} s", wake_s, means) for wake_s in WAKES_S]
    lines += ["", f"Means over {', '.join(quiet)}.", ""]
    lines += [f"| log, {USUAL_S:g} s | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    lines += [row(name, USUAL_S, nets) for name, nets in found.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
