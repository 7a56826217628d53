"""Putting a server to sleep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from naproxy.drivers.program import Ended
from naproxy.machine_io import Answer
from naproxy.schema import option

STATES: Final = ("ram", "disk", "off")
"""Suspend to RAM, suspend to disk, power off."""

_CANNOT_RUN: Final = (126, 127)


@dataclass(frozen=True, slots=True)
class SleepResult:
    """The answer, and the reason in words that a person can act on."""

    answer: Answer
    reason: str


@dataclass(frozen=True, kw_only=True)
class SleepSettings:
    """The keys that all ways of putting a server to sleep have."""

    driver: str
    state: str = option(
        "What it does: suspend to RAM, suspend to disk, power off; the usual times to fall"
        " asleep and to wake are measured for each",
        "ram",
        choices=STATES,
    )
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


@dataclass(frozen=True, kw_only=True)
class OffSettings(SleepSettings):
    """The keys of ways that can only power off."""

    state: str = option("What it does: power off", "off", choices=("off",))
    timeout_s: float = option(
        "How long the command may take, and how long the server may take to fall silent after it",
        120.0,
        low=1,
        high=600,
    )
    expect_s: float = option(
        "How long falling asleep usually takes; measured once it has happened",
        20.0,
        low=0.1,
        high=300,
    )


class SleepDriver(Protocol):
    """Gives the command to sleep."""

    async def sleep(self) -> SleepResult:
        """Give the command. Accepted does not mean asleep: that is observed."""


def by_exit_status(ended: Ended, who: str) -> SleepResult:
    """Return the answer of a command that decides by its exit status: 0 is yes.

    126 and 127 are the shell's, for a command that cannot be run.
    """
    if ended.code == 0:
        return SleepResult(Answer.ACCEPTED, ended.said or "accepted")
    if ended.code is None or ended.code in _CANNOT_RUN or ended.code < 0:
        words = f"ended by signal {-ended.code}" if ended.code and ended.code < 0 else ended.words
        return SleepResult(Answer.FAILED, f"{who} cannot run the command: {words}")
    return SleepResult(Answer.REFUSED, f"{who} refuses to sleep: {ended.words}")
