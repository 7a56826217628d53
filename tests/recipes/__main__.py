"""`make faults-office`: sleeps and wakes under real programs; build/faults-office.json."""

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from typing import Any

from tests.recipes.campaign import Campaign, Row
from tests.recipes.place import place
from tests.simulator.office.namespace import ROOT, OfficeError

BUILD = ROOT / "build"
SUMS = ("sleeps", "orders", "webhooks", "syncs", "copies", "backups")


def main() -> int:
    """Run the cycles, write the result after each, say whether anything was wrong."""
    parser = argparse.ArgumentParser(prog="make faults-office", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    rows: list[Row] = []
    begun_s = time.monotonic()
    while len(rows) < args.cycles:
        with place(BUILD / "faults-office") as at:
            campaign = Campaign(at, args.seed)
            while len(rows) < args.cycles:
                rows.append(row := campaign.cycle(len(rows)))
                result = summary(rows, args.cycles, args.seed, time.monotonic() - begun_s)
                (BUILD / "faults-office.json").write_text(json.dumps(result, indent=2) + "\n")
                print(_line(row), flush=True)
                if row.wrong:
                    # The next ones begin in another office, where nothing is wrong yet.
                    break
    told = ("cycles", *SUMS, "longest_wait_s", "wrong", "met")
    print(json.dumps({key: result[key] for key in told}))
    return 0 if result["met"] else 1


def summary(rows: list[Row], wanted: int, seed: int, took_s: float) -> dict[str, Any]:
    """Put the cycles together; `met` is false as long as some are missing."""
    wrong = [f"{row.number}: {words}" for row in rows for words in row.wrong]
    return {
        "cycles": len(rows),
        **{key: sum(getattr(row, key) for row in rows) for key in SUMS},
        "longest_wait_s": max(row.longest_wait_s for row in rows),
        "refused": dict(Counter(code for row in rows for code in row.refused)),
        "reasons": dict(Counter(reason for row in rows for reason in row.reasons)),
        "seed": seed,
        "took_s": round(took_s),
        "wrong": wrong,
        "met": not wrong and len(rows) >= wanted,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def _line(row: Row) -> str:
    did = ", ".join(f"{key} {getattr(row, key)}" for key in SUMS)
    return "  ".join((f"{row.number:4} {row.kind:5} {row.took_s:5.1f} s", did, *row.wrong[:5]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OfficeError, TimeoutError) as error:
        sys.exit(f"make faults-office: {error}")
