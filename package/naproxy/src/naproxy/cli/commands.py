"""Subcommands that talk to the controller, and `naproxy config`."""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from datetime import time as clock_time
from pathlib import Path
from typing import Any, Final

from naproxy.api import https
from naproxy.api.command import (
    CommandError,
    by_office_clock,
    call,
    duration,
    socket_option,
)
from naproxy.config import document as config
from naproxy.config import places
from naproxy.config.describe import as_json
from naproxy.config.worked import Worked
from naproxy.core import office_time, schema
from naproxy.core.interfaces import UI_PORT, outside_address
from naproxy.core.reason import Reason, stored_reason

_POLL_S: Final = 0.1


def add_parser(subparsers: Any) -> None:
    """Declare the subcommands."""
    common = socket_option()

    def add(name: str, help: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = subparsers.add_parser(
            name, help=help, description=help[0].upper() + help[1:] + ".", parents=[common]
        )
        return made

    status = add("status", "say what each server does, and why")
    status.add_argument("id", nargs="?", metavar="ID", help="only this server")
    status.add_argument("--json", action="store_true", help="as JSON, with everything")
    for verb, words in (
        ("wake", "wake a server and wait until it is up"),
        ("sleep", "put a server to sleep and wait until it sleeps; say what prevents it"),
    ):
        parser = add(verb, words)
        parser.add_argument("id", metavar="ID", help="the server")
        parser.add_argument("--no-wait", action="store_true", help="do not wait for the result")
        parser.add_argument(
            "--timeout",
            type=duration,
            default=120.0,
            metavar="TIME",
            help="how long to wait, such as 90s or 5m (default: 2m)",
        )
    mode = add("mode", "leave a server to the policy, or keep it awake")
    mode.add_argument("id", metavar="ID", help="the server")
    mode.add_argument("mode", choices=("auto", "awake"), help="auto: the policy decides")
    until = mode.add_mutually_exclusive_group()
    until.add_argument(
        "--until",
        type=_shown,
        metavar="WHEN",
        help="such as 18:00 or '2026-03-01 18:00', by the office's clock",
    )
    until.add_argument("--for", type=duration, dest="length_s", metavar="TIME", help="such as 90m")
    for name, words in (
        ("journal", "list changes of state, newest first"),
        ("wakes", "list who woke a server, newest first"),
    ):
        parser = add(name, words)
        parser.add_argument("id", nargs="?", metavar="ID", help="only this server")
        parser.add_argument("--limit", type=int, default=20, help="rows (default: %(default)s)")
        parser.add_argument(
            "--since", type=duration, metavar="TIME", help="only this last time, such as 2h or 7d"
        )
        parser.add_argument("--json", action="store_true", help="as JSON")
        if name == "journal":
            parser.add_argument(
                "--decisions",
                action="store_true",
                help="list decisions instead, and the inhibitors against them",
            )
    cache = add("cache", "empty the cache, or a part of it")
    doing = cache.add_subparsers(dest="action", metavar="ACTION", required=True)
    empty = doing.add_parser(
        "empty",
        help="use nothing any more that is in the cache",
        description="Use nothing any more that is in the cache: of a server, below a path, or with"
        " a tag; without these, all.",
    )
    empty.add_argument("--server", metavar="ID", help="only what is of this server")
    empty.add_argument("--path", metavar="PATH", help="only what is below, such as /blog/")
    empty.add_argument(
        "--tag",
        metavar="TAG",
        help="only what the server gave this tag, in Cache-Tag, Surrogate-Key or xkey",
    )
    checks = subparsers.add_parser(
        "config", help="check a configuration file", description="Work on configuration files."
    )
    actions = checks.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="say everything that is wrong with a file")
    check.add_argument("file", type=Path, metavar="FILE")
    part = actions.add_parser("section", help="print one section of the settings in use")
    part.add_argument("name", choices=("mqtt",), help="which")
    part.add_argument("file", type=Path, metavar="FILE")
    keys = actions.add_parser("keys", help="list all keys, their defaults and what they mean")
    form = keys.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as in docs/configuration.md")
    form.add_argument("--json", action="store_true", help="as in naproxy/keys.json")


def run(args: argparse.Namespace) -> int:
    """Run one of the subcommands."""
    return _RUN[args.command](args)


def _shown(text: str) -> clock_time | datetime:
    """Read 18:00, or a date and time, as a clock shows it."""
    for form in ("%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"):
        with contextlib.suppress(ValueError):
            read = datetime.strptime(text, form)
            return read.time() if form == "%H:%M" else read
    raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 18:00 or '2026-03-01 18:00'")


def _moment_s(shown: clock_time | datetime, now_s: float) -> float:
    """Return when the office's clocks show that; of a time of day the next one."""
    if isinstance(shown, datetime):
        try:
            return office_time.instant_s(shown)
        except (OverflowError, ValueError):
            raise CommandError(
                f"{shown} is not a time that this machine knows", "--until"
            ) from None
    at = datetime.combine(office_time.local(now_s).date(), shown)
    when_s = office_time.instant_s(at)
    return when_s if when_s > now_s else office_time.instant_s(at + timedelta(1))


def server_named(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of a status's servers; CommandError if there is none of that name."""
    for server in answer["servers"]:
        if server["id"] == name:
            found: Mapping[str, Any] = server
            return found
    if not answer["servers"]:
        raise CommandError(f"there is no server {name}. {_not_set_up()}")
    known = ", ".join(s["id"] for s in answer["servers"])
    raise CommandError(f"there is no server {name}, only {known}")


def _not_set_up() -> str:
    """Say that the box has no server yet, and where its owner goes."""
    host = socket.gethostname()
    places = [f"https://{name}:{UI_PORT}" for name in (host, outside_address()) if name]
    return (
        f"The box is not set up yet: it has no server. Open {' or '.join(places)} in a browser;"
        " the guide there sets it up."
    )


def _status(args: argparse.Namespace) -> int:
    answer = call(args.socket, "status")
    if args.id:
        answer["servers"] = [server_named(answer, args.id)]
    if args.json:
        print(json.dumps(answer, indent=2))
        return 0
    if refused := answer["box"]["settings_refused"]:
        print(stored_reason(refused))
    if not answer["servers"]:
        print(_not_set_up())
    width = max((len(s["id"]) for s in answer["servers"]), default=0)
    for server in answer["servers"]:
        for line in describe(server, time.time(), width):
            print(line)
        _print_meters(answer, server["id"], " " * (width + 2))
    if not args.id:
        _print_meters(answer, "box", f"{'box':<{width}}  ")
        for port in answer["box"].get("front_door", {}).get("ports", ()):
            if port["problem"]:
                print(f"{'box':<{width}}  FRONT DOOR: {stored_reason(port['problem'])}")
        edge = answer["box"]["edge"]
        bare = https.bare_of(edge["uncovered"]).plain() if edge["uncovered"] else None
        for reason in filter(None, (edge["problem"], bare, *edge["ending"])):
            print(f"{'https':<{width}}  {stored_reason(reason)}")
    return 0


def _print_meters(answer: Mapping[str, Any], whose: str, before: str) -> None:
    for meter in answer["meters"]:
        if meter["of"] == whose:
            print("".join(f"{before}{line}\n" for line in describe_meter(meter)), end="")


def _search_engine(said: Mapping[str, Any], now_s: float) -> str:
    did, t_s = "answered last", said["served_s"]
    if said["refused_since_s"] is not None:
        did, t_s = "refused since", said["refused_since_s"]
    # What was kept over a restart by a clock that was wrong has neither.
    visit = f"{did} {clock(t_s, now_s)}" if t_s is not None else "no visit is known"
    woke = f"; it woke it {clock(said['let_in_s'], now_s)}" if said["let_in_s"] else ""
    return f"search engine {said['name']}: {visit}{woke}"


def describe(server: Mapping[str, Any], now_s: float, width: int = 0) -> list[str]:
    """Return a server's status as lines for a terminal."""
    state = server["state"].replace("_", " ")
    since = clock(server["since_s"], now_s)
    length = span(now_s - server["since_s"])
    lines = [f"{state} since {since} ({length}): {stored_reason(server['reason'])}"]
    if server["eta_s"] is not None:
        lines.append(f"expected up in {max(1, round(server['eta_s']))} s")
    if server["held"]:
        lines.append(f"requests waiting for it: {server['held']}")
    lines += _strangers(server["over_share"])
    if server["mode"] == "awake":
        until_s = server["mode_until_s"]
        until = f" until {clock(until_s, now_s)}" if until_s else ""
        lines.append(f"kept awake{until}")
    told: list[Any] = []
    """What the line before has said already."""
    if server["state"] == "awake":
        lines.append(_why_awake(server))
        told = server["inhibitors"] if server["decision"]["sleep"] else []
    if server["sleeps_itself"]:
        lines.append(f"{stored_reason(server['sleeps_itself'])} (naproxy leave {server['id']})")
    lines.extend(_planned(server, now_s))
    lines += [_search_engine(each, now_s) for each in server["engines"]]
    lines += _warmed(server["warming"])
    lines += _checked_pages(server["pages"])
    if server["commissioning"]:
        lines.append(_commissioning(server["commissioning"]))
    elif (server["not_armed"] or {}).get("code") == "server.no_visitor_lately":
        lines.append(f"STAYS ON: {stored_reason(server['not_armed'])}")
    elif server["not_armed"] and server["not_armed"] not in told:
        lines.append(f"does not sleep by itself: {stored_reason(server['not_armed'])}")
    sight, _ = https.sight_of(server)
    if sight and sight.plain() not in (server["not_armed"], *told):
        lines.append(f"HTTPS: {sight}")
    if around := https.around(server):
        lines.append(visits(around))
    if any(not rung["works"] for rung in server["rungs"]):
        lines.append(_ladder(server["rungs"]))
    if server["alert"]:
        lines.append(f"ALERT: {stored_reason(server['alert'])}")
    pad = " " * (width + 2)
    return [f"{server['id']:<{width}}  {lines[0]}", *(pad + line for line in lines[1:])]


def _warmed(warming: Mapping[str, Any]) -> Iterator[str]:
    # Before the first sleep that succeeded there were fetches, but no sleep to count since.
    if warming["fetches"] and warming["since_s"] is not None:
        since = office_time.day(warming["since_s"])
        avoided, took = warming["wakes_avoided"], span(warming["took_s"])
        what = "wake" if avoided == 1 else "wakes"
        yield f"the cache before its sleeps: {avoided} {what} avoided since {since}, took {took}"


def _checked_pages(pages: Mapping[str, Any]) -> Iterator[str]:
    if pages["on"]:
        settling, old = pages["settling"], pages["old"]
        more = f", {settling} more are being checked" if settling else ""
        yield f"pages that are the same for everybody: {pages['verified']}{more}"
        if pages["answered"]:
            yield f"pages answered while it slept: {pages['answered']}, {old} of them out of date"


def visits(around: int) -> str:
    """Say that so many came past the box today."""
    what = "visit" if around == 1 else "visits"
    return f"{around} {what} today did not come through the box"


def _strangers(over: Mapping[str, Any]) -> Iterator[str]:
    counted = [(over["addresses"], "addresses"), (over["networks"], "networks")]
    said = [f"{number} {what}" for number, what in counted if number]
    if share := ", ".join([*said, "robots"] if over["robots"] else said):
        yield f"over their share of it today: {share}"
    if cost := over.get("cost"):
        yield f"strangers have cost {cost:.2f} of {over['most_cost']:.2f} today"


def _planned(server: Mapping[str, Any], now_s: float) -> Iterator[str]:
    if coming := server["appointments"]:
        said = (f"{each['name']}, {clock(each['t_s'], now_s)}" for each in coming)
        yield f"its own appointments: {'; '.join(said)}"
    calendar = server["calendar"]
    if calendar and calendar["problem"]:
        yield f"ITS CALENDAR: {stored_reason(calendar['problem'])}"
    if calendar and calendar["events"]:
        said = (
            f"{each['name']}, {clock(each['t_s'], now_s)} to {clock(each['end_s'], now_s)}"
            for each in calendar["events"]
        )
        yield f"by its calendar: {'; '.join(said)}"


def _commissioning(progress: Mapping[str, Any]) -> str:
    cycle = f"cycle {progress['cycle']} of {progress['cycles']}"
    why = f" ({stored_reason(progress['reason'])})" if progress["reason"] else ""
    return f"is being commissioned: {cycle}, {progress['phase']}{why}"


def _ladder(rungs: Sequence[Mapping[str, Any]]) -> str:
    works = ", ".join(rung["name"] for rung in rungs if rung["works"])
    vain = ", ".join(rung["name"] for rung in rungs if not rung["works"])
    return f"woken by {works or 'whatever helps'}; in vain of late: {vain}"


def describe_meter(meter: Mapping[str, Any]) -> list[str]:
    """Return what a meter says as lines for a terminal; an estimate is called one."""
    verb = "estimated to draw" if meter["estimated"] else "draws"
    lines = []
    if meter["power_w"] is not None:
        lines.append(f"{verb} {meter['power_w']:.1f} W, by {meter['id']}: {meter['measures']}")
    if meter["problem"]:
        lines.append(f"METER {meter['id']}: {stored_reason(meter['problem'])}")
    return lines + [f"meter {meter['id']}: {note}" for note in meter["notes"]]


def _why_awake(server: Mapping[str, Any]) -> str:
    reason = stored_reason(server["decision"]["reason"])
    if not server["decision"]["sleep"]:
        return f"does not sleep: {reason}"
    if not server["inhibitors"]:
        return f"about to sleep: {reason}"
    inhibitors = [stored_reason(inhibitor) for inhibitor in server["inhibitors"]]
    return str(Reason("server.would_sleep", why=reason, inhibitors=inhibitors))


def clock(t_s: float, now_s: float) -> str:
    """Return a moment, with its date if that is another day."""
    return office_time.told(t_s, now_s)


def span(seconds: float) -> str:
    """Return a length of time that reads easily."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


def _wake(args: argparse.Namespace) -> int:
    return _ask_and_wait(args, "awake", ("waking", "asleep", "falling_asleep", "unknown"))


def _sleep(args: argparse.Namespace) -> int:
    return _ask_and_wait(args, "asleep", ("falling_asleep",))


def _ask_and_wait(args: argparse.Namespace, goal: str, on_the_way: tuple[str, ...]) -> int:
    server = call(args.socket, f"server.{args.command}", server=args.id)
    by_office_clock(args.socket)
    begun_s = time.monotonic()
    while not args.no_wait and server["state"] in on_the_way:
        if time.monotonic() - begun_s > args.timeout:
            raise CommandError(f"{args.id} is still {server['state'].replace('_', ' ')}")
        time.sleep(_POLL_S)
        server = server_named(call(args.socket, "status"), args.id)
    if not args.no_wait and server["state"] != goal:
        raise CommandError(f"{args.id} is {server['state']}: {stored_reason(server['reason'])}")
    print("\n".join(describe(server, time.time())))
    return 0


def _mode(args: argparse.Namespace) -> int:
    by_office_clock(args.socket)
    until_s = None if args.length_s is None else time.time() + args.length_s
    if args.until is not None:
        until_s = _moment_s(args.until, time.time())
    body = {"mode": args.mode, "until_s": until_s}
    server = call(args.socket, "server.mode", body, server=args.id)
    print("\n".join(describe(server, time.time())))
    return 0


def _cache(args: argparse.Namespace) -> int:
    named = {"server": args.server, "path": args.path, "tag": args.tag}
    body = {name: value for name, value in named.items() if value is not None}
    call(args.socket, "cache.empty", body)
    what = ", ".join(f"{name} {value}" for name, value in body.items()) or "everything"
    print(f"Nothing of the cache is used any more: {what}.")
    return 0


def _rows(args: argparse.Namespace, table: str) -> list[dict[str, Any]]:
    by_office_clock(args.socket)
    since_s = None if args.since is None else max(0.0, time.time() - args.since)
    said = call(args.socket, table, server=args.id, since_s=since_s, limit=args.limit)
    rows: list[dict[str, Any]] = said[table]
    return rows


def _journal(args: argparse.Namespace) -> int:
    rows = _rows(args, "decisions" if args.decisions else "transitions")
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        if args.decisions:
            may = "may sleep" if row["sleep"] else "stays as it is"
            why = stored_reason(row["reason"])
            print(f"{office_time.stamp(row['t_s'])}  {row['server']}  {may}: {why}")
            continue
        before, after = row["from"].replace("_", " "), row["to"].replace("_", " ")
        change = f"{before} -> {after}: {stored_reason(row['reason'])}"
        print(f"{office_time.stamp(row['t_s'])}  {row['server']}  {change}")
    return 0


def _wakes(args: argparse.Namespace) -> int:
    rows = _rows(args, "wakes")
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        request = " ".join(filter(None, (row["method"], row["host"] + row["path"])))
        waited = "" if row["waited_s"] is None else f" after {row['waited_s']:.1f} s"
        who = " ".join(filter(None, (row["who"], f"({row['class']})" if row["class"] else "")))
        why = stored_reason(row["reason"])
        print(
            f"{office_time.stamp(row['t_s'])}  {row['server']}  {row['outcome']}{waited},"
            f" packets: {row['packets']}; {why} by {who} {request}".rstrip()
        )
    return 0


def _config(args: argparse.Namespace) -> int:
    if args.action == "keys":
        lines = schema.markdown(config.Config) if args.markdown else _keys()
        print(as_json() if args.json else "\n".join(lines))
        return 0
    try:
        if args.action == "section":
            print("\n".join(_section(args.file, args.name)))
            return 0
        found = config.look(args.file.read_bytes())
        places.check(found.config)
    except schema.ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{args.file}: {error.strerror}", file=sys.stderr)
        return 1
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    servers = len(found.config.server)
    print(f"{args.file}: good, {servers} server{'' if servers == 1 else 's'}")
    return 0


def _section(file: Path, name: str) -> list[str]:
    """Return a section as TOML, secrets too: for a program that may read no other."""
    section = getattr(Worked(file).choose().found.config, name)
    values = {field.name: getattr(section, field.name) for field in schema.settable(section)}
    return [f"[{name}]", *(f"{key} = {schema.toml_value(each)}" for key, each in values.items())]


def _keys() -> list[str]:
    lines = []
    for each in schema.listed(config.Config):
        key = each.key
        value = "must be given" if key.required else f"default {schema.toml_value(key.default)}"
        when = f" (with {each.when})" if each.when else ""
        lines.append(f"{key.path}{when}: {key.help}; {value}")
    return lines


_RUN: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "status": _status,
    "wake": _wake,
    "sleep": _sleep,
    "mode": _mode,
    "journal": _journal,
    "wakes": _wakes,
    "cache": _cache,
    "config": _config,
}
