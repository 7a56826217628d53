"""`naproxy experiment`: run the experiment that a TOML file declares, and report its findings."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from naproxy.api.command import CommandError, add_config_option, socket_option
from naproxy.core import log
from naproxy.core.schema import ConfigError
from naproxy.drivers.meter import Fault
from naproxy.lab import papers
from naproxy.lab.measure import declared, findings, findings_html
from naproxy.lab.measure.declared import Experiment
from naproxy.lab.measure.experimenting import execute, listening
from naproxy.lab.measure.trial import Journal, Runner, Trial, left, read_runs

RUNS: Final = "runs.jsonl"
PRESETS: Final = {path.stem: path for path in (Path(papers.__file__).parent).glob("*.toml")}
"""The papers' experiments by name."""


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy experiment`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "experiment",
        help="run a declared experiment with a meter, and report means and comparisons",
        description="Run the experiment of FILE: each combination of its factors' levels several"
        " times, in random order. The same command continues an experiment that was stopped."
        " See docs/measure.md.",
        parents=[socket_option()],
    )
    parser.add_argument(
        "file",
        type=_declaration,
        metavar="FILE",
        help=f"the declaration, TOML, or one of a paper: {', '.join(sorted(PRESETS))}",
    )
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="where the results go (default: its name)"
    )
    parser.add_argument("--meter", metavar="METER", help="the meter, if there are several")
    parser.add_argument(
        "--without-meter", action="store_true", help="measure time, processors and bytes only"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_variable,
        metavar="NAME=VALUE",
        help="replace a variable of the file",
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs, as the file declares")
    parser.add_argument("--report", action="store_true", help="only write the reports again")
    parser.add_argument("--plan", action="store_true", help="only print the commands to be run")
    add_config_option(parser)


def _declaration(text: str) -> Path:
    return PRESETS.get(text, Path(text))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def run(args: argparse.Namespace) -> int:
    """Run or continue it; returns the exit status."""
    log.to_standard_error()
    try:
        with args.file.open("rb") as file:
            raw = file.read(declared.MOST_BYTES + 1)
        what = declared.read(raw, dict(args.set), quick=args.quick)
    except CommandError as error:
        raise CommandError(f"{args.file}: {error}") from None
    if args.plan:
        print("\n".join(planned(what)))
        return 0
    folder: Path = args.into or Path(what.name)
    if args.report:
        return report(what, folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(_run(args, what, folder))
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None
    except Fault as error:
        raise CommandError(str(error)) from None
    return report(what, folder)


def planned(what: Experiment) -> list[str]:
    """Return the commands to be run, as lines."""
    return [
        f"{declared.label(cell) or what.name}: {' '.join(what.words(what.command, cell))}"
        for cell in what.cells
    ] + [f"{len(what.cells)} combinations, {what.repeats} runs of each"]


async def _run(args: argparse.Namespace, what: Experiment, folder: Path) -> None:
    journal = Journal(folder / RUNS)
    about: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        meter = None
        if not args.without_meter:
            meter = await stack.enter_async_context(listening(args))
            await meter.hear()
            if meter.status["problem"]:
                raise CommandError(f"the meter is in doubt: {meter.status['problem']}")
            about = {
                "meter": meter.status["id"],
                "accuracy": str(meter.status["accuracy"]),
                "estimated": meter.status["estimated"],
            }
        stack.callback(journal.close)
        journal.open(what, about)
        await Runner(what, journal, meter, execute, _tell).run()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def report(what: Experiment, folder: Path) -> int:
    """Write the reports of the runs in a folder; returns the exit status."""
    head, trials = read_runs(folder / RUNS, what)
    valid = [trial for trial in trials if trial.fault is None]
    metrics = findings.findings(what, [(trial.cell, trial.metrics) for trial in valid])
    _write_csv(what, folder / "runs.csv", valid)
    (folder / "report.json").write_text(
        json.dumps({**findings.as_json(what, metrics), **head}, indent=1) + "\n"
    )
    counts = len(valid), len(trials) - len(valid)
    (folder / "report.html").write_text(findings_html.page(what, head, metrics, counts))
    print("\n".join(findings.text(what, metrics)))
    missing = len(list(left(what, trials)))
    if missing:
        print(f"\nNOT COMPLETE: {missing} runs are missing; run the same command again")
    print(f"\n{folder}/report.html, report.json, runs.csv")
    return 3 if missing else 0


def _write_csv(what: Experiment, path: Path, trials: Sequence[Trial]) -> None:
    names = list(dict.fromkeys(name for trial in trials for name in trial.metrics))
    factors = [factor.name for factor in what.factors]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["round", *factors, "began_s", *names])
        for trial in trials:
            levels = [what.cells[trial.cell][name] for name in factors]
            values = [trial.metrics.get(name, "") for name in names]
            writer.writerow([trial.round + 1, *levels, f"{trial.began_s:.3f}", *values])
