"""`make five [DURATION=s] [LOG=file]`, as root: docs/demo.md. DURATION=0: virtual time only."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from ipaddress import ip_network
from pathlib import Path
from statistics import fmean
from subprocess import SubprocessError
from typing import Any

from naproxy.core.classify import Agents
from naproxy.core.energy import Power
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.replay.replay import allow_many_connections
from naproxy.lab.replay.replay_report import log_summary, summarise
from naproxy.lab.replay.replay_slice import Point, Slice, plan
from naproxy.lab.replay.replay_visit import Target
from naproxy.lab.replay.virtual import FIVE, SPAN_S, Configuration, Times, run, stretches
from naproxy.policy.thesis import Settings

from tests.simulator.demo import generated
from tests.simulator.demo.interrupt import Interrupt, Interrupted
from tests.simulator.demo.power import energy
from tests.simulator.demo.stretch import Stretch, choose
from tests.simulator.demo.visitors import Visitors
from tests.simulator.five.report import beside, draw, found_result, table
from tests.simulator.office import Office
from tests.simulator.office import server as office_server
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.mainboard import Settings as Board
from tests.simulator.office.namespace import ROOT, OfficeError
from tests.simulator.office.office import VISITORS

OUT = ROOT / "build/five"
BOARD = Board()
SLEEP = FIVE[3]
_SHORT_S = 3600.0
_NEVER_S = 86400.0
_TICK_S = 0.2
_LAST_S = 70.0
"""The visitors' own patience ends at 60 s."""


def changes(configuration: Configuration, rule: Settings) -> dict[str, Any]:
    """Return what is laid over the office's configuration of the box."""
    policy = {
        "min_awake_s": rule.min_awake_s if configuration.sleep else _NEVER_S,
        "fraction": rule.fraction,
    }
    return {
        "cache": {"mode": "aggressive" if configuration.aggressive else "default"},
        "waiting_page": configuration.waiting_page,
        "defer_crawlers": configuration.sleep,
        "policy": policy,
    }


def main() -> int:
    """Return the exit status: 1 if a request was lost."""
    parser = argparse.ArgumentParser(prog="make five", description=__doc__)
    parser.add_argument("--duration", type=float, default=120.0, metavar="S", help="of each")
    parser.add_argument("--log", type=Path, metavar="FILE", help="access log, gzip too")
    options = parser.parse_args()
    if not 0 <= options.duration <= _NEVER_S:
        parser.error("DURATION is a number of seconds, a day at the most")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    if not options.duration:
        _write({"virtual": _in_virtual_time(options.log)})
        return 0
    short = options.duration < _SHORT_S
    rule = Settings(min_awake_s=10.0, fraction=1.0) if short else Settings()
    interrupt = Interrupt()
    try:
        stretch = choose(options.log, rule, options.duration)
        _introduce(stretch, options.duration, rule, short=short)
        return _all(stretch, options.duration, rule, interrupt)
    except (Interrupted, OSError, ValueError, OfficeError, SubprocessError) as error:
        if interrupt:
            return 130
        print(f"five: {error}", file=sys.stderr)
        return 1


def _introduce(stretch: Stretch, duration_s: float, rule: Settings, *, short: bool) -> None:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(stretch.start_s))
    print(f"The same {len(stretch.entries)} requests five times, {duration_s:g} s each, from")
    print(f"{stretch.name}, {when} UTC on." if stretch.log else "a generated log: none was given.")
    if short:
        print(
            f"Under an hour the thesis' rule is made impatient: {rule.min_awake_s:g} s awake at"
            f" least instead of {Settings().min_awake_s:g} s,\nany share of requests may be"
            f" delayed instead of {Settings().fraction:.0%}."
        )
    print("Both configurations that sleep use the aggressive cache.\n", flush=True)


def _all(stretch: Stretch, duration_s: float, rule: Settings, interrupt: Interrupt) -> int:
    allow_many_connections()
    results: list[dict[str, Any]] = []
    delays_s: list[list[float]] = []
    for configuration in FIVE:
        print(f"{configuration.name} ...", flush=True)
        result, delays = _one(configuration, stretch, duration_s, rule, interrupt)
        results.append(result)
        delays_s.append(delays)
    read = log_summary(stretch.log) if stretch.log else {"malformed": 0}
    print("\n" + table(results, read["malformed"]))
    draw(results, delays_s, OUT)
    alike = run(
        stretch.plan(),
        duration_s,
        Agents(),
        rule=rule,
        times=Times(BOARD.sleep_s, BOARD.wake_s),
        pages=True,
    )
    for result, found in zip(results, alike, strict=True):
        result["virtual"] = found.as_json(Power())
    print("\nThe same in virtual time:\n" + table([found_result(each) for each in alike], 0))
    report = {
        "log": stretch.name,
        "start_s": stretch.start_s,
        "duration_s": duration_s,
        "policy": asdict(rule),
        "read": read,
        "configurations": results,
        "virtual": _in_virtual_time(Path(stretch.log.files[0]) if stretch.log else None),
    }
    _write(report)
    return 1 if any(result["seen"]["lost"] for result in results) else 0


def _write(report: Mapping[str, Any]) -> None:
    (OUT / "five.json").write_text(json.dumps(report, indent=2) + "\n")
    print(f"\n{OUT.relative_to(ROOT)}/ has {', '.join(sorted(p.name for p in OUT.iterdir()))}.")


def _in_virtual_time(log: Path | None) -> dict[str, Any]:
    """Run a log's first 28 hours by the thesis' rule and times; print the rows of table 4.3."""
    read = Log([log]) if log else None
    planned = plan(read or generated.day(), Slice(length_s=SPAN_S, start=Point(0, is_time=False)))
    span_s = SPAN_S if planned and read else generated.DAY_S
    malformed = log_summary(read)["malformed"] if read else 0
    found = run(planned, span_s, Agents(), malformed=malformed)
    print(
        f"\nThe thesis' rule in virtual time over {span_s / 3600:g} hours, and its own figures:\n"
    )
    print(beside(found))
    savings = [
        run(part, span_s, Agents(), configurations=[SLEEP])[0].net_saving(Power())
        for part in stretches(read or ())
    ]
    if savings:
        print(f"\nSaved with the box counted, in each {span_s / 3600:g} hours of the log:")
        print(", ".join(f"{share:.1%}" for share in savings), f"(mean {fmean(savings):.1%})")
    results = [found_result(each) for each in found]
    draw(results, [each.delays_s() for each in found], OUT, prefix="virtual-")
    return {
        "span_s": span_s,
        "net_savings": savings,
        "configurations": [each.as_json(Power()) for each in found],
    }


def _one(
    configuration: Configuration,
    stretch: Stretch,
    duration_s: float,
    rule: Settings,
    interrupt: Interrupt,
) -> tuple[dict[str, Any], list[float]]:
    """Run one configuration in an office of its own; returns its figures and all delays."""
    laid_over = changes(configuration, rule)
    with Office(site=stretch.site()) as office:
        address = office_server.ADDRESS
        if configuration.proxy:
            address = ADDRESS
            office.box.start(server=laid_over)
            office.box.begin_awake()
        target = Target(address, 80, HOST, run="five", bind=ip_network(VISITORS))
        visitors = Visitors(office.client, target, stretch.plan())
        visitors.start()
        start_s = time.monotonic()
        # The same time for all, also where the last request came early.
        while not visitors.left(_TICK_S) or time.monotonic() < start_s + duration_s:
            interrupt.check()
            if time.monotonic() > start_s + duration_s + _LAST_S:
                raise OfficeError("the replay did not end")
        board = office.server.board.report()
        received = office.server.received()
    used = energy(board["transitions"], start_s, start_s + duration_s)
    result = {
        "name": configuration.name,
        "short": configuration.short,
        "box": laid_over if configuration.proxy else None,
        "seen": summarise(visitors.visits, Agents().klass),
        "received": received.total(),
        "sent_twice": sum(count > 1 for count in received.values()),
        "energy": used.as_json(),
        "proxy_j": used.proxy_j if configuration.proxy else 0.0,
        "magic_packets": board["counts"]["magic"],
        "transitions": [{**each, "t_s": each["t_s"] - start_s} for each in board["transitions"]],
    }
    return result, [visit.wait_s for visit in visitors.visits if visit.served]


if __name__ == "__main__":
    sys.exit(main())
