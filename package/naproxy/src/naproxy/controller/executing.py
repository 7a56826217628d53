"""Carries out what a server's state machine says: calls, sleep, probes, pings, page, journal."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from naproxy import drivers
from naproxy.config.document import LONGEST_HOLD_S, WAKE_EXPECT_S, Server, guest_ways, target_of
from naproxy.controller.application import Application
from naproxy.controller.context import BoxContext
from naproxy.controller.needing import Needing
from naproxy.controller.neighbour import Neighbour
from naproxy.controller.ping import Pinger
from naproxy.controller.probing import Prober
from naproxy.controller.seeking import Place, Seeker
from naproxy.controller.sharing import Sharing
from naproxy.controller.wake_stages import WakeStages
from naproxy.core import page_h
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import STATES, State
from naproxy.drivers import sleep, wake
from naproxy.drivers.sleep import Counted, SleepDriver, SleepResult
from naproxy.drivers.wake import WakeDriver
from naproxy.server.appointments import Appointments
from naproxy.server.commissioning import EVERY_S, Commanded, Given
from naproxy.server.commissioning import Event as Watched
from naproxy.server.ladder import Ladder
from naproxy.server.machine import LEARN_MOST_S, Machine, Times
from naproxy.server.machine_io import (
    Alert,
    Effect,
    Elsewhere,
    Event,
    InUse,
    Needed,
    NeedsMet,
    Observed,
    PassedOver,
    Probe,
    RungFailed,
    RunSleep,
    SendWake,
    SleepAnswered,
    SleepOrdered,
    Tick,
    Transition,
    WakeAsked,
    WakeClosed,
    WakeOpened,
)
from naproxy.server.machine_io import Answer as SleepAnswer
from naproxy.server.seeing import Metered, Pinged
from naproxy.server.services import Known
from naproxy.server.shares import Costs
from naproxy.server.stages import Stage
from naproxy.shm import page

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 1.0
_START_EXPECT_S: Final = 60.0
_LEAST_PING_S: Final = 1.0
_MOST_MEASURED_S: Final = 3600.0


class Supervising(Protocol):
    """Watches what becomes of the server, and may forbid its sleep."""

    @property
    def running(self) -> bool:
        """Is a commissioning under way?"""

    @property
    def interrupted(self) -> bool:
        """Did an earlier controller end amid a commissioning?"""

    def send(self, event: Watched) -> None:
        """Hear what a commissioning waits for."""

    def entered(
        self,
        change: Transition,
        took_s: float | None,
        slept: bool,
        stages: tuple[Stage, ...] = (),
    ) -> None:
        """Hear of a change of state; `slept`: the server had been put to sleep by us.

        `stages` are those of the wake that ended with it.
        """

    def past(self, number: int) -> None:
        """Hear that so many visitors are connected to the server, and not through the box."""

    def unanswered(self) -> Reason | None:
        """Say what the office is to choose before this server sleeps for the first time."""


class Executor:
    """Steps the machine of one server, with its drivers, probes and slot in the page."""

    def __init__(
        self,
        box: BoxContext,
        index: int,
        server: Server,
        interface: str,
        *,
        saved: Mapping[str, Any],
        supervisor: Supervising,
        noted: Callable[[Transition, float], None],
    ) -> None:
        """Take up in which state the page and the journal have the server; `start` looks at it.

        `noted` hears of each change of state, and of when it was, once nothing waits for it.
        """
        self._box = box
        self._index = index
        self._supervisor = supervisor
        self._noted = noted
        self._loop = asyncio.get_running_loop()
        # The page is the newer one: it is written first, and also when the disk is full.
        on_page = self.record.state
        known = on_page in (State.ASLEEP, State.FALLING_ASLEEP, State.AWAKE, State.WAKING)
        last_known = on_page if known else box.journal.last_known(server.id)
        self._called = last_known in (State.WAKING, State.TROUBLE) and saved.get("slept") is True
        slept = self._called or last_known in (State.ASLEEP, State.FALLING_ASLEEP)
        self._row: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._sleeping: asyncio.Task[None] | None = None
        self._said_failed = ""
        self._falls: Transition | None = None
        """It is to fall asleep, which is not written down before the order is given."""
        self.before_sleep: Callable[[], Awaitable[None]] | None = None
        """Is waited for before the command is given, while who comes still calls it off."""
        self._cadence = Probe(0)
        self.stopped = False
        self.machine = Machine(_times(server), _ladder(server, {}), time.monotonic(), slept=slept)
        self._neighbour = Neighbour(server.address, interface)
        self._interface = interface
        self._seeker = Seeker(self._sought)
        self.needing = Needing(server.id, box.company)
        self._moved: Place | None = None
        self.sharing = Sharing(box, index, server.share, lambda: self._costs(server))
        self.appointments = Appointments(server.awake, box.where())
        self.services = Known()
        self._waking: WakeStages
        self._stages: tuple[Stage, ...] = ()
        self._equip(server, interface)

    def _equip(self, server: Server, interface: str) -> None:
        """Make what the configuration asks for."""
        self.server = server
        target = target_of(server, interface)
        self._wakers: list[WakeDriver] = [
            drivers.driver("wake", options, target) for options in server.wake
        ]
        self.office = target.office
        self._tells = False
        """It answered the last question before a sleep, as a question."""
        self._sleeper: SleepDriver[Any] = drivers.driver("sleep", server.sleep, target)
        self._sleeper.listening = self.services.told if self.services.by_itself else None
        self._prober = Prober(
            drivers.driver("ready", server.ready, target),
            server.ready.timeout_s,
            self._probed,
            lambda error: self._say_once(f"cannot probe: {error}"),
            self.stranger,
            connected=self._connected,
        )
        self._waking = WakeStages(interface, lambda: self._box.quick_w(server.id))
        self._pinger = Pinger(server.address, self._pinged)
        self._application = Application(server.awake, target.web)

    def _costs(self, server: Server) -> Costs:
        """Return what it costs awake beyond its sleep, in the office's currency."""
        power, a_joule = server.power, self._box.price_per_kwh() / 3.6e6
        return Costs(max(0.0, power.on_w - power.off_w) * a_joule, power.switch_j * a_joule)

    def configure(self, server: Server, interface: str) -> None:
        """Take a new configuration; the state and the measurements stay."""
        if not self._neighbour.is_at(server.address, interface):
            self._neighbour.release()
            self._neighbour = Neighbour(server.address, interface)
        self._interface = interface
        self._seek(self.machine.state, server)
        self.sharing.shares.configure(server.share, lambda: self._costs(server))
        self.appointments.configure(server.awake, self._box.where())
        self._prober.stop()
        self._pinger.stop()
        self._waking.stop()
        old_state, asked = self.server.sleep.state, self._probe_subject()
        if _who_tells(server) != _who_tells(self.server):
            self.services = Known()
        self._equip(server, interface)
        self.machine.times = _times(server)
        if self._probe_subject() != asked:
            self.machine.proper = 0
        if server.sleep.state != old_state:
            self.machine.forget_durations()
        self.machine.ladder = _ladder(server, self.machine.ladder.dump())
        self.probe_again()

    # Kept over a restart of the controller

    def kept(self) -> dict[str, Any]:
        """Return what `take_up` takes, and whether we had put the server to sleep."""
        machine = self.machine
        return {
            "slept": machine.slept,
            "proper": {"of": self._probe_subject(), "status": machine.proper},
            "rungs": machine.ladder.dump(),
            "sleep_state": self.server.sleep.state,
            "wake_s": machine.wake.value_s if machine.wake.count else None,
            "wakes_s": machine.wakes.took_s,
            "fall_s": machine.fall.value_s if machine.fall.count else None,
            "appointments": self.appointments.dump(),
            "services": {"of": _who_tells(self.server), **self.services.dump()},
        }

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values; ignore invalid ones."""
        rungs = saved.get("rungs")
        if isinstance(rungs, Mapping):
            self.machine.ladder = _ladder(self.server, rungs)
        self.appointments.load(saved.get("appointments", []))
        services = saved.get("services")
        if isinstance(services, Mapping) and services.get("of") == _who_tells(self.server):
            self.services.load(services)
            self._sleeper.listening = self.services.told if self.services.by_itself else None
        proper = saved.get("proper")
        if isinstance(proper, Mapping) and proper.get("of") == self._probe_subject():
            status = proper.get("status")
            self.machine.proper = status if isinstance(status, int) and 0 < status < 600 else 0
        same = saved.get("sleep_state", self.server.sleep.state) == self.server.sleep.state
        wakes_s = saved.get("wakes_s") if same else None
        for took_s in wakes_s if isinstance(wakes_s, list) else ():
            if isinstance(took_s, int | float) and 0 < took_s <= LEARN_MOST_S:
                self.machine.wakes.add(took_s)
        for mean, key in ((self.machine.wake, "wake_s"), (self.machine.fall, "fall_s")):
            measured_s = saved.get(key)
            if same and isinstance(measured_s, (int, float)) and 0 < measured_s < _MOST_MEASURED_S:
                mean.add(measured_s)

    def _probe_subject(self) -> str:
        """Return what the readiness probe asks for: another question has another answer."""
        server, ready = self.server, self.server.ready
        host = getattr(ready, "host", "") or server.probed_name
        where = f"{server.web_port} {server.by_https} {server.https.mode}"
        return f"{ready.kind} {where} {host} {getattr(ready, 'path', '')}"

    # Carrying out

    def start(self) -> None:
        """Look at the server."""
        self._box.page.set_state(self._index, State.UNKNOWN, page.monotonic_us())
        self._carry_out(self.machine.start(time.monotonic(), self._cut_off()))
        self._look_around()

    def _cut_off(self) -> WakeRequest | None:
        """Return for whom the server is to be up, as an earlier controller would have seen to."""
        if self._supervisor.interrupted:
            return WakeRequest("naproxy", Reason("server.cut_off_commissioning"))
        return WakeRequest("naproxy", Reason("server.cut_off")) if self._called else None

    def wake(self, wake_request: WakeRequest) -> None:
        """Somebody needs the server."""
        self.step(WakeAsked(wake_request))

    def step(self, event: Event) -> None:
        """Tell the machine of an event, and do what it says."""
        if self.stopped:
            return  # a call to wake that ends late
        effects = self.machine.step(time.monotonic(), event)
        if any(map(_called_off, effects)):
            # It never slept, so nobody has woken it.
            effects = [e for e in effects if not isinstance(e, WakeOpened | WakeClosed)]
        self._carry_out(effects)
        if isinstance(event, SleepOrdered):
            self._write_fall()

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
                self._follow_wake()
                self._call(rung)
            case Transition():
                self._entered(effect)
            case Probe():
                self._probe(effect)
            case RunSleep():
                self._neighbour.keep()
                self._sleeping = asyncio.ensure_future(self._sleep())
                self._supervisor.send(Commanded())
            case WakeOpened(wake_request):
                self._loop.call_soon(self._open_wake, wake_request)
            case WakeClosed():
                self._loop.call_soon(self._close_wake, effect, self._stages)
            case PassedOver(reason):
                _LOG.warning("%s: %s", self.server.id, reason)
            case Alert(reason):
                _LOG.warning("%s: %s", self.server.id, reason or "no more trouble")

    def _call(self, rung: int) -> None:
        try:
            self._wakers[rung].send(partial(self._call_failed, rung))
        except Exception as error:
            self._call_failed(rung, wake.fault(error))

    def _call_failed(self, rung: int, reason: Reason) -> None:
        """Hear of a call to wake that failed; perhaps at once, amidst the effects of a step."""
        self._say_once(str(reason))
        self._loop.call_soon(self.step, RungFailed(rung, reason))

    async def _sleep(self) -> None:
        try:
            busy = await self._application.busy()
            if not busy and self.before_sleep:
                await self.before_sleep()
            result = SleepResult(SleepAnswer.REFUSED, busy) if busy else await self._order()
        except Exception as error:
            result = SleepResult(SleepAnswer.FAILED, sleep.fault(error))
        self._sleeping = None
        if result.past:
            self._supervisor.past(result.past.number)
        self.step(SleepAnswered(result.answer, result.reason))

    async def _order(self) -> SleepResult:
        """Ask what the server is going to do, and give the command if that is not soon."""
        if not self._tells:
            # It may take the question for the order, as an older script does.
            self.step(SleepOrdered())
        began_s = time.monotonic()
        asked = await self._sleeper.asked()
        login_s = None if asked is None else time.monotonic() - began_s
        self._tells = isinstance(asked, list)
        if isinstance(asked, SleepResult):
            if asked.answer is SleepAnswer.ACCEPTED:
                self.appointments.told([], time.time())
            return asked
        if refused := self._listens():
            return SleepResult(SleepAnswer.REFUSED, refused)
        now_s, wake_s = time.time(), self.machine.wake.value_s
        self.appointments.told(asked or [], now_s)
        if soon := self.appointments.soon(now_s, wake_s):
            return SleepResult(SleepAnswer.REFUSED, soon)
        alarm_s = None if asked is None else self.appointments.alarm_s(now_s, wake_s)
        self.step(SleepOrdered())
        self._supervisor.send(Given(login_s))
        return await self._sleeper.sleep(alarm_s)

    def _listens(self) -> Reason | None:
        """Take what the server told of its ports; say why it must not sleep for that."""
        if told := self._sleeper.listening:
            self.services.tell(told, by_itself=True)
        elif self.office.watches:
            return Reason("sleep.ports_unseen")
        return self._supervisor.unanswered()

    async def ask_ports(self) -> None:
        """Ask a server that is awake for its ports, without putting it to sleep."""
        if self.machine.state is State.AWAKE and not self._sleeping and not self.stranger():
            told = await self._sleeper.ports()
            if told:
                self.services.tell(told, by_itself=True)

    async def counted(self) -> Counted | None:
        """Ask the server which visits it counted that did not come through the box."""
        if self.stranger():
            return None
        return await self._sleeper.counted()

    def _tick(self) -> None:
        machine = self.machine
        needed = self.needing.look() if machine.prepares else Needed()
        self.step(Tick(sum(self.sharing.busy()), needed))

    # Observations

    def probe_again(self) -> None:
        """Restart probes and pings, at the rate that the machine and a commissioning need."""
        self._probe(self._cadence)

    def _probe(self, cadence: Probe) -> None:
        """Probe and ping at this cadence; a card that wakes by any packet gets neither."""
        self._cadence = cadence
        self._prober.set(cadence)
        watched = self._supervisor.running or self.machine.state is State.WAKING
        every_s = EVERY_S if watched else max(cadence.every_s, _LEAST_PING_S)
        self._pinger.every(every_s if cadence.every_s else 0)

    def _probed(self, seen: Observed) -> None:
        self._waking.probed(seen)
        self.step(seen)

    def _connected(self) -> None:
        if self._waking.under_way and not self.stranger():
            self._waking.connected()

    def _pinged(self, ping: Pinged) -> None:
        told = self._waking.under_way and not self.machine.sight.firmware_answers
        if told and not self.stranger():
            self._waking.pinged(ping)
        self.step(ping)
        self._supervisor.send(ping)

    def _look_around(self) -> None:
        self._look = self._loop.call_later(_LOOK_S, self._look_around)
        # An open WebSocket may be silent for hours, so it does not justify a probe each second.
        if self.record.fetching_now:
            self.step(InUse())
        if self.machine.state is State.AWAKE and self.needing.keep() and self.machine.without:
            self.step(NeedsMet())
        elif self.machine.state is State.ASLEEP:
            self._publish_wake_time()
        power_w = self._box.power_w(self.server.id)
        if power_w is not None:
            self.step(Metered(power_w))

    def stranger(self) -> Reason | None:
        """Say whose Ethernet address is at the server's IP address, if it is not its own."""
        ready = self.server.ready
        return self._neighbour.stranger(self.server.mac) if ready.check_mac else None

    def _seek(self, state: State, server: Server) -> None:
        """Look where a server is that does not come up, and only then."""
        self._moved = None
        self._seeker.stop()
        if state is State.TROUBLE and server.ready.check_mac:
            place = Place(server.address, server.mac.lower())
            self._seeker.begin(place, server.web_port, self._interface)

    def _sought(self, found: Place | None) -> None:
        self._moved = found
        before = self.server.address
        moved = Reason("server.moved", address=found.address, before=before) if found else None
        self.step(Elsewhere(moved))

    @property
    def moved(self) -> Place | None:
        """Where it is, or another card at its address, which may be its new one; None: no news."""
        if self._moved or self.machine.state is not State.TROUBLE:
            return self._moved
        stranger = self.stranger()
        return Place(self.server.address, str(stranger.params["other"])) if stranger else None

    @property
    def hold_s(self) -> float:
        """How long a request may be held."""
        before_s = self.needing.patience_s()
        most_s = min(self.machine.hold_s + before_s, max(self.machine.hold_s, LONGEST_HOLD_S))
        return self.server.hold.limit_s or most_s

    @property
    def wake_s(self) -> float:
        """How long it takes to wake, with the servers that it needs."""
        return self.machine.wake.value_s + self.needing.up_in_s()

    @property
    def record(self) -> page_h.Server:
        """The server's slot in the page."""
        return self._box.page.server(self._index)

    # Notices: first to Varnish, then to the log, the journal and the learners

    def _entered(self, change: Transition) -> None:
        """Publish first, write and learn when nothing waits for it any more."""
        if change.state is State.AWAKE:
            self._publish_settling()
        elif change.state in (State.WAKING, State.TROUBLE):
            self._publish_restart()
        self._box.page.set_state(self._index, change.state, page.monotonic_us())
        if change.state is not State.FALLING_ASLEEP and self._sleeping:
            self._sleeping.cancel()
            self._sleeping = None
        self._watch_wake(change.state)
        if change.state is State.WAKING:
            self.needing.wake()
        self._seek(change.state, self.server)
        if change.state is State.AWAKE:
            self._neighbour.release()
        elif change.state is State.TROUBLE:
            self._neighbour.forget()
        self._loop.call_soon(self._note, change, time.monotonic())
        took = {State.ASLEEP: self.machine.fall, State.AWAKE: self.machine.wake}.get(change.state)
        took_s = took.last_s if took else None
        # Later: its requests must not come between the effects of this step.
        told = change, took_s, self.machine.slept, self._stages
        self._loop.call_soon(self._supervisor.entered, *told)

    def _watch_wake(self, state: State) -> None:
        """Follow a wake out of a sleep; one that comes to trouble has no stages."""
        self._stages = self._waking.up() if state is State.AWAKE else ()
        self._waking.stop()
        self._follow_wake()

    def _follow_wake(self) -> None:
        """Follow a wake out of a sleep from its first call on: it may wait for other servers."""
        machine = self.machine
        called = machine.state is State.WAKING and not machine.prepares
        if called and machine.slept and not self._waking.under_way:
            self._waking.begin(machine.called_s, machine.sight.on_w)

    def _note(self, change: Transition, now_s: float) -> None:
        if _called_off(change) and self._falls:
            self._falls = None
            _LOG.info("%s: stays awake: %s", self.server.id, change.reason)
        elif change.state is State.FALLING_ASLEEP:
            # Before the command it may be cancelled, and then it was not a sleep.
            self._falls = change
        else:
            self._write_fall()
            self._write(change)
        if change.state in (State.AWAKE, State.ASLEEP):
            self._said_failed = ""
            self._publish_wake_time()
        self._noted(change, now_s)

    def _write_fall(self) -> None:
        if self._falls:
            falls, self._falls = self._falls, None
            self._write(falls)

    def _write(self, change: Transition) -> None:
        name = self.server.id
        self._box.journal.transition(name, change.before, change.state, change.reason)
        before, state = STATES[change.before], STATES[change.state]
        _LOG.info("%s: %s -> %s: %s", name, before, state, change.reason)

    def _publish_settling(self) -> None:
        """Say for how long what it answers now may only mean that it is not ready yet."""
        settle_ms = round(1000 * self.machine.settle_s)
        uncached_ms = round(1000 * self.machine.uncached_s)
        record = self.record
        if (record.settle_ms, record.uncached_ms) != (settle_ms, uncached_ms):
            with self._box.page.configure(self._index) as record:
                record.settle_ms, record.uncached_ms = settle_ms, uncached_ms

    def _publish_restart(self) -> None:
        """Say whether visitors are to read that the server slept."""
        slept = self.machine.slept or self.server.sleep.itself
        flag, record = 0 if slept else page_h.F_RESTARTS, self.record
        if record.flags & page_h.F_RESTARTS != flag:
            with self._box.page.configure(self._index) as record:
                record.flags ^= page_h.F_RESTARTS

    def _publish_wake_time(self) -> None:
        expect_ms = round(1000 * self.wake_s)
        hold_ms = round(1000 * self.hold_s)
        record = self.record
        if (record.wake_expect_ms, record.hold_limit_ms) != (expect_ms, hold_ms):
            with self._box.page.configure(self._index) as record:
                record.wake_expect_ms, record.hold_limit_ms = expect_ms, hold_ms

    def _open_wake(self, wake_request: WakeRequest) -> None:
        self._row = self._box.journal.wake_opened(self.server.id, wake_request)

    def _close_wake(self, wake: WakeClosed, stages: tuple[Stage, ...]) -> None:
        if self._row is not None:
            self._box.journal.wake_closed(
                self._row, wake.outcome, wake.waited_s, wake.packets, stages
            )

    def _say_once(self, words: str) -> None:
        if words != self._said_failed:
            self._said_failed = words
            _LOG.warning("%s: %s", self.server.id, words)

    def stop(self, why: Reason) -> None:
        """Let go of the server: nobody looks after it from now on, so it is unknown."""
        self.stopped = True
        for handle in (self._timer, self._look):
            if handle:
                handle.cancel()
        self._prober.stop()
        self._pinger.stop()
        self._waking.stop()
        self._seeker.stop()
        if self._sleeping:
            self._sleeping.cancel()
        self._neighbour.release()
        self._write_fall()
        self._box.journal.transition(self.server.id, self.machine.state, State.UNKNOWN, why)
        self._box.page.set_state(self._index, State.UNKNOWN, page.monotonic_us())


def _called_off(effect: Effect) -> bool:
    """Did somebody need the server before it was ordered to sleep?"""
    if not isinstance(effect, Transition) or effect.before is not State.FALLING_ASLEEP:
        return False
    return effect.reason.code == "server.wanted_before"


def _who_tells(server: Server) -> str:
    """Return whom what is known of its ports comes from: another machine, or way, knows others."""
    place = getattr(server.sleep, "host", "") or server.address
    return f"{server.mac.lower()} {server.sleep.driver} {place}"


def _ladder(server: Server, known: Mapping[str, Any]) -> Ladder:
    return Ladder(wake.rungs(server.wake), known)


def _expected_wake_s(server: Server) -> float:
    """Return how long its first wake is said to take: a start takes longer than a resume."""
    unset = server.wake_expect_s == WAKE_EXPECT_S
    return _START_EXPECT_S if unset and server.sleep.state == "off" else server.wake_expect_s


def _times(server: Server) -> Times:
    return Times(
        wake_expect_s=_expected_wake_s(server),
        sleep_timeout_s=server.sleep.timeout_s,
        sleep_expect_s=server.sleep.expect_s,
        interval_s=server.ready.interval_s,
        asleep_interval_s=server.ready.asleep_interval_s,
        on_w=server.power.on_w,
        sleeps_itself=server.sleep.itself,
        off=server.sleep.state == "off",
        needs=bool(server.needs or guest_ways(server)),
        learns_proper=not getattr(server.ready, "status", ()),
    )
