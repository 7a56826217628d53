"""Waking a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from naproxy.schema import option


@dataclass(frozen=True, kw_only=True)
class WakeSettings:
    """The keys that all ways of waking have."""

    driver: str
    spacing_s: float = option(
        "Time between two tries to wake the server, until it answers", 0.5, low=0.05, high=60
    )
    attempts: int = option(
        "Tries after which it counts as trouble; it goes on trying, less and less often",
        60,
        low=1,
        high=10000,
    )
    expect_s: float = option(
        "How long waking usually takes, for countdowns; measured once it has happened",
        5.0,
        low=0.1,
        high=600,
    )
    direct: bool = option("Let Varnish send a magic packet itself too, by UDP", True)
    broadcast: str = option(
        "IPv4 broadcast address for that packet; empty: that of the interface", ""
    )
    direct_port: int = option("UDP port for that packet", 9, low=1, high=65535)


class WakeDriver(Protocol):
    """Sends one call to wake up."""

    def send(self, failed: Callable[[str], None]) -> None:
        """Start sending and return at once; `failed` is told later if it did not work."""
