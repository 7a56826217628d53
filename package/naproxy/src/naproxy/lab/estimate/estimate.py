"""`naproxy estimate LOG...`: the savings of a box at this office, and whether to buy one."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from naproxy.config import document
from naproxy.core.classify import Agents
from naproxy.core.energy import FALL_S, Power, switch_j
from naproxy.core.schema import ConfigError, Problem, load
from naproxy.core.state import Klass
from naproxy.core.waiting import DEFAULT
from naproxy.lab.estimate import choices, logspec, progress
from naproxy.lab.estimate.accesslog import Log, Options
from naproxy.lab.estimate.boxcache import (
    BOX,
    BOXES,
    GRACE_S,
    NEW_BOX,
    PLAIN,
    BoxModel,
    Keeps,
    PathRule,
    boxes,
)
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.lineup import (
    COLUMNS,
    COUNTINGS,
    KEYS,
    POLICIES,
    Choice,
    Compared,
    Promise,
    Row,
    Server,
    compare,
    zone_of,
)
from naproxy.lab.estimate.traffic import Traffic, read_log
from naproxy.lab.estimate.verdict import NO_VERDICT, advice

THESIS_PROMISE: Final = Promise(0.10, 0.05)

_CLASSES: Final = ("learned", "declared", "table-4.1")


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "estimate",
        help="say from a web server's access log what the box would save",
        description="Read access logs, and compare how much energy each policy would save, which"
        " delays it would cause, and the bound that no policy can beat. The first lines tell the"
        " format. For three shares of visitors that may wait, print a year's costs and savings."
        " Files of one rotated log (access.log, access.log.1, access.log.2.gz) count as one log."
        " Exit status: 0 with a verdict on each log, 1 if a file cannot be read, 2 for a wrong"
        " option, 3 if a log is too doubtful for a verdict.",
    )
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="access log")
    add(
        "--format",
        metavar="FORMAT",
        default="",
        help="how the log's lines are written, if the command does not find out: as GoAccess's"
        " --log-format, Apache's LogFormat or nginx's log_format has it",
    )
    add("--json", action="store_true", help="print rows as JSON; compare everything by default")
    add("--html", metavar="FILE", type=Path, help="also write a report with figures")
    add(
        "--cache",
        action="append",
        choices=(BOX, *sorted(BOXES), *sorted(CACHES)),
        help="what the cache answers: as the box is set (box, the default), as a box in another"
        " mode, or as if the server were always awake (thesis, frozen, ...); may be repeated",
    )
    add(
        "--config",
        metavar="FILE",
        type=Path,
        help="configuration of the box (TOML, or JSON as its API says it), for its cache; without"
        " it that of this box, and elsewhere what a new box has",
    )
    add("--server", metavar="ID", default="", help="the server of the configuration; the first")
    add("--counting", action="append", choices=COUNTINGS, help="how delays count; may be repeated")
    add(
        "--promise",
        action="append",
        type=promise,
        metavar="F:DELTA",
        help="at most this fraction of people's requests waits longer than DELTA seconds,"
        " such as 0.05:1; may be repeated",
    )
    add("--policy", action="append", choices=POLICIES, help="policy; may be repeated")
    add(
        "--classes",
        choices=_CLASSES,
        default=_CLASSES[0],
        help="who counts as a robot: by User-Agent and behaviour (learned), by User-Agent"
        " (declared), or by the thesis' table 4.1 only; default: %(default)s",
    )
    for name, default, words in (
        ("--wake-s", 5.0, "seconds the server takes to wake"),
        ("--sleep-s", FALL_S, "seconds it takes to fall asleep"),
        ("--on-w", Power().on_w, "watts it draws awake"),
        ("--off-w", Power().off_w, "watts it draws asleep"),
        ("--proxy-w", Power().proxy_w, "watts the box draws"),
    ):
        add(name, type=amount, default=default, metavar="X", help=f"{words} (%(default)s)")
    add(
        "--switch-j",
        type=amount,
        metavar="X",
        help="joules that one sleep and wake costs (170.7 for the powers and times of table 4.2)",
    )
    add("--price", type=amount, metavar="X", help="price of a kWh, in any currency")
    add(
        "--utc-offset",
        type=offset,
        default="+00:00",
        metavar="+HH:MM",
        help="UTC offset of the office's clock",
    )
    add(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)"
    )
    add(
        "--summary",
        metavar="FILE",
        type=Path,
        help="also write the conclusion for each log as JSON: verdict, problems, figures",
    )
    shown = parser.add_mutually_exclusive_group().add_argument
    shown("--progress", action="store_true", help="show progress even without a terminal")
    shown(
        "--progress-json",
        action="store_true",
        help="show progress on standard error, as one JSON object a line",
    )


def promise(text: str) -> Promise:
    """Parse "0.05:1"."""
    match = re.fullmatch(r"(\d*\.?\d+%?):(\d*\.?\d+)(?:s|(ms))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction and seconds, such as 0.05:1")
    f = float(match[1].rstrip("%")) / (100 if match[1].endswith("%") else 1)
    if not 0 < f <= 1:
        raise argparse.ArgumentTypeError(f"the fraction in {text!r} is not between 0 and 1")
    return Promise(f, float(match[2]) / (1000 if match[3] else 1))


def amount(text: str) -> float:
    """Parse a number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number that makes sense here")
    return value


def offset(text: str) -> str:
    """Check "+01:00"."""
    try:
        zone_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, such as +01:00") from None
    return text


def run(args: argparse.Namespace) -> int:
    """Estimate; return the exit status."""
    try:
        server = _server(args, box_of(args.config, args.server))
        options = _options(args)
        groups = group(args.logs, options)
    except ValueError as error:
        sys.stderr.write(f"naproxy estimate: {error}\n")
        return 2
    choice = _choice(args, server)
    shown = progress.of(as_json=args.progress_json, as_words=args.progress or sys.stderr.isatty())
    doubtful = False
    rows: list[Row] = []
    sections: list[str] = []
    summaries: list[dict[str, Any]] = []
    for name, files in groups:
        try:
            keeps = server.boxes[BOX].keeps
            with traffic_of(name, files, args.classes, shown, keeps, options=options) as traffic:
                (sys.stderr if args.json else sys.stdout).write(understood(traffic))
                made = compare(traffic, server, choice, args.jobs, shown.comparing(name))
                found = Compared(traffic, server, choice, made, args.price)
                if args.html or args.summary:
                    from naproxy.lab.estimate import figures  # noqa: PLC0415 - only when asked for

                    data = figures.gather(traffic)
                    sections.append(figures.section(found, data, number=len(sections)))
                    summaries.append(figures.summary(found, data))
        except OSError as error:
            sys.stderr.write(f"naproxy estimate: {error.filename or name}: {error.strerror}\n")
            return 1
        rows += made
        for problem in traffic.trust.problems():
            shown.problem(name, str(problem))
        doubtful = doubtful or bool(traffic.trust.doubts())
        if not args.json:
            write_table(found)
    if args.json:
        json.dump([{key: row[key] for key in KEYS} for row in rows], sys.stdout, indent=1)
        sys.stdout.write("\n")
    if args.html:
        args.html.write_text(figures.page(sections), "utf-8")
    if args.summary:
        args.summary.write_text(json.dumps(summaries), "utf-8")
    return NO_VERDICT if doubtful else 0


def box_of(file: Path | None, server: str = "") -> BoxModel:
    """Return the cache that a box's configuration describes, or this box's, or a new one's.

    OSError if the file cannot be read, ValueError if it is invalid or has no such server.
    """
    if file is None:
        file = Path(document.DEFAULT_FILE)
        if not os.access(file, os.R_OK):
            return replace(BOXES[NEW_BOX], name=BOX)
    servers, rules = _said(document.text(file))
    found = [each for each in servers if server in ("", each[0])]
    if not found:
        if server:
            raise ValueError(f"{file} has no server {server}")
        return replace(BOXES[NEW_BOX], name=BOX)
    name, cache = found[0]
    own = [
        PathRule(rule.path, rule.keep_s, rule.asleep) for rule in rules if rule.server in ("", name)
    ]
    frozen = cache.mode != "default"
    return BoxModel(
        BOX,
        frozen=frozen,
        grace_s=float(cache.grace_s) if cache.mode == "aggressive" else GRACE_S,
        warm=frozen and cache.warm,
        keeps=Keeps(own),
    )


def _said(text: bytes) -> tuple[list[tuple[str, document.Cache]], Sequence[document.CacheRule]]:
    """Return the servers' caches and the rules of a configuration, from its file or the API.

    ValueError if it is neither.
    """
    if not text.startswith(b"{"):
        config = document.parse(text)
        return [(each.id, each.cache) for each in config.server], config.cache_rule
    told, problems = json.loads(text), list[Problem]()
    caches = [
        (str(each["id"]), load(document.Cache, each["cache"], "server.cache", problems))
        for each in told.get("server", [])
    ]
    rules = [
        load(document.CacheRule, each, "cache_rule", problems)
        for each in told.get("cache_rule", [])
    ]
    if problems:
        raise ConfigError(problems)
    return caches, rules


def _server(args: argparse.Namespace, box: BoxModel) -> Server:
    cost_j = args.switch_j
    if cost_j is None:
        cost_j = switch_j(args.on_w, max(0.0, min(args.off_w, args.on_w)), args.sleep_s)
    power = Power(args.on_w, args.off_w, cost_j, args.proxy_w)
    if cost_j < args.sleep_s * power.saved_w * 0.99:
        raise ValueError(
            f"a switch of {cost_j:.1f} J is less than the server draws more while it takes"
            f" {args.sleep_s:g} s to fall asleep: give --sleep-s or --switch-j as measured"
        )
    known = {**boxes(box.keeps), BOX: box}
    return Server(power, args.wake_s, args.sleep_s, args.utc_offset, known)


def _options(args: argparse.Namespace) -> Options:
    ahead = zone_of(args.utc_offset).utcoffset(None)
    zone_s = int(ahead.total_seconds()) if ahead else 0
    if not args.format:
        return Options(zone_s)
    return Options(zone_s, logspec.compiled(args.format, zone_s), args.format)


def _choice(args: argparse.Namespace, server: Server) -> Choice:
    # People get the case that the box itself counts, programs everything.
    caches = [BOX, *CACHES] if args.json else [BOX]
    countings = list(COUNTINGS) if args.json else ["closed"]
    offered = choices.promises(server.wake_s)
    promises = [offered[DEFAULT], *([THESIS_PROMISE] if args.json else [])]
    return Choice(
        _once(args.cache) or caches,
        _once(args.counting) or countings,
        _once(args.promise) or promises,
        _once(args.policy) or POLICIES,
        # Somebody who asks for single policies wants no other rows.
        () if args.policy else list(offered.values()),
    )


def _once(given: Sequence[Any] | None) -> list[Any]:
    return list(dict.fromkeys(given or ()))


# ------------------------------------------------------------------------------- logs

_PACKED: Final = re.compile(r"\.(gz|bz2|xz|zst)$")
_DAY: Final = r"(?:19|20)\d\d([-._/]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
_CLOCK: Final = r"(?:[-_.T]?[0-2]\d(?:[-_:.]?[0-5]\d(?:[-_:.]?[0-5]\d(?:\.\d+)?)?)?Z?)?"
_ROTATED: Final = (
    # Amazon's: the day, an address, anything; the hour and anything.
    re.compile(r"_\d{8}T\d{4}Z_[\d.]+_\w+(?=\.log$)"),
    re.compile(r"\.\d{4}-\d\d-\d\d-\d\d\.[0-9a-f]{8}$"),
    # IIS': u_ex260701.log, by the hour u_ex26070113.log.
    re.compile(r"(?<=_ex)\d{6}(\d\d)?(?=(_x)?\.log$)"),
    re.compile(rf"[-._/]?(?<!\d){_DAY}{_CLOCK}(?!\d)"),
    re.compile(r"[-.]\d{1,10}$"),
)
"""Parts that rotation adds to the names of log files."""


def _stem(file: str) -> str:
    stem = _PACKED.sub("", file)
    for pattern in _ROTATED:
        stem = pattern.sub("", stem)
    return stem


def group(logs: Sequence[str], options: Options | None = None) -> list[tuple[str, list[str]]]:
    """Return name and files of each log: rotated files together, by their first entries' times.

    OSError if a file cannot be read.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for file in dict.fromkeys(logs):
        log = Log([file], options or Options())
        first = next(iter(log), None) if file != "-" else None
        found.setdefault(_stem(file), []).append((first.t_s if first else 0.0, file))
    names = [Path(stem).name.removesuffix(".log") or "log" for stem in found]
    alike = len(set(names)) < len(names)
    return [
        (stem.removesuffix(".log") if alike else name, [file for _, file in sorted(files)])
        for name, (stem, files) in zip(names, found.items(), strict=True)
    ]


@contextmanager
def traffic_of(
    name: str,
    files: Sequence[str],
    classes: str,
    shown: progress.Progress = progress.SILENT,
    keeps: Keeps = PLAIN,
    *,
    options: Options | None = None,
) -> Iterator[Traffic]:
    """Read a log; OSError if a file cannot be read. The records are gone afterwards."""
    agents = Agents.thesis() if classes == "table-4.1" else Agents()
    with Traffic.temporary(name) as traffic:
        told = shown.reading(name, files)
        learn = classes == "learned"
        read_log(traffic, files, agents, learn=learn, progress=told, keeps=keeps, options=options)
        yield traffic
        shown.done()


# ------------------------------------------------------------------------------- words


def understood(traffic: Traffic) -> str:
    """Return how a log was read, as a line."""
    said = " ".join(map(str, traffic.understood))
    return f"{traffic.name}: {said}\n" if said else ""


def write_table(found: Compared) -> None:
    """Print the comparison for people."""
    traffic = found.traffic
    people = traffic.daily(Klass.PERSON, Klass.API)
    days = traffic.span_s / 86400
    total = sum(traffic.requests)
    out = sys.stdout.write
    out(
        f"\n{traffic.name}: {total:,} requests in {days:.1f} days,"
        f" {people:,.0f} a day by people and programs\n"
    )
    counts = ", ".join(
        f"{traffic.requests[klass]:,} {klass.name.lower()}"
        for klass in Klass
        if traffic.requests[klass]
    )
    out(f"  {counts}\n")
    for doubt in traffic.trust.doubts():
        out(f"  No verdict: {doubt}\n")
    if any(name in found.server.boxes for name in found.choice.caches):
        out(
            "  A log has no cookies and no headers: the cache is taken to answer whoever asks, with"
            "\n  what is good for two minutes if no rule of the office says otherwise.\n"
        )
    titles = "".join(f"{column.short:>{column.width}}" for column in COLUMNS[1:])
    for case in found.choice.cases():
        out(
            f"\n  cache {case.cache}, {case.counting} loop, wake {found.server.wake_s:g} s\n"
            f"  promise: at most {case.promise.f * 100:.3g} % of people's requests wait longer than"
            f" {case.promise.delta_s:g} s\n\n"
            f"  {'policy':<16}{'kWh':>9}{titles}\n"
        )
        for row in found.rows_of(case):
            out(f"  {_line(row)}{'  breaks the promise' if _breaks(row, case.promise) else ''}\n")
    if cards := choices.cards(found):
        out("\n" + "\n".join(choices.lines(cards)) + "\n")
    out(f"\n{advice(found)}\n")


def _line(row: Row) -> str:
    figures = "".join(f"{column.text(row):>{column.width}}" for column in COLUMNS[1:])
    return f"{row['policy']:<16}{row['energy_wh'] / 1000:>9.2f}{figures}"


def _breaks(row: Row, kept: Promise) -> bool:
    """Is the promise broken, which holds from the second day on where there is one?"""
    late = row["delayed_since_day_2"]
    if late is None:
        late = row["delayed_fraction"]
    return bool(row["delay_mean_s"] is not None and late > kept.f)
