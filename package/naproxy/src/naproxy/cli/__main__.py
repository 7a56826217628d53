"""The command `naproxy`. Each subcommand is declared by its own module, loaded when needed.

A module has `add_parser(subparsers)`, which adds one or more subcommands, and
`run(args) -> int`, which returns the exit status, or raises CommandError, or the OSError of a
file that was named to it.
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
from naproxy.api.command import CommandError

COMMANDS: Final = {
    "controller": "naproxy.daemon.main",
    "status": "naproxy.cli.commands",
    "wake": "naproxy.cli.commands",
    "sleep": "naproxy.cli.commands",
    "mode": "naproxy.cli.commands",
    "journal": "naproxy.cli.commands",
    "wakes": "naproxy.cli.commands",
    "cache": "naproxy.cli.commands",
    "config": "naproxy.cli.commands",
    "key": "naproxy.setup.keys",
    "doctor": "naproxy.cli.doctor",
    "look": "naproxy.cli.look",
    "site": "naproxy.cli.site",
    "commission": "naproxy.cli.commission",
    "arm": "naproxy.cli.commission",
    "leave": "naproxy.cli.commission",
    "live": "naproxy.cli.commission",
    "meter": "naproxy.cli.meter",
    "measure": "naproxy.lab.measure.measure",
    "update": "naproxy.cli.update",
    "certificate": "naproxy.cli.certificate",
    "edge": "naproxy.cli.certificate",
    "acme-hook": "naproxy.cli.acme_hook",
    "fleet": "naproxy.cli.fleet",
    "export": "naproxy.cli.export",
    "metrics": "naproxy.cli.export",
    "mqtt": "naproxy.cli.mqtt",
    "notify": "naproxy.cli.notify",
    "fetch": "naproxy.lab.transfer.command",
    "replay": "naproxy.lab.replay.replay",
    "estimate": "naproxy.lab.estimate.estimate",
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
    if named == "naproxy.lab.measure.measure" and "--" in arguments:
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
    except CommandError as error:
        print(f"naproxy {args.command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"naproxy {args.command}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return status


def _installed() -> list[str]:
    """Return the modules of the subcommands, in their order, that are there."""
    return [m for m in dict.fromkeys(COMMANDS.values()) if find_spec(m)]


if __name__ == "__main__":
    sys.exit(main())
