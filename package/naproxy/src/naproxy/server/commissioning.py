"""Commissioning: supervised cycles of sleep and wake, pure, as the state machine is.

A cycle is: the command to sleep, the fall, a while asleep, the wake, the rise, a while awake.
It belongs together from one command to the end of the while awake, so the energy
of a resume after the server is up counts for its own cycle. The whiles differ from cycle to cycle:
else the least squares of equations 4.1 to 4.3 could not tell the watts from the joules.

Times are measured as the thesis does, by a ping every 100 ms, and by the readiness probe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final

from naproxy.core.inference import percentile
from naproxy.core.reason import Reason, WrongError, plain, together
from naproxy.core.state import State
from naproxy.server import stages
from naproxy.server.fit import Run, fit
from naproxy.server.seeing import Pinged
from naproxy.server.stages import Stage

EVERY_S: Final = 0.1
"""Between two pings, and two readings of the meter (thesis, table 4.2)."""

PREPARE_S: Final = 300.0
"""So long it may take until the server is awake and nothing speaks against a sleep."""

BUSY_S: Final = 900.0
"""So long it may take if the server itself is busy, as after an installation."""
_BUSY: Final = frozenset({"sleep.busy_load", "sleep.busy_packages", "sleep.busy_running"})
"""Refusals of the server that end by themselves."""
_BUSY_AGAIN_S: Final = 10.0

AGAIN_S: Final = 1.0
DISTURBED_MOST: Final = 3
GAP_MOST_S: Final = 5.0
"""A longer time without a reading, and the energy of the cycle is not known."""

_WHILES: Final = ((1, 1), (5, 1), (1, 5), (5, 5), (3, 3))
"""Awake and asleep, in units of the plan's shortest, in turn."""

_BY_PING: Final = ("fell_ping_s", "fell_net_s", "rose_ping_s")
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "worst": 1.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """How many cycles; the shortest while awake and asleep, the longest is five times that."""

    cycles: int = 5
    awake_s: float = 15.0
    asleep_s: float = 15.0

    def whiles_s(self, cycle: int) -> tuple[float, float]:
        """Return how long to stay awake and asleep in a cycle, counted from 1."""
        awake, asleep = _WHILES[(cycle - 1) % len(_WHILES)]
        return awake * self.awake_s, asleep * self.asleep_s


class Phase(Enum):
    """Where a commissioning is; the last three are its ends."""

    PREPARING = "preparing"
    FALLING = "falling asleep"
    ASLEEP = "asleep"
    RISING = "waking"
    AWAKE = "awake"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDS: Final = (Phase.PASSED, Phase.FAILED, Phase.CANCELLED)


@dataclass(frozen=True, slots=True)
class Entered:
    """The server was seen in another state; falling or waking took `took_s`."""

    state: State
    reason: Reason
    took_s: float | None = None
    stages: tuple[Stage, ...] = ()
    """Of the wake that ended with it."""


@dataclass(frozen=True, slots=True)
class Commanded:
    """The command to sleep was given now."""


@dataclass(frozen=True, slots=True)
class Given:
    """After the questions before it, the command is on its way now; `login_s` is how long one took.

    The question is a login that orders nothing (thesis, section 4.3.2: ssh with a null command).
    None: the way to sleep asks nothing.
    """

    login_s: float | None


@dataclass(frozen=True, slots=True)
class Inhibited:
    """The sleep that was asked for may not be, for these reasons."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The server draws so much now; None: the meter does not say."""

    power_w: float | None


@dataclass(frozen=True, slots=True)
class Passed:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A person has had enough; the server ends awake."""


Event = Entered | Commanded | Given | Inhibited | Pinged | Drawn | Passed | Cancel


class Order(Enum):
    """The request to the machine."""

    SLEEP = "sleep"
    WAKE = "wake"


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle that ended with a server that was up again.

    `fell_s` and `rose_s` are by the readiness probe, `fell_ping_s` and `rose_ping_s` by ping
    (None where it tells nothing). `fell_net_s` is by ping from when the command itself was given,
    less what a login takes that orders nothing; None where that is not known. `on_s` is from the
    wake, `off_s` from the command to sleep until the wake. Powers are means over the time in that
    state, `energy_j` is the cycle's.
    """

    number: int
    fell_s: float
    rose_s: float
    fell_ping_s: float | None
    rose_ping_s: float | None
    on_s: float
    off_s: float
    energy_j: float | None
    awake_w: float | None
    asleep_w: float | None
    stages: tuple[Stage, ...] = ()
    """Where the seconds of its wake went."""
    fell_net_s: float | None = None


@dataclass(slots=True)
class _Draft:
    """A cycle under way; times are monotonic seconds."""

    command_s: float = math.nan
    given_s: float = math.nan
    login_s: float = math.nan
    wake_s: float = math.nan
    up_s: float = math.nan
    fell_s: float = math.nan
    rose_s: float = math.nan
    stages: tuple[Stage, ...] = ()
    last_ping_s: float = math.nan
    first_ping_s: float = math.nan
    metered_s: float = math.nan
    energy_j: float = 0.0
    gap_s: float = 0.0
    watts: dict[Phase, list[float]] = field(default_factory=dict)


class Commissioning:
    """One server's; `step` takes an event and says what to ask of the machine."""

    def __init__(self, plan: Plan, now_s: float, state: State) -> None:
        """`state` is the server's observed state."""
        self.plan = plan
        self.phase = Phase.PREPARING
        self.reason: Reason | None = None
        self.disproved = False
        """It failed to wake, or did not stay up: worse than not to have been shown to."""
        self.cycles: list[Cycle] = []
        self.notes: list[Reason] = []
        self._state = state
        self._since_s = now_s
        self._ask_s = now_s
        self._firmware = False
        self._disturbed = 0
        self._refusals: Reason | None = None
        self._draft = _Draft()

    @property
    def ended(self) -> bool:
        """Is it over?"""
        return self.phase in ENDS

    @property
    def number(self) -> int:
        """The cycle that it is in, counted from 1."""
        return min(len(self.cycles) + 1, self.plan.cycles)

    def step(self, now_s: float, event: Event) -> list[Order]:
        """Take one event; return what is to be asked of the machine."""
        if self.ended:
            return []
        match event:
            case Entered():
                self._state = event.state
                return self._entered(now_s, event)
            case Commanded() if self.phase is Phase.FALLING:
                self._draft = _Draft(command_s=now_s, metered_s=now_s)
            case Given(login_s) if self.phase is Phase.FALLING and login_s is not None:
                self._draft.given_s, self._draft.login_s = now_s, login_s
            case Inhibited(reasons) if self.phase is Phase.FALLING:
                self._refusals = together(*reasons)
                self._go(Phase.PREPARING, self._since_s)
                self._ask_s = now_s + AGAIN_S
            case Pinged():
                self._pinged(event)
            case Drawn(power_w):
                self._metered(now_s, power_w)
            case Passed():
                return self._passed(now_s)
            case Cancel():
                return self._end(now_s, Phase.CANCELLED, Reason("server.cancelled"))
        return []

    # Readings

    def _pinged(self, event: Pinged) -> None:
        draft = self._draft
        if not event.answered:
            return
        if self.phase is Phase.FALLING and event.begun_s >= draft.command_s:
            draft.last_ping_s = event.begun_s
        elif self.phase is Phase.ASLEEP and event.begun_s > self._since_s:
            self._firmware = True
        elif event.begun_s >= draft.wake_s and math.isnan(draft.first_ping_s):
            draft.first_ping_s = event.begun_s

    def _metered(self, now_s: float, power_w: float | None) -> None:
        draft = self._draft
        if power_w is None or math.isnan(draft.command_s):
            return
        passed_s = now_s - draft.metered_s
        # A meter tells the mean of late or the present: both belong to the time before.
        draft.energy_j += power_w * passed_s
        draft.gap_s = max(draft.gap_s, passed_s)
        draft.metered_s = now_s
        draft.watts.setdefault(self.phase, []).append(power_w)

    # Phases

    def _go(self, phase: Phase, since_s: float) -> None:
        self.phase = phase
        self._since_s = since_s

    def _entered(self, now_s: float, event: Entered) -> list[Order]:
        draft = self._draft
        match self.phase, event.state:
            case ((Phase.PREPARING | Phase.FALLING | Phase.RISING | Phase.AWAKE), State.TROUBLE):
                return self._disprove(now_s, event.reason)
            case Phase.FALLING, State.ASLEEP:
                draft.fell_s = event.took_s if event.took_s is not None else math.nan
                self._go(Phase.ASLEEP, now_s)
            case ((Phase.FALLING | Phase.ASLEEP), State.AWAKE):
                return self._disturb(now_s, event.reason)
            case ((Phase.FALLING | Phase.ASLEEP), State.WAKING) if draft.fell_s == draft.fell_s:
                # By our order, or somebody needs it: then it slept less, that is all.
                draft.wake_s = now_s
                self._go(Phase.RISING, now_s)
            case Phase.FALLING, State.WAKING:
                return self._disturb(now_s, event.reason)
            case Phase.RISING, State.AWAKE:
                draft.up_s = now_s
                draft.rose_s = now_s - draft.wake_s if event.took_s is None else event.took_s
                draft.stages = event.stages
                self._go(Phase.AWAKE, now_s)
            case Phase.AWAKE, State.WAKING:
                return self._disprove(now_s, event.reason)
        return []

    def _passed(self, now_s: float) -> list[Order]:
        passed_s = now_s - self._since_s
        awake_s, asleep_s = self.plan.whiles_s(self.number)
        match self.phase:
            case Phase.PREPARING:
                return self._prepare(now_s, passed_s)
            case Phase.ASLEEP if passed_s >= asleep_s:
                return [Order.WAKE]
            case Phase.AWAKE if passed_s >= awake_s:
                self._complete(now_s)
                if len(self.cycles) == self.plan.cycles:
                    woke = Reason("server.woke_every_time", times=self.plan.cycles)
                    return self._end(now_s, Phase.PASSED, woke)
                self._go(Phase.PREPARING, now_s)
                return self._prepare(now_s, 0.0)
        return []

    def _prepare(self, now_s: float, passed_s: float) -> list[Order]:
        if passed_s >= (BUSY_S if _busy(self._refusals) else PREPARE_S):
            why = self._refusals or Reason("server.not_awake")
            return self._fail(now_s, Reason("server.cannot_sleep", why=why))
        if now_s < self._ask_s:
            return []
        self._ask_s = now_s + AGAIN_S
        if self._state in (State.ASLEEP, State.FALLING_ASLEEP):
            return [Order.WAKE]
        if self._state is not State.AWAKE:
            return []
        self._draft = _Draft()
        self._go(Phase.FALLING, self._since_s)
        return [Order.SLEEP]

    def _disturb(self, now_s: float, reason: Reason) -> list[Order]:
        """Begin the cycle again: it did not fall asleep, or did not stay so."""
        if self.phase is Phase.FALLING and _busy(reason):
            # It refused before it slept, so nothing was disturbed.
            self._refusals = reason
            self._go(Phase.PREPARING, self._since_s)
            self._ask_s = now_s + _BUSY_AGAIN_S
            return []
        self._disturbed += 1
        self._refusals = reason
        if self._disturbed >= DISTURBED_MOST:
            times = self._disturbed
            why = Reason("server.did_not_stay_asleep", times=times, why=reason)
            return self._fail(now_s, why)
        self.notes.append(Reason("server.cycle_again", cycle=self.number, why=reason))
        self._go(Phase.PREPARING, now_s)
        self._ask_s = now_s + AGAIN_S
        return []

    def _disprove(self, now_s: float, reason: Reason) -> list[Order]:
        self.disproved = True
        return self._fail(now_s, reason)

    def _fail(self, now_s: float, why: Reason) -> list[Order]:
        cycle, cycles = self.number, self.plan.cycles
        reason = Reason("server.in_cycle", cycle=cycle, cycles=cycles, why=why)
        return self._end(now_s, Phase.FAILED, reason)

    def _end(self, now_s: float, phase: Phase, reason: Reason) -> list[Order]:
        self.reason = reason
        self._go(phase, now_s)
        return [] if self._state is State.AWAKE else [Order.WAKE]

    def _complete(self, now_s: float) -> None:
        draft = self._draft
        by_ping = not self._firmware
        net_s = draft.last_ping_s - draft.given_s - draft.login_s
        self.cycles.append(
            Cycle(
                number=len(self.cycles) + 1,
                fell_s=draft.fell_s,
                rose_s=draft.rose_s,
                fell_ping_s=_known(draft.last_ping_s - draft.command_s) if by_ping else None,
                rose_ping_s=_known(draft.first_ping_s - draft.wake_s) if by_ping else None,
                on_s=now_s - draft.wake_s,
                off_s=draft.wake_s - draft.command_s,
                energy_j=draft.energy_j if 0 < draft.gap_s <= GAP_MOST_S else None,
                awake_w=_mean(draft.watts.get(Phase.AWAKE)),
                asleep_w=_mean(draft.watts.get(Phase.ASLEEP)),
                stages=draft.stages,
                fell_net_s=_known(net_s) if by_ping else None,
            )
        )
        self._disturbed = 0
        if self._firmware:
            note = Reason("server.firmware_pings")
            if note not in self.notes:
                self.notes.append(note)

    # Telling

    def status(self, now_s: float) -> dict[str, Any]:
        """Return progress and results as JSON."""
        reason = self.reason or self._refusals
        return {
            "phase": self.phase.value,
            "ended": self.ended,
            "passed": self.phase is Phase.PASSED,
            "reason": reason.plain() if reason else None,
            "cycle": self.number,
            "cycles": self.plan.cycles,
            "phase_s": round(now_s - self._since_s, 1),
            "notes": plain(self.notes),
            "done": [_plain(cycle) for cycle in self.cycles],
            "stages": stages.plain(stages.typical(cycle.stages for cycle in self.cycles)),
            **results(self.cycles, by_ping=not self._firmware),
        }


def _plain(cycle: Cycle) -> dict[str, Any]:
    return asdict(cycle) | {"stages": stages.plain(cycle.stages)}


def _busy(why: Reason | None) -> bool:
    """Is it that the server is busy?"""
    return why is not None and not _BUSY.isdisjoint(why.codes())


def _known(value: float) -> float | None:
    return None if math.isnan(value) else max(0.0, value)


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def results(cycles: Sequence[Cycle], *, by_ping: bool = True) -> dict[str, Any]:
    """Return percentiles of the times (s) and the fit of power; `no_fit`: why there is none."""
    times = {}
    for name in ("fell_s", "rose_s", *(_BY_PING if by_ping else ())):
        values = [v for v in (getattr(cycle, name) for cycle in cycles) if v is not None]
        if values:
            times[name] = {at: percentile(values, share) for at, share in _SHARES.items()}
    runs = [Run(c.on_s, c.off_s, 1, c.energy_j) for c in cycles if c.energy_j is not None]
    if not runs:
        return {"times": times, "fit": None, "no_fit": Reason("server.no_meter").plain()}
    try:
        return {"times": times, "fit": asdict(fit(runs)), "no_fit": None}
    except WrongError as error:
        return {"times": times, "fit": None, "no_fit": error.reason.plain()}
