"""`naproxy export` and `naproxy metrics`: the history and the figures of now, for others."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from naproxy.api import measures
from naproxy.api.command import (
    CommandError,
    add_config_option,
    call,
    duration,
    installation_options,
    installed,
    socket_option,
)
from naproxy.config import document as config
from naproxy.core import office_time
from naproxy.core.processes import why
from naproxy.core.schema import ConfigError
from naproxy.history.read import queries, rows
from naproxy.history.tables import FILE

_FORMS: Final = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S")


def add_parser(subparsers: Any) -> None:
    """Declare the subcommands."""
    export: argparse.ArgumentParser = subparsers.add_parser(
        "export",
        help="write the history as CSV or JSON",
        description="Write a part of the history to standard output. Times are the office's;"
        " power is in watts, energy in joules.",
        parents=[installation_options("data_dir")],
    )
    export.add_argument(
        "what", choices=sorted(rows.COLUMNS), metavar="WHAT", help="one of %(choices)s"
    )
    export.add_argument("id", nargs="?", metavar="ID", help="only this meter or server")
    when = "such as 2026-03-01, '2026-03-01 18:00', or 7d for seven days ago"
    export.add_argument("--from", dest="begin", default="1d", metavar="WHEN", help=f"{when} (1d)")
    export.add_argument("--to", dest="end", default="0s", metavar="WHEN", help="the same (now)")
    export.add_argument(
        "--tier",
        choices=tuple(queries.TIERS),
        help="for power: seconds (kept for 7 days), minutes (400 days) or hours; for traffic:"
        " minutes (7 days) or hours (default: minutes for power, hours for traffic)",
    )
    form = export.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV (the default)")
    form.add_argument("--json", action="store_true", help="as JSON, one object a line")
    add_config_option(export)
    subparsers.add_parser(
        "metrics",
        help="write the current figures in Prometheus' text format",
        description="Write the current figures in Prometheus' text format.",
        parents=[socket_option()],
    )


def _moment(text: str, option: str) -> float:
    """Read a date and time of the office's clock, or how long ago, as epoch seconds."""
    for form in _FORMS:
        try:
            read = datetime.strptime(text, form)
            return office_time.instant_s(read)
        except (ValueError, OverflowError):
            continue
    try:
        return time.time() - duration(text)
    except argparse.ArgumentTypeError as error:
        raise CommandError(str(error), option) from None


def run(args: argparse.Namespace) -> int:
    """Run one of the subcommands."""
    if args.command == "metrics":
        sys.stdout.write(measures.prometheus(call(args.socket, "status")))
    else:
        _export(args)
    return 0


def _export(args: argparse.Namespace) -> None:
    found = _configuration(args)
    if found is not None:
        office_time.follow(found.config.office.time_zone)
    from_s, to_s = _moment(args.begin, "--from"), _moment(args.end, "--to")
    if from_s >= to_s:
        raise CommandError("--from must be before --to")
    if args.tier == "seconds" and args.what == "traffic":
        raise CommandError("the history has traffic by minutes and hours, not by seconds")
    data_dir = Path(args.data_dir if found is None else installed(args, found).data_dir)
    try:
        with closing(queries.open_history(data_dir)) as db:
            part = rows.Part(from_s, to_s, args.id, args.tier)
            _write(args.what, rows.rows(db, args.what, part), as_json=args.json)
    except rows.NoSuchMeterError as error:
        raise CommandError(str(error)) from None
    except sqlite3.Error as error:
        raise CommandError(f"{data_dir / FILE}: {error}") from None


def _configuration(args: argparse.Namespace) -> config.Found | None:
    """Return the settings; None where they cannot be read and are not needed for the folder."""
    try:
        return config.read_or_new(args.config)
    except (ConfigError, OSError) as error:
        if args.data_dir:
            print(
                f"naproxy export: times are the box's own: {args.config}: {why(error)}",
                file=sys.stderr,
            )
            return None
        raise CommandError(f"{args.config}: {why(error)}; or give --data-dir") from None


def _write(what: str, found: rows.Rows, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.writelines(rows.csv_lines(what, found))
        return
    for row in found:
        print(json.dumps({name: row[name] for name in rows.COLUMNS[what]}))
