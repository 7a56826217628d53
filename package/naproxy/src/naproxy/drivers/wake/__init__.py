"""Waking a server."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fixed, option
from naproxy.drivers import Target
from naproxy.drivers.needs import Needs
from naproxy.server.ladder import Rung


@dataclass(frozen=True, kw_only=True)
class RungSettings:
    """The keys that all ways of waking have, and what else is true of a way."""

    on_wire: ClassVar[bool] = False
    """It sends frames, which reach only what is on the same Ethernet."""
    needs: ClassVar[Needs] = Needs()

    driver: str
    spacing_s: float = option(
        "Time between two tries to wake the server, until it answers", 0.5, low=0.05, high=600
    )
    attempts: int = fixed(60)
    """Tries before the box takes the next rung: half a minute of packets. After the last rung the
    server counts as in trouble; the box keeps trying, less and less often."""


@dataclass(frozen=True, kw_only=True)
class SlowRungSettings(RungSettings):
    """The keys of ways of waking that take a while."""

    spacing_s: float = option(
        "Time between two tries to wake the server, until it answers; a try that still runs then"
        " counts as the next one",
        5.0,
        low=0.05,
        high=600,
    )
    attempts: int = fixed(6)
    timeout_s: float = fixed(15.0)
    """How long one try may take."""


def rungs(options: Sequence[Any]) -> list[Rung]:
    """Return the rungs of a ladder with these settings; the second of a kind has a number."""
    made: list[Rung] = []
    for at, rung in enumerate(options):
        number = 1 + sum(other.driver == rung.driver for other in options[:at])
        made.append(
            Rung(
                name=rung.driver if number == 1 else f"{rung.driver} {number}",
                spacing_s=rung.spacing_s,
                attempts=rung.attempts,
                # A button would switch off a machine that is on: those who press one say so.
                presses=getattr(rung, "presses", False),
                # Other settings are another way to wake: nothing is known of it yet.
                key=f"{rung.driver} {zlib.crc32(repr(_own(rung)).encode()):08x} {number}",
            )
        )
    return made


def _own(rung: Any) -> list[tuple[str, Any]]:
    """Return the values that say what a rung does, not when."""
    besides = {f.name for f in dataclasses.fields(RungSettings)}
    return [
        (f.name, getattr(rung, f.name)) for f in dataclasses.fields(rung) if f.name not in besides
    ]


class WakeDriver(Protocol):
    """Sends one call to wake up."""

    def send(self, failed: Callable[[Reason], None]) -> None:
        """Start sending and return at once; `failed` is told if it did not work.

        That it worked tells nothing: whether the server comes up is observed.
        """


def fault(error: Exception) -> Reason:
    """Say that a driver raised what no driver should."""
    return Reason("wake.driver_failed", error=repr(error))


Slow = TypeVar("Slow", bound=SlowRungSettings)


class SlowDriver(ABC, Generic[Slow]):
    """A call that takes a while, so one at a time: `call` raises WrongError if it fails."""

    def __init__(self, settings: Slow, target: Target) -> None:
        """`target` is the server."""
        self._settings = settings
        self._target = target
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def call(self) -> None:
        """Make one call."""

    def send(self, failed: Callable[[Reason], None]) -> None:
        """Begin a call, unless one is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run(failed))

    async def _run(self, failed: Callable[[Reason], None]) -> None:
        try:
            await self.call()
        except WrongError as error:
            failed(error.reason)
        except Exception as error:
            failed(fault(error))
