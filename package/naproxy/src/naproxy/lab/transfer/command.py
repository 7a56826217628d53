"""`naproxy fetch`: many files, with little energy, fast, or both."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from naproxy.api.command import CommandError, above_0, add_config_option, socket_option
from naproxy.core.log import printable
from naproxy.core.reason import WrongError
from naproxy.core.schema import ConfigError
from naproxy.lab.transfer.sla import Sla, parse
from naproxy.lab.transfer.sweep import COMBINED, PARAMETERS, Tuning, sweep, table
from naproxy.lab.transfer.urls import checked, file_name

if TYPE_CHECKING:
    from naproxy.lab.transfer.fetch import Report

_MOST: Final = 64
_MB: Final = 1e6
_BITS: Final = 8


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fetch",
        help="fetch files with little energy, fast, or both",
        parents=[socket_option()],
        description="Fetch files by HTTP with as many channels as an algorithm says. Without"
        " --out they are read and thrown away. Nothing is overwritten. With --sweep they are"
        " fetched again and again, and it prints what each level took. Exit status 1 if one of"
        " them could not be had.",
    )
    parser.add_argument(
        "--sla",
        type=_sla,
        default=Sla("ee"),
        help="mine: with the least energy; maxthr: as fast as possible; ee: with the best ratio of"
        " both; flexible:0.8: at that share of the highest speed (default: ee)",
    )
    parser.add_argument(
        "--most-channels",
        type=_channels,
        default=12,
        metavar="N",
        help=f"files at a time, 1 to {_MOST} (default: %(default)s)",
    )
    parser.add_argument(
        "--bandwidth",
        type=above_0,
        default=100.0,
        metavar="MBIT",
        help="of the link, in Mbit/s (default: %(default)g)",
    )
    parser.add_argument(
        "--meter",
        action="append",
        default=[],
        metavar="ID",
        help="take the joules from this meter, measured or a fitted model, instead of the built-in"
        " estimate; may be repeated, so that both ends count",
    )
    parser.add_argument(
        "--sweep",
        choices=(*PARAMETERS, COMBINED),
        help="try 1, 2, 4, 8, 16 and 32 of this, the others at 1; combined: channels, with the best"
        " pipelining and parallelism",
    )
    add_config_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep them in this folder")
    parser.add_argument("urls", nargs="+", metavar="URL", help="http:// or https://")


def _sla(text: str) -> Sla:
    try:
        return parse(text)
    except WrongError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _channels(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Fetch, and say what became of each; nothing is fetched if an argument is wrong."""
    if args.sweep and args.out:
        raise CommandError("--sweep fetches the same files again and again: leave --out away")
    places = _places(args.urls, args.out)
    if not args.meter:
        return _run(args, places, None)
    from naproxy.lab.transfer.metered import counter  # noqa: PLC0415 - loads the drivers

    try:
        with counter(args.meter, args.socket, args.config) as energy:
            return _run(args, places, energy)
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None


def _run(
    args: argparse.Namespace, places: Sequence[Path | None], energy: Callable[[], float] | None
) -> int:
    from naproxy.lab.transfer.fetch import File, Job, fetch  # noqa: PLC0415 - loads libcurl

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def told(file: File) -> None:
        if file.problem:
            said = str(file.problem)
        else:
            said = f"{file.status}, {file.bytes} bytes in {file.seconds:.2f} s"
        out = sys.stdout if file.good else sys.stderr
        print(printable(f"{file.job.url}: {said}"), file=out)

    def fetched(tuning: Tuning | None = None) -> Report:
        return fetch(
            [Job(url, to=to) for url, to in zip(args.urls, places, strict=True)],
            args.sla,
            most_channels=args.most_channels,
            energy=energy,
            bandwidth_bytes_s=args.bandwidth * _MB / _BITS,
            follow=True,
            stop=stop,
            told=None if tuning else told,
            tuning=tuning,
        )

    if args.sweep:
        return _sweep(args, fetched, stop)
    report = fetched()
    for step in report.steps[:-1]:
        channels = ", ".join(f"{n} {group}" for group, n in step.channels.items() if n)
        print(
            f"after {step.t_s:.1f} s at {step.bytes_s * _BITS / _MB:.1f} Mbit/s and"
            f" {step.joules:.0f} J: {channels or 'nothing left'}"
        )
    good = sum(file.good for file in report.files)
    print(
        f"{good} of {len(report.files)} files, {report.bytes} bytes in {report.seconds:.1f} s:"
        f" {report.bytes_s * _BITS / _MB:.1f} Mbit/s, about {report.joules:.0f} J"
        f" ({', '.join(args.meter) or 'modelled: docs/transfer.md'})"
    )
    if stop.is_set():
        return 130
    return 0 if good == len(report.files) else 1


def _sweep(
    args: argparse.Namespace, fetched: Callable[[Tuning], Report], stop: threading.Event
) -> int:
    spoke_http2 = False

    def transfer(tuning: Tuning) -> Report:
        nonlocal spoke_http2
        report = fetched(tuning)
        if stop.is_set():
            raise KeyboardInterrupt
        if bad := next((file for file in report.files if not file.good), None):
            why = str(bad.problem) if bad.problem else f"status {bad.status}"
            raise CommandError(printable(f"{bad.job.url}: {why}"))
        spoke_http2 |= report.http2
        return report

    for parameter, levels in sweep(args.sweep, transfer, random.SystemRandom()):
        print("\n".join(table(parameter, levels)), flush=True)
    print(f"joules: {', '.join(args.meter) or 'modelled, see docs/transfer.md'}")
    if not spoke_http2:
        print("no HTTP/2 was spoken, so pipelining did nothing: docs/transfer.md")
    return 0


def _places(urls: Sequence[str], out: Path | None) -> list[Path | None]:
    """Return where each address is kept; CommandError names one that cannot be."""
    try:
        names = [file_name(checked(url)) for url in urls]
    except WrongError as error:
        raise CommandError(printable(str(error))) from None
    if out is None:
        return [None] * len(urls)
    if not out.is_dir():
        raise CommandError(f"--out: {out} is no folder")
    for name, count in Counter(names).items():
        if count > 1:
            raise CommandError(f"--out: {count} addresses would be {out / name}")
        if (out / name).is_symlink() or (out / name).exists():
            raise CommandError(f"--out: {out / name} is there already")
    return [out / name for name in names]
