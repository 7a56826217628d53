"""Putting a server to sleep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from naproxy import drivers
from naproxy.core.findings import Problem
from naproxy.core.processes import Ended
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.core.schema import fixed, option, redefault
from naproxy.drivers import Target
from naproxy.drivers.needs import Needs
from naproxy.server.jobs import Job
from naproxy.server.machine_io import Answer
from naproxy.server.services import Listening

STATES: Final = ("ram", "disk", "off")
"""Suspend to RAM, suspend to disk, power off."""

THE_SERVER: Final = Reason("sleep.the_server")
ACCEPTED: Final = Reason("sleep.accepted")
_CANNOT_RUN: Final = (126, 127)


@dataclass(frozen=True, slots=True)
class Past:
    """So many visitors are connected to a port of the server, and not through the box."""

    port: int
    number: int


@dataclass(frozen=True, slots=True)
class SleepResult:
    """The answer, and the reason for it."""

    answer: Answer
    reason: Reason
    past: Past | None = None
    """The visitors who bypassed the box, if they are the reason."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The server's count of visits that bypassed the box."""

    run: str
    """Identifies the counter's run: `visits` restart from 0 with another one."""
    visits: int
    here: int
    """Visitors who are connected now."""


@dataclass(frozen=True, kw_only=True)
class SleepSettings:
    """The keys that all ways of putting a server to sleep have, and what else is true of a way."""

    never: ClassVar[bool] = False
    """The box never puts the server to sleep."""
    itself: ClassVar[bool] = False
    """The server puts itself to sleep."""
    looks: ClassVar[bool] = False
    """It never sleeps while somebody is connected to the ports that the box names."""
    woken_by: ClassVar[tuple[str, ...]] = ()
    """The ways to wake of which it needs one; empty: any will do."""
    needs: ClassVar[Needs] = Needs()

    driver: str
    state: str = option(
        "What it does: suspend to RAM, suspend to disk, power off; the box measures the usual times"
        " to fall asleep and to wake for each",
        "ram",
        choices=STATES,
    )
    timeout_s: float = option(
        "Longest time for the command, and for the server to fall silent after it",
        30.0,
        low=1,
        high=600,
    )
    expect_s: float = fixed(5.0)
    """How long falling asleep usually takes: holds until the box has measured it."""

    @property
    def login(self) -> str:
        """Its user on the server itself, over ssh; empty: it does not log in."""
        return ""

    @property
    def door(self) -> tuple[int, str] | None:
        """The port, and its protocol, that the server must let the box in at."""
        return None

    def conflicts(self) -> Iterable[tuple[str, Reason]]:
        """Yield what is wrong between keys that are each right: at which key, and what."""
        return ()


@dataclass(frozen=True, kw_only=True)
class OffSettings(SleepSettings):
    """The keys of ways that can only power off."""

    state: str = option("What it does: power off", "off", choices=("off",))
    timeout_s: float = redefault(SleepSettings, "timeout_s", 120.0)
    expect_s: float = fixed(20.0)


Settings = TypeVar("Settings", bound=SleepSettings)


class SleepDriver(ABC, Generic[Settings]):
    """Gives the command to sleep."""

    listening: Listening | None = None
    """At which ports the server listens, if it told when it was asked."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """`target` is the server."""
        self._settings = settings
        self._target = target
        self._alarm_s: int | None = None

    async def asked(self) -> list[Job] | SleepResult | None:
        """Ask what the server is going to do by itself; None if it does not tell. Never raises.

        A result means that it took the question for the order, or refuses already.
        """
        return None

    async def sleep(self, alarm_s: int | None = None) -> SleepResult:
        """Give the command. Accepted does not mean asleep: that is observed.

        In `alarm_s` the server's own clock is to wake it, if it can.
        """
        self._alarm_s = alarm_s
        try:
            return await self.order()
        except WrongError as error:
            return SleepResult(Answer.FAILED, error.reason)

    async def counted(self) -> Counted | None:
        """Return which visits the server counted; None if it does not tell. Never raises."""
        return None

    async def ports(self) -> Listening | None:
        """Return at which ports the server listens, without an order; None where nobody can ask."""
        return None

    @abstractmethod
    async def order(self) -> SleepResult:
        """Give the command; WrongError if it cannot be given."""


def checks(driver: str, where: str) -> tuple[Callable[[Any], Problem | None], ...]:
    """Return what the doctor looks at for a driver beside all else: on the `box`, the `server`."""
    found = getattr(drivers.module("sleep", driver), "CHECKS", {})
    return tuple(found.get(where, ()))


def unreadable(why: str) -> SleepResult:
    """Return the answer where nobody knows what the server is going to do by itself."""
    words = Reason("sleep.appointments_unreadable", why=why)
    return SleepResult(Answer.REFUSED, Reason("sleep.refused", who=THE_SERVER, words=words))


def fault(error: Exception) -> Reason:
    """Say that a driver raised what no driver should."""
    return Reason("sleep.driver_failed", error=repr(error))


def by_exit_status(ended: Ended, who: Reason) -> SleepResult:
    """Return the answer of a command that decides by its exit status: 0 is yes.

    126 and 127 are the shell's, for a command that cannot be run.
    """
    if ended.code == 0:
        return SleepResult(Answer.ACCEPTED, own_words(ended.said) if ended.said else ACCEPTED)
    if ended.code is None or ended.code in _CANNOT_RUN or ended.code < 0:
        return SleepResult(Answer.FAILED, Reason("sleep.cannot_run", who=who, words=ended.why))
    return SleepResult(Answer.REFUSED, Reason("sleep.refused", who=who, words=ended.why))
