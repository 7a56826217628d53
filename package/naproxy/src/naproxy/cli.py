"""The command `naproxy`. Each subcommand is declared by its own module, loaded when needed.

A module has `add_parser(subparsers)`, which adds one or more subcommands, and
`run(args) -> int`, which returns the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from naproxy import __version__

COMMANDS: Final = {
    "controller": "naproxy.controller",
    "status": "naproxy.commands",
    "wake": "naproxy.commands",
    "sleep": "naproxy.commands",
    "mode": "naproxy.commands",
    "journal": "naproxy.commands",
    "wakes": "naproxy.commands",
    "config": "naproxy.commands",
    "key": "naproxy.keys",
    "doctor": "naproxy.doctor",
    "commission": "naproxy.commission",
    "arm": "naproxy.commission",
    "measure": "naproxy.measure",
    "update": "naproxy.update.command",
    "fleet": "naproxy.update.fleet",
    "export": "naproxy.export",
    "metrics": "naproxy.export",
    "mqtt": "naproxy.mqtt",
    "replay": "naproxy.replay",
    "estimate": "naproxy.estimate",
}
"""Module of each subcommand."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `naproxy` with these arguments; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="naproxy",
        description="Put a web server to sleep when nobody needs it, and wake it when"
        " somebody does.",
    )
    parser.add_argument("--version", action="version", version=f"naproxy {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    named = COMMANDS.get(arguments[0]) if arguments else None
    for module in [named] if named else _installed():
        importlib.import_module(module).add_parser(subparsers)
    commands: list[str] | None = None
    if named == "naproxy.measure" and "--" in arguments:
        # argparse would take the first word of the command for the meter's name.
        place = arguments.index("--")
        arguments, commands = arguments[:place], arguments[place + 1 :]
    args = parser.parse_args(arguments, argparse.Namespace(commands=commands))
    try:
        status: int = importlib.import_module(COMMANDS[args.command]).run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as `| head` has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status


def _installed() -> list[str]:
    """Return the modules of the subcommands, in their order, that are there."""
    return [m for m in dict.fromkeys(COMMANDS.values()) if find_spec(m)]


if __name__ == "__main__":
    sys.exit(main())
