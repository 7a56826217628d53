"""Search engines on real logs: refused hours, pages read, wakes: build/bench/engines.json.

The server sleeps as the box's own policy lets it, at 1 % and 1 s and with 5 s to wake. The
controller's rule is applied to each request of who says that it is a search engine's, with its
limit and without one, as it was before. What that adds to the server's time awake changes nothing
for others here. No address is asked after: a log of long ago is believed.

On the box a network may wake the server only after one of its addresses was refused once. Addresses
in these logs are made up one by one, so nobody knows their networks: `now` takes all of an engine's
to be known, `strangers` each address to be a network of its own. The truth is between.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from naproxy.core.state import State
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.lineup import ENTRANTS, Case, Promise, Server, simulation
from naproxy.lab.estimate.traffic import Traffic
from naproxy.server.engines import QUIET_S, Engines

from tests.bench.policy import LOGS, real_logs
from tests.bench.result import goal, output_path, write

DAY_S: Final = 86400.0
CASE: Final = Case("frozen", "closed", Promise(0.01, 1.0))
RULES: Final = {"before": (0.0, False), "now": (DAY_S, False), "strangers": (DAY_S, True)}
"""The limit in s, and whether each address must have been refused before."""
ALWAYS: Final = ("/robots.txt", "/favicon.ico", "/sitemap.xml")
"""These are answered from the cache."""


@dataclass
class Crawled:
    """What one engine had of one site."""

    asked: int = 0
    read: int = 0
    """Pages that it got."""
    refused: int = 0
    longest_refused_h: float = 0.0
    """From a refusal to the last one after it, without a page between."""
    wakes: int = 0
    awake_s: float = 0.0
    """For it alone, the wakes included."""


class Asleep:
    """When a simulated server slept."""

    def __init__(self, traffic: Traffic) -> None:
        server = Server()
        policy = ENTRANTS["teacher"].make(server, CASE)
        told = policy.observed
        self._times_s: list[float] = []
        self._states: list[State] = []

        def observed(t_s: float, state: State) -> None:
            self._times_s.append(t_s)
            self._states.append(state)
            told(t_s, state)

        policy.observed = observed  # type: ignore[method-assign]
        made = simulation(policy, CACHES[CASE.cache], server, CASE)
        for chunk in traffic:
            made.feed(chunk)
        self.outcome = made.finish()

    def __call__(self, t_s: float) -> bool:
        """Does it sleep then?"""
        at = bisect_right(self._times_s, t_s) - 1
        return at >= 0 and self._states[at] is not State.AWAKE


def engine_of() -> Mapping[str, str]:
    """Return the engine of each literal of a User-Agent."""
    rows = json.loads(resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8"))
    return {
        literal.removeprefix("\\b"): row["engine"]
        for row in rows
        if "engine" in row
        for literal in row["literals"]
    }


def asked(files: Sequence[str]) -> Iterator[tuple[float, str, str]]:
    """Yield when each engine's client asked for something."""
    engines, latest_s = engine_of(), 0.0
    for entry in Log(files):
        agent = entry.agent.lower()
        engine = next((name for literal, name in engines.items() if literal in agent), None)
        if engine and entry.method in ("GET", "HEAD") and entry.path not in ALWAYS:
            latest_s = max(latest_s, float(entry.t_s))
            yield latest_s, engine, entry.host


def crawl(
    requests: Sequence[tuple[float, str, str]], asleep: Asleep, limit_s: float, strangers: bool
) -> dict[str, Crawled]:
    """Apply the rule to the engines' requests."""
    rule, found = Engines(limit_s), dict[str, Crawled]()
    known: set[str] = set()
    awake_until_s = 0.0  # for an engine
    for t_s, name, address in requests:
        its = found.setdefault(name, Crawled())
        its.asked += 1
        woken = asleep(t_s) and t_s >= awake_until_s
        if woken and not (rule.due(name, t_s) and (address in known or not strangers)):
            known.add(address)
            its.refused += 1
            rule.refused(name, t_s)
            since_s = rule.known[name].refused_since_s or t_s
            its.longest_refused_h = max(its.longest_refused_h, (t_s - since_s) / 3600)
            continue
        its.read += 1
        its.wakes += woken
        rule.served(name, t_s, held=woken)
        crawls = rule.crawls(t_s)
        if crawls and crawls[0] == name:
            until_s = min(crawls[1], t_s + QUIET_S)
            its.awake_s += until_s - max(t_s, min(awake_until_s, until_s))
            awake_until_s = max(awake_until_s, until_s)
    return found


def table(logs: Mapping[str, Any]) -> str:
    """Return the figures as docs/deciding.md has them."""
    lines = [
        "| log | engine | asked | read, before | now | longest refused, before | now | wakes a week"
        " | awake for it |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for log, said in logs.items():
        for name, now in said["now"].items():
            before, weeks = said["before"][name], said["days"] / 7
            lines.append(
                f"| {log} | {name} | {now['asked']:,} | {before['read'] / before['asked']:.0%}"
                f" | {now['read'] / now['asked']:.0%} | {before['longest_refused_h']:.0f} h"
                f" | {now['longest_refused_h']:.0f} h | {now['wakes'] / weeks:.1f}"
                f" | {now['awake_s'] / said['days'] / 864:.2f} % |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    logs: dict[str, Any] = {}
    with ExitStack() as stack:
        for traffic in real_logs(stack):
            files = [str(each) for each in sorted(LOGS.glob(f"{traffic.name}.log*"))]
            asleep, requests = Asleep(traffic), list(asked(files))
            logs[traffic.name] = {
                "days": traffic.span_s / DAY_S,
                "asleep": asleep.outcome.off_s / traffic.span_s,
                **{
                    when: {name: asdict(its) for name, its in crawl(requests, asleep, *how).items()}
                    for when, how in RULES.items()
                },
            }
    if not logs:
        sys.stdout.write(f"no real logs in {LOGS}: nothing to measure\n")
        return
    longest_h = max(
        it["longest_refused_h"] for said in logs.values() for it in said["now"].values()
    )
    goals = [goal("longest that a search engine is refused, in h", longest_h, 24, "<=")]
    write(output, goals, {"logs": logs})
    Path(output).with_suffix(".md").write_text(table(logs))


if __name__ == "__main__":
    main()
