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


def once_a_percent(say: Callable[[float], None]) -> Callable[[float], None]:
    """Return what says a share that grows: reading a log again costs more than to say so."""
    last = -1

    def told(share: float) -> None:
        nonlocal last
        if int(100 * share) > last:
            last = int(100 * share)
            say(share)

    return told


def say_json(said: dict[str, Any]) -> None:
    """Write one line on standard error, for a program."""
    sys.stderr.write(json.dumps(said) + "\n")
    sys.stderr.flush()


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
    def reading(self, log: str, files: Sequence[str]) -> Callable[[int, int], None]:
        whole = sum(Path(file).stat().st_size for file in files) if "-" not in files else 0

        def told(entries: int, read_bytes: int) -> None:
            share = min(1.0, read_bytes / whole) if whole else None
            say_json({"log": log, "stage": "reading", "share": share, "entries": entries})

        return told

    def comparing(self, log: str) -> Callable[[float], None]:
        return once_a_percent(
            lambda share: say_json({"log": log, "stage": "comparing", "share": share})
        )

    def problem(self, log: str, words: str) -> None:
        say_json({"log": log, "problem": words})


def of(*, as_json: bool, as_words: bool) -> Progress:
    """Return how progress is shown."""
    if as_json:
        return _Json()
    return _Words() if as_words else SILENT
