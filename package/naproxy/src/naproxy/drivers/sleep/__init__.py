"""Putting a server to sleep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from naproxy.machine import Answer
from naproxy.schema import option


@dataclass(frozen=True, slots=True)
class SleepResult:
    """The answer, and the reason in words that a person can act on."""

    answer: Answer
    reason: str


@dataclass(frozen=True, kw_only=True)
class SleepSettings:
    """The keys that all ways of putting a server to sleep have."""

    driver: str
    timeout_s: float = option(
        "How long the command may take, and how long the server may take to fall silent after it",
        30.0,
        low=1,
        high=600,
    )
    expect_s: float = option(
        "How long falling asleep usually takes; measured once it has happened",
        5.0,
        low=0.1,
        high=300,
    )


class SleepDriver(Protocol):
    """Gives the command to sleep."""

    async def sleep(self) -> SleepResult:
        """Give the command. Accepted does not mean asleep: that is observed."""
