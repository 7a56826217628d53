"""`make siege`: attack a box from one address and from 200; build/siege.json."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.result import write
from tests.siege import energy, hostile, verdict
from tests.siege.attacks import ATTACKS, MANY
from tests.siege.place import ENDS, FairVisitor, Memory, Place, end, place, start_attack
from tests.simulator.office.namespace import ROOT, OfficeError

BUILD = ROOT / "build"
HOSTILE = "hostile_bytes"
HOSTILE_TIMES = 8
"""Hostile bytes take as long as so many attacks."""

ENERGY = "energy"
ALL = (*ATTACKS, HOSTILE, ENERGY)
BEFORE_S = 3.0
"""So long the fair visitor is alone, to compare with."""


def attack(
    at: Place, name: str, addresses: int, seconds: float, seed: int, *, alone_s: float = BEFORE_S
) -> dict[str, Any]:
    """Carry one attack out; what everybody else saw of it, and what it cost the box."""
    counted = at.counters()
    at.forget_received()
    with Memory(at.office) as memory:
        with FairVisitor(at) as fair:
            before_s = time.monotonic()
            time.sleep(alone_s)
            words = (name, str(addresses), str(seed))
            attacker = start_attack(at.attacker, "tests.siege.attacker", *words)
            begin_s = time.monotonic()
            time.sleep(seconds)
            gauges = at.gauges()
            end_s = time.monotonic()
            tally = json.loads(end(attacker))
        recovered_s = at.recover()
    now = at.counters()
    changed = {key: value - counted[key] for key, value in now.items() if value != counted[key]}
    kinds = ("hit", "status", "post")
    return {
        "attack": f"{name}, {addresses} address{'es' if addresses > 1 else ''}",
        "name": name,
        "addresses": addresses,
        "seconds": round(end_s - begin_s, 1),
        "before": {
            kind: verdict.latency(verdict.during(fair.visits, kind, before_s, begin_s))
            for kind in kinds
        },
        "during": {
            kind: verdict.latency(verdict.during(fair.visits, kind, begin_s, end_s))
            for kind in kinds
        },
        "posts": dataclasses.asdict(verdict.posts(fair.visits, at.received())),
        "memory_mb": memory.most,
        "recovered_s": round(recovered_s, 2),
        "panics": sum(changed.get(each, 0) for each in ENDS),
        "attacker": tally,
        "varnish": {**changed, **gauges},
    }


def main() -> int:
    """Attack, write the result, and say whether the goals are met."""
    parser = argparse.ArgumentParser(prog="make siege", description=__doc__)
    parser.add_argument("--attacks", nargs="+", choices=ALL, default=[*ALL], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10.0, help="each attack takes")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--output", type=Path, default=BUILD / "siege.json")
    args = parser.parse_args()
    goals: list[dict[str, Any]] = []
    raw: dict[str, Any] = {"cores": os.cpu_count(), "seed": args.seed}
    if names := [name for name in args.attacks if name in ATTACKS]:
        raw["attacks"] = by_connections(names, args.seconds, args.seed)
        goals += verdict.goals(raw["attacks"])
    if HOSTILE in args.attacks:
        seconds = HOSTILE_TIMES * args.seconds
        raw[HOSTILE] = hostile.hostile(seconds, args.seed, BUILD / "siege/hostile", _say)
        goals += hostile.goals(raw[HOSTILE])
    if ENERGY in args.attacks:
        raw[ENERGY] = energy.energy(_say)
        goals += energy.goals(raw[ENERGY])
    write(args.output, goals, raw)
    if "attacks" in raw:
        args.output.with_suffix(".md").write_text(verdict.table(raw["attacks"]))
    return 0 if all(each["met"] for each in goals) else 1


def by_connections(names: list[str], seconds: float, seed: int) -> list[dict[str, Any]]:
    """Carry these attacks out, each from one address and from many."""
    rows = []
    with place(BUILD / "siege/office") as at:
        at.raise_the_firewall()
        _say("the cache is being filled")
        at.fill_the_cache()
        for name in names:
            for addresses in (1, MANY):
                row = attack(at, name, addresses, seconds, seed)
                _say(_line(row))
                rows.append(row)
    return rows


def _line(row: dict[str, Any]) -> str:
    seen = row["during"]
    times = ", ".join(f"{kind} {seen[kind]['p99_ms']:.0f} ms" for kind in ("hit", "status"))
    forms = row["posts"]
    return (
        f"{row['attack']}: p99 {times}; {row['memory_mb']['all']:.0f} MB; forms "
        f"{forms['arrived']} arrived, {forms['refused']} refused, {forms['lost']} lost"
    )


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OfficeError, TimeoutError) as error:
        sys.exit(f"make siege: {error}")
