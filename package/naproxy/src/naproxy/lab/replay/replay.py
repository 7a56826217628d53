"""Replay an access log against a server or the box, in real time; the command `naproxy replay`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from naproxy.api.command import above_0
from naproxy.core.classify import Agents
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.replay.replay_report import log_summary, summarise, table
from naproxy.lab.replay.replay_slice import Planned, Slice, parse_slice, plan
from naproxy.lab.replay.replay_visit import TIMEOUT_S, Target, Visit, visit

T = TypeVar("T")


async def replay(
    planned: Iterable[Planned],
    target: Target,
    *,
    speed: float = 1.0,
    stop: asyncio.Event | None = None,
    shown: Callable[[Visit], None] = lambda _: None,
    done: Callable[[Visit], None] = lambda _: None,
) -> list[Visit]:
    """Send each request when it is due, wait for all answers, and return their results.

    `shown` is called for each waiting page, `done` for each request when it has ended. After
    `stop` is set nothing more is sent; requests in flight may still end.
    """
    visits: list[Visit] = []
    stop = stop or asyncio.Event()

    async def one(due: Planned, late_s: float) -> None:
        ended = await visit(target, due.number, due.entry, late_s=late_s, shown=shown)
        visits.append(ended)
        done(ended)

    start_s = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for due in planned:
            due_s = start_s + due.at_s / speed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, due_s - time.monotonic()))
            if stop.is_set():
                break
            tasks.create_task(one(due, max(0.0, time.monotonic() - due_s)))
    return sorted(visits, key=lambda ended: ended.number)


def target_of(url: str) -> Target:
    """Return the target of http://HOST[:PORT]; ValueError says what is wrong with the URL."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is not of the form http://ADDRESS:PORT")
    port = parts.port or 80
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"{parts.hostname!r} has no address: {error.strerror}") from error
    return Target(str(found[0][4][0]), port, parts.netloc.rpartition("@")[2])


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    words = "replay an access log in real time and report what happened to it"
    parser = subparsers.add_parser("replay", help=words, description=f"{words.capitalize()}.")
    parser.add_argument(
        "log", nargs="+", metavar="LOG", help="access log, also gzipped; - for stdin"
    )
    parser.add_argument("--to", required=True, metavar="URL", help="http://ADDRESS:PORT")
    parser.add_argument("--host", help="Host header, if it differs from the URL's")
    parser.add_argument(
        "--slice",
        type=_argument(parse_slice),
        default=Slice(),
        metavar="PART",
        help="START+DURATION or START..END; offsets (2h30m) or times (2024-01-27T08:00)",
    )
    parser.add_argument("--speed", type=above_0, default=1.0, help="2: twice as fast as in the log")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--bind",
        type=_argument(ip_network),
        metavar="NET",
        help="clients' source addresses; this machine must have them all",
    )
    who.add_argument(
        "--x-forwarded", action="store_true", help="name each client in X-Forwarded-For"
    )
    parser.add_argument(
        "--timeout",
        type=above_0,
        default=TIMEOUT_S,
        metavar="S",
        help="a request without a complete answer by then counts as lost (%(default)g)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the report to this file"
    )


def run(args: argparse.Namespace) -> int:
    """Run `naproxy replay` and return its exit status: 1 if a request was lost, 2 if not run."""
    log = Log(args.log)
    try:
        target = replace(
            target_of(args.to),
            run=f"replay-{os.getpid()}",
            bind=args.bind,
            forwarded=args.x_forwarded,
            timeout_s=args.timeout,
        )
        planned = plan(log, args.slice)
    except ValueError as error:
        print(f"naproxy replay: {error}", file=sys.stderr)
        return 2
    if args.host:
        target = replace(target, host=args.host)
    if not planned:
        print("naproxy replay: there is no request in this slice of the log", file=sys.stderr)
        return 2
    allow_many_connections()
    visits = asyncio.run(_until_interrupted(planned, target, args.speed))
    figures = summarise(visits, Agents().klass)
    read = log_summary(log)
    print(table(read, figures), end="")
    if args.json:
        about = {"to": args.to, "host": target.host, "speed": args.speed}
        report = {**about, "log": read, **figures}
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if figures["lost"] else 0


def allow_many_connections() -> None:
    """Lift this process's soft limit on open files to its hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _until_interrupted(
    planned: Sequence[Planned], target: Target, speed: float
) -> list[Visit]:
    """Replay until the end or the first Ctrl-C, which lets what is under way end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)  # the second one ends it at once

    loop.add_signal_handler(signal.SIGINT, interrupted)
    ended = 0

    def count(_: Visit) -> None:
        nonlocal ended
        ended += 1
        if sys.stderr.isatty():
            print(f"\r{ended} of {len(planned)} requests ", end="", file=sys.stderr)

    try:
        return await replay(planned, target, speed=speed, stop=stop, done=count)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if sys.stderr.isatty():
            print("\r", end="", file=sys.stderr)


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Let argparse show the words of a ValueError."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked
