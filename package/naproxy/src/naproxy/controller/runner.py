"""One server in the controller: carries out what its state machine and its policy say."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from naproxy import drivers, policy
from naproxy.config.document import Server
from naproxy.controller.neighbour import Neighbour
from naproxy.controller.ping import Pinger
from naproxy.controller.probing import Prober
from naproxy.controller.supervise import Supervisor
from naproxy.core.reason import Reason, plain, together
from naproxy.core.request import Asker
from naproxy.core.state import STATES, Klass, State
from naproxy.drivers import sleep, wake
from naproxy.drivers.sleep import SleepDriver, SleepResult
from naproxy.drivers.wake import WakeDriver
from naproxy.history.write.journal import Journal
from naproxy.policy.base import Decision, Policy, Request
from naproxy.server.commissioning import EVERY_S, Commanded, Plan
from naproxy.server.inhibitors import Guard, Readings
from naproxy.server.ladder import Ladder
from naproxy.server.machine import Machine, Times
from naproxy.server.machine_io import (
    Alert,
    Effect,
    ModeSet,
    PassedOver,
    Probe,
    RungFailed,
    RunSleep,
    SendWake,
    SleepAnswered,
    SleepAsked,
    Tick,
    Traffic,
    Transition,
    WakeAsked,
    WakeClosed,
    WakeOpened,
)
from naproxy.server.machine_io import Answer as SleepAnswer
from naproxy.server.machine_io import Event as MachineEvent
from naproxy.server.seeing import Metered, Pinged
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Cause, Outcome, Page, read_u64

_LOG: Final = logging.getLogger(__name__)
_ANSWERED: Final = (Outcome.FETCH, Outcome.PASS, Outcome.HELD)
_WORKED: Final = (*_ANSWERED, Outcome.PIPE, Outcome.ERROR)
_SENT_AWAY: Final = (Outcome.WAITING_PAGE, Outcome.CAPPED)
_VETOED_AGAIN_S: Final = 1.0
_LEAST_CHECK_S: Final = 0.01
_MOST_CHECK_S: Final = 3600.0
_CLOCK_SET_S: Final = 1.0
_NO_WAY: Final = Reason("sleep.no_way")
_METER_S: Final = 1.0
_LEAST_PING_S: Final = 1.0


@dataclass(frozen=True)
class House:
    """What all servers of a box share. `epoch_s` added to the monotonic clock never steps."""

    page: Page
    journal: Journal
    epoch_s: float
    power_w: Callable[[str], float | None] = lambda _: None
    """What a server draws now, by its id; None without a meter, or if it does not say."""


class Runner:
    """One server: its machine, policy, drivers, probes and slot in the page."""

    def __init__(self, house: House, index: int, server: Server, interface: str) -> None:
        """Take up what the journal and the page know of the server; `start` looks at it."""
        self._house = house
        self._index = index
        self._loop = asyncio.get_running_loop()
        # The page is the newer one: it is written first, and also when the disk is full.
        on_page = house.page.server(index).state
        known = on_page in (State.ASLEEP, State.FALLING_ASLEEP, State.AWAKE, State.WAKING)
        last_known = on_page if known else house.journal.last_known(server.id)
        saved = house.journal.saved(f"server.{server.id}")
        called = last_known in (State.WAKING, State.TROUBLE) and saved.get("slept") is True
        slept = called or last_known in (State.ASLEEP, State.FALLING_ASLEEP)
        self._called = called
        self._last_t_s = 0.0
        self._learned_us = 0
        self._worked_s = -math.inf
        self._vetoed: tuple[str, ...] = ()
        self._row: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None
        self._sleeping: asyncio.Task[None] | None = None
        self._said_failed = ""
        self._mode_until_s: float | None = None
        self._cadence = Probe(0)
        self._stopped = False
        self.decision = Decision(False, Reason("policy.undecided"))
        ladder = Ladder(wake.rungs(_rungs(server)))
        self.machine = Machine(_times(server), ladder, time.monotonic(), slept=slept)
        self._neighbour = Neighbour(server.address, interface)
        self.supervisor = Supervisor(house.journal, server.id, self)
        self._look: asyncio.TimerHandle | None = None
        self._equip(server, interface)
        self._restore(saved)

    def _equip(self, server: Server, interface: str) -> None:
        """Make what the configuration asks for."""
        self.server = server
        target = drivers.Target(server.id, server.address, server.port, server.mac, interface)
        self._wakers: list[WakeDriver] = [
            drivers.driver("wake", options, target) for options in _rungs(server)
        ]
        self._sleeper: SleepDriver = drivers.driver("sleep", server.sleep, target)
        self._prober = Prober(
            drivers.driver("ready", server.ready, target),
            server.ready.timeout_s,
            self._step,
            lambda error: self._say_once(f"cannot probe: {error}"),
            self._stranger,
        )
        self._pinger = Pinger(server.address, self._pinged)
        arming = self.supervisor.arming
        arming.trusted = server.armed
        arming.subject = _subject(server)
        self._policy: Policy = policy.make(server.policy, self._setup())
        self._guard = Guard(server.awake)

    def configure(self, server: Server, interface: str) -> None:
        """Take a new configuration; state, mode and what the policy learned stay."""
        if not self._neighbour.is_at(server.address, interface):
            self._neighbour.release()
            self._neighbour = Neighbour(server.address, interface)
        if server != self.server:
            self.supervisor.cancel()  # sets the cadence of the probes: before they are ended
        self._prober.stop()
        self._pinger.stop()
        old, old_state = self._policy, self.server.sleep.state
        self._equip(server, interface)
        self.machine.times = _times(server)
        if server.sleep.state != old_state:
            self.machine.forget_durations()
        known = self.machine.ladder.dump()
        self.machine.ladder = Ladder(wake.rungs(_rungs(server)), known)
        if old.name == self._policy.name:
            self._policy.load(old.dump())
        if self.machine.state is State.ASLEEP:
            self._policy.observed(self._never_back(self._t_s(time.monotonic())), State.ASLEEP)
        self._probe(self._cadence)
        self._decide()

    def _setup(self) -> policy.Setup:
        server = self.server
        return policy.Setup(
            on_w=server.power.on_w,
            off_w=server.power.off_w,
            switch_j=server.power.switch_j,
            fraction=server.promise.fraction,
            delta_s=server.promise.delta_s,
            sleep_s=self.machine.fall.value_s,
            wake_s=self.machine.wake.value_s,
        )

    # What is kept over a restart of the controller

    def save(self) -> None:
        """Write what was learned into the journal."""
        self._house.journal.save(
            f"server.{self.server.id}",
            {
                "policy": {"name": self._policy.name, "state": self._policy.dump()},
                "t_s": self._t_s(time.monotonic()),
                "monotonic_us": page.monotonic_us(),
                "mode": {"awake": self.machine.mode.awake, "until_s": self._mode_until_s},
                "slept": self.machine.slept,
                "rungs": self.machine.ladder.dump(),
                "sleep_state": self.server.sleep.state,
                "wake_s": self.machine.wake.value_s if self.machine.wake.count else None,
                "fall_s": self.machine.fall.value_s if self.machine.fall.count else None,
            },
        )

    def _restore(self, saved: Mapping[str, Any]) -> None:
        known = saved.get("rungs")
        if isinstance(known, Mapping):
            self.machine.ladder = Ladder(self.machine.ladder.rungs, known)
        for mean, key in ((self.machine.wake, "wake_s"), (self.machine.fall, "fall_s")):
            measured_s = saved.get(key)
            same = saved.get("sleep_state", self.server.sleep.state) == self.server.sleep.state
            if same and isinstance(measured_s, (int, float)) and 0 < measured_s < _MOST_CHECK_S:
                mean.add(measured_s)
        mode = saved.get("mode")
        if isinstance(mode, Mapping) and mode.get("awake") is True:
            until_s = mode.get("until_s")
            if until_s is None or (isinstance(until_s, (int, float)) and until_s > time.time()):
                self.set_mode(awake=True, until_s=until_s)
        t_s, kept = saved.get("t_s"), saved.get("policy")
        if not isinstance(t_s, (int, float)) or not isinstance(kept, Mapping):
            return
        # Times given to a policy never decrease. If the clock was wrong by much before,
        # what was learned by it is of no use.
        ahead_s = t_s - self._t_s(time.monotonic())
        if kept.get("name") == self._policy.name and ahead_s < _MOST_CHECK_S:
            self._policy.load(kept.get("state") or {})
            self._last_t_s = t_s
            learned_us = saved.get("monotonic_us")
            if isinstance(learned_us, int) and learned_us <= page.monotonic_us():
                self._learned_us = learned_us

    def _t_s(self, monotonic_s: float) -> float:
        return self._house.epoch_s + monotonic_s

    # Carrying out

    def start(self) -> None:
        """Look at the server."""
        self._house.page.set_state(self._index, State.UNKNOWN, page.monotonic_us())
        self._carry_out(self.machine.start(time.monotonic(), self._cut_off()))
        self._look_at_meter()

    def _cut_off(self) -> Asker | None:
        """Return for whom the server is to be up, as an earlier controller would have seen to."""
        if self.supervisor.interrupted:
            return Asker("naproxy", Reason("server.cut_off_commissioning"))
        return Asker("naproxy", Reason("server.cut_off")) if self._called else None

    def _step(self, event: MachineEvent) -> None:
        if self._stopped:
            return  # a call to wake that ends late
        self._carry_out(self.machine.step(time.monotonic(), event))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            try:
                self._do(effect)
            except Exception as error:
                # The others count all the more: the next call to wake is among them.
                self._say_once(f"{type(effect).__name__} failed: {error!r}")
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self.machine.next_s < math.inf:
            self._timer = self._loop.call_at(self.machine.next_s, self._tick)

    def _do(self, effect: Effect) -> None:
        match effect:
            case SendWake(rung):
                self._call(rung)
            case Transition():
                self._entered(effect)
            case Probe():
                self._probe(effect)
            case RunSleep():
                self._neighbour.keep()
                self._sleeping = asyncio.ensure_future(self._sleep())
                self.supervisor.send(Commanded())
            case WakeOpened(asker):
                self._loop.call_soon(self._open_wake, asker)
            case WakeClosed():
                self._loop.call_soon(self._close_wake, effect)
            case PassedOver(reason):
                _LOG.warning("%s: %s", self.server.id, reason)
            case Alert(reason):
                _LOG.warning("%s: %s", self.server.id, reason or "no more trouble")

    def _call(self, rung: int) -> None:
        try:
            self._wakers[rung].send(partial(self._call_failed, rung))
        except Exception as error:
            self._call_failed(rung, wake.fault(error))

    def _tick(self) -> None:
        self._step(Tick(self.busy()))

    def _probe(self, cadence: Probe) -> None:
        """Probe and ping at this cadence; a card that wakes by any packet gets neither."""
        self._cadence = cadence
        self._prober.set(cadence)
        every_s = EVERY_S if self.supervisor.running else max(cadence.every_s, _LEAST_PING_S)
        self._pinger.every(every_s if cadence.every_s else 0)

    def _pinged(self, ping: Pinged) -> None:
        self._step(ping)
        self.supervisor.send(ping)

    def _look_at_meter(self) -> None:
        self._look = self._loop.call_later(_METER_S, self._look_at_meter)
        power_w = self.power_w()
        if power_w is not None:
            self._step(Metered(power_w))

    def _stranger(self) -> Reason | None:
        ready = self.server.ready
        return self._neighbour.stranger(self.server.mac) if ready.check_mac else None

    def busy(self) -> int:
        """Return how many requests and open connections are at the server now."""
        record = self._house.page.server(self._index)
        return int(record.fetching_now + record.piping_now)

    def _entered(self, change: Transition) -> None:
        """Publish first, write and learn when nothing waits for it any more."""
        self._house.page.set_state(self._index, change.state, page.monotonic_us())
        if change.state is not State.FALLING_ASLEEP and self._sleeping:
            self._sleeping.cancel()
            self._sleeping = None
        if change.state is State.AWAKE:
            self._neighbour.release()
        elif change.state is State.TROUBLE:
            self._neighbour.forget()
        self._loop.call_soon(self._note, change, time.monotonic())
        took = {State.ASLEEP: self.machine.fall, State.AWAKE: self.machine.wake}.get(change.state)
        took_s = took.last_s if took else None
        # Later: what it asks for then must not come amidst the effects of this step.
        self._loop.call_soon(self.supervisor.entered, change, took_s, self.machine.slept)

    def _note(self, change: Transition, now_s: float) -> None:
        journal, name = self._house.journal, self.server.id
        journal.transition(name, change.before, change.state, change.reason)
        before, state = STATES[change.before], STATES[change.state]
        _LOG.info("%s: %s -> %s: %s", name, before, state, change.reason)
        self._policy.observed(self._never_back(self._t_s(now_s)), change.state)
        if change.state in (State.AWAKE, State.ASLEEP):
            self._said_failed = ""
            self._publish_wake_time()
            self.save()
        self._decide()

    def _publish_wake_time(self) -> None:
        expect_ms = round(1000 * self.machine.wake.value_s)
        if self._house.page.server(self._index).wake_expect_ms != expect_ms:
            with self._house.page.configure(self._index) as record:
                record.wake_expect_ms = expect_ms

    def _open_wake(self, asker: Asker) -> None:
        self._row = self._house.journal.wake_opened(self.server.id, asker)

    def _close_wake(self, wake: WakeClosed) -> None:
        if self._row is not None:
            self._house.journal.wake_closed(self._row, wake.outcome, wake.waited_s, wake.packets)

    def _say_once(self, words: str) -> None:
        if words != self._said_failed:
            self._said_failed = words
            _LOG.warning("%s: %s", self.server.id, words)

    def _call_failed(self, rung: int, reason: Reason) -> None:
        """Hear of a call to wake that failed; perhaps at once, amidst the effects of a step."""
        self._say_once(str(reason))
        self._loop.call_soon(self._step, RungFailed(rung, reason))

    async def _sleep(self) -> None:
        try:
            result = await self._sleeper.sleep()
        except Exception as error:
            result = SleepResult(SleepAnswer.FAILED, sleep.fault(error))
        self._sleeping = None
        self._step(SleepAnswered(result.answer, result.reason))

    # Who wants what

    def wake(self, asker: Asker) -> None:
        """Somebody needs the server."""
        self._step(WakeAsked(asker))

    def sleep(self, reason: Reason, *, by_hand: bool = False) -> list[Reason]:
        """Put the server to sleep unless something speaks against it; return what does."""
        vetoes = self.vetoes(by_hand=by_hand)
        if not vetoes:
            self._step(SleepAsked(reason, by_hand))
        return vetoes

    def vetoes(self, *, by_hand: bool = False) -> list[Reason]:
        """Return what speaks against sleeping now.

        By hand, the requests at the server are given a moment to end.
        """
        said = self.machine.vetoes(time.monotonic(), by_hand=by_hand)
        said += self._guard.vetoes(self._readings(), by_hand=by_hand)
        if self.server.sleep.never:
            said.append(_NO_WAY)
        elif not by_hand:
            said += self.supervisor.vetoes()
        return said

    def _readings(self) -> Readings:
        now_s, record = time.monotonic(), self._house.page.server(self._index)
        return Readings(
            wall_s=time.time(),
            lead_s=self.machine.wake.value_s,
            awake_s=now_s - self.machine.since_s,
            worked_s=now_s - self._worked_s,
            fetching=record.fetching_now,
            piping=record.piping_now,
        )

    # Commissioning

    @property
    def state(self) -> State:
        """What the server is seen to be."""
        return self.machine.state

    def power_w(self) -> float | None:
        """Return what the server draws now; None without a meter, or if it does not say."""
        return self._house.power_w(self.server.id)

    def commission(self, plan: Plan) -> list[Reason]:
        """Begin a commissioning, or return what speaks against it."""
        if self.supervisor.running:
            return [Reason("server.commissioned_already")]
        if self.server.sleep.never:
            return [_NO_WAY]
        if self.machine.kept_awake(time.monotonic()):
            return [self.machine.mode.reason]
        self.supervisor.start(plan)
        return []

    def supervised(self, *, running: bool) -> None:
        """Ping as often as a commissioning needs it, and leave the rest to the policy after."""
        self._probe(self._cadence)
        if not running:
            self._loop.call_soon(self._decide)

    def set_mode(self, *, awake: bool, until_s: float | None = None) -> None:
        """Keep the server awake, until an epoch time if given; or leave it to the policy."""
        self._mode_until_s = until_s if awake else None
        reason = Reason("server.kept_awake")
        if awake and until_s is not None:
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(until_s))
            reason = Reason("server.kept_awake_until", until=until)
        self._step(ModeSet(awake, self._mode_ends_s(), reason))

    def _mode_ends_s(self) -> float:
        if self._mode_until_s is None:
            return math.inf
        return time.monotonic() + self._mode_until_s - time.time()

    def _follow_wall_clock(self) -> None:
        """Somebody chose a time of the wall clock, which may have been set since."""
        ends_s = self._mode_ends_s()
        if abs(ends_s - self.machine.mode.until_s) > _CLOCK_SET_S:
            self._step(replace(self.machine.mode, until_s=ends_s))

    def heard(self, events: list[Event], *, fresh: bool) -> None:
        """Learn of requests that ended; `fresh`: they ended just now."""
        if fresh and any(e.outcome in _ANSWERED for e in events):
            self._step(Traffic())
        # When one ended is not in the ring: what is heard of after a restart counts as just now.
        if any(e.work and e.outcome in _WORKED for e in events):
            self._worked_s = time.monotonic()
        new = [e for e in events if e.t_us > self._learned_us]
        for event in new:
            self._policy.request(self._request(event))
        if new:
            self._decide()

    def _request(self, event: Event) -> Request:
        delay_s = event.delay_ms / 1000
        if event.outcome in _SENT_AWAY:
            delay_s = max(delay_s, self.machine.wake.value_s)
        known = event.klass < len(Klass)
        return Request(
            t_s=self._never_back(self._t_s(event.t_us / 1e6)),
            client=event.client,
            klass=Klass(event.klass) if known else Klass.PERSON,
            needs_server=event.needed,
            page_load=event.page_load,
            path=event.path,
            delay_s=delay_s,
        )

    def _never_back(self, t_s: float) -> float:
        self._last_t_s = max(self._last_t_s, t_s)
        return self._last_t_s

    def _decide(self) -> None:
        """Ask the policy, do what it says, and ask again when it wants to be asked."""
        if self._check:
            self._check.cancel()
            self._check = None
        if self._stopped:
            return
        state = self.machine.state
        if state not in (State.AWAKE, State.ASLEEP):
            return
        self._follow_wall_clock()
        t_s = self._never_back(self._t_s(time.monotonic()))
        self.decision = decision = self._policy.decide(t_s)
        again_s = math.inf if decision.check_at_s is None else decision.check_at_s - t_s
        again_s = min(again_s, self._guard.change_s(time.time(), self.machine.wake.value_s))
        vetoes: list[Reason] = []
        if state is State.ASLEEP:
            self._wake_ahead(decision)
        elif decision.sleep and (vetoes := self.sleep(decision.reason)):
            again_s = min(again_s, _VETOED_AGAIN_S)
        self._note_decision(vetoes)
        if again_s < math.inf:
            wait_s = min(max(again_s, _LEAST_CHECK_S), _MOST_CHECK_S)
            self._check = self._loop.call_later(wait_s, self._decide)

    def _wake_ahead(self, decision: Decision) -> None:
        """Wake a sleeping server that nobody asked for yet, unless these are quiet hours."""
        wall_s = time.time()
        slept_s = wall_s - (time.monotonic() - self.machine.since_s)
        hours = self._guard.wake_due(wall_s, slept_s, self.machine.wake.value_s)
        quiet = self._guard.quiet(wall_s)
        if quiet and (hours or decision.wake):
            reason = together(decision.reason, quiet)
            self.decision = replace(decision, wake=False, reason=reason)
        elif hours:
            self.wake(Asker("schedule", hours))
        elif decision.wake:
            self.wake(Asker("policy", decision.reason))

    def _note_decision(self, vetoes: list[Reason]) -> None:
        """Write down what was decided; say what keeps the server awake when that has changed."""
        decision = self.decision
        reason = decision.reason
        if vetoes:
            reason = Reason("server.would_sleep", why=reason, inhibitors=vetoes)
        sleep = decision.sleep and not vetoes
        self._house.journal.decision(self.server.id, self._t_s(time.monotonic()), sleep, reason)
        vetoed = tuple(veto.code for veto in vetoes)
        if vetoed and vetoed != self._vetoed:
            _LOG.info("%s: %s", self.server.id, reason)
        self._vetoed = vetoed

    # Telling

    def status(self) -> dict[str, Any]:
        """Return what the control API says of this server."""
        now_s, wall_s = time.monotonic(), time.time()
        machine = self.machine
        check_s = self._check.when() - now_s + wall_s if self._check else None
        eta_s = machine.eta_s(now_s)
        kept_awake = machine.kept_awake(now_s)
        return {
            "id": self.server.id,
            "state": STATES[machine.state],
            "since_s": wall_s - (now_s - machine.since_s),
            "reason": machine.reason.plain(),
            "mode": "awake" if kept_awake else "auto",
            "mode_until_s": self._mode_until_s if kept_awake else None,
            "held": int(self._house.page.server(self._index).held_now),
            "eta_s": None if eta_s is None else round(eta_s, 1),
            "vetoes": plain(self.vetoes()),
            "alert": machine.alert.plain() if machine.alert else None,
            "wake_s": machine.wake.value_s if machine.wake.count else None,
            "sleep_s": machine.fall.value_s if machine.fall.count else None,
            "rungs": machine.ladder.status(),
            **self.supervisor.status(),
            "decision": {
                "policy": self.server.policy.name,
                "sleep": self.decision.sleep,
                "reason": self.decision.reason.plain(),
                "next_check_s": check_s,
            },
            "counters": self._counters(),
        }

    def _counters(self) -> dict[str, Any]:
        record = self._house.page.server(self._index)
        requests = {
            klass: {outcome: _item(record.requests[klass], outcome) for outcome in Outcome}
            for klass in Klass
        }
        delays = [_item(record.delays, bucket) for bucket in range(page.DELAYS)]
        # What the page leaves out because it is a sum, see naproxy_page.h.
        asked = [requests[klass] for klass in Klass if not klass.robot]
        total = sum(n for o in asked for outcome, n in o.items() if outcome is not Outcome.STATUS)
        delays[0] = total - sum(delays[1:]) - sum(o[Outcome.WAITING_PAGE] for o in asked)
        return {
            "requests": {
                klass.name.lower(): {o.name.lower(): n for o, n in outcomes.items()}
                for klass, outcomes in requests.items()
            },
            "wakes": {cause.name.lower(): _item(record.wakes, cause) for cause in Cause},
            "delays": delays,
            "total": total,
            "delayed": read_u64(lambda: record.delayed),
            "magic_packets": read_u64(lambda: record.magic_packets),
            "fetching_now": int(record.fetching_now),
            "piping_now": int(record.piping_now),
        }

    def stop(self, *, why: Reason) -> None:
        """Let go of the server: nobody looks after it from now on, so it is unknown."""
        # A commissioning that is cut off wakes the server: before nothing is done any more.
        self.supervisor.stop()
        self._stopped = True
        for handle in (self._timer, self._check, self._look):
            if handle:
                handle.cancel()
        if self._prober:
            self._prober.stop()
        self._pinger.stop()
        if self._sleeping:
            self._sleeping.cancel()
        self._neighbour.release()
        self.save()
        self._house.journal.transition(self.server.id, self.machine.state, State.UNKNOWN, why)
        self._house.page.set_state(self._index, State.UNKNOWN, page.monotonic_us())


def _item(counters: Any, index: int) -> int:
    return read_u64(lambda: int(counters[index]))


def _rungs(server: Server) -> list[Any]:
    """Return the settings of the ways to wake, the first one first."""
    return [server.wake, *server.rung]


def _subject(server: Server) -> str:
    """Return what a commissioning holds for: another card, way or state is to be tried anew."""
    wakes = (rung.driver for rung in _rungs(server))
    return " ".join((server.mac.lower(), server.sleep.driver, server.sleep.state, *wakes))


def _times(server: Server) -> Times:
    return Times(
        wake_expect_s=server.wake.expect_s,
        sleep_timeout_s=server.sleep.timeout_s,
        sleep_expect_s=server.sleep.expect_s,
        interval_s=server.ready.interval_s,
        asleep_interval_s=server.ready.asleep_interval_s,
        on_w=server.power.on_w,
    )
