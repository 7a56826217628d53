"""Limits how often passwords and codes can be guessed. Pure: the clock is an argument."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from typing import Final

FORGET_S: Final = 3600.0
MOST_KEYS: Final = 2000


class Attempts:
    """After `free` failures the wait before the next doubles, up to `most_s`."""

    def __init__(
        self,
        free: int,
        most_s: float,
        clock: Callable[[], float] = time.monotonic,
        forget_s: float = FORGET_S,
    ) -> None:
        self._free = free
        self._most_s = most_s
        self._clock = clock
        self._forget_s = forget_s
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float]] = {}

    def begin(self, key: str) -> float:
        """Count an attempt; return 0, or for how many seconds it is refused.

        It counts as failed until `refund`, so those made at the same time count too.
        """
        with self._lock:
            now_s = self._clock()
            failures, last_s = self._known.pop(key, (0, now_s))
            if now_s - last_s > self._forget_s:
                failures = 0
            wait_s = self._wait_s(failures) - (now_s - last_s)
            if wait_s > 0:
                self._known[key] = (failures, last_s)
                return wait_s
            self._known[key] = (failures + 1, now_s)
            while len(self._known) > MOST_KEYS:
                del self._known[next(iter(self._known))]
            return 0.0

    def refund(self, key: str) -> None:
        """Do not count the last attempt, which succeeded. Earlier ones still count.

        Otherwise an attacker could log in to an account of their own to get more guesses at others.
        """
        with self._lock:
            failures, last_s = self._known.pop(key, (0, 0.0))
            if failures > 1:
                self._known[key] = (failures - 1, last_s)

    def _wait_s(self, failures: int) -> float:
        over = failures - self._free
        return 0.0 if over < 0 else float(min(2.0 ** min(over, 30), self._most_s))


def network(address: str) -> str:
    """Return whose attempts are counted together: an IPv4 address, or an IPv6 /64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
