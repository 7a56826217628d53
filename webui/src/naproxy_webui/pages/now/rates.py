"""Requests of the last minute by class, from the controller's counters as they were read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Final

WINDOW_S: Final = 60.0
LEAST_STEP_S: Final = 0.5


class Rates:
    """Remembers each server's counters for a minute. Used by several threads."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._lock = threading.Lock()
        self._read: dict[str, deque[tuple[float, dict[str, int]]]] = {}

    def take(
        self, server: str, now_s: float, counts: Mapping[str, int]
    ) -> tuple[float, dict[str, int]]:
        """Return (length in s, requests by class in it) up to now; `counts` are the totals now.

        The window is shorter than a minute if the last call is more recent than that, and 0 s at
        first. Times are of a monotonic clock. If a counter fell, it was reset, so the window
        restarts.
        """
        with self._lock:
            read = self._read.setdefault(server, deque())
            if read and any(counts.get(name, 0) < known for name, known in read[-1][1].items()):
                read.clear()
            # Keep one reading that is at least a minute old, so that the window covers a minute.
            while len(read) > 1 and read[1][0] <= now_s - WINDOW_S:
                read.popleft()
            if read and read[0][0] < now_s - 2 * WINDOW_S:
                read.clear()
            if not read or now_s - read[-1][0] >= LEAST_STEP_S:
                read.append((now_s, dict(counts)))
            then_s, then = read[0]
            return now_s - then_s, {n: count - then.get(n, 0) for n, count in counts.items()}

    def keep(self, servers: set[str]) -> None:
        """Forget servers that are no more."""
        with self._lock:
            for name in self._read.keys() - servers:
                del self._read[name]
