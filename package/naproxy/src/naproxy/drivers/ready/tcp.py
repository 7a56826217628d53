"""Ready when a TCP connection is accepted.

The kernel of a machine whose web server hangs still accepts: `http` sees more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.core.wire import connect
from naproxy.drivers import Target
from naproxy.drivers.ready import Observation, ReadySettings
from naproxy.server.seeing import Sign


@dataclass(frozen=True, kw_only=True)
class Settings(ReadySettings):
    """Nothing more to set."""

    kind: str = option("tcp: ready when a connection is accepted", "tcp")


class Driver:
    """Connects."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Probe the server's address and port."""
        self._target = target

    async def probe(self, connected: Callable[[], None] = lambda: None) -> Observation:
        """Connect once: `connected` would say no more than the answer."""
        del connected
        with await connect(self._target.address, self._target.port):
            return Observation(Sign.READY, Reason("ready.connected"))
