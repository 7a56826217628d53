"""`python -m tests.simulator.past DIRECTORY [--days 30] [--log FILE]`: weeks of history."""

import argparse
import sys
import time
from pathlib import Path

from tests.simulator.past import house, log


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.past", description=__doc__)
    parser.add_argument("directory", type=Path, help="where history.db is written")
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--log", type=Path, metavar="FILE", help="access log, gzip too")
    parser.add_argument("--until", type=float, metavar="EPOCH_S", help="default: now")
    parser.add_argument("--verbose", action="store_true", help="what the controller says")
    options = parser.parse_args()
    if not 0 < options.days <= 4000:
        parser.error("--days is a number of days, 4000 at the most")
    if (options.directory / "history.db").exists():
        parser.error(f"there is a history in {options.directory} already")
    try:
        name, entries = log.read(options.log)
        options.directory.mkdir(parents=True, exist_ok=True)
        begun_s = time.monotonic()
        told = house.make(options.directory, options.days, options.until or time.time(), entries)
    except (OSError, ValueError) as error:
        print(f"past: {error}", file=sys.stderr)
        return 1
    took_s = time.monotonic() - begun_s
    if options.verbose:
        print(*told.said, sep="\n")
    print(f"{options.days:g} days of {name}: {told.requests} requests, made in {took_s:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
