"""The command `naproxy update`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from naproxy.api.command import CommandError, call, socket_option
from naproxy.update.updates import BUSY

_POLL_S: Final = 0.2


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "update",
        help="write a new image of this box, or go back to the previous one",
        description="Write an update (a bundle of RAUC) into the slot that is not running. It runs"
        " after a restart of the box. Without a FILE: say what runs now, and what runs next.",
        parents=[socket_option()],
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the bundle")
    what.add_argument("--back", action="store_true", help="run the other image after a restart")
    what.add_argument(
        "--stay", action="store_true", help="run the current image after a restart after all"
    )
    what.add_argument(
        "--confirm",
        action="store_true",
        help="confirm that what runs is in order: for the image's own check",
    )
    parser.add_argument("--check", action="store_true", help="only check FILE")
    parser.add_argument("--older", action="store_true", help="write FILE even if it is not newer")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; CommandError with the reason if it was not done."""
    told = _do(args)
    print(json.dumps(told, indent=2) if args.json else "\n".join(describe(told)))
    return 0


def _do(args: argparse.Namespace) -> Any:
    if args.file:
        return _update(args)
    if args.back or args.stay:
        slot = "other" if args.back else "booted"
        return call(args.socket, "update.activate", {"slot": slot})
    if args.confirm:
        return call(args.socket, "update.confirm")
    return call(args.socket, "update")


def _update(args: argparse.Namespace) -> Any:
    file = str(args.file.absolute())
    told = _wait(args, call(args.socket, "update.check", {"file": file}))
    if told["job"]["phase"] != "ready":
        raise CommandError(f"{args.file}: {told['job']['error']}")
    if args.check:
        call(args.socket, "update.forget")
        return told
    call(args.socket, "update.install", {"older": args.older})
    told = _wait(args, told)
    if told["job"]["phase"] != "written":
        raise CommandError(told["job"]["error"])
    return told


def _wait(args: argparse.Namespace, told: Any) -> Any:
    while True:
        told = call(args.socket, "update")
        job = told["job"]
        if job["phase"] not in BUSY:
            return told
        if sys.stderr.isatty():
            print(f"\r{job['phase']} {job['percent']:3} %", end="\r", file=sys.stderr, flush=True)
        time.sleep(_POLL_S)


def describe(told: Any) -> list[str]:
    """Return the status as lines for people."""
    if told["problem"]:
        return [f"version {told['version']}; {told['problem']}"]
    sure = "confirmed" if told["confirmed"] else "not confirmed yet"
    lines = [f"{told['board']}, version {told['version']}, {sure}"]
    for slot in told["slots"]:
        marks = [
            words
            for flag, words in (("booted", "runs"), ("boots_next", "runs after a restart"))
            if slot[flag]
        ]
        lines.append(
            f"  {slot['name']:4} {slot['version'] or '-':12} "
            f"{'good' if slot['good'] else 'bad ':4}  {', '.join(marks)}".rstrip()
        )
    bundle, phase = told["job"]["bundle"], told["job"]["phase"]
    if bundle:
        said = f"{bundle['version']} for {bundle['board']}, signed by {bundle['signed_by']}"
        lines.append(f"update: {phase}: {said}; {told['job']['order']} than what runs")
    return lines
