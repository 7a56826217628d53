"""The form in which every benchmark leaves its figures."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

Sense = Literal[">=", "<="]


def goal(name: str, value: float, wanted: float, sense: Sense) -> dict[str, Any]:
    """A figure an issue set, and whether what was measured meets it."""
    met = value >= wanted if sense == ">=" else value <= wanted
    return {"name": name, "value": value, "goal": wanted, "sense": sense, "met": met}


def quantile(values: Sequence[float], fraction: float) -> float:
    """The smallest of `values` that at least `fraction` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-fraction * len(ordered) // 1) - 1))]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, quartile-like quantiles and extremes of measured values."""
    return {
        "n": len(values),
        "min": min(values),
        "p50": statistics.median(values),
        "p90": quantile(values, 0.90),
        "p99": quantile(values, 0.99),
        "max": max(values),
    }


def write(path: Path, goals: Sequence[Mapping[str, Any]], raw: Mapping[str, Any]) -> None:
    """Write `{"goals": [...], ...raw}` and print the goals for the person at the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"goals": list(goals), **raw}, indent=2) + "\n")
    for g in goals:
        mark = "met" if g["met"] else "NOT met"
        sys.stdout.write(f"{g['name']}: {g['value']:.4g} (goal {g['sense']} {g['goal']}) {mark}\n")
    sys.stdout.write(f"written: {path}\n")


def output_path() -> Path:
    """The file named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.bench.NAME OUTPUT.json")
    return Path(sys.argv[1])
