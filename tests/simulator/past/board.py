"""The server's machine: falls asleep when told to, wakes when called, and sometimes does not.

The drivers with which the controller reaches it are here too: what on a wire would be ssh,
a magic packet and an HTTP probe. What a fall and a rise take, and the mishaps, are invented.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from naproxy.core.processes import Ended
from naproxy.core.reason import Reason
from naproxy.drivers.ready import Observation
from naproxy.drivers.sleep import THE_SERVER, SleepDriver, SleepResult, by_exit_status
from naproxy.server.machine_io import Answer
from naproxy.server.seeing import Pinged, Sign


class Power(Enum):
    """What the machine does."""

    ON = "on"
    FALLING = "falling"
    OFF = "off"
    RISING = "rising"


@dataclass
class Mishaps:
    """What goes wrong, in epoch seconds: from, to."""

    deaf: list[tuple[float, float]] = field(default_factory=list)
    """No call to wake reaches it."""
    busy: Callable[[float], str] = lambda _: ""
    """Why it refuses to sleep at a time; empty if it does not."""
    unmetered: list[tuple[float, float]] = field(default_factory=list)
    """Its meter says nothing."""


FALL_S = (3.7, 4.3)
"""Table 4.2 of the thesis."""

RISE_S = (4.4, 5.8)
"""About what `naproxy estimate` takes for a server that it knows nothing of."""

_SILENT_S = 0.3
"""Its network card is switched off so long before the rest."""

LOST = 0.04
"""Share of calls to wake that get lost."""


class Board:
    """The machine; `changes` has every change: epoch seconds and what it does from then on."""

    def __init__(self, wall: Callable[[], float], dice: random.Random, mishaps: Mishaps) -> None:
        self.power = Power.ON
        self.mishaps = mishaps
        self.changes: list[tuple[float, Power]] = [(wall(), Power.ON)]
        self._wall = wall
        self._dice = dice
        self._silent_s = 0.0

    @property
    def answers(self) -> bool:
        """Whether somebody is there: until shortly before it is off."""
        falling = self.power is Power.FALLING and self._wall() < self._silent_s
        return falling or self.power is Power.ON

    def _enter(self, power: Power) -> None:
        self.power = power
        self.changes.append((self._wall(), power))

    def within(self, spans: list[tuple[float, float]]) -> bool:
        now_s = self._wall()
        return any(start_s <= now_s < end_s for start_s, end_s in spans)

    def fall(self) -> None:
        if self.power is Power.ON:
            self._enter(Power.FALLING)
            fall_s = self._dice.uniform(*FALL_S)
            self._silent_s = self._wall() + fall_s - _SILENT_S
            asyncio.get_running_loop().call_later(fall_s, self._enter, Power.OFF)

    def call(self) -> None:
        """A magic packet: heard only by a card that is armed, as that of a sleeping machine."""
        lost = self._dice.random() < LOST or self.within(self.mishaps.deaf)
        if self.power is Power.OFF and not lost:
            self._enter(Power.RISING)
            asyncio.get_running_loop().call_later(
                self._dice.uniform(*RISE_S), self._enter, Power.ON
            )


class Sleeper(SleepDriver[Any]):
    """The command to sleep."""

    def __init__(self, board: Board, wall: Callable[[], float]) -> None:
        self._board = board
        self._wall = wall

    async def order(self) -> SleepResult:
        await asyncio.sleep(0.15)
        refusal = self._board.mishaps.busy(self._wall())
        if refusal:
            return by_exit_status(Ended(1, refusal), THE_SERVER)
        self._board.fall()
        return SleepResult(Answer.ACCEPTED, Reason("sleep.accepted"))


class Waker:
    """The call to wake."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def send(self, failed: Callable[[Reason], None]) -> None:
        self._board.call()


class Ready:
    """The probe: 20 ms while it is on, and silence while it is not."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def probe(self, connected: Callable[[], None]) -> Observation:
        if self._board.answers:
            connected()
            await asyncio.sleep(0.02)
            return Observation(Sign.READY, Reason("ready.status", status=200))
        await asyncio.sleep(60.0)  # whoever asks gives up before
        raise TimeoutError


class Pinger:
    """Pings, of which nothing but a commissioning needs to know."""

    def __init__(self, board: Board, seen: Callable[[Pinged], None]) -> None:
        self._board = board
        self._seen = seen
        self._every_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def every(self, every_s: float) -> None:
        """Only the dense ones of a commissioning are sent: they time it."""
        self.stop()
        self._every_s = every_s if every_s < 1 else 0.0
        if self._every_s:
            self._ping()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every_s, self._ping)
        loop.call_soon(self._seen, Pinged(self._board.answers, loop.time()))
