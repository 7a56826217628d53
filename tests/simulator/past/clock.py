"""Virtual time: an event loop that never waits, and the clocks of this process that follow it."""

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager

START_S = 1000.0
"""The monotonic clock at the beginning: as of a machine that was just switched on."""

_RESOLUTION_S = 1e-6

Ready = list[tuple[selectors.SelectorKey, int]]


class Clock:
    """Seconds since START_S, and the wall clock that goes with them."""

    def __init__(self, start_s: float) -> None:
        """`start_s` are epoch seconds."""
        self.monotonic_s = START_S
        self.epoch_s = start_s - START_S

    def monotonic(self) -> float:
        return self.monotonic_s

    def wall(self) -> float:
        return self.epoch_s + self.monotonic_s

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let `time` say so to everybody in this process, which does nothing else meanwhile."""
        real = time.monotonic, time.monotonic_ns, time.time
        time.monotonic = self.monotonic
        time.monotonic_ns = lambda: int(1e9 * self.monotonic_s)
        time.time = self.wall
        try:
            yield
        finally:
            time.monotonic, time.monotonic_ns, time.time = real


class _Selector(selectors.SelectSelector):
    """Waits by letting the clock go on; nothing that it watches ever happens."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Ready:
        if timeout is None:
            raise RuntimeError("in virtual time nothing would ever happen again")
        self._clock.monotonic_s += max(0.0, timeout)
        return []


def loop(clock: Clock) -> asyncio.AbstractEventLoop:
    """Return a loop whose waiting takes no time."""
    made = asyncio.SelectorEventLoop(_Selector(clock))
    # After half a year a nanosecond is less than what two floats can tell apart.
    made._clock_resolution = _RESOLUTION_S  # type: ignore[attr-defined]
    return made
