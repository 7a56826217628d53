"""`make demo [DURATION=s] [LOG=file]`, as root: docs/demo.md."""

import argparse
import json
import os
import shutil
import sys
import time
from ipaddress import ip_network
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from naproxy.core.state import State
from naproxy.lab.replay.replay import allow_many_connections
from naproxy.lab.replay.replay_visit import Target
from naproxy.policy.thesis import Settings

from tests.simulator.demo.cast import BY_HTTP_2, FIRST_NUMBER, PROGRAM, READER, Cast
from tests.simulator.demo.interface import OFFICE, interface, meter
from tests.simulator.demo.interrupt import Interrupt, Interrupted
from tests.simulator.demo.means import Chromium, Curl
from tests.simulator.demo.power import PROXY_W, TABLE_4_2, energy
from tests.simulator.demo.screen import Screen
from tests.simulator.demo.story import Story
from tests.simulator.demo.stretch import Stretch, choose
from tests.simulator.demo.summary import tell, totals
from tests.simulator.demo.visitors import Visitors
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT, OfficeError
from tests.simulator.office.office import VISITORS
from tests.simulator.office.plug import Plug
from tests.simulator.past.cached import USUAL_DAYS, Making
from tests.webui.people import PASSWORD, USER

DEMO = Settings(min_awake_s=10.0, fraction=1.0)
"""The thesis' rule, made impatient."""
_THESIS = Settings()
_DAY_S = 86400.0
_TICK_S = 0.1
_LAST_S = 70.0
"""The visitors' own patience ends at 60 s."""


def main() -> int:
    """Return the exit status: 1 if a request was lost."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--duration", type=float, metavar="S", help="else until Ctrl-C")
    parser.add_argument("--log", type=Path, metavar="FILE", help="access log, gzip too")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build/demo", metavar="DIR", help="for figures and logs"
    )
    options = parser.parse_args()
    if options.duration is not None and not 0 < options.duration <= _DAY_S:
        parser.error("DURATION is a number of seconds, a day at the most")
    interrupt = Interrupt()
    screen = Screen()
    past: Making | None = None
    try:
        past = Making(USUAL_DAYS)
        stretch = choose(options.log, DEMO, options.duration or _DAY_S)
        interrupt.check()
        return _run(stretch, options, past, screen, interrupt)
    except (Interrupted, OSError, ValueError, RuntimeError, OfficeError, SubprocessError) as error:
        if interrupt:
            # At a terminal Ctrl-C ends the helpers that set the office up, too.
            screen.say("Interrupted before it began.")
            return 130
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if past:
            past.stop()


def _run(
    stretch: Stretch,
    options: argparse.Namespace,
    past: Making,
    screen: Screen,
    interrupt: Interrupt,
) -> int:
    duration_s, out = options.duration, options.out
    _introduce(stretch, screen, duration_s)
    allow_many_connections()
    with Office(site=stretch.site()) as office, _plug(office) as plug:
        try:
            if not past.ready:
                screen.say(f"Making the box's last {USUAL_DAYS} days, for the web interface.")
            while not past.ready:
                interrupt.check()
                time.sleep(_TICK_S)
            past.into(office.box.data_dir)
            office.box.start(**_configuration(plug))
            office.box.give(main=pki.issue(office.authority, HOST))
            office.box.begin_awake()
            interrupt.check()
            with interface(office.box) as url:
                screen.say(f"The box's web interface: {url}   user {USER}, password {PASSWORD}\n")
                summary = _perform(office, stretch, duration_s, screen, interrupt)
        finally:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(office.logs, out / "logs")
        screen.say("Taking the office down.")
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    screen.say(f"The figures are in {os.path.relpath(out)}/summary.json.")
    return 1 if summary["lost"] else 0


def _plug(office: Office) -> Plug:
    return Plug(office.server.board, office.directory / "watts", noise_w=0.2)


def _configuration(plug: Plug) -> dict[str, Any]:
    """Return what is laid over the box's usual configuration."""
    policy = {"min_awake_s": DEMO.min_awake_s, "fraction": DEMO.fraction}
    return {
        "server": {
            "cache": {"mode": "aggressive"},
            "policy": policy,
            "https": {"mode": "box"},
        },
        "office": OFFICE,
        "meter": [meter(plug)],
    }


def _introduce(stretch: Stretch, screen: Screen, duration_s: float | None) -> None:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(stretch.start_s))
    if stretch.log:
        source = f"Requests are replayed from {stretch.name}, from {when} UTC on, as they came."
    else:
        source = (
            "No access log given: a generated one is used (people, crawlers, programs and\n"
            "monitors at the rates that tests/simulator/demo/generated.py names)."
        )
    if not stretch.fits:
        source += (
            "\nThis log has no quiet stretch of the kind the demo looks for: see what happens."
        )
    length = f"It takes {duration_s:g} s." if duration_s else "It runs until Ctrl-C."
    screen.say(
        "Naproxy in a virtual office: visitors, the box and a web server on one wire.\n"
        "The packets, Varnish, the controller, ssh and nginx are real; the server's power\n"
        "is not: a virtual mainboard freezes it, and thaws it when a magic packet comes.\n"
        f"\n{source}\n"
        "[log] marks what comes from it, [cast] a few scripted visitors beside it. All come by\n"
        "HTTPS, with a certificate of a virtual authority; curl and Chromium by HTTP/2.\n\n"
        f"Demo settings: awake for at least {DEMO.min_awake_s:g} s instead of"
        f" {_THESIS.min_awake_s:g} s, and any share of the\nrequests may be delayed instead of"
        f" {_THESIS.fraction:.0%}: two minutes are too short for a share of a day.\n"
        f"Watts are those of the thesis' table 4.2: {TABLE_4_2.on_w} W awake, {TABLE_4_2.off_w} W"
        f" asleep, and {TABLE_4_2.switch_j} J\nfor each time it falls asleep and comes back;"
        f" the box takes {PROXY_W:g} W.\n"
        f"{length}\n"
    )


def _perform(
    office: Office,
    stretch: Stretch,
    duration_s: float | None,
    screen: Screen,
    interrupt: Interrupt,
) -> dict[str, Any]:
    target = Target(
        *(ADDRESS, 443, HOST),
        run="demo",
        bind=ip_network(VISITORS),
        tls=pki.context(office.authority),
    )

    def state() -> State:
        return State(office.box.page().server[0].state)

    visitors = Visitors(
        office.client,
        target,
        stretch.plan(),
        play=lambda ask, over: Cast(ask, state, over).play(),
        means={READER: Chromium(office), PROGRAM: Curl(office)},
    )
    visitors.start()
    start_s = time.monotonic()
    story = Story(office, visitors, screen, start_s)
    screen.event(0, TABLE_4_2.on_w, "The server is awake, the visitors come.", "awake")
    while not interrupt and (duration_s is None or time.monotonic() < start_s + duration_s):
        story.go_on()
        # Raises what went wrong with them.
        visitors.left(_TICK_S)
    visitors.leave()
    end_s = time.monotonic()
    while not visitors.left(_TICK_S) and time.monotonic() < end_s + _LAST_S:
        story.go_on()
    story.go_on()
    story.tell_ordinary()
    end_s = time.monotonic()
    board = office.server.board.report()
    summary = totals(
        visitors.visits,
        board=board,
        used=energy(board["transitions"], start_s, end_s),
        received=office.server.received(),
        first_of_cast=FIRST_NUMBER,
        by_http_2=BY_HTTP_2,
    )
    summary["log"] = stretch.name
    tell(summary, screen)
    return summary


if __name__ == "__main__":
    sys.exit(main())
