"""`naproxy doctor`: what keeps a server from sleeping and waking, and how to fix it."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from naproxy.api.command import CommandError, add_config_option, call, socket_option
from naproxy.config import places
from naproxy.config.document import Config, Server
from naproxy.config.worked import Chosen, Worked
from naproxy.controller.front_door import look
from naproxy.core.findings import Finding
from naproxy.core.processes import why
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError
from naproxy.doctor import box, ports, readings
from naproxy.doctor import server as on_server
from naproxy.drivers import checks
from naproxy.server.services import Listening


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy doctor`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="say what keeps a server from sleeping and waking, and how to fix it",
        description="Check the way from the box to a server and, with --facts, the server itself."
        " This puts nothing to sleep, and wakes and changes nothing. Exit status 1 if there is a"
        " problem.",
        parents=[socket_option()],
        epilog="Both at once, as a user who may log in there as root: naproxy doctor web --script"
        " | ssh root@SERVER sh | naproxy doctor web --facts -",
    )
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the server; without it, check only the box itself"
    )
    add_config_option(parser)
    parser.add_argument(
        "--script", action="store_true", help="print the script that checks the server itself"
    )
    parser.add_argument(
        "--facts", metavar="FILE", help="what that script printed on the server; -: standard input"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Look, and tell; returns the exit status."""
    try:
        chosen = Worked(args.config).choose()
        loaded = chosen.found.config
        if args.id is None:
            return _box(args, chosen)
        server = next((each for each in loaded.server if each.id == args.id), None)
        if server is None:
            return _wrong(_unknown(args, loaded))
        if args.script:
            print(on_server.script(server, readings.own_address(server.address)), end="")
            return 0
        facts = on_server.parse(_read(args.facts)) if args.facts else None
    except (ConfigError, OSError) as error:
        file = getattr(error, "filename", None) or args.config
        return _wrong(f"{file}: {why(error)}")
    except on_server.FactsError as error:
        return _wrong(f"{args.facts}: {error}")
    seen = asyncio.run(_see(server, places.interface_of(server, loaded), loaded))
    refused = _refused(args, chosen)
    told = _known(args.socket, server.id, look=seen.web == "open")
    listens = facts.get("listens") if facts is not None else None
    # A script that told of its ports or its appointments takes this for no order to sleep.
    tells = bool(told and told.status["services"]["told"])
    if tells or (facts or {}).get("command_tells") == "yes":
        interface = server.interface or loaded.box.interface
        seen = replace(seen, tried=asyncio.run(readings.attempt(server, interface)))
    seen = replace(seen, refused=refused, known=told, file=args.config, listens=listens)
    found = box.look(seen)
    if facts is not None:
        found += on_server.look(on_server.Seen(facts, server))
    problems = sum(finding.verdict == "problem" for finding in found)
    if args.json:
        checks = [finding.json() for finding in found]
        said = {"server": server.id, "problems": problems, "checks": checks}
        met = None if seen.met is None else Listening(seen.met).text()
        print(json.dumps(said | {"listens": seen.listens, "answers": met}, indent=2))
    else:
        _tell(found, problems, None if facts is not None else server)
    return 1 if problems else 0


def _unknown(args: argparse.Namespace, loaded: Config) -> str:
    """Say that there is no server of this name."""
    if not loaded.server:
        return f"{args.config}: {Reason('config.no_server', name=args.id)}"
    known = [each.id for each in loaded.server]
    return str(Reason("doctor.no_server", name=args.id, names=known))


def _refused(args: argparse.Namespace, chosen: Chosen) -> Reason | None:
    return chosen.refused.reason(args.config) if chosen.refused else None


def _box(args: argparse.Namespace, chosen: Chosen) -> int:
    """Look at the box alone, and tell; return the exit status."""
    if args.script or args.facts:
        return _wrong("--script and --facts need a server's ID")
    doors = asyncio.run(look(chosen.found.config))
    found = box.look_at_box(
        readings.BoxSeen(refused=_refused(args, chosen), file=args.config, doors=doors)
    )
    problems = sum(finding.verdict == "problem" for finding in found)
    if args.json:
        checks = [finding.json() for finding in found]
        print(json.dumps({"problems": problems, "checks": checks}, indent=2))
    else:
        _tell(found, problems)
    return 1 if problems else 0


async def _see(server: Server, interface: str, config: Config) -> readings.Seen:
    seen, doors = await asyncio.gather(readings.see(server, interface), look(config))
    seen = replace(seen, doors=doors)
    itself = ipaddress.ip_address(server.address).is_loopback
    if itself or not (seen.web == "open" or seen.there):
        return seen
    return replace(seen, met=await ports.meet(server.address))


def _known(socket: str, name: str, *, look: bool) -> checks.Known | None:
    """Return what the controller knows, maybe after a look now; None if it does not answer."""
    try:
        status = call(socket, "status")
        if look and any(
            each["id"] == name and each["state"] == "awake" for each in status["servers"]
        ):
            call(socket, "server.look", server=name)
            status = call(socket, "status")
    except CommandError:
        return None
    found = [each for each in status["servers"] if each["id"] == name]
    return checks.Known(found[0], status["box"]["edge"]) if found else None


def _wrong(words: str) -> int:
    print(f"naproxy doctor: {words}", file=sys.stderr)
    return 2


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(on_server.MOST_BYTES + 1)
    with Path(name).open("rb") as file:
        return file.read(on_server.MOST_BYTES + 1)


def _tell(found: list[Finding], problems: int, unseen: Server | None = None) -> None:
    for where, title in (("box", "Seen from the box"), ("server", "On the server itself")):
        lines = [line for each in found if each.where == where for line in each.lines()]
        if lines:
            print("\n".join([title, *lines]))
    if unseen:
        here = f"naproxy doctor {unseen.id}"
        print("\nTo check the server itself, run this on the box, or where you can log in to both:")
        print(f"  {here} --script | ssh root@{unseen.address} sh | {here} --facts -")
    print(f"\n{problems or 'no'} problem{'' if problems == 1 else 's'}")
