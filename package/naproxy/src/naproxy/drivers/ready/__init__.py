"""Asking a server whether it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from naproxy.core.reason import Reason
from naproxy.core.schema import fixed, option
from naproxy.server.seeing import Sign


@dataclass(frozen=True, slots=True)
class Observation:
    """One probe's result, and its details; `status` as in `Observed`."""

    sign: Sign
    detail: Reason
    status: int = 0


@dataclass(frozen=True, kw_only=True)
class ReadySettings:
    """The keys that all probes have."""

    kind: str
    timeout_s: float = fixed(1.0)
    """A probe fails if no answer comes in this time."""
    interval_s: float = fixed(5.0)
    """Time between probes while awake."""
    asleep_interval_s: float = option(
        "Time between probes while asleep; 0: no probes, for network cards that any packet wakes",
        2.0,
        low=0,
        high=300,
    )
    check_mac: bool = option(
        "Count only answers from the card with the server's `mac` (on the same network)",
        True,
    )


class ReadyDriver(Protocol):
    """Probes the server, once a call."""

    async def probe(self, connected: Callable[[], None]) -> Observation:
        """Return the result of a probe over a new connection.

        `connected` is called once the port accepts the connection, if the probe checks more.
        TimeoutError and OSError are left to the caller, which sets the time limit.
        """
