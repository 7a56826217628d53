"""The command `naproxy meter`: our meter on a Raspberry Pi Pico, and two meters compared."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any, Final

from naproxy.api.command import (
    CommandError,
    above_0,
    add_config_option,
    call,
    duration,
    socket_option,
)

_POLL_S: Final = 0.5
_KINDS: Final = {
    "boot": "a new Pico, or one whose button was held",
    "serial": "a Pico with MicroPython",
    "boot2350": "a Pico 2: not supported",
}


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    common = socket_option()
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "meter",
        help="make a Raspberry Pi Pico a meter, update it, calibrate it; compare two meters",
        description="Look after our meter on a Raspberry Pi Pico that is plugged into the box, and"
        " compare any two meters.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = "list the Picos, and what the box has for them"
    actions.add_parser("list", help=listed, description=f"{listed}.".capitalize(), parents=[common])
    install = actions.add_parser(
        "install",
        help="put on it what it lacks",
        description="Put MicroPython and our firmware on a Pico, or what it lacks of them.",
        parents=[common],
    )
    install.add_argument(
        "place", nargs="?", metavar="SOCKET", help="which, as listed (default: the only one)"
    )
    install.add_argument(
        "--replace", action="store_true", help="also where another program is on it"
    )
    calibrate = actions.add_parser(
        "calibrate",
        help="calibrate it with nothing, or with a known load",
        description="Measure nothing, or a load that is known, and set the meter by that.",
        parents=[common],
    )
    calibrate.add_argument("id", metavar="ID", help="the meter")
    what = calibrate.add_mutually_exclusive_group(required=True)
    what.add_argument("--zero", action="store_true", help="the server is unplugged from the meter")
    what.add_argument("--load", type=above_0, metavar="WATTS", help="what a steady load draws")
    compare = actions.add_parser(
        "compare",
        help="say how well two meters of the same machine agree",
        description="Listen to two meters that measure the same machine, and say by how much they"
        " differ (Bland and Altman). Vary the load meanwhile. Exit status 3: too little was heard.",
        parents=[common],
    )
    compare.add_argument("a", metavar="A", help="a meter")
    compare.add_argument("b", metavar="B", help="the other one")
    compare.add_argument(
        "--seconds", type=duration, metavar="TIME", help="listen so long (default: 10m)"
    )
    add_config_option(compare)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    match args.action:
        case "install":
            place = args.place or _only(call(args.socket, "pico"))
            body = {"place": place, "replace": args.replace}
            done = _followed(args.socket, "pico.install", body)
            print(f"firmware {done['version']} runs, at {done['port']}")
        case "calibrate":
            load = {} if args.zero else {"load_w": args.load}
            done = _followed(args.socket, "pico.calibrate", {"meter": args.id, **load})
            print(f"{done['setting']}: {done['before']} before, {done['now']} now")
        case "compare":
            from naproxy.lab.measure import compare  # noqa: PLC0415 - the other actions need none

            return compare.run(args)
        case _:
            print("\n".join(describe(call(args.socket, "pico"))))
    return 0


def describe(told: Mapping[str, Any]) -> list[str]:
    """Return what there is, as lines for a terminal."""
    micropython = told["micropython"] or "none: send the box the file in Settings, Meters"
    lines = [f"on the box: firmware {told['newest']}, MicroPython {micropython}"]
    for each in told["picos"]:
        said = f"meter {each['meter']}" if each["meter"] else _KINDS[each["kind"]]
        version = f", firmware {each['version']}" if each["version"] else ""
        port = f", {each['port']}" if each["port"] else ""
        lines.append(f"{each['place']}: {said}{version}{port}")
    return lines if told["picos"] else [*lines, "no Pico is plugged in"]


def _only(told: Mapping[str, Any]) -> str:
    places = [str(each["place"]) for each in told["picos"]]
    if len(places) != 1:
        known = ", ".join(places) or "none is plugged in"
        raise CommandError(f"name one of the Picos: {known}")
    return places[0]


def _followed(socket: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    job = call(socket, f"{name}.begin", body)
    while job["state"] == "running":
        time.sleep(_POLL_S)
        job = call(socket, name)
    if job["error"]:
        raise CommandError(job["error"]["error"])
    result: dict[str, Any] = job["result"]
    return result
