"""Attacks on the box's HTTPS, while a visitor asks ten times a second: docs/siege.md.

python -m tests.bench.edge OUTPUT.json [SECONDS [ATTACK ...]]
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench import terminators
from tests.bench.floods import WAYS
from tests.bench.result import goal, write
from tests.bench.terminators import Behind, Running, Wanted
from tests.siege import verdict
from tests.siege.attacks import BIG
from tests.siege.fair import HIT
from tests.siege.place import ENDS, FairVisitor, Memory, Place, end, place, start_attack
from tests.simulator.office.namespace import ROOT

SECONDS: Final = 30.0
BEFORE_S: Final = 3.0
"""So long the visitor is alone, to compare with."""
AFTER_S: Final = 6.0
"""What an attack leaves behind is to be gone before the next."""
ANSWERED_S: Final = 1.0
MEMORY_MB: Final = 160.0
SEED: Final = 16
PROBE: Final = "tests.bench.probe"


@dataclasses.dataclass
class EdgeMemory(Memory):
    """The same with haproxy."""

    edge: Running | None = None

    def now(self) -> dict[str, float]:
        """Return each program's memory, and the sum."""
        assert self.edge
        each, edge_mb = super().now(), self.edge.pss_mb()
        return {**each, "all": each["all"] + edge_mb, "haproxy": edge_mb}


def attack(at: Place, edge: Running, name: str, addresses: int, seconds: float) -> dict[str, Any]:
    """Carry one attack out; what the visitor saw of it, and what it cost the box."""
    counted, workers = at.counters(), edge.pids()
    words = (name, str(addresses), str(SEED))
    with EdgeMemory(at.office, edge=edge) as memory, FairVisitor(at, PROBE) as visitor:
        time.sleep(BEFORE_S)
        attacker = start_attack(at.office.client, "tests.bench.flood", *words)
        begin_s, used_s = time.monotonic(), edge.cpu_s()
        time.sleep(seconds)
        end_s, used_s = time.monotonic(), edge.cpu_s() - used_s
        gauges = at.gauges()
        tally = json.loads(end(attacker))
        time.sleep(AFTER_S)
    now = at.counters()
    visits = visitor.visits
    changed = {key: value - counted[key] for key, value in now.items() if value != counted[key]}
    return {
        "attack": f"{name}, {addresses} address{'es' if addresses > 1 else ''}",
        "name": name,
        "addresses": addresses,
        "seconds": round(end_s - begin_s, 1),
        "before": verdict.latency([visit for visit in visits if visit.due_s < begin_s]),
        "during": verdict.latency([visit for visit in visits if begin_s <= visit.due_s < end_s]),
        "after": verdict.latency([visit for visit in visits if end_s <= visit.due_s]),
        "memory_mb": memory.most,
        "haproxy_cpu": round(used_s / (end_s - begin_s), 3),
        "ends": sum(changed.get(each, 0) for each in ENDS) + (edge.pids() != workers),
        "attacker": tally,
        "varnish": {**changed, **gauges},
    }


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Everybody is answered within a second, and there is memory left."""
    slowest_s, where = max((row["during"]["max_ms"] / 1000, row["attack"]) for row in rows)
    memory_mb, when = max((verdict.beside_cache_mb(row), row["attack"]) for row in rows)
    return [
        goal(f"slowest answer by HTTPS in s, in {where}", slowest_s, ANSWERED_S, "<="),
        goal(
            f"memory of haproxy, varnishd and controller in MB, beside what is in the cache, "
            f"most in {when}",
            memory_mb, MEMORY_MB, "<=",
        ),
        goal("ends of Varnish's or haproxy's worker", sum(row["ends"] for row in rows), 0, "<="),
    ]  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as docs/siege.md has them."""
    lines = [
        "| attack | addresses | answer by HTTPS, median | slowest | not served | memory |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        seen = row["during"]
        missed = sum(seen["not_served"].values())
        times = f"{seen['p50_ms']:.0f} ms | {seen['max_ms']:.0f} ms"
        memory = f"{verdict.beside_cache_mb(row):.0f} MB"
        lines.append(f"| `{row['name']}` | {row['addresses']} | {times} | {missed} | {memory} |")
    return "\n".join(lines) + "\n"


@contextmanager
def besieged(logs: Path) -> Iterator[tuple[Place, Running]]:
    """An office whose box has its firewall up and serves HTTPS, with what is asked for cached."""
    with place(logs) as at:
        at.raise_the_firewall()
        work = at.office.directory / "bench"
        work.mkdir(mode=0o755)
        issued = terminators.authority(work / "authority")
        behind = Behind(at.office.box.run_dir)
        edge = terminators.haproxy(Wanted(at.office.box, work, behind, issued, limits=True))
        for path in (HIT, BIG):
            at.office.client.run(["curl", "-sSfko", "/dev/null", f"https://192.0.2.1{path}"])
        yield at, edge


def main() -> None:
    """Attack, and write what was measured."""
    output, *more = sys.argv[1:]
    seconds = float(more[0]) if more else SECONDS
    names = more[1:] or list(WAYS)
    rows = []
    with besieged(ROOT / "build/bench/edge") as (at, edge):
        for name in names:
            for addresses in WAYS[name].addresses:
                row = attack(at, edge, name, addresses, seconds)
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
                rows.append(row)
    write(Path(output), goals(rows), {"cores": os.cpu_count(), "attacks": rows})
    Path(output).with_suffix(".md").write_text(table(rows))


if __name__ == "__main__":
    main()
