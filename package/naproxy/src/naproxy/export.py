"""`naproxy export` and `naproxy metrics`: the history and the figures of now, for others."""

from __future__ import annotations

import argparse
import csv
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from naproxy import config, measures
from naproxy.commands import CommandError, call, duration, socket_option
from naproxy.history import queries
from naproxy.history.tables import FILE
from naproxy.schema import ConfigError

_FORMS: Final = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S")
Rows = Iterator[dict[str, Any]]


def add_parser(subparsers: Any) -> None:
    """Declare the subcommands."""
    export: argparse.ArgumentParser = subparsers.add_parser(
        "export",
        help="write the history as CSV or JSON",
        description="Write a part of the history to standard output. Times are the box's own;"
        " power is in watts, energy in joules.",
    )
    export.add_argument("what", choices=sorted(_COLUMNS), metavar="WHAT", help="one of %(choices)s")
    export.add_argument("id", nargs="?", metavar="ID", help="only this meter or server")
    when = "as 2026-03-01, '2026-03-01 18:00', or 7d for so long ago"
    export.add_argument(
        "--from", dest="from_s", type=_moment, default="1d", metavar="WHEN", help=f"{when} (1d)"
    )
    export.add_argument(
        "--to", dest="to_s", type=_moment, default="0s", metavar="WHEN", help="the same (now)"
    )
    export.add_argument(
        "--tier",
        choices=tuple(queries.TIERS),
        help="of power: seconds (kept for 7 days), minutes (400 days) or hours; of traffic:"
        " minutes (7 days) or hours (default: minutes of power, hours of traffic)",
    )
    form = export.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV (the default)")
    form.add_argument("--json", action="store_true", help="as JSON, one object a line")
    export.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where the history is, if not as configured"
    )
    export.add_argument(
        "--config",
        type=Path,
        default=Path(config.DEFAULT_FILE),
        metavar="FILE",
        help="configuration file (default: %(default)s)",
    )
    subparsers.add_parser(
        "metrics",
        help="write the figures of now in Prometheus' text format",
        description="Write the figures of now in Prometheus' text format.",
        parents=[socket_option()],
    )


def _moment(text: str) -> float:
    """Read a local date and time, or how long ago, as epoch seconds."""
    for form in _FORMS:
        try:
            return time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
    return time.time() - duration(text)


def run(args: argparse.Namespace) -> int:
    """Run one of the subcommands."""
    try:
        if args.command == "metrics":
            status = call(args.socket, "GET", "/v1/status")
            sys.stdout.write(measures.prometheus(status))
        else:
            _export(args)
    except CommandError as error:
        print(f"naproxy {args.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _export(args: argparse.Namespace) -> None:
    if args.from_s >= args.to_s:
        raise CommandError("--from must be before --to")
    if args.tier == "seconds" and args.what == "traffic":
        raise CommandError("traffic is kept by minutes and hours, not by seconds")
    data_dir = args.data_dir or _data_dir(args.config)
    try:
        with closing(queries.open_history(data_dir)) as db:
            _write(args.what, _ROWS[args.what](db, args), as_json=args.json)
    except sqlite3.Error as error:
        raise CommandError(f"{data_dir / FILE}: {error}") from None


def _data_dir(file: Path) -> Path:
    try:
        return Path(config.read(file).box.data_dir)
    except (ConfigError, OSError) as error:
        raise CommandError(f"{file}: {error}; or give --data-dir") from None


def _write(what: str, rows: Rows, *, as_json: bool) -> None:
    names = _COLUMNS[what]
    if as_json:
        for row in rows:
            print(json.dumps({name: row[name] for name in names}))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(row[name]) for name in names] for row in rows)


def _plain(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet takes for a formula: visitors chose some."""
    risky = isinstance(value, str) and value[:1] in tuple("=+-@\t\r")
    return f"'{value}" if risky else value


def _time(t_s: float) -> str:
    return datetime.fromtimestamp(t_s, UTC).astimezone().isoformat(timespec="seconds")


def _meters(db: sqlite3.Connection, name: str | None) -> list[str]:
    known = queries.meters(db)
    if name is None or name in known:
        return known if name is None else [name]
    raise CommandError(f"there is no meter {name}; there is {', '.join(known) or 'none'}")


def _power(db: sqlite3.Connection, args: argparse.Namespace) -> Rows:
    for meter in _meters(db, args.id):
        for p in queries.power(db, args.tier or "minutes", meter, args.from_s, args.to_s):
            yield {
                "time": _time(p.t_s),
                "t_s": p.t_s,
                "length_s": p.length_s,
                "meter": meter,
                "mean_w": p.span.mean_mw / 1000,
                "min_w": p.span.min_mw / 1000,
                "max_w": p.span.max_mw / 1000,
                "energy_j": p.span.energy_mj / 1000,
                "covered_s": p.span.covered_ms / 1000,
                "readings": p.span.count,
            }


def _energy(db: sqlite3.Connection, args: argparse.Namespace) -> Rows:
    for meter in _meters(db, args.id):
        for day in queries.energy_by_day(db, meter, args.from_s, args.to_s):
            yield {
                "day": day["day"],
                "meter": meter,
                "energy_j": day["energy_mj"] / 1000,
                "covered_s": day["covered_ms"] / 1000,
                "length_s": day["length_ms"] / 1000,
            }


def _events(db: sqlite3.Connection, args: argparse.Namespace) -> Rows:
    for row in queries.events(db, args.what, args.id, args.from_s, args.to_s):
        yield {"time": _time(row["t_s"]), **row}


def _traffic(db: sqlite3.Connection, args: argparse.Namespace) -> Rows:
    for row in queries.traffic(db, args.id, args.from_s, args.to_s, args.tier or "hours"):
        yield {"time": _time(row["t_s"]), **row}


_ROWS: Final[dict[str, Callable[[sqlite3.Connection, argparse.Namespace], Rows]]] = {
    "power": _power,
    "energy": _energy,
    "transitions": _events,
    "wakes": _events,
    "decisions": _events,
    "clock": _events,
    "traffic": _traffic,
}

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "power": (
        *("time", "t_s", "length_s", "meter", "mean_w", "min_w", "max_w", "energy_j"),
        *("covered_s", "readings"),
    ),
    "energy": ("day", "meter", "energy_j", "covered_s", "length_s"),
    "transitions": ("time", "t_s", "server", "from", "to", "reason"),
    "wakes": (
        *("time", "t_s", "server", "who", "host", "path", "method", "agent", "class", "reason"),
        *("waited_s", "packets", "outcome"),
    ),
    "decisions": ("time", "t_s", "server", "sleep", "reason"),
    "clock": ("time", "t_s", "what", "shift_s", "since_s"),
    "traffic": ("time", "t_s", "server", "class", "outcome", "requests", "delayed"),
}
