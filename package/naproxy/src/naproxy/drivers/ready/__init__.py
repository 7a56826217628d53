"""Asking a server whether it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from naproxy.machine import Sign
from naproxy.schema import option


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe saw, and its details in words."""

    sign: Sign
    detail: str


@dataclass(frozen=True, kw_only=True)
class ReadySettings:
    """The keys that all probes have."""

    kind: str
    timeout_s: float = option(
        "A probe without an answer for this long failed", 1.0, low=0.05, high=30
    )
    interval_s: float = option("Time between probes while awake", 5.0, low=0.2, high=300)


class ReadyDriver(Protocol):
    """Probes the server, once a call."""

    async def probe(self, timeout_s: float) -> Observation:
        """Return what was seen within `timeout_s` seconds; raises nothing but cancellation."""
