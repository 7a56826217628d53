"""Power state of one server, as it was observed: a pure state machine.

`step` takes the time and one event and returns the effects to carry out. Nothing here
reads a clock, sends a packet or waits. Times are seconds of a monotonic clock.

Awake means that the server was seen to answer, asleep that it was seen to be silent.
A command or a packet sent only decides which observation to expect next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from naproxy.core.inference import percentile
from naproxy.core.reason import Reason, together
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server.ladder import Call, Ladder
from naproxy.server.machine_io import (
    Alert,
    Answer,
    Effect,
    Elsewhere,
    Event,
    InUse,
    ModeSet,
    Needed,
    NeedsMet,
    Observed,
    PassedOver,
    Probe,
    RungFailed,
    RunSleep,
    SendWake,
    SleepAnswered,
    SleepAsked,
    SleepOrdered,
    Tick,
    Traffic,
    Transition,
    WakeAsked,
    WakeClosed,
    WakeOpened,
)
from naproxy.server.seeing import Metered, Pinged, Sight, Sign

SILENT_S: Final = 1.0
"""No answer to any probe begun in so long, and to at least `SILENT_PROBES`, is silence."""

SILENT_PROBES: Final = 3
GONE_S: Final = 3.0
"""A server that stopped answering while awake is woken after so long."""

DRAIN_S: Final = 0.1
"""Between telling Varnish that the server falls asleep and the command to it."""

DRAIN_LIMIT_S: Final = 2.0
"""Requests still at the server after this long call the sleep off."""

TICK_S: Final = 0.1
REFUSED_S: Final = 60.0
REFUSED_MOST_S: Final = 900.0
TROUBLE_MOST_S: Final = 60.0

AWAKE_SUSPECT_EVERY_S: Final = 0.25
UNKNOWN_EVERY_S: Final = 0.1
FALLING_EVERY_S: Final = 0.1
WAKING_EVERY_S: Final = 0.05
TROUBLE_EVERY_S: Final = 0.25

SETTLE_S: Final = 60.0
"""For so long after a start, 502, 503 and 504 mean that the site is not ready yet."""

RESUME_S: Final = 20.0
"""The same after a quick wake, in which nothing was seen to start: programs were only asleep."""

OTHER_S: Final = 60.0
"""A woken site that answers with another status than before it slept is waited for so long."""

BOOTED_S: Final = 15.0
"""A longer wake was most likely a boot, so the first answers after it may be wrong."""

UNCACHED_S: Final = 30.0
"""After a start, nothing is kept for at least so long, and as long as the start took."""

_NOT_READY: Final = (502, 503, 504)

START_S: Final = 180.0
"""The wait for a server that was switched off, while its boot time is unknown; also the wait for a
server that is seen to boot, even with a known boot time."""

KNOWN_WAKES: Final = 5
"""So many wakes say how long a server that was switched off takes: a commissioning has as many."""

HOLD_MORE_S: Final = 30.0
"""A request may be held for so long beyond that: when it came, the server may have been up yet."""

LEARN_MOST_S: Final = 300.0
"""A wake that took longer was one by hand, most likely."""

_MARGIN: Final = 1.5
"""Of the time in which 95 of 100 wakes ended."""

USED_QUIET_S: Final = 1.0
"""A server at which requests are, and which has answered none for so long, is probed: it may have
fallen asleep by itself."""

WATCH_EVERY_S: Final = 0.25
"""After a sleep that was called off it may fall asleep yet: it is watched closely."""

_NOT_PROBED: Final = Reason("server.not_probed")


class Mean:
    """Running mean of a duration in seconds; starts from the configured value."""

    LEAST_WEIGHT: Final = 0.3

    def __init__(self, expect_s: float) -> None:
        """`expect_s` holds until the first measurement."""
        self.value_s = expect_s
        self.count = 0
        self.last_s: float | None = None

    def add(self, measured_s: float) -> None:
        """Take one measurement; the newest weighs at least `LEAST_WEIGHT`."""
        self.count += 1
        self.last_s = measured_s
        self.value_s += max(self.LEAST_WEIGHT, 1 / self.count) * (measured_s - self.value_s)


class Wakes:
    """How long the last wakes took, and how long to wait for the next one."""

    MOST: Final = 20

    def __init__(self) -> None:
        """Nothing is known."""
        self.took_s: list[float] = []

    def add(self, took_s: float) -> None:
        """Take one; the oldest is forgotten."""
        self.took_s = [*self.took_s, took_s][-self.MOST :]

    def patience_s(self, *, off: bool) -> float:
        """Return how long to wait at least; `off`: it was switched off, so it has to start."""
        known_s = _MARGIN * percentile(self.took_s, 0.95) if self.took_s else 0.0
        return max(known_s, START_S) if off and len(self.took_s) < KNOWN_WAKES else known_s


@dataclass(frozen=True, slots=True)
class Times:
    """The configured times; see the keys of the same names."""

    wake_expect_s: float = 5.0
    sleep_timeout_s: float = 30.0
    sleep_expect_s: float = 5.0
    interval_s: float = 5.0
    asleep_interval_s: float = 2.0
    on_w: float = 43.3
    sleeps_itself: bool = False
    """It is left to the server when to sleep."""
    off: bool = False
    """It is switched off when it sleeps."""
    needs: bool = False
    """It may need other servers, which are woken first."""
    learns_proper: bool = True
    """No statuses are configured that mean ready: the one before the sleep does."""


class _Stage(Enum):
    """Of falling asleep. In the first two nothing has happened yet that cannot be taken back."""

    DRAINING = "draining"
    ASKING = "asking"
    COMMANDED = "commanded"
    ACCEPTED = "accepted"


class Machine:
    """One server. `slept`: the last thing known of it is that it was put to sleep."""

    def __init__(self, times: Times, ladder: Ladder, now_s: float, *, slept: bool = False) -> None:
        """Start in UNKNOWN: the kept state is a hint, the probes decide."""
        self.times = times
        self.ladder = ladder
        self.state = State.UNKNOWN
        self.reason = Reason("server.not_looked_at")
        self.since_s = now_s
        self.wake = Mean(times.wake_expect_s)
        self.wakes = Wakes()
        self.fall = Mean(times.sleep_expect_s)
        self.pending: WakeRequest | None = None
        self.mode = ModeSet(awake=False)
        self.alert: Reason | None = None
        self.refused: tuple[float, Reason] | None = None
        self.sight = Sight(times.on_w)
        self.slept = slept
        self.proper = 0
        """Status of the site's answer before it last fell asleep; 0: not known."""
        self.settle_s = 0.0
        """After it last came up, 502, 503 and 504 mean for so long that it is not ready yet."""
        self.uncached_s = 0.0
        """Seconds after it last came up during which its answers are not to be cached."""
        self.prepares = False  # it is to be woken, after the servers that it needs
        self.without: Reason | None = None  # it was woken without servers that it needs
        self._needed = Needed()
        self._elsewhere: Reason | None = None
        self._settles_s = -math.inf
        self._other_s = math.inf
        self._starting = False
        self.called_s = now_s
        self._restarts = False
        self._stage = _Stage.DRAINING
        self._asked_s = now_s
        self._commanded_s = now_s
        self._packets = 0
        self._send_s = math.inf
        self._sent_s = -math.inf
        self._watch_s = -math.inf
        self._trouble: Reason | None = None
        self._failure: Reason | None = None
        self._spacing_s = ladder.spacing_s
        self._timer_s = math.inf
        self._answered_s = now_s
        self._traffic_s = now_s
        self._silent = 0
        self._unready = 0
        self._gap_s: float | None = None
        self._sign: Observed | None = None
        self._refusals = 0
        self._effects: list[Effect] = []

    def start(self, now_s: float, wake_request: WakeRequest | None = None) -> list[Effect]:
        """Return the first effects: look before doing anything.

        A server that sleeps is woken then if `wake_request` needs it since before.
        """
        self._timer_s = now_s + TICK_S
        self._effects = [Probe(UNKNOWN_EVERY_S)]
        if wake_request:
            self._pend(now_s, wake_request)
        return self._effects

    def forget_durations(self) -> None:
        """Expect what `times` says of falling asleep and waking: it sleeps in another way now."""
        self.wake = Mean(self.times.wake_expect_s)
        self.wakes = Wakes()
        self.fall = Mean(self.times.sleep_expect_s)

    @property
    def next_s(self) -> float:
        """When `Tick` is due; infinite when only an event can change anything."""
        return min(self._timer_s, self._send_s)

    def eta_s(self, now_s: float) -> float | None:
        """Seconds until the server is expected up; None unless it is waking.

        One that takes longer than usual is expected to take a quarter of it again.
        """
        if self.state is not State.WAKING:
            return None
        if self.prepares:
            return self._needed.up_in_s + self.wake.value_s
        gone_s = now_s - self.called_s
        return max(self.wake.value_s - gone_s, gone_s / 4)

    @property
    def hold_s(self) -> float:
        """How long a request may have to wait until the server is up, or given up."""
        return max(START_S, self.wakes.patience_s(off=self.times.off)) + HOLD_MORE_S

    def unused_s(self, now_s: float) -> float:
        """Return how long nobody has had an answer of it."""
        return now_s - self._traffic_s

    def kept_awake(self, now_s: float) -> bool:
        """Is the mode `awake`, and its time not over?"""
        return self.mode.awake and now_s < self.mode.until_s

    def inhibitors(self, now_s: float, *, by_hand: bool = False) -> list[Reason]:
        """Return why the server must not sleep now, even if the policy lets it."""
        said = []
        if self.state is not State.AWAKE:
            said.append(Reason("server.not_awake"))
        if self.kept_awake(now_s):
            said.append(self.mode.reason)
        if self.refused and now_s < self.refused[0] and not by_hand:
            until_s, why = self.refused
            said.append(Reason("server.asked_again", why=why, again_s=round(until_s - now_s)))
        if self._unready:
            said.append(Reason("server.just_failed"))
        return said

    def step(self, now_s: float, event: Event) -> list[Effect]:
        """Take one event; return what is to be done, in this order."""
        self._effects = []
        match event:
            case Observed():
                self._observe(now_s, event)
            case Pinged() | Metered():
                self.sight.see(now_s, self.state, self.since_s, event)
            case Traffic() | InUse():
                # An answer by another machine does not show the server's state.
                if self.state is State.AWAKE and not self._foreign:
                    self._used(now_s, event)
            case WakeAsked(wake_request):
                self._wanted(now_s, wake_request)
            case SleepAsked(reason, by_hand):
                if not self.inhibitors(now_s, by_hand=by_hand):
                    self._fall(now_s, reason)
            case SleepOrdered() | SleepAnswered():
                self._answered(now_s, event)
            case RungFailed(rung, reason):
                self._rung_failed(now_s, rung, reason)
            case ModeSet() | Elsewhere() | NeedsMet():
                self._hear(now_s, event)
            case Tick(busy, needed):
                self._tick(now_s, busy, needed)
        return self._effects

    def _hear(self, now_s: float, event: ModeSet | Elsewhere | NeedsMet) -> None:
        if isinstance(event, ModeSet):
            self._set_mode(now_s, event)
        elif isinstance(event, Elsewhere):
            self._moved(now_s, event.reason)
        else:
            if self.alert == self.without:
                self._warn(None)
            self.without = None

    def _set_mode(self, now_s: float, mode: ModeSet) -> None:
        self.mode = mode
        if self.kept_awake(now_s) and self.state in (State.FALLING_ASLEEP, State.ASLEEP):
            self._wanted(now_s, WakeRequest("command", mode.reason))

    def _moved(self, now_s: float, reason: Reason | None) -> None:
        self._elsewhere = reason
        if self.state is State.TROUBLE:
            self._tell_again(now_s)

    @property
    def _foreign(self) -> bool:
        """Was another machine seen last at its address?"""
        return self._sign is not None and self._sign.sign is Sign.FOREIGN

    # Observations

    def _observe(self, now_s: float, seen: Observed) -> None:
        seen = self._sign = self._compared(now_s, seen)
        if seen.sign in (Sign.SILENT, Sign.FOREIGN):
            if seen.begun_s > self._answered_s:
                self._silent += 1
            if self.state is State.FALLING_ASLEEP and self._stage is not _Stage.DRAINING:
                self._gap_s = max(seen.begun_s, self._gap_s or seen.begun_s)
        else:
            self._answered_s = max(self._answered_s, seen.begun_s)
            self._silent = 0
        if seen.sign is Sign.READY:
            self._ready(now_s, seen)
        elif self.state is State.AWAKE:
            # A silence older than the newest answer only says that it was not up yet.
            if seen.begun_s > self._answered_s or seen.sign is not Sign.SILENT:
                self._doubt(now_s, seen)
        elif self.state is State.FALLING_ASLEEP:
            self._look_for_silence(now_s)

    def _compared(self, now_s: float, seen: Observed) -> Observed:
        """Take a status that the site did not have before it slept for one of its start."""
        if self.state not in (State.WAKING, State.TROUBLE):
            return seen
        unfit = seen.sign is Sign.UNFIT and seen.status != self.proper
        self._starting |= unfit or seen.sign is Sign.REFUSING
        if seen.sign is Sign.UNFIT and seen.status and seen.status == self.proper:
            # As before it slept, for maintenance say: there is nothing to wait for.
            return replace(seen, sign=Sign.READY)
        if seen.sign is not Sign.READY or not self._differs(seen.status):
            return seen
        self._other_s = min(self._other_s, now_s)
        if now_s - self._other_s >= OTHER_S:
            # The site has changed.
            self.proper = seen.status
            return seen
        self._starting = True
        detail = Reason("ready.not_proper", status=seen.status, proper=self.proper)
        return replace(seen, sign=Sign.UNFIT, detail=detail)

    def _differs(self, status: int) -> bool:
        """Did the status change over the sleep? A page where there was none does not count."""
        if not status or not self.proper or self.proper >= 500 or status == self.proper:
            return False
        return status >= 300 or self.proper < 400

    def _silence(self, now_s: float) -> bool:
        return self._silent >= SILENT_PROBES and now_s - self._answered_s >= SILENT_S

    def _ready(self, now_s: float, seen: Observed) -> None:
        match self.state:
            case State.AWAKE:
                self._trust(now_s)
            case State.FALLING_ASLEEP:
                self._came_back(now_s, seen)
            case State.ASLEEP:
                self._awake(now_s, Reason("server.woke_itself"))
            case State.WAKING if self.prepares:
                self._awake(now_s, Reason("server.woke_itself" if self.slept else "server.answers"))
            case State.WAKING:
                self._awake(now_s, self._up(now_s, now_s - self.called_s))
            case State.TROUBLE if self.slept and now_s - self.called_s < LEARN_MOST_S:
                # It takes longer than it was waited for.
                self._awake(now_s, self._up(now_s, now_s - self.called_s))
            case _:
                self._awake(now_s, Reason("server.answers"))

    def _up(self, now_s: float, took_s: float) -> Reason:
        """Learn how long waking takes and which rung did it; say which if there are several."""
        woke = ""
        if self.slept:
            woke = self.ladder.up(now_s)
            self.wake.add(took_s)
            self.wakes.add(took_s)
        if woke and len(self.ladder.rungs) > 1:
            return Reason("server.up_after_by", took_s=round(took_s, 1), rung=woke)
        return Reason("server.up_after", took_s=round(took_s, 1))

    def _trust(self, now_s: float) -> None:
        if self._unready:
            self._unready = 0
            self._probe_awake(now_s)

    def _used(self, now_s: float, event: Traffic | InUse) -> None:
        """It has answered a request, or they wait for an answer: is it still there?"""
        if isinstance(event, Traffic):
            self._traffic_s = now_s
            self._trust(now_s)
        elif not self._unready and now_s - max(self._traffic_s, self._answered_s) >= USED_QUIET_S:
            self._probe_awake(now_s)

    def _doubt(self, now_s: float, seen: Observed) -> None:
        """Awake, and a probe failed: look closer, and act on a few in a row.

        A wrong status is the web server's own affair: it is on, so requests go to it. Just
        after a wake it may say that a program behind the web server has not started yet.
        A server that refuses connections restarts, most likely: requests are held until
        it is back, as for one that wakes. A silent one may only be overloaded: until it
        is silent for long, requests still go to it.
        """
        unready = now_s < self._settles_s and seen.status in _NOT_READY
        if seen.sign is Sign.UNFIT and not unready:
            self._trust(now_s)
            return
        self._unready += 1
        if self._unready == 1:
            self._effects.append(Probe(AWAKE_SUSPECT_EVERY_S))
        if self._unready < SILENT_PROBES:
            return
        if unready or seen.sign is Sign.REFUSING:
            code = "server.not_ready_yet" if unready else "server.web_server_down"
            self._wake(now_s, Reason(code, detail=seen.detail))
            self._starting = True
            self._restarts = now_s >= self._settles_s
        elif self._silence(now_s) and now_s < self._watch_s:
            self.slept = True
            self._wake(now_s, Reason("server.fell_asleep_after_all"))
        elif self._silence(now_s):
            reason = Reason("server.stopped_answering", detail=seen.detail)
            self.slept = self.times.sleeps_itself
            self._enter(now_s, State.UNKNOWN, reason)
            self._timer_s = now_s + TICK_S
            self._effects.append(Probe(UNKNOWN_EVERY_S))

    def _came_back(self, now_s: float, seen: Observed) -> None:
        """Falling asleep, and it answers: was it silent in between?

        Varnish's own magic packets may wake a machine just as its card is armed, before
        its silence lasted. Waiting visitors need not wait for a silence that is over.
        """
        if self.pending and self._gap_s is not None and seen.begun_s > self._gap_s:
            self._awake(now_s, Reason("server.woke_again"))

    # Falling asleep

    def _fall(self, now_s: float, reason: Reason) -> None:
        if self._sign and self._sign.status and self.times.learns_proper:
            # A commissioning puts it to sleep first of all: so it is known from then on.
            self.proper = self._sign.status
        self._stage = _Stage.DRAINING
        self._gap_s = None
        self._enter(now_s, State.FALLING_ASLEEP, reason)
        self._timer_s = now_s + DRAIN_S

    def _drain(self, now_s: float, busy: int) -> None:
        if busy == 0:
            self._stage = _Stage.ASKING
            self._commanded_s = now_s
            self._answered_s = now_s
            self._silent = 0
            self._effects += [RunSleep(), Probe(FALLING_EVERY_S, patient=False)]
        elif now_s - self.since_s >= DRAIN_LIMIT_S:
            self._awake(now_s, Reason("server.requests_came", number=busy))

    def _answered(self, now_s: float, event: SleepOrdered | SleepAnswered) -> None:
        if self.state is not State.FALLING_ASLEEP or self._stage is _Stage.DRAINING:
            return
        if isinstance(event, SleepOrdered):
            self._stage = _Stage.COMMANDED
            self._commanded_s = now_s
            return
        if event.answer is Answer.ACCEPTED:
            self._stage = _Stage.ACCEPTED
            self._look_for_silence(now_s)
            return
        self._back_off(now_s, event.reason)
        if event.answer is Answer.FAILED:
            self._warn(event.reason)
        self._awake(now_s, event.reason)

    def _back_off(self, now_s: float, reason: Reason) -> None:
        self.refused = (now_s + min(REFUSED_S * 2**self._refusals, REFUSED_MOST_S), reason)
        self._refusals = min(self._refusals + 1, 10)

    def _look_for_silence(self, now_s: float) -> None:
        """Asleep is silent, and drawing little where there is a meter.

        A meter may be slow, so a request does not wait for it.
        """
        if self._stage is _Stage.DRAINING:
            return
        if self._silence(now_s) and (self.pending or self.sight.low(now_s) is not False):
            # Its last answer may be from before the order: it was silent at once then.
            self.fall.add(max(0.0, self._answered_s - self._commanded_s))
            self.refused, self._refusals = None, 0
            self.slept = True
            self._sleep(now_s, self.reason)
        elif now_s - self._commanded_s >= self._patience_s():
            self._did_not_sleep(now_s)

    def _patience_s(self) -> float:
        """How long it may take to fall silent; less while somebody waits for it."""
        if self.pending and self._stage is _Stage.ACCEPTED:
            return min(self.times.sleep_timeout_s, 2 * self.fall.value_s + SILENT_S)
        return self.times.sleep_timeout_s

    def _did_not_sleep(self, now_s: float) -> None:
        took_s = round(now_s - self._commanded_s)
        code = "server.draws_on" if self._silence(now_s) else "server.not_asleep"
        reason = Reason(code, took_s=took_s)
        self._back_off(now_s, reason)
        self._warn(reason)
        if self._sign and self._sign.sign is Sign.READY:
            self._awake(now_s, reason)
        else:
            # A shutdown may take longer, and end all the same.
            self.slept = True
            self._wake(now_s, reason)

    def _sleep(self, now_s: float, reason: Reason) -> None:
        self._enter(now_s, State.ASLEEP, reason)
        self._effects.append(Probe(self.times.asleep_interval_s))
        self._warn(None)
        if self.pending:
            self._wake(now_s, Reason("server.wanted_falling", wake_request=self.pending.why))
        elif self.kept_awake(now_s):
            self._wanted(now_s, WakeRequest("command", self.mode.reason))

    # Waking

    def _wanted(self, now_s: float, wake_request: WakeRequest) -> None:
        match self.state:
            case State.UNKNOWN | State.ASLEEP:
                self._pend(now_s, wake_request)
                self._wake(now_s, wake_request.why)
            case State.AWAKE if wake_request.silent:
                # Perhaps it is only slow: then the next probe, at once, says so, and how long
                # waking takes is not learned from it.
                self._pend(now_s, wake_request)
                self._wake(now_s, Reason("server.took_no_connection", why=wake_request.why))
            case State.FALLING_ASLEEP:
                self._pend(now_s, wake_request)
                if self._stage in (_Stage.DRAINING, _Stage.ASKING):
                    self._awake(
                        now_s, Reason("server.wanted_before", wake_request=wake_request.why)
                    )
                else:
                    self._look_for_silence(now_s)
            case State.TROUBLE:
                self._pend(now_s, wake_request)
                self._send_s = min(self._send_s, self._sent_s + self.ladder.spacing_s)

    def _pend(self, now_s: float, wake_request: WakeRequest) -> None:
        if self.pending is None:
            self.pending = wake_request
            self._asked_s = now_s
            self._packets = 0
            self._effects.append(WakeOpened(wake_request))

    def _wake(self, now_s: float, reason: Reason) -> None:
        self._pend(now_s, WakeRequest("naproxy", reason))
        self._packets = 0
        self._failure = None
        self._other_s = math.inf
        self._starting = False
        self.called_s = now_s
        self._restarts = False
        self.ladder.begin()
        self.without = None
        self.prepares, self._needed = self.times.needs, Needed()
        if not self.prepares:
            self._call(now_s)
        self._enter(now_s, State.WAKING, reason)
        if self.prepares:
            self._timer_s = now_s
        self._effects.append(Probe(WAKING_EVERY_S))

    def _call(self, now_s: float) -> None:
        call = self.ladder.climb(now_s, on=self._may_be_on(now_s))
        assert call, "a ladder has at least one rung, and a rung one call"
        self._send(now_s, call, call.spacing_s)

    def _prepare(self, now_s: float, needed: Needed) -> None:
        """Wait for the servers that it needs, but not for ever: then it is woken without them."""
        self._needed = needed
        if needed.waking and now_s - self.since_s < needed.limit_s:
            self._timer_s = now_s + TICK_S
            return
        self.prepares = False
        if missing := needed.failed + needed.waking:
            self.without = Reason("server.woken_without", names=missing)
            self._warn(self.without)
        self.called_s = now_s
        self._call(now_s)

    @property
    def waits_for(self) -> Reason | None:
        """Which servers are to be up before it is called."""
        names = self._needed.waking if self.prepares else ()
        return Reason("server.waits_for", names=names) if names else None

    def _may_be_on(self, now_s: float) -> bool:
        """Whether the press of a button might switch off a machine that is on.

        Silence alone is no proof: without a command to sleep, the server may be overloaded, and a
        silent server that draws power hangs.
        """
        if self.times.sleeps_itself:
            # Nobody gave it an order: it may be its web server that is silent.
            return not self.sight.off(now_s)
        off = self.slept and self._silence(now_s) and self.sight.low(now_s) is not False
        return not off

    def _send(self, now_s: float, call: Call, spacing_s: float) -> None:
        self._sent_s = now_s
        self._send_s = now_s + spacing_s
        if call.rung is not None:
            self._packets += 1
            # First of all effects: nothing may come between the request and the packet.
            self._effects.insert(0, SendWake(call.rung))

    def _send_again(self, now_s: float) -> None:
        if self.state is State.TROUBLE:
            self._spacing_s = min(2 * self._spacing_s, TROUBLE_MOST_S)
            self._tell_again(now_s)
        else:
            before = self.ladder.now
            call = self.ladder.climb(now_s, on=self._may_be_on(now_s))
            if call:
                if self.ladder.now != before:
                    self._pass_over(before, Reason("server.not_up_yet"))
                self._send(now_s, call, call.spacing_s)
                return
            if now_s - self.called_s >= self._wait_s():
                self._in_trouble(now_s, self._not_up(now_s))
            else:
                self._spacing_s = self.ladder.spacing_s
        self._call_again(now_s)

    def _wait_s(self) -> float:
        """Return how long it may take to come up, besides the calls of the ladder."""
        if self._restarts:
            return 0.0  # it is on, so only its web server is missing
        wait_s = self.wakes.patience_s(off=self.times.off)
        woken = self.slept or self.called_s < self._settles_s
        return max(wait_s, START_S) if woken and self._starting else wait_s

    def _not_up(self, now_s: float) -> Reason:
        took_s, why, calls = round(now_s - self._asked_s), self._why_not_up(now_s), self._packets
        reason = Reason("server.not_up", calls=calls, took_s=took_s, why=why)
        if self._failure is None:
            return reason
        return together(reason, Reason("server.call_failed", why=self._failure))

    def _call_again(self, now_s: float) -> None:
        call = self.ladder.again(on=self._may_be_on(now_s))
        self._send(now_s, call, max(self._spacing_s, call.spacing_s))

    def _in_trouble(self, now_s: float, reason: Reason) -> None:
        self._spacing_s = self.ladder.spacing_s
        self._trouble = self._why_not_up(now_s)
        self._warn(reason)
        self._effects.append(WakeClosed("trouble", now_s - self._asked_s, self._packets))
        self._enter(now_s, State.TROUBLE, reason)
        self._effects.append(Probe(TROUBLE_EVERY_S))

    def _tell_again(self, now_s: float) -> None:
        """Alert again if the trouble itself has changed, not only its figures."""
        why = self._why_not_up(now_s)
        if why.codes() != (self._trouble.codes() if self._trouble else ()):
            self._trouble = why
            self._warn(Reason("server.still_not_up", why=why))

    def _why_not_up(self, now_s: float) -> Reason:
        if self._elsewhere:
            return self._elsewhere
        sign, detail = (self._sign.sign, self._sign.detail) if self._sign else (None, _NOT_PROBED)
        return self.sight.why_not_up(now_s, sign, detail)

    def _rung_failed(self, now_s: float, rung: int, reason: Reason) -> None:
        before = self.ladder.now
        self._failure = reason
        if self.state is State.WAKING and not self.prepares and self.ladder.failed(rung):
            self._pass_over(before, reason)
            self._send_again(now_s)

    def _pass_over(self, before: str, why: Reason) -> None:
        reason = Reason("server.passed_over", rung=before, next=self.ladder.now, why=why)
        self._effects.append(PassedOver(reason))

    # States

    def _tick(self, now_s: float, busy: int, needed: Needed) -> None:
        if now_s >= self._send_s:
            self._send_again(now_s)
        if now_s < self._timer_s:
            return
        self._timer_s = now_s + TICK_S
        if self.state is State.UNKNOWN:
            self._reconcile(now_s, busy)
        elif self.state is State.FALLING_ASLEEP:
            if self._stage is _Stage.DRAINING:
                self._drain(now_s, busy)
            else:
                self._look_for_silence(now_s)
        else:
            self._timer_s = math.inf
            if self.state is State.AWAKE:
                self._probe_awake(now_s)
            elif self.prepares:
                self._prepare(now_s, needed)

    def _reconcile(self, now_s: float, busy: int) -> None:
        """Decide what a server is that does not answer."""
        silent = self._silence(now_s) and not self._foreign
        if silent and busy:
            self._wake(now_s, Reason("server.requests_asleep", number=busy))
        elif silent and self.slept:
            if self.pending:
                self._wake(now_s, self.pending.why)
            else:
                own = self.times.sleeps_itself
                self._sleep(now_s, Reason("server.slept_itself" if own else "server.slept_before"))
        elif now_s - self.since_s >= GONE_S and self._foreign:
            # Perhaps it is the configuration that is wrong: nobody is held up by that.
            self._pend(now_s, WakeRequest("naproxy", self._why_not_up(now_s)))
            self.called_s = now_s
            self.ladder.begin()
            self._in_trouble(now_s, self._why_not_up(now_s))
            self._call_again(now_s)
        elif now_s - self.since_s >= GONE_S:
            detail = self._sign.detail if self._sign else _NOT_PROBED
            self._wake(now_s, Reason("server.silent_at_start", detail=detail))

    def _awake(self, now_s: float, reason: Reason) -> None:
        self._unready = 0
        # The order that an earlier controller gave may yet be obeyed.
        ordered = self.state is State.UNKNOWN and self.slept
        self._settle(now_s)
        self._elsewhere = None
        self.slept = False
        self.prepares = False
        if self.state in (State.WAKING, State.TROUBLE):
            self._warn(self.without)
        commanded = self._stage in (_Stage.COMMANDED, _Stage.ACCEPTED)
        commanded = commanded and self.state is State.FALLING_ASLEEP
        if commanded or ordered:
            self._watch_s = now_s + self.times.sleep_timeout_s
        self._enter(now_s, State.AWAKE, reason)
        self._probe_awake(now_s)
        if self.pending:
            outcome = "up" if self._packets else "stayed awake"
            self._effects.append(WakeClosed(outcome, now_s - self._asked_s, self._packets))
            self.pending = None
            self._packets = 0

    def _settle(self, now_s: float) -> None:
        """It comes up: how long is what it answers doubtful?"""
        self.settle_s = self.uncached_s = 0.0
        if self.state not in (State.WAKING, State.TROUBLE, State.ASLEEP):
            return
        called = self.state is not State.ASLEEP
        took_s = now_s - self.called_s if called else 0.0
        self.settle_s = RESUME_S
        if (called and self._starting) or took_s >= BOOTED_S:
            self.settle_s = SETTLE_S
            self.uncached_s = min(max(UNCACHED_S, took_s), SETTLE_S)
        if self.slept:
            self._settles_s = now_s + self.settle_s

    def _probe_awake(self, now_s: float) -> None:
        watching = now_s < self._watch_s
        self._timer_s = self._watch_s if watching else math.inf
        self._effects.append(Probe(WATCH_EVERY_S if watching else self.times.interval_s))

    def _warn(self, reason: Reason | None) -> None:
        if reason != self.alert:
            self.alert = reason
            self._effects.append(Alert(reason))

    def _enter(self, now_s: float, state: State, reason: Reason) -> None:
        self._effects.append(Transition(self.state, state, reason))
        self.state = state
        self.reason = reason
        self.since_s = now_s
        self._timer_s = math.inf
        if state in (State.AWAKE, State.ASLEEP, State.UNKNOWN, State.FALLING_ASLEEP):
            self._send_s = math.inf
