"""Pings and the meter, beside the readiness probe: pure, part of the state machine.

Only the readiness probe says that a server is awake. A ping may be answered by the firmware
of its network card, a meter may be slow: they say why a server that was called does not come
up, and whether a silent server really sleeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from naproxy.core.reason import Reason
from naproxy.core.state import State

FRESH_S: Final = 5.0
"""An older reading of the meter, or an older ping, says nothing."""

_MUCH_LESS: Final = 0.5
"""A sleeping server draws less than this share of its power awake."""

_NOTHING_W: Final = 0.2
"""Less than any sleeping machine draws: there is no power at its plug."""

_WEIGHT: Final = 0.1
"""The weight of the newest reading in the mean power awake."""


class Sign(Enum):
    """The result of a readiness probe."""

    READY = "ready"
    UNFIT = "unfit"
    """It answers, but not as it should: another HTTP status."""
    REFUSING = "refusing"
    """The machine refuses or drops connections: it is on, the web server is not."""
    FOREIGN = "foreign"
    """Another machine answers at its address: of the server nothing is seen."""
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Pinged:
    """A ping begun at `begun_s` was answered or not."""

    answered: bool
    begun_s: float


@dataclass(frozen=True, slots=True)
class Metered:
    """The server draws so much now."""

    power_w: float


class Sight:
    """One server's pings and power; `on_w` is its power awake, if known."""

    def __init__(self, on_w: float) -> None:
        """Nothing is seen yet."""
        self.on_w = on_w
        self._power_w = math.nan
        self._metered_s = -math.inf
        self._pinged_s = -math.inf
        self._answered_s = -math.inf
        self._answers_awake = False
        self._answers_asleep = False

    def see(self, now_s: float, state: State, since_s: float, event: Pinged | Metered) -> None:
        """Take an observation while the server is in `state`, since `since_s`.

        Its power awake is learned, slowly.
        """
        if isinstance(event, Metered):
            self._metered_s, self._power_w = now_s, event.power_w
            # Just after a wake, a slow meter still reports the surge of the wake.
            if state is State.AWAKE and now_s - since_s > FRESH_S:
                self.on_w += _WEIGHT * (event.power_w - self.on_w)
            return
        self._pinged_s = now_s
        if not event.answered:
            return
        self._answered_s = now_s
        if state is State.AWAKE:
            self._answers_awake = True
        elif state is State.ASLEEP and event.begun_s > since_s:
            self._answers_asleep = True

    @property
    def firmware_answers(self) -> bool:
        """Were pings answered while it slept? Then they do not tell when it wakes."""
        return self._answers_asleep

    def low(self, now_s: float) -> bool | None:
        """Does it draw much less than awake? None: there is no meter, or it says nothing now."""
        if now_s - self._metered_s > FRESH_S:
            return None
        return self._power_w < _MUCH_LESS * self.on_w

    def off(self, now_s: float) -> bool:
        """Is the machine itself seen to be off: by the meter, or else by pings?"""
        low = self.low(now_s)
        return self._pings(now_s) is False if low is None else low

    def _pings(self, now_s: float) -> bool | None:
        """Does the machine itself answer pings? None: that cannot be told."""
        if self._answers_asleep or not self._answers_awake:
            return None
        if now_s - self._pinged_s > FRESH_S:
            return None
        return now_s - self._answered_s <= FRESH_S

    def why_not_up(self, now_s: float, sign: Sign | None, detail: Reason) -> Reason:
        """Say why a server that was called is not up, and what to do; `detail` is the probe's."""
        low, pings = self.low(now_s), self._pings(now_s)
        if sign is Sign.FOREIGN:
            return detail
        if sign in (Sign.REFUSING, Sign.UNFIT):
            return Reason("server.why_web_server", detail=detail)
        if low is not None:
            code = "server.why_failed" if low else "server.why_hangs_draws"
            if self._power_w < _NOTHING_W:
                code = "server.why_unplugged"
            return Reason(code, detail=detail, draws_w=round(self._power_w, 1))
        if pings:
            return Reason("server.why_hangs", detail=detail)
        code = "server.why_unclear_no_ping" if pings is False else "server.why_unclear"
        return Reason(code, detail=detail)
