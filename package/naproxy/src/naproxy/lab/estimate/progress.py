"""How far `naproxy estimate` is, for a terminal or for a program.

For a program it is one JSON object a line on standard error:
`{"log", "stage": "reading" | "comparing", "share": 0..1 or null, "entries": n}` and
`{"log", "problem": words}`. `share` is null where a file's size is not known.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final


class Progress:
    """Shows nothing but problems, in words."""

    def reading(self, log: str, files: Sequence[str]) -> Callable[[int, int], None] | None:
        """Return what is told how many entries and bytes of a log were read."""
        return None

    def comparing(self, log: str) -> Callable[[float], None] | None:
        """Return what is told which share of a log the policies have seen."""
        return None

    def problem(self, log: str, words: str) -> None:
        """Say why the figures of a log may be wrong."""
        sys.stderr.write(f"naproxy estimate: {log}: {words}\n")

    def done(self) -> None:
        """A log is done."""


SILENT: Final = Progress()


class _Words(Progress):
    def reading(self, log: str, files: Sequence[str]) -> Callable[[int, int], None]:
        return lambda entries, _: self._say(f"{log}: {entries:,} requests read")

    def comparing(self, log: str) -> Callable[[float], None]:
        return lambda share: self._say(f"{log}: comparing policies, {share:.0%}")

    def done(self) -> None:
        sys.stderr.write(f"\r{'':60}\r")
        sys.stderr.flush()

    def _say(self, words: str) -> None:
        sys.stderr.write(f"\r{words:<60}")
        sys.stderr.flush()


class _Json(Progress):
    def __init__(self) -> None:
        self._percent: dict[str, int] = {}

    def reading(self, log: str, files: Sequence[str]) -> Callable[[int, int], None]:
        whole = sum(Path(file).stat().st_size for file in files) if "-" not in files else 0

        def told(entries: int, read_bytes: int) -> None:
            share = min(1.0, read_bytes / whole) if whole else None
            self._say({"log": log, "stage": "reading", "share": share, "entries": entries})

        return told

    def comparing(self, log: str) -> Callable[[float], None]:
        def told(share: float) -> None:
            # Once a percent: reading a log again and again costs more than to say so.
            percent = int(100 * share)
            if self._percent.get(log) != percent:
                self._percent[log] = percent
                self._say({"log": log, "stage": "comparing", "share": share})

        return told

    def problem(self, log: str, words: str) -> None:
        self._say({"log": log, "problem": words})

    def _say(self, said: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(said) + "\n")
        sys.stderr.flush()


def of(*, as_json: bool, as_words: bool) -> Progress:
    """Return how progress is shown."""
    if as_json:
        return _Json()
    return _Words() if as_words else SILENT
