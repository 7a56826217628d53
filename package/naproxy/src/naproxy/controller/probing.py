"""Probes a server at a cadence, several at once, so that one that hangs delays none."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from typing import Final

from naproxy.core.reason import Reason
from naproxy.drivers.ready import Observation, ReadyDriver
from naproxy.server.machine_io import Observed, Probe
from naproxy.server.seeing import Sign

MOST_AT_ONCE: Final = 64
LEAST_TIMEOUT_S: Final = 0.25
"""Shortest time an impatient probe gets."""

_SLOWER: Final = 5
"""An impatient probe gets so many times what the slowest of late took."""

_FORGET: Final = 0.98
_STALLED_S: Final = 0.25
_RESET: Final = Observation(Sign.REFUSING, Reason("ready.reset"))
_TELLS: Final = {
    errno.ECONNREFUSED: Observation(Sign.REFUSING, Reason("ready.refused")),
    errno.ECONNRESET: _RESET,
    errno.ECONNABORTED: _RESET,
    errno.EPIPE: _RESET,
    errno.EHOSTUNREACH: Observation(Sign.SILENT, Reason("ready.no_route")),
    errno.ENETUNREACH: Observation(Sign.SILENT, Reason("ready.no_network")),
    errno.EHOSTDOWN: Observation(Sign.SILENT, Reason("ready.host_down")),
    errno.ENETDOWN: Observation(Sign.SILENT, Reason("ready.network_down")),
    errno.ETIMEDOUT: Observation(Sign.SILENT, Reason("ready.timed_out")),
}
"""The meaning of failed connections; other errors have none."""


class Prober:
    """Calls `seen` with the result of each probe, in the order in which they ended."""

    def __init__(
        self,
        driver: ReadyDriver,
        timeout_s: float,
        seen: Callable[[Observed], None],
        failed: Callable[[OSError], None],
        stranger: Callable[[], Reason | None] = lambda: None,
        *,
        connected: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with `set`.

        `failed` hears why a probe could not be sent; `stranger` returns whether another machine is
        at the server's address; `connected` hears that the port took a probe's connection.
        """
        self._driver = driver
        self._timeout_s = timeout_s
        self._seen = seen
        self._failed = failed
        self._stranger = stranger
        self._connected = connected
        self._cadence = Probe(0)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._slowest_s = 0.0

    def set(self, cadence: Probe) -> None:
        """Change the cadence; the first probe begins at once."""
        self._cadence = cadence
        self._cancel_timer()
        if cadence.every_s:
            self._begin()

    def stop(self) -> None:
        """End all probes."""
        self._cadence = Probe(0)
        self._cancel_timer()
        for task in self._tasks:
            task.cancel()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._cadence.every_s, self._begin)
        if len(self._tasks) < MOST_AT_ONCE:
            task = asyncio.ensure_future(self._probe(self._limit_s()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _limit_s(self) -> float:
        if self._cadence.patient:
            return self._timeout_s
        return min(self._timeout_s, max(LEAST_TIMEOUT_S, _SLOWER * self._slowest_s))

    async def _probe(self, limit_s: float) -> None:
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                observation = await self._driver.probe(self._connected)
        except TimeoutError:
            if time.monotonic() - begun_s > limit_s + _STALLED_S:
                return  # this process stood still, so it cannot say that the server did
            observation = Observation(Sign.SILENT, Reason("ready.no_answer", limit_s=limit_s))
        except OSError as error:
            if error.errno not in _TELLS:
                self._failed(error)
                return
            observation = _TELLS[error.errno]
        stranger = None if observation.sign is Sign.SILENT else self._stranger()
        if stranger:
            observation = Observation(Sign.FOREIGN, stranger)
        if observation.sign is Sign.READY:
            took_s = time.monotonic() - begun_s
            self._slowest_s = max(took_s, _FORGET * self._slowest_s)
        sign, detail, status = observation.sign, observation.detail, observation.status
        self._seen(Observed(sign, detail, begun_s, status))
