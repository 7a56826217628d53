"""`naproxy notify`: what was told, and a test of the ways to tell."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from naproxy.api.command import by_office_clock, call, socket_option
from naproxy.core import office_time
from naproxy.core.reason import Reason, stored_reason
from naproxy.core.words import words


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy notify`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "notify",
        help="say which notifications were sent; --test sends one",
        description="Say which notifications were sent, newest first. [notify] in the configuration"
        " says who is told, and of what.",
        parents=[socket_option()],
    )
    parser.add_argument(
        "--test",
        action="store_true",
        help="send one by each way that is set up; exit status 1 if one fails",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Return the exit status."""
    said = call(args.socket, "notify.test" if args.test else "notify")
    if args.json:
        print(json.dumps(said))
    elif args.test:
        for each in said["results"]:
            problem = each["problem"]
            print(f"{each['channel']}: {stored_reason(problem) if problem else 'sent'}")
    else:
        by_office_clock(args.socket)
        print("\n".join(told(said)))
    failed = args.test and any(each["problem"] for each in said["results"])
    return 1 if failed else 0


def told(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal."""
    for channel in said["in_clear"]:
        yield f"{channel}: warning: the token {words(Reason('config.token_in_clear'))}."
    if not said["channels"]:
        yield "Nobody is told: set up a way under [notify] in the configuration."
    elif not said["told"]:
        yield f"Nothing was told yet. Set up: {', '.join(said['channels'])}."
    for each in said["told"]:
        yield f"{office_time.stamp(each['t_s'])}  {each['title']}"
        for way in each["to"]:
            if way["problem"]:
                yield f"    {way['channel']}: {stored_reason(way['problem'])}"
            else:
                yield f"    {way['channel']}: {'sent' if way['sent_s'] else 'not yet'}"
