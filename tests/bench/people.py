"""Whom the limits of strangers would refuse, by real access logs: `make bench-people`.

Each log's requests ask a server that stays awake for two minutes after each. The cache has the
files that were asked for before, and no page. The box's own shares decide. A log does not show
whether a browser follows the waiting page, so only what it loads besides pages counts for it: a
person whom the box takes for a stranger here would be served some seconds later. People who got
that page once, and were served with their next request, are counted as let in.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from naproxy.core.classify import Agents, Behaviour, Kind, Seen
from naproxy.core.state import Klass
from naproxy.lab.estimate.accesslog import Entry, Log
from naproxy.lab.estimate.cachemodel import is_static
from naproxy.server.people import PATHS, Request, scans
from naproxy.server.shares import Party, Settings, Shares

from tests.bench.policy import LOGS
from tests.bench.result import goal, output_path, write

DAY_S: Final = 86400
IDLE_S: Final = 120.0
WAKE_S: Final = 20.0
STEP_S: Final = 10.0


class Day:
    """What happened to the addresses that claimed to be browsers on one day."""

    def __init__(self) -> None:
        self.browsers: set[int] = set()
        self.refused: set[int] = set()
        self.followed: set[int] = set()
        """Of these, those that got the page that a browser follows, and were served since."""
        self.requests: Counter[str] = Counter()


class Office:
    """A server and its shares."""

    def __init__(self) -> None:
        self.shares = Shares(Settings())
        self.t_s = 0.0
        self.awake = False
        self.days: Counter[str] = Counter()
        self.most_cost = 0.0
        self._day = Day()
        self._date = 0
        self._files: set[int] = set()

    def pass_time(self, t_s: float) -> None:
        """Let it sleep when nobody is waited for any more."""
        while self.t_s < t_s:
            since_s = self.shares.others_since_s(self.t_s)
            if self.awake and (since_s is None or self.t_s - since_s >= IDLE_S):
                self.shares.slept(self.t_s)
                self.awake = False
            self.t_s = min(t_s, self.t_s + STEP_S) if self.awake else t_s
            self._look()

    def _look(self) -> None:
        date = int(self.t_s // DAY_S)
        if date != self._date:
            self.end_day()
            self._date = date
        self.shares.pass_time(self.t_s, date, [], paid=self.awake)
        self.most_cost = max(self.most_cost, self.shares.cost)

    def end_day(self) -> None:
        """Count what the day was like for its people: who loaded what pages embed, and no scanner.

        Monitors that ask for a page each ten seconds look as if they followed the waiting page.
        """
        seen = self.shares.people._seen
        for address in self._day.browsers:
            self.days["browsers"] += 1
            behaved = seen.get(address)
            loaded = bool(behaved and (behaved.embedded or len(behaved.paths) >= PATHS))
            if behaved and loaded and not scans(behaved):
                self.days["people"] += 1
                let_in = address in self._day.followed
                self.days["people_let_in"] += let_in
                self.days["people_refused"] += address in self._day.refused and not let_in
            elif behaved and scans(behaved):
                self.days["scanners"] += 1
            if address in self._day.refused:
                self.days["refused"] += 1
        self._day = Day()

    def ask(self, asked: Request, klass: Klass, *, static: bool) -> None:
        """Somebody asks for something."""
        party = Party(asked.address, asked.network, klass.robot, klass is Klass.API)
        if klass is Klass.PERSON:
            self._day.browsers.add(asked.address)
        if static and asked.path in self._files:
            if klass is Klass.PERSON:
                self.shares.people.saw(asked)
            return
        refused = not self.awake and (klass.robot or self.shares.over(party))
        if klass is Klass.PERSON:
            self.days["requests"] += 1
            self.days["requests_refused"] += refused
            if refused and asked.page_load and asked.address not in self._day.refused:
                self._day.followed.add(asked.address)
            elif refused:
                self._day.followed.discard(asked.address)
            if refused:
                self._day.refused.add(asked.address)
            self.shares.people.saw(asked._replace(waits=refused and asked.page_load))
        if refused or self.shares.over(party):
            return
        if static and asked.status in (200, 304):
            self._files.add(asked.path)
        self.shares.ask(asked.t_s, party, awake=self.awake)
        if not self.awake:
            self.awake = True
            self.shares.woke(asked.t_s)


def judged(log: Iterator[Entry]) -> Iterator[tuple[Request, Klass, bool]]:
    """Yield the requests as the box would have them, their classes, and whether for a file."""
    agents, behaviour = Agents(), Behaviour()
    for entry in log:
        static = is_static(entry.path.partition("?")[0])
        klass = agents.klass(entry.agent)
        page = klass is Klass.PERSON and not static and entry.method == "GET"
        address = 1 + crc32(entry.host.encode("latin-1", "replace"))
        client = crc32(entry.agent.encode("latin-1", "replace"), address)
        path = crc32(entry.path.encode("latin-1", "replace"))
        if not klass.robot:
            kind = Kind.ASSET if static else Kind.PAGE if page else Kind.OTHER
            good = entry.method in ("GET", "HEAD")
            seen = Seen(entry.t_s, client, path, klass, kind, entry.status, good)
            klass = behaviour.see(seen)
        network = 1 + crc32(entry.host.rpartition(".")[0].encode("latin-1", "replace"))
        yield Request(entry.t_s, address, network, path, entry.status, page), klass, static


def lived(log: Path) -> dict[str, Any]:
    """Return what a log's people would have met."""
    office, last_s = Office(), 0.0
    for asked, klass, static in judged(iter(Log([log]))):
        last_s = max(last_s, asked.t_s)
        office.pass_time(last_s)
        office.ask(asked._replace(t_s=last_s), klass, static=static)
    office.end_day()
    return {"log": log.name.partition(".")[0], **office.days, "cost": round(office.most_cost, 3)}


def main() -> None:
    """Measure, and write the figures and a table of them."""
    logs = sorted(LOGS.glob("*.log.gz"))
    if not logs:
        sys.exit(f"no logs in {LOGS}")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        rows = list(pool.map(lived, logs))
    for row in rows:
        print(json.dumps(row))
    refused = sum(row.get("people_refused", 0) for row in rows)
    goals = [goal("people refused, in address-days", refused, 0, "<=")]
    write(output_path(), goals, {"rows": rows})


if __name__ == "__main__":
    main()
