"""Print what failed in a log of `make test`, and the command that reruns just that.

At most 30 lines, so that a failing run ends with what a reader needs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]
MOST_LINES = 30
TEST = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$")
VTC = re.compile(r"^#\s+top\s+TEST (\S+\.vtc) (?:FAILED|TIMED OUT)")
TARGET = re.compile(r"^make(?:\[\d+\])?: \*\*\* \[(?:Makefile:\d+: )?((?:test-\S+)|lint|build)\] ")
VTC_ROOMS = ("varnish-vcl", "package/libvmod-naproxy")


def rerun_vtc(name: str) -> str:
    """Return the command that runs one file of varnishtest."""
    room = next((room for room in VTC_ROOMS if (TOP / room / "tests" / name).is_file()), "?")
    return f"make -C {room} check-vtc TESTS={name}"


def summary(log: str) -> list[str]:
    """Return a line for each failed test, or for a target that names no test.

    `log` is what make and its targets printed, each target's output in one piece.
    """
    found: dict[str, None] = {}
    named_a_test = False
    for line in log.splitlines():
        if match := TEST.match(line):
            node = match[1] if " " not in match[1] else f"'{match[1]}'"
            reason = f"  # {match[2][:80]}" if match[2] else ""
            found[f"sudo -E .venv/bin/python -m pytest {node}{reason}"] = None
            named_a_test = True
        elif match := VTC.match(line):
            found[rerun_vtc(Path(match[1]).name)] = None
            named_a_test = True
        elif match := TARGET.match(line):
            if not named_a_test:
                found[f"make {match[1]}"] = None
            named_a_test = False
    return list(found)


def shortened(lines: list[str], log: str) -> list[str]:
    """Return at most `MOST_LINES` lines, the last of which says where the rest is."""
    if len(lines) <= MOST_LINES - 1:
        return [*lines, f"The whole output: {log}"]
    shown = lines[: MOST_LINES - 1]
    return [*shown, f"{len(lines) - len(shown)} more failed; the whole output: {log}"]


if __name__ == "__main__":
    print(*shortened(summary(Path(sys.argv[1]).read_text(errors="replace")), sys.argv[1]), sep="\n")
