"""When a server may sleep, or is woken ahead of need: its policy, and overriding reasons."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from naproxy import policy
from naproxy.config.document import Server
from naproxy.controller.context import BoxContext
from naproxy.controller.engines import SearchEngines
from naproxy.controller.needing import Needing
from naproxy.controller.sharing import Sharing, party_at, party_of
from naproxy.core.energy import Power
from naproxy.core.page_h import SERVED, Outcome
from naproxy.core.reason import Reason, together
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.policy.base import Decision, Policy, Request
from naproxy.server.appointments import Appointments
from naproxy.server.inhibitors import Agenda, Guard, Readings
from naproxy.server.machine import Machine
from naproxy.server.machine_io import Event as MachineEvent
from naproxy.server.machine_io import ModeSet, SleepAsked, Traffic
from naproxy.shm import page
from naproxy.shm.events import Event

ONLY_SPENT: Final = Reason("server.only_spent")
_LOG: Final = logging.getLogger(__name__)
_ASLEEP: Final = (Outcome.WAITING_PAGE, Outcome.HELD)
_WORKED: Final = (*SERVED, Outcome.PIPE, Outcome.ERROR)
_NO_ROBOTS: Final = (Klass.PERSON, Klass.API)
_SENT_AWAY: Final = (Outcome.WAITING_PAGE, Outcome.CAPPED)
_INHIBITED_AGAIN_S: Final = 1.0
_LEAST_CHECK_S: Final = 0.01
MOST_AWAKE_S: Final = 10 * 366 * 86400.0
"""Longest time for which somebody may keep a server awake."""
_MOST_CHECK_S: Final = 3600.0
_CLOCK_SET_S: Final = 1.0
_VISITORS: Final = frozenset(("server.fetching", "server.connections", "server.work"))
"""Reasons against sleep because of visitors; all others are the office's own."""

_NEVER_AGO_S: Final = 1e9
"""So long ago nobody asked: longer than any patience."""


class Executing(Protocol):
    """Carries out what is decided."""

    server: Server
    machine: Machine
    sharing: Sharing
    appointments: Appointments
    needing: Needing
    stopped: bool

    @property
    def wake_s(self) -> float:
        """How long it takes to wake, with the servers that it needs."""

    def step(self, event: MachineEvent) -> None:
        """Tell the machine of an event, and do what it says."""

    def wake(self, wake_request: WakeRequest) -> None:
        """Wake the server for somebody."""


class Decider:
    """Feeds the policy of one server, asks it, and has done what it says unless inhibited."""

    def __init__(
        self,
        box: BoxContext,
        executor: Executing,
        engines: SearchEngines,
        *,
        forbids: Callable[[], list[Reason]],
        through: Callable[[], None],
    ) -> None:
        """`take_up` restores the learned state of an earlier controller.

        `forbids` returns further reasons against sleep; `through` hears of visitors, except robots.
        """
        self._box = box
        self._executor = executor
        self._forbids = forbids
        self._through = through
        self.spares: Callable[[Event], bool] = lambda _: False
        """Would the cache have answered this request if the server had slept?"""
        self._engines = engines
        self._machine = executor.machine
        self._sharing = executor.sharing
        self._shares = executor.sharing.shares
        self._last_t_s = 0.0
        self._learned_us = 0
        self._waits_since_s = -math.inf
        self._inhibited: tuple[str, ...] = ()
        self._check: asyncio.TimerHandle | None = None
        self.mode_until_s: float | None = None
        """Until when somebody keeps the server awake, if not for good."""
        self.decision = Decision(False, Reason("policy.undecided"))
        self._decided_s = time.monotonic()
        self._agenda = Agenda()
        self._equip(executor.server)

    def _equip(self, server: Server) -> None:
        drawn = Power(server.power.on_w, server.power.off_w, server.power.switch_j)
        setup = policy.Setup(
            break_even_s=drawn.break_even_s,
            fraction=server.promise.fraction,
            delta_s=server.promise.delta_s,
            sleep_s=self._machine.fall.value_s,
            wake_s=self._machine.wake.value_s,
            where=self._box.where(),
        )
        self._policy: Policy = policy.make(server.policy, setup)
        self._guard = Guard(server.awake, self._box.where())
        self._guard.agenda = self._agenda

    def configure(self, server: Server) -> None:
        """Take a new configuration; mode and learned state of the policy stay."""
        old = self._policy
        self._equip(server)
        if old.name == self._policy.name:
            self._policy.load(old.dump())
        if self._machine.state is State.ASLEEP:
            self.observed(State.ASLEEP, time.monotonic())

    # Kept over a restart of the controller

    def kept(self) -> dict[str, Any]:
        """Return what `take_up` takes."""
        return {
            "policy": {"name": self._policy.name, "state": self._policy.dump()},
            "t_s": self._t_s(time.monotonic()),
            "monotonic_us": page.monotonic_us(),
            "mode": {"awake": self._machine.mode.awake, "until_s": self.mode_until_s},
        }

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values; ignore invalid ones."""
        mode = saved.get("mode")
        if isinstance(mode, Mapping) and mode.get("awake") is True:
            until_s, now_s = mode.get("until_s"), time.time()
            known = isinstance(until_s, (int, float))
            if until_s is None or (known and now_s < until_s < now_s + MOST_AWAKE_S):
                self.set_mode(awake=True, until_s=until_s)
        t_s, kept = saved.get("t_s"), saved.get("policy")
        if not isinstance(t_s, (int, float)) or not isinstance(kept, Mapping):
            return
        # Times given to a policy never decrease. If the clock was far off before,
        # the state learned then is useless.
        ahead_s = t_s - self._t_s(time.monotonic())
        if kept.get("name") == self._policy.name and ahead_s < _MOST_CHECK_S:
            self._policy.load(kept.get("state") or {})
            self._last_t_s = t_s
            learned_us = saved.get("monotonic_us")
            if isinstance(learned_us, int) and learned_us <= page.monotonic_us():
                self._learned_us = learned_us

    def read(self, agenda: Agenda) -> None:
        """Hear what is in the server's calendar now."""
        self._agenda = self._guard.agenda = agenda
        self.decide()

    # Events for the policy

    def heard(self, events: list[Event], *, fresh: bool) -> None:
        """Learn of requests that ended; `fresh`: they ended just now."""
        if fresh and any(e.outcome in SERVED for e in events):
            self._executor.step(Traffic())
        # A client over its share is served while the server is awake, but keeps it awake no longer.
        for event in events:
            self._sharing.saw(event)
        heard = [e for e in events if not (e.spent or self._shares.over(party_of(e)))]
        for event in heard:
            # The ring lacks the end times: requests heard of after a restart have just ended.
            if event.work and event.outcome in _WORKED:
                self._shares.worked.note(party_of(event), time.monotonic())
        new = [e for e in heard if e.t_us > self._learned_us]
        for event in new:
            self._learn(event)
        if any(e.klass in _NO_ROBOTS for e in new):
            self._through()
        if new:
            self.decide()

    def _learn(self, event: Event) -> None:
        request = self._request(event)
        if self._shares.visitor(party_of(event)):
            self._policy.request(request)
        awake = self._found_awake(event)
        # A wake is somebody's, whether or not the policy waits for more of him.
        if self._policy.counts(request) or (request.needs_server and not awake):
            # That of a connection without an address is on a share already, see may_wake.
            self._sharing.ask(request.t_s, event, awake=awake or not event.address)

    def may_wake(self, asked: WakeRequest) -> bool:
        """Hear who asks for the server, and return whether it may be woken for them.

        Of requests the events tell whose share the wake is on. Of a connection that is passed on
        unopened there is no event, or one of nobody known.
        """
        if asked.reason != "pass" or asked.method:
            return True
        party = party_at(asked.who)
        if self._shares.over(party):
            return False
        self._shares.ask(self._never_back(time.monotonic()), party, awake=False)
        return True

    def _found_awake(self, event: Event) -> bool:
        return self._machine.state is State.AWAKE and event.outcome not in _ASLEEP

    def _request(self, event: Event) -> Request:
        delay_s = event.delay_ms / 1000
        if event.outcome in _SENT_AWAY:
            delay_s = max(delay_s, self._machine.wake.value_s)
        known = event.klass < len(Klass)
        needs = event.needed and not (self._found_awake(event) and self.spares(event))
        return Request(
            t_s=self._never_back(event.t_us / 1e6),
            client=event.client,
            klass=Klass(event.klass) if known else Klass.PERSON,
            needs_server=needs,
            page_load=event.page_load,
            path=event.path,
            delay_s=delay_s,
        )

    def observed(self, state: State, monotonic_s: float) -> None:
        """Tell the policy of a state that the server is seen in."""
        t_s = self._never_back(monotonic_s)
        self._policy.observed(t_s, state)
        if state is State.AWAKE:
            self._shares.woke(t_s)
            if self._shares.others_since_s(t_s) is None:
                self._forget(t_s)
        elif state is State.FALLING_ASLEEP:
            self._shares.falls_asleep()
        elif state is State.ASLEEP:
            self._shares.slept(t_s)

    def _t_s(self, monotonic_s: float) -> float:
        return self._box.epoch_s + monotonic_s

    def _never_back(self, monotonic_s: float) -> float:
        self._last_t_s = max(self._last_t_s, self._t_s(monotonic_s))
        return self._last_t_s

    def spent(self) -> float:
        """Return the share of the waits that the promise allows today which are used up."""
        return self._policy.spent()

    # Shares

    def account(self) -> None:
        """Put the time since the last call on somebody's share, and forget who has used up his."""
        awake, waking = (self._machine.state is s for s in (State.AWAKE, State.WAKING))
        t_s = self._t_s(time.monotonic())
        uses = self._sharing.keeping() if awake or waking else []
        paid = waking or (awake and self._for_visitors())
        used_up = self._shares.pass_time(t_s, self._box.day(), uses, paid=paid)
        since_s = self._shares.others_since_s(t_s)
        given_up = since_s is None or since_s < self._waits_since_s
        self._waits_since_s = -math.inf if since_s is None else since_s
        if used_up or (given_up and awake and self.decision.patient):
            self._forget(t_s)
            self.decide()

    def _for_visitors(self) -> bool:
        """Would it sleep if nobody used it?"""
        if not (self.decision.sleep or self.decision.patient):
            return False
        return all(each.code in _VISITORS for each in self.inhibitors())

    def _forget(self, t_s: float) -> None:
        """Be patient no longer for those who are over a share."""
        since_s = self._shares.others_since_s(t_s)
        self._policy.forget(t_s - _NEVER_AGO_S if since_s is None else since_s)

    # Overriding reasons

    def set_mode(self, *, awake: bool, until_s: float | None = None) -> None:
        """Keep the server awake, until an epoch time if given; or leave it to the policy."""
        self.mode_until_s = until_s if awake else None
        reason = Reason("server.kept_awake")
        if awake and until_s is not None:
            reason = Reason("server.kept_awake_until", until_at_s=until_s)
        self._executor.step(ModeSet(awake, self._mode_ends_s(), reason))

    def _mode_ends_s(self) -> float:
        if self.mode_until_s is None:
            return math.inf
        return time.monotonic() + self.mode_until_s - time.time()

    def _follow_wall_clock(self) -> None:
        """Somebody chose a time of the wall clock, which may have been set since."""
        ends_s = self._mode_ends_s()
        if abs(ends_s - self._machine.mode.until_s) > _CLOCK_SET_S:
            self._executor.step(replace(self._machine.mode, until_s=ends_s))

    def inhibitors(self, *, by_hand: bool = False) -> list[Reason]:
        """Return what speaks against sleeping now.

        By hand, the requests at the server are given a moment to end.
        """
        said = self._machine.inhibitors(time.monotonic(), by_hand=by_hand)
        readings = self._readings()
        said += self._guard.inhibitors(readings, by_hand=by_hand)
        appointment = self._executor.appointments.begins(
            readings.wall_s, readings.awake_s, readings.lead_s
        )
        if appointment:
            said.append(appointment)
        if not by_hand and (crawl := self._engines.inhibitor()):
            said.append(crawl)
        said += self.needed()
        if self._executor.server.sleep.never:
            said.append(no_order(self._executor.server))
        elif not by_hand:
            said += self._forbids()
        return said

    def needed(self) -> list[Reason]:
        """Return for which other servers it stays awake."""
        turns_s = self._machine.fall.value_s + self._machine.wake.value_s
        return self._executor.needing.inhibitors(turns_s)

    def _readings(self) -> Readings:
        now_s = time.monotonic()
        worked = self._shares.worked.last(self._shares)
        fetching, piping = self._sharing.busy()
        return Readings(
            wall_s=time.time(),
            lead_s=self._executor.wake_s,
            awake_s=now_s - self._machine.since_s,
            worked_s=now_s - worked[1] if worked else math.inf,
            fetching=fetching,
            piping=piping,
        )

    def hours_begin_s(self, wall_s: float) -> float | None:
        """Return when the server's hours begin next, epoch seconds."""
        return self._guard.hours_begin_s(wall_s)

    def quiet(self) -> bool:
        """Are these hours in which nothing but a visitor wakes the server?"""
        return self._guard.quiet(time.time()) is not None

    # Deciding

    def sleep(self, reason: Reason, *, by_hand: bool = False) -> list[Reason]:
        """Put the server to sleep unless something speaks against it; return what does."""
        inhibitors = self.inhibitors(by_hand=by_hand)
        if not inhibitors:
            self._executor.step(SleepAsked(reason, by_hand))
        return inhibitors

    def decide(self) -> None:
        """Ask the policy, do what it says, and ask again when it wants to be asked."""
        self.stop()
        state = self._machine.state
        if self._executor.stopped or state not in (State.AWAKE, State.ASLEEP):
            return
        self._follow_wall_clock()
        t_s = self._never_back(time.monotonic())
        decision = self._policy.decide(t_s)
        if decision.sleep and state is State.AWAKE and self._shares.others_since_s(t_s) is None:
            decision = replace(decision, reason=ONLY_SPENT)
        self.decision, self._decided_s = decision, time.monotonic()
        again_s = math.inf if decision.check_at_s is None else decision.check_at_s - t_s
        wall_s, wake_s = time.time(), self._executor.wake_s
        for each in (self._guard, self._executor.appointments):
            again_s = min(again_s, each.change_s(wall_s, wake_s))
        inhibitors: list[Reason] = []
        if state is State.ASLEEP:
            self._wake_ahead(decision)
        elif decision.sleep and (inhibitors := self.sleep(decision.reason)):
            again_s = min(again_s, _INHIBITED_AGAIN_S)
        self._note(inhibitors)
        if again_s < math.inf:
            wait_s = min(max(again_s, _LEAST_CHECK_S), _MOST_CHECK_S)
            self._check = asyncio.get_running_loop().call_later(wait_s, self.decide)

    def _wake_ahead(self, decision: Decision) -> None:
        """Wake a sleeping server that nobody asked for yet, unless these are quiet hours."""
        hours = self._due()
        quiet = self._guard.quiet(time.time())
        if quiet and (hours or decision.wake):
            reason = together(decision.reason, quiet)
            self.decision = replace(decision, wake=False, reason=reason)
        elif hours:
            self._executor.wake(WakeRequest("schedule", hours))
        elif decision.wake:
            self._executor.wake(WakeRequest("policy", decision.reason))

    def _due(self, ahead_s: float = 0.0) -> Reason | None:
        """Return the hours or appointment to wake a sleeping server for, within `ahead_s`."""
        wall_s = time.time()
        slept_s = wall_s - (time.monotonic() - self._machine.since_s)
        wake_s = self._executor.wake_s + ahead_s
        appointment = self._executor.appointments.due(wall_s, slept_s, wake_s)
        return self._guard.wake_due(wall_s, slept_s, wake_s) or appointment

    def wakes_within(self, ahead_s: float) -> bool:
        """Will a sleeping server be woken for its hours or an appointment within so long?"""
        return not self._guard.quiet(time.time() + ahead_s) and self._due(ahead_s) is not None

    def _note(self, inhibitors: list[Reason]) -> None:
        """Write down what was decided; say what keeps the server awake when that has changed."""
        decision, server = self.decision, self._executor.server.id
        reason = decision.reason
        if inhibitors:
            reason = Reason("server.would_sleep", why=reason, inhibitors=inhibitors)
        sleep = decision.sleep and not inhibitors
        self._box.journal.decision(server, self._t_s(time.monotonic()), sleep, reason)
        inhibited = tuple(inhibitor.code for inhibitor in inhibitors)
        if inhibited and inhibited != self._inhibited:
            _LOG.info("%s: %s", server, reason)
        self._inhibited = inhibited

    def reason(self, now_s: float) -> Reason:
        """Return why it was decided so, as it is now: nothing has happened since."""
        return self.decision.reason.aged(max(0.0, now_s - self._decided_s))

    @property
    def next_check_s(self) -> float | None:
        """When the policy is asked again by itself, as the monotonic clock has it."""
        return self._check.when() if self._check else None

    def stop(self) -> None:
        """Ask no more by itself."""
        if self._check:
            self._check.cancel()
            self._check = None


def no_order(server: Server) -> Reason:
    """Say why the box never puts this server to sleep."""
    return Reason("sleep.itself" if server.sleep.itself else "sleep.no_way")
