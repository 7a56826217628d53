"""Logs to look at: bounded, as text whatever is in them."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MOST_LINES: Final = 1000
MOST_CHARS: Final = 500
_MOST_BYTES: Final = 1 << 18
_KEPT: Final = 2000


class Ring(logging.Handler):
    """The last lines of the controller's log, with their time."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is said."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        lines = self.format(record).splitlines()
        self._lines.extend(f"{stamp} {line[:MOST_CHARS]}" for line in lines)

    def lines(self) -> list[str]:
        """Return them, oldest first."""
        return list(self._lines)


def tail(path: Path) -> list[str]:
    """Return the last lines of a file, oldest first; OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MOST_BYTES))
        data = file.read(_MOST_BYTES)
    lines = data.decode(errors="replace").split("\n")
    # The first is cut where not the whole file was read.
    return [line for line in (lines[1:] if size > _MOST_BYTES else lines) if line]


def chosen(lines: Iterable[str], contains: str, limit: int) -> list[str]:
    """Return the last `limit` lines with these characters, as text that is safe to show."""
    wanted = contains.casefold()
    found = [line for line in lines if wanted in line.casefold()]
    return [_safe(line) for line in found[-max(1, min(limit, MOST_LINES)) :]]


def _safe(line: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[:MOST_CHARS])
