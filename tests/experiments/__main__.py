"""Run an experiment of a paper between two machines of our own.

python -m tests.experiments NAME FOLDER [--quick]

There is no meter: time, the server's processor and its bytes are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from naproxy.api.command import CommandError
from naproxy.lab.measure import declared
from naproxy.lab.measure.experiments import PRESETS, RUNS, report
from naproxy.lab.measure.trial import Journal, Runner

from tests.bench.link import FAR
from tests.experiments.place import LOGIN, SET_LINK, place


def main() -> int:
    """Run or continue it, and write its reports; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(PRESETS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    raw = PRESETS[args.name].read_bytes()
    with tempfile.TemporaryDirectory(prefix="naproxy-experiment-") as directory:
        work = Path(directory)
        work.chmod(0o755)
        # The list is named without its folder, which is another one when the experiment goes on.
        variables = {"server": FAR, "login": LOGIN, "list": "gallery.txt", "set_link": SET_LINK}
        known = declared.read(raw).variables
        mine = {name: value for name, value in variables.items() if name in known}
        what = declared.read(raw, mine, quick=args.quick)
        args.folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(args.folder / RUNS)
        try:
            journal.open(what, {})
            with place(work) as at:
                runner = Runner(what, journal, None, at.execute, _tell)
                asyncio.run(runner.run())
        except CommandError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            journal.close()
    return report(what, args.folder)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
