"""The command `naproxy`. Each subcommand is declared by its own module, loaded when needed.

A module has `add_parser(subparsers)`, which adds one or more subcommands, and
`run(args) -> int`, which returns the exit status, or raises CommandError, or the OSError of a
file that was named to it.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
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
    "experiment": "naproxy.lab.measure.experiments",
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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name of a calendar's event need not fit the terminal's character set.
        sys.stdout.reconfigure(errors="backslashreplace")
    named = COMMANDS.get(arguments[0]) if arguments else None
    parser = make_parser([named] if named else _installed())
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
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except CommandError as error:
        print(f"naproxy {args.command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        said = filter(None, (error.filename, error.strerror or repr(error)))
        print(f"naproxy {args.command}: {': '.join(map(str, said))}", file=sys.stderr)
        if error.filename is None:
            _drop_output()
        return 1
    except Exception as error:
        if args.command == "controller":
            raise  # The system's log keeps the whole trace of a service.
        print(f"naproxy {args.command}: {_unexpected(error)}", file=sys.stderr)
        return 1
    return status


def make_parser(modules: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the subcommands that these modules declare."""
    parser = argparse.ArgumentParser(
        prog="naproxy",
        description="Put a web server to sleep when nobody needs it, and wake it when"
        " somebody does.",
    )
    parser.add_argument("--version", action="version", version=f"naproxy {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in modules:
        importlib.import_module(module).add_parser(subparsers)
    return parser


def _drop_output() -> None:
    """Discard what is still buffered: Python would try, and fail, to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unexpected(error: Exception) -> str:
    """Return an error that no command expects as one line, with its place for a bug report."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"unexpected {what} ({Path(place.filename).name}, line {place.lineno})."
        " After an upgrade, restart the controller: systemctl restart naproxy."
        f" If that does not help, report this line as a bug in Naproxy {__version__}."
    )


def _installed() -> list[str]:
    """Return the modules of the subcommands, in their order, that are there."""
    return [m for m in dict.fromkeys(COMMANDS.values()) if find_spec(m)]


if __name__ == "__main__":
    sys.exit(main())
