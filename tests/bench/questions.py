"""What else could be taken for a need: python -m tests.bench.questions OUTPUT.json [NAME...]

Variants of the box, each by itself and together, on the halves of the real logs that are beside
the project: the first half is to choose on, the second to judge on. docs/deciding.md has the
table, and says what was kept.

again       A file that the server is asked after again, and that a sleeping server's cache would
            have answered, is no need of the server for the rule that decides.
redirects   Permanent redirects are held as files are.
confirm     A page load does not wake the server; what the waiting page loads by itself does. Who
            loads nothing in the whole log is taken not to load that either: the most that can be
            gained. A browser that has all files already loads nothing in a log, but would here.
evidence    Who was shown a waiting page and did not confirm it is a robot from then on.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from naproxy.core.state import State
from naproxy.lab.estimate import estimate
from naproxy.lab.estimate.boxcache import AGAIN, BOXES, HIT, PAGE, BoxModel, Keep, Keeps
from naproxy.lab.estimate.boxsimulation import BoxSimulation
from naproxy.lab.estimate.cachemodel import TTL_S
from naproxy.lab.estimate.lineup import ENTRANTS, Case, Promise, Server
from naproxy.lab.estimate.traffic import CHUNK, Chunk, Traffic
from naproxy.policy.base import Request

from tests.bench.policy import LOGS, eligible

_STATIC_FLAG = 1
PROMISES = (Promise(0.01, 1.0), Promise(0.05, 0.05))
REDIRECT = 4
"""Number of the keep of permanent redirects."""


class Redirects(Keeps):
    """Tells permanent redirects apart."""

    def __init__(self, *, held: bool) -> None:
        super().__init__()
        self.all.append(Keep(TTL_S, held=held, static=held))

    def of(self, bare: str, *, static: bool, status: int, size: int) -> int:
        if status in (301, 308):
            return REDIRECT
        return super().of(bare, static=static, status=status, size=size)


class Variant(NamedTuple):
    """What is different."""

    again: bool = False
    redirects: bool = False
    confirm: bool = False
    evidence: bool = False


VARIANTS = {
    "as it was": Variant(),
    "again": Variant(again=True),
    "redirects": Variant(redirects=True),
    "confirm": Variant(confirm=True),
    "confirm, evidence": Variant(confirm=True, evidence=True),
    "all": Variant(again=True, redirects=True, confirm=True, evidence=True),
    "again, redirects": Variant(again=True, redirects=True),
}


class Asked(BoxSimulation):
    """A simulation of one variant; `loads` are the clients that load what pages embed."""

    def __init__(self, variant: Variant, loads: frozenset[int], *what: Any, **how: Any) -> None:
        super().__init__(*what, **how)
        self._variant, self._loads = variant, loads
        self._robots: set[int] = set()

    def feed(self, chunk: Chunk) -> None:
        """Take the requests of the next stretch of time."""
        if len(chunk):
            self._begin(chunk)
        outcome, content, variant = self.outcome, self._content, self._variant
        for t_s, client, path, klass, page_load, what in zip(*chunk.boxed(), strict=True):
            if t_s >= self._next_day_s:
                self._close_days(t_s)
            if t_s > self._check_s or t_s >= self._until_s:
                self._pass_time(t_s)
            if client in self._robots:
                continue
            awake = self._state is State.AWAKE
            if awake:
                said = content.awake(t_s, path, what)
                needs = said != HIT and not (variant.again and said == AGAIN)
            else:
                needs = content.asleep(t_s, self._decided_s, path, what)
                if needs and variant.confirm and page_load and client not in self._loads:
                    if variant.evidence:
                        self._robots.add(client)
                    if self._state is not State.WAKING:
                        continue
            outcome.requests += 1
            if self._planner is not None:
                cacheable = what & 255 != 0
                self._planner.asked(t_s, path, client, asleep=not awake, cacheable=cacheable)
            if awake:
                self._policy.request(Request(t_s, client, klass, needs, page_load, path))
                if needs or self._check_s == math.inf:
                    self._check_s = t_s + self._quiet_s
                continue
            outcome.came_asleep += 1
            outcome.answered_asleep += not needs
            wait_s = self._wait(t_s, client, person=True) if needs else 0.0
            self._policy.request(Request(t_s, client, klass, needs, page_load, path, wait_s))
            if self._state is State.ASLEEP:
                self._check_s = t_s


def who_loads(log: Traffic) -> frozenset[int]:
    """Return the clients that ask for a file at any time."""
    found: set[int] = set()
    for chunk in log:
        columns = zip(chunk.client, chunk.flags, strict=True)
        found.update(client for client, flags in columns if flags & _STATIC_FLAG)
    return frozenset(found)


def halves(log: Traffic, folder: Path, stack: ExitStack) -> Iterator[Traffic]:
    """Yield the first and the second half of a log's time."""
    middle_s = log.start_s + log.span_s / 2
    for number in (1, 2):
        path = folder / f"{log.name}-{number}"
        made = Traffic(f"{log.name}, {number}", stack.enter_context(path.open("w+b")), path)
        for chunk in log:
            _copy(made, chunk, [(t_s >= middle_s) == (number == 2) for t_s in chunk.t_s])
        yield made


def _copy(made: Traffic, chunk: Chunk, keep: Iterable[bool]) -> None:
    part = Chunk()
    for n, wanted in enumerate(keep):
        if wanted:
            made.trust.see(chunk.t_s[n])
            part.append(
                *(chunk.t_s[n], chunk.client[n], chunk.path[n], chunk.klass[n]),
                flags=chunk.flags[n],
                age_s=chunk.age_s[n],
                keep=chunk.keep[n],
                size=chunk.size[n],
            )
    assert len(part) <= CHUNK
    if len(part):
        made.add(part)


def measured(log: Traffic, loads: frozenset[int], name: str, box: str) -> list[dict[str, Any]]:
    """Return the figures of one variant for each promise."""
    variant, server = VARIANTS[name], Server()
    keeps = Redirects(held=variant.redirects)
    if not variant.redirects:
        keeps.all[REDIRECT] = keeps.all[PAGE]
    model: BoxModel = replace(BOXES[box], keeps=keeps)
    runs = []
    for promise in PROMISES:
        case = Case(box, "closed", promise)
        made = ENTRANTS["teacher"].make(server, case)
        times = {"wake_s": server.wake_s, "sleep_s": server.sleep_s, "delta_s": promise.delta_s}
        run = Asked(variant, loads, made, model, server.power, promise.f, closed=True, **times)
        runs.append((case, run))
    for chunk in log:
        for _, run in runs:
            run.feed(chunk)
    found = []
    for case, run in runs:
        outcome = run.finish()
        whole_j = server.power.on_w * outcome.span_s
        late = outcome.delayed_share_since_day_2(case.promise.delta_s, closed=True)
        found.append(
            {
                "f": case.promise.f,
                "saving_gross": outcome.saving_j(server.power) / whole_j,
                "spent": (late or 0.0) / case.promise.f,
                "wakes_a_day": outcome.cycles / (outcome.span_s / 86400),
                "requests": outcome.requests,
                "answered_asleep": outcome.answered_share,
            }
        )
    return found


def main() -> None:
    """Measure, and write the file."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m tests.bench.questions OUTPUT.json [NAME...]")
    names = sys.argv[2:] or list(VARIANTS)
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="naproxy-bench-")))
        files = [str(path) for path in sorted(LOGS.glob("*.log.gz"))]
        logs = [
            stack.enter_context(
                estimate.traffic_of(name, some, "learned", keeps=Redirects(held=False))
            )
            for name, some in estimate.group(files)
        ]
        for log in filter(eligible, logs):
            loads = who_loads(log)
            for half in halves(log, folder, stack):
                for box in ("box-frozen", "box-pages"):
                    for name in names:
                        rows = measured(half, loads, name, box)
                        found.setdefault(box, {}).setdefault(name, {})[half.name] = rows
                        _tell(half.name, box, name, rows)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    for box, variants in found.items():
        for name, logs_of in variants.items():
            means = [
                statistics.fmean(
                    rows[n]["saving_gross"]
                    for half, rows in logs_of.items()
                    if half.endswith(str(number))
                )
                for n in range(len(PROMISES))
                for number in (1, 2)
            ]
            sys.stdout.write(f"{box} {name:<20}" + "".join(f"{m:8.1%}" for m in means) + "\n")


def _tell(log: str, box: str, name: str, rows: list[dict[str, Any]]) -> None:
    figures = "".join(
        f"  {row['f']:.0%}: {row['saving_gross']:6.1%} spent {row['spent']:.2f}" for row in rows
    )
    sys.stdout.write(f"{log:<18}{box:<12}{name:<20}{figures}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
