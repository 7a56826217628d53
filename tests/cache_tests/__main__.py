"""`make cache-tests [SUITE=PLACE] [AGAIN=1]`, as root: docs/cache-tests.md."""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

from tests.cache_tests import proxies, suite
from tests.cache_tests.report import Case, Explanation, complaints, counts, details, filled
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT, OfficeError

RESULTS = ROOT / "build/cache-tests/results.json"
PAGE = ROOT / "docs/cache-tests.md"
EXPLAINED = Path(__file__).with_name("explained.toml")


def main() -> int:
    """Return the exit status: 1 if a case is not explained."""
    parser = argparse.ArgumentParser(prog="make cache-tests", description=__doc__)
    parser.add_argument("--suite", default=suite.SOURCE, metavar="PLACE", help="git repository")
    parser.add_argument("--again", action="store_true", help="make the page of the last run")
    options = parser.parse_args()
    if not options.again:
        measure(suite.get(options.suite))
    return write_page()


def measure(place: Path) -> None:
    """Run the suite against each proxy, and keep what it gave."""
    runs = {}
    with Office() as office:
        suite.start_origin(office, place)
        for name, ready in proxies.start(office).items():
            sys.stdout.write(f"{name} ...\n")
            sys.stdout.flush()
            runs[name] = [asdict(case) for case in suite.run(office, place, ready())]
    versions = {
        "varnish": version("varnishd", "-V"),
        "nginx": version("nginx", "-v"),
        "ats": version("traffic_server", "-V"),
    }
    RESULTS.write_text(json.dumps({"versions": versions, "runs": runs}, indent=1) + "\n")


def version(*command: str) -> str:
    """Return the version of a program, on whichever output it says it."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"\d+(\.\d+)+", done.stderr + done.stdout)
    if not found:
        raise OfficeError(f"{command[0]} says no version: {done.stderr.strip()}")
    return found[0]


def write_page() -> int:
    """Write the tables into the page, and say which cases nobody has explained."""
    kept = json.loads(RESULTS.read_text())
    runs = {name: [Case(**case) for case in cases] for name, cases in kept["runs"].items()}
    known = tomllib.loads(EXPLAINED.read_text())["because"]
    explanations = [Explanation(**each) for each in known]
    wrong = complaints(runs, explanations)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    if wrong:
        return 1
    versions = kept["versions"]
    said = (
        f"Commit `{suite.COMMIT[:12]}` of the suite, Varnish {versions['varnish']}, "
        f"nginx {versions['nginx']}, Apache Traffic Server {versions['ats']}.\n"
    )
    made = "\n".join(
        [said, counts(runs), "### Why\n", details(runs, explanations)],
    )
    PAGE.write_text(filled(PAGE.read_text(), made))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OfficeError, TimeoutError) as error:
        sys.exit(f"cache-tests: {error}")
