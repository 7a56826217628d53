"""`naproxy look`: whether visitors come past the box, what it saw of HTTPS, and what to do next."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from naproxy.api import https
from naproxy.api.command import call, socket_option
from naproxy.cli.commands import clock, server_named, span, visits
from naproxy.core import office_time
from naproxy.core.reason import Reason, stored_reason
from naproxy.server.sight import HTTPS_PORT

_PORTS: Final = {
    "open": "answers",
    "refused": "is shut",
    "silent": "does not answer",
    "unknown": "could not be asked",
}


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy look`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "look",
        help="say whether visitors come past the box by HTTPS, and what to do",
        description="Look now, at each server that is awake; of others say what was seen last."
        " Exit status 1 if what was seen keeps a server from sleeping, or visitors by HTTPS are"
        " not served.",
        parents=[socket_option()],
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="only this server")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Look, and tell; returns the exit status."""
    status = call(args.socket, "status")
    asked = [server_named(status, args.id)] if args.id else status["servers"]
    looks = {
        server["id"]: call(
            args.socket,
            "server.look" if server["state"] == "awake" else "server.looked",
            server=server["id"],
        )
        for server in asked
    }
    # By what was seen now it may be judged otherwise than before.
    status, config = call(args.socket, "status"), call(args.socket, "config")
    settings = {server["id"]: server for server in config["server"]}
    found = [
        _judged(server, settings[server["id"]], looks[server["id"]]["look"], status["box"]["edge"])
        for server in status["servers"]
        if server["id"] in looks and server["id"] in settings
    ]
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        width = max((len(each["server"]) for each in found), default=0)
        for each in found:
            print("\n".join(describe(each, time.time(), width)))
    return 1 if any(each["hinders"] or each["kind"] == "bad" for each in found) else 0


def _judged(
    status: Mapping[str, Any],
    settings: Mapping[str, Any],
    look: Mapping[str, Any] | None,
    edge: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what there is to say of a server, each reason in English beside it."""
    own = settings["https"]
    seen = https.seen(own["mode"], settings["hosts"], status, edge, redirect=own["redirect"])
    sight, _ = https.sight_of(status)
    blind = [each for each in status["inhibitors"] if each["code"] == "server.blind"]
    said: dict[str, Any] = {
        "server": status["id"],
        "state": status["state"],
        "mode": settings["https"]["mode"],
        "kind": seen.kind,
        "hinders": bool(sight or blind),
        "around": https.around(status),
        "look": look,
    }
    reasons = (("what", seen.what), ("next", seen.next), ("blind", _first(blind)))
    for key, reason in reasons:
        said |= {key: str(reason or ""), f"{key}_reason": reason and reason.plain()}
    return said


def _first(reasons: list[Any]) -> Reason | None:
    return stored_reason(reasons[0]) if reasons else None


def describe(said: Mapping[str, Any], now_s: float, width: int = 0) -> list[str]:
    """Return it as lines for a terminal."""
    following = [f"Next step: {said['next']}"] if said["next"] else []
    lines = [said["what"], *following, *filter(None, [said["blind"]])]
    if said["around"]:
        lines.append(visits(said["around"]))
    if look := said["look"]:
        lines += _seen(look, said["state"], now_s)
    pad = " " * (width + 2)
    return [f"{said['server']:<{width}}  {lines[0]}", *(pad + line for line in lines[1:])]


def _seen(look: Mapping[str, Any], state: str, now_s: float) -> Iterator[str]:
    since = "" if state == "awake" else f", {span(now_s - look['t_s'])} ago: it is not awake now"
    yield f"seen at {clock(look['t_s'], now_s)}{since}"
    yield f"- its port {HTTPS_PORT} {_PORTS[look['port']]}"
    for shown in look["shown"]:
        yield _shown(shown)
    plainly = [led for led in look["led"] if not led["through_proxy"]]
    for led in plainly:
        yield f"- visitors of http://{led['name']} are led to {led['to']}"
    if not plainly and look["whole"]:
        yield "- visitors by HTTP are led nowhere else"
    circles = [led for led in look["led"] if led["through_proxy"] and led["https"]]
    for led in circles:
        yield f"- those who come by HTTPS are led from {led['name']} to {led['to']}, too"
    if look["whole"] and not circles and any(led["https"] for led in plainly):
        yield "- it believes X-Forwarded-Proto: who comes by HTTPS is not led there again"
    if not look["whole"]:
        yield "- not all was answered"


def _shown(shown: Mapping[str, Any]) -> str:
    whom = f"for {shown['name']}" if shown["name"] else "without a name"
    names = ", ".join(shown["names"]) or "no name"
    end_s = shown["not_after_s"]
    until = f", until {office_time.day(end_s)}" if end_s is not None else ""
    trust = "browsers trust it" if shown["trusted"] else "browsers do not trust it"
    return f"- {whom} it shows a certificate of {names}{until}; {trust}"
