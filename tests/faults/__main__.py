"""`make faults`: the campaign, resumed where the last one stopped; build/faults.json."""

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.campaign import Row, campaign
from tests.simulator.office.namespace import ROOT, OfficeError

BUILD = ROOT / "build"
GOALS = {"lost": 0, "wrong_state_s": 10.0}


def main() -> int:
    """Run what is left of the cycles, write the result, say whether the goals are met."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop, to go on")
    parser.add_argument("--anew", action="store_true", help="forget the cycles there are")
    args = parser.parse_args()
    journal = BUILD / f"faults/cycles-{args.seed}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    if args.anew or len(read_rows(journal)) >= args.cycles:
        journal.unlink(missing_ok=True)
    keep(journal, read_rows(journal))
    end_s = time.monotonic() + 60 * args.minutes
    try:
        while len(read_rows(journal)) < args.cycles and time.monotonic() < end_s:
            _piece(journal, args.seed, args.cycles, end_s)
    finally:
        result = summary(read_rows(journal), args.cycles, args.seed)
        (BUILD / "faults.json").write_text(json.dumps(result, indent=2) + "\n")
    told = ("cycles", *GOALS, "sent_again", "sent_twice", "longest_wait_s", "failed")
    print(json.dumps({key: result[key] for key in told}))
    return 0 if result["met"] else 1


def _piece(journal: Path, seed: int, cycles: int, end_s: float) -> None:
    """Run cycles in one office, until one fails: then the next office goes on."""
    with campaign(seed) as at:
        while (number := len(read_rows(journal))) < cycles and time.monotonic() < end_s:
            row = at.cycle(number)
            with journal.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(row)) + "\n")
            print(_line(row), flush=True)
            if row.failed:
                return


def keep(journal: Path, rows: list[Row]) -> None:
    """Leave these cycles only, so that what is added does not follow a line that was cut off."""
    journal.write_text("".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows))


def read_rows(journal: Path) -> list[Row]:
    """Read the cycles there are; a line cut off by a power failure, or an older form, ends them."""
    rows: list[Row] = []
    if journal.exists():
        for line in journal.read_text().splitlines():
            try:
                rows.append(Row(**json.loads(line)))
            except (ValueError, TypeError):
                break
    return rows


def _line(row: Row) -> str:
    head = f"{row.number:4} {row.fault:17} {row.phase:8} {row.took_s:5.1f} s"
    seen = f"waited {row.longest_wait_s:4.1f} s, wrong {row.wrong_state_s:4.1f} s"
    return "  ".join((head, seen, f"visits {row.visits}", *row.words[:5]))


def summary(rows: list[Row], wanted: int, seed: int) -> dict[str, Any]:
    """Put the cycles together; `met` is false as long as some are missing."""
    result: dict[str, Any] = {
        "cycles": len(rows),
        "faults": dict(Counter(row.fault for row in rows)),
        **_figures(rows),
        "seed": seed,
        "took_s": round(sum(row.took_s for row in rows)),
        "by_fault": {
            kind: _figures([row for row in rows if row.fault == kind])
            for kind in sorted({row.fault for row in rows})
        },
        "words": [f"{row.number} {row.fault} {row.phase}: {w}" for row in rows for w in row.words],
        "goals": GOALS,
    }
    met = all(result[key] <= goal for key, goal in GOALS.items()) and not result["sent_twice"]
    result["met"] = met and not result["failed"] and len(rows) >= wanted
    return result


def _figures(rows: list[Row]) -> dict[str, Any]:
    sums = {
        key: sum(getattr(row, key) for row in rows)
        for key in ("lost", "visits", "asked_again", "sent_again", "sent_twice", "failed")
    }
    longest = {
        key: max((getattr(row, key) for row in rows), default=0.0)
        for key in ("wrong_state_s", "longest_wait_s", "unknown_s")
    }
    return {**sums, **longest}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OfficeError, TimeoutError) as error:
        sys.exit(f"make faults: {error}")
