"""The events and effects of a server's power state machine.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server.seeing import Metered, Pinged, Sign


class Answer(Enum):
    """How a server answered the command to sleep."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Observed:
    """A probe begun at `begun_s` ended."""

    sign: Sign
    detail: Reason
    begun_s: float
    status: int = 0
    """The HTTP status of the answer; 0: none, or it is not to be compared."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The server was seen to answer a request."""


@dataclass(frozen=True, slots=True)
class InUse:
    """Requests wait at the server for an answer, or for the rest of one."""


@dataclass(frozen=True, slots=True)
class WakeAsked:
    """Somebody needs the server."""

    wake_request: WakeRequest


@dataclass(frozen=True, slots=True)
class SleepAsked:
    """The server may sleep now, for this reason; inhibitors were asked before.

    A person may ask again at once after a refusal; the policy waits for a while.
    """

    reason: Reason
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class SleepOrdered:
    """The command is given now: later visitors may find the server asleep."""


@dataclass(frozen=True, slots=True)
class SleepAnswered:
    """The command to sleep came to an end."""

    answer: Answer
    reason: Reason


@dataclass(frozen=True, slots=True)
class RungFailed:
    """A call to wake could not be made, or was refused."""

    rung: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class ModeSet:
    """Keep the server awake, until a time if one is given; or leave it to the policy."""

    awake: bool
    until_s: float = math.inf
    reason: Reason = field(default_factory=lambda: Reason("server.kept_awake"))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The server seems to be at another address, or to have another card; None: it does not."""

    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Needed:
    """How the servers are that this one needs."""

    waking: tuple[str, ...] = ()
    """These are not up yet."""
    failed: tuple[str, ...] = ()
    """These did not come up."""
    up_in_s: float = 0.0
    """The last of them is expected up then."""
    limit_s: float = 0.0
    """They are waited for so long."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The time `next_s` has come; `busy` requests are at the server now.

    `needed` counts while `Machine.prepares`.
    """

    busy: int = 0
    needed: Needed = Needed()


@dataclass(frozen=True, slots=True)
class NeedsMet:
    """The servers that it needs are awake by now."""


Event = (
    Observed
    | Pinged
    | Metered
    | Traffic
    | InUse
    | WakeAsked
    | SleepAsked
    | SleepOrdered
    | SleepAnswered
    | RungFailed
    | ModeSet
    | Elsewhere
    | NeedsMet
    | Tick
)


@dataclass(frozen=True, slots=True)
class SendWake:
    """Send one call to wake up, by this rung of the ladder."""

    rung: int = 0


@dataclass(frozen=True, slots=True)
class RunSleep:
    """Ask what there is to ask, then give the command to sleep.

    Answer with `SleepOrdered` in between, and with `SleepAnswered`; until the first it may be
    cancelled.
    """


@dataclass(frozen=True, slots=True)
class Probe:
    """From now on probe this often; 0: not at all.

    An impatient probe fails when it takes much longer than probes took so far.
    """

    every_s: float
    patient: bool = True


@dataclass(frozen=True, slots=True)
class Transition:
    """The state changed."""

    before: State
    state: State
    reason: Reason


@dataclass(frozen=True, slots=True)
class WakeOpened:
    """A wake began, for the ledger."""

    wake_request: WakeRequest


@dataclass(frozen=True, slots=True)
class WakeClosed:
    """A wake came to an end, or to `trouble`, after which it may still come to another."""

    outcome: str
    waited_s: float
    packets: int


@dataclass(frozen=True, slots=True)
class Alert:
    """Somebody should look; None: no longer."""

    reason: Reason | None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A rung of the ladder did not help; the next one's turn has come."""

    reason: Reason


Effect = SendWake | RunSleep | Probe | Transition | WakeOpened | WakeClosed | Alert | PassedOver
