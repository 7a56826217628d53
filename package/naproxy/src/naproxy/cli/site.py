"""`naproxy site`: looks at some pages of a server's website, says what the cache could answer."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from naproxy.api.command import CommandError, add_config_option, call, socket_option
from naproxy.cli.commands import server_named
from naproxy.config.document import Server
from naproxy.config.worked import Worked
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError
from naproxy.setup.crawl import AGENT, Bounds, Browser, NotAllowedError, crawl
from naproxy.setup.site import Site, report


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy site`."""
    bounds = Bounds()
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "site",
        help="look at a server's website: what the cache could answer while it sleeps",
        description=f"Ask the server for at most {bounds.pages} pages and {bounds.files} files, as"
        f" a stranger named {AGENT} who heeds robots.txt, and say what the box could answer while"
        " the server sleeps. This wakes and changes nothing. Exit status 1 if it cannot be seen.",
        parents=[socket_option()],
    )
    parser.add_argument("id", metavar="ID", help="the server")
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Look, and tell; returns the exit status."""
    try:
        loaded = Worked(args.config).choose().found.config
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None
    server = next((each for each in loaded.server if each.id == args.id), None)
    state = server_named(call(args.socket, "status"), args.id)["state"]
    if server is None or state != "awake":
        return _told(args, args.id, {}, Reason("setup.site_asleep"))
    found, problem = asyncio.run(_look(server))
    return _told(args, server.id, found, problem)


async def _look(server: Server) -> tuple[dict[str, Any], Reason | None]:
    bounds = Bounds()
    browser = Browser(server, bounds)
    site = Site(browser.names)
    try:
        await crawl(browser.get, site, bounds, time.monotonic)
    except NotAllowedError:
        return {}, Reason("setup.site_robots")
    if not site.answers:
        return {}, Reason("setup.site_silent")
    return report(site, server.cache.grace_s), None


def _told(
    args: argparse.Namespace, name: str, found: Mapping[str, Any], problem: Reason | None
) -> int:
    if args.json:
        plain = problem.plain() if problem else None
        print(json.dumps({"server": name, "problem": plain, "found": found or None}))
    elif problem:
        print(f"naproxy site: {problem}", file=sys.stderr)
    else:
        print("\n".join(describe(found)))
    return 1 if problem else 0


def describe(found: Mapping[str, Any]) -> Iterator[str]:
    """Say what was found, as lines for a terminal."""
    asked, named = found["asked"], found["found"]
    yield (
        f"{asked['pages']} pages and {asked['files']} files looked at,"
        f" of {named['pages']} and {named['files']} found"
    )
    if found["made_with"]:
        yield f"it seems to be made with {found['made_with']}"
    for kind in ("pages", "files"):
        if asked[kind]:
            yield (
                f"{kind}: {found['says_how_long'][kind]} say how long they are good,"
                f" {found['personal'][kind]} may not be kept"
            )
    for cookie in found["cookies"]:
        yield f"cookie {cookie['name']}: set with {cookie['pages']} of the pages"
    if found["vary"]:
        yield f"answers depend on: {', '.join(found['vary'])}"
    yield "could be answered an hour after the server fell asleep:"
    for mode, words in (
        ("default", "mode default"),
        ("frozen", "mode frozen (proposed)"),
        ("allowed", "mode frozen, with the parts below"),
        ("aggressive", "mode aggressive"),
    ):
        if (share := found["asleep"][mode]) is not None and (mode != "allowed" or found["rules"]):
            yield f"  {share:4.0%}  {words}"
    if found["rules"]:
        yield "the same for every stranger, it seems; allow them only if you know that they are:"
    for rule in found["rules"]:
        yield f'  [[cache_rule]] path = "{rule["path"]}" asleep = "yes"'
