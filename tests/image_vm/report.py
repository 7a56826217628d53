"""What the run found: cases, goals, figures; `report.json`."""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tests.bench.result import goal, write

Result = Literal["passed", "failed", "not run"]

BUNDLE_MB: Final = 48.0
MEMORY_MB: Final = 160.0
SLOWER: Final = 2.0
_MB: Final = 1e6
_KB: Final = 1024


@dataclass(slots=True)
class Case:
    """One thing that was shown, or not; `words` say why not, or what was seen."""

    name: str
    result: Result = "not run"
    seconds: float = 0.0
    words: str = ""


@dataclass(slots=True)
class Report:
    """Filled while the run goes on; `clock` is CLOCK_MONOTONIC."""

    cases: list[Case] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    say: Callable[[str], object] = sys.stdout.write
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def case(self, name: str) -> Iterator[Case]:
        """Run what is within as a case: whatever it raises is its result, and does not go on."""
        found = Case(name)
        self.cases.append(found)
        self.say(f"{name} ... ")
        began_s = self.clock()
        try:
            yield found
            found.result = "passed"
        except Exception as error:
            found.result = "failed"
            where = traceback.extract_tb(error.__traceback__)[-1]
            found.words = (
                f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            )
        finally:
            found.seconds = round(self.clock() - began_s, 1)
            self.say(f"{found.result}, {found.seconds:.0f} s. {found.words}\n")

    @property
    def good(self) -> bool:
        """Whether there were cases, and all passed."""
        return bool(self.cases) and all(case.result == "passed" for case in self.cases)

    def write(self, path: Path, **raw: Any) -> bool:
        """Write it; return whether all passed and all goals that were measured are met."""
        goals = goals_of(self.figures)
        write(path, goals, self._told(raw))
        return self.good and all(each["met"] for each in goals)

    def keep(self, path: Path, **raw: Any) -> None:
        """Write it while the run goes on."""
        told = {"goals": goals_of(self.figures), **self._told(raw)}
        path.write_text(json.dumps(told, indent=2) + "\n")

    def _told(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        cases = [asdict(case) for case in self.cases]
        return {**raw, "figures": self.figures, "cases": cases}


def goals_of(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the goals whose figures were measured."""
    made = []
    if "bundle_bytes" in figures:
        made.append(goal("bundle_mb", figures["bundle_bytes"] / _MB, BUNDLE_MB, "<="))
    if "memory" in figures:
        made.append(goal("memory_in_use_mb", figures["memory"]["in_use_mb"], MEMORY_MB, "<="))
    if "first_page_s" in figures and "minimal_login_s" in figures:
        ratio = figures["first_page_s"] / figures["minimal_login_s"]
        made.append(goal("first_page_to_minimal_login", ratio, SLOWER, "<="))
    return made


def memory(meminfo: str) -> dict[str, float]:
    """Return what /proc/meminfo says, in MB: in use is what programs could not have.

    That is `used` of free(1): MemTotal - MemAvailable. What the kernel took for itself before is
    not in MemTotal.
    """
    found = {
        name: int(kib) * _KB / _MB for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", meminfo, re.M)
    }
    for name in ("MemTotal", "MemAvailable"):
        if name not in found:
            raise ValueError(f"no {name} in meminfo: {meminfo[:200]!r}")
    return {
        "in_use_mb": round(found["MemTotal"] - found["MemAvailable"], 1),
        "total_mb": round(found["MemTotal"], 1),
        "free_mb": round(found.get("MemFree", 0.0), 1),
        "tmpfs_mb": round(found.get("Shmem", 0.0), 1),
    }
