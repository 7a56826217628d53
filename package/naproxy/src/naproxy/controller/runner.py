"""One server in the controller: joins execution, decisions, and supervision."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from naproxy.config.document import Server
from naproxy.controller.calendars import Calendars
from naproxy.controller.checking import PageChecker
from naproxy.controller.coming_back import ComingBack
from naproxy.controller.context import BoxContext
from naproxy.controller.deciding import Decider, no_order
from naproxy.controller.engines import SearchEngines
from naproxy.controller.executing import Executor
from naproxy.controller.status import status
from naproxy.controller.supervise import Supervisor
from naproxy.controller.warming import Warmer
from naproxy.controller.webhooks import Webhooks
from naproxy.core.reason import Reason
from naproxy.core.request import Refusal, WakeRequest
from naproxy.core.state import State
from naproxy.drivers.sleep import Counted
from naproxy.server.commissioning import Plan
from naproxy.server.machine_io import Transition
from naproxy.server.own_sleeps import OwnSleeps
from naproxy.server.services import Listener, Listening, Service
from naproxy.shm.events import Event
from naproxy.shm.page import monotonic_us, read_u64
from naproxy.shm.stored import Stored

_LOG: Final = logging.getLogger(__name__)


class Runner:
    """The interface of a server for the controller, the control API and a commissioning."""

    executors: ClassVar[type[Executor]] = Executor

    def __init__(self, box: BoxContext, index: int, server: Server, interface: str) -> None:
        """Take up what the journal and the page know of the server; `start` looks at it."""
        self._box = box
        self._key = f"server.{server.id}"
        saved = box.journal.saved(self._key)
        self.supervisor = Supervisor(box, server.id, self)
        self.executor = self.executors(
            box,
            index,
            server,
            interface,
            saved=saved,
            supervisor=self.supervisor,
            noted=self._noted,
        )
        self.machine = self.executor.machine
        self.engines = SearchEngines(box, index, server.engine_refused_s)
        self.decider = Decider(
            box,
            self.executor,
            self.engines,
            forbids=self.supervisor.inhibitors,
            through=self.supervisor.through,
        )
        folder = box.journal.store.path.parent / "calendars"
        self.calendars = Calendars(server.id, server.awake, folder, self.decider.read, box.where)
        self.webhooks = Webhooks(box.page, index)
        self.coming_back = ComingBack(box.page, index, box.where)
        self.warmer = Warmer(
            server,
            box.varnish,
            epoch_s=box.epoch_s,
            child_us=lambda: int(box.page.layout.child_start_us),
            wake_s=lambda: self.machine.wake.value_s,
            spent=self.decider.spent,
        )
        self.decider.spares = self.warmer.spares
        self.pages = PageChecker(
            server, index, box.page, box.varnish, epoch_s=box.epoch_s, allow=self.warmer.allow
        )
        self.executor.before_sleep = self._before_sleep
        self._stays_on = False
        """Was it woken because no visitor comes?"""
        self._own_sleeps = OwnSleeps()
        self._own_sleeps.load(saved.get("own_sleeps"))
        self._prove(server)
        parts = (
            self.executor,
            self.decider,
            self.webhooks,
            self.coming_back,
            self.engines,
            self.warmer,
            self.pages,
        )
        for part in parts:
            try:
                part.take_up(saved)
            except Exception as error:
                # It may come from a backup that somebody made by hand.
                _LOG.warning("%s: what was kept of it is of no use: %r", server.id, error)

    def _prove(self, server: Server) -> None:
        """Set the subject of its wake proof; another card, way or state needs a new proof."""
        arming = self.supervisor.arming
        arming.trusted = server.armed
        wakes = (rung.driver for rung in server.wake)
        about = (server.mac.lower(), server.sleep.driver, server.sleep.state, *wakes)
        arming.subject = " ".join(about)
        self._see()

    def _see(self) -> None:
        """Obey what the last look says of visitors who come past the box."""
        arming, sighting, server = self.supervisor.arming, self.supervisor.sighting, self.server
        look = sighting.look
        arming.sight = sighting.blind
        arming.live.configure(server.hosts, server.https.mode, look.port if look else None)

    def start(self) -> None:
        """Look at the server."""
        self.executor.start()
        self.calendars.begin()

    def configure(self, server: Server, interface: str) -> None:
        """Take a new configuration; state, mode and learned state of the policy stay."""
        if server != self.server:
            self.supervisor.cancel()  # sets the cadence of the probes: before they are ended
        self.engines.configure(server.engine_refused_s)
        self.warmer.configure(server)
        self.pages.configure(server)
        self.decider.configure(server)
        self.executor.configure(server, interface)
        self.calendars.configure(server.awake)
        self._prove(server)
        self.supervisor.look()
        self.decider.decide()

    def stop(self, *, why: Reason) -> None:
        """Let go of the server."""
        # A commissioning that is cut off wakes the server: before nothing is done any more.
        self.supervisor.stop()
        self.calendars.stop()
        self.decider.stop()
        self.warmer.stop()
        self.pages.stop()
        self.save()
        self.executor.stop(why)

    def save(self) -> None:
        """Write what was learned into the journal."""
        self._box.journal.save(
            self._key,
            {
                **self.executor.kept(),
                **self.decider.kept(),
                **self.webhooks.kept(),
                **self.coming_back.kept(),
                **self.engines.kept(),
                **self.warmer.kept(),
                **self.pages.kept(),
                "own_sleeps": self._own_sleeps.dump(),
            },
        )

    def account(self) -> None:
        """Put the time since the last call where it belongs."""
        self._visited()
        self.decider.account()
        self._own_sleeps.drew(self.machine.sight.low(time.monotonic()))
        wall_s = time.time()
        office_s = self.decider.hours_begin_s(wall_s)
        self.coming_back.look(time.monotonic(), wall_s, self.state(), office_s)
        self.engines.look()
        self.pages.look()

    async def _before_sleep(self) -> None:
        """Fetch what visitors will get, and remember the pages among it."""
        await self.warmer.before_sleep()
        await self.pages.before_sleep(self.warmer.fetched)

    def _visited(self) -> None:
        """Hear of visitors who reached the server's name, as the page and the connections say."""
        record, through = self.executor.record, self.executor.sharing.through
        over_http = read_u64(lambda: int(record.visited_us))
        over_https = max(read_u64(lambda: int(record.visited_tls_us)), through.joined_us)
        http_s, https_s = (
            self._t_s(t_us / 1e6) if 0 < t_us <= monotonic_us() else None
            for t_us in (over_http, over_https)
        )
        if self.supervisor.visited(http_s, https_s):
            _LOG.info("%s: a visitor reached it through the box", self.server.id)
            self.decider.decide()
        self._stay_on()

    def _stay_on(self) -> None:
        """Wake the server once if no visitor has come through the box for long."""
        arming = self.supervisor.arming
        silent = None if arming.trusted else arming.live.silent
        if silent is None or self._stays_on:
            self._stays_on = silent is not None
            return
        if self.state() is State.ASLEEP and not self.decider.quiet():
            self.wake(WakeRequest("naproxy", silent))
        elif self.state() is not State.AWAKE:
            return  # it is to be seen first, or these are quiet hours
        self._stays_on = True
        _LOG.warning("%s: %s", self.server.id, silent)
        self.decider.decide()

    def confirm_live(self) -> None:
        """Take a person's word that visitors come through the box."""
        self.supervisor.confirm_live()
        self.decider.decide()

    def _noted(self, change: Transition, at_s: float) -> None:
        """Learn from a recorded change of state, and decide again."""
        self._own_sleeps.changed(change, self._t_s(at_s), self.machine.unused_s(at_s))
        self.decider.observed(change.state, at_s)
        self.warmer.observed(change.state, at_s)
        self.pages.observed(change.state, at_s)
        if change.state in (State.AWAKE, State.ASLEEP):
            self.save()
        self.decider.decide()

    def _t_s(self, monotonic_s: float) -> float:
        return self._box.epoch_s + monotonic_s

    # Requests

    @property
    def server(self) -> Server:
        """The server's configuration."""
        return self.executor.server

    def state(self) -> State:
        """Return what it does now."""
        return self.machine.state

    def stranger(self) -> Reason | None:
        """Say that another machine is at its address."""
        return self.executor.stranger()

    def sighted(self) -> None:
        """Obey what the last look says of visitors who come past the box."""
        self._see()
        self.decider.decide()

    async def counted(self) -> Counted | None:
        """Ask the server which visits it counted that did not come through the box."""
        return await self.executor.counted()

    def services(self) -> list[Service]:
        """Return what else the server does, as far as it is known."""
        return self.executor.office.services(self.executor.services.all.listeners)

    def met(self, told: Listening | None, met: Iterable[Listener] | None) -> None:
        """Hear a report read on the server, and answers from the network, if any."""
        if told is not None:
            self.executor.services.tell(told, by_itself=False)
        if met is not None:
            self.executor.services.meet(met)
        self.save()

    def power_w(self) -> float | None:
        """Return what it draws now; None without a meter, or if it does not say."""
        return self._box.power_w(self.server.id)

    # For the servers that it needs, and those that need it

    def up_in_s(self) -> float:
        """Return when it is expected up; 0 if it is awake."""
        if self.state() is State.AWAKE:
            return 0.0
        eta_s = self.machine.eta_s(time.monotonic())
        return self.executor.wake_s if eta_s is None else eta_s

    def patience_s(self) -> float:
        """Return how long a wake of it may take, with the servers that it needs."""
        return self.machine.hold_s + self.executor.needing.patience_s()

    def in_use(self, within_s: float) -> bool:
        """Is it awake, or will it be within so long? A commissioning uses it all the time."""
        if self.state() is State.ASLEEP and not self.supervisor.running:
            return self.decider.wakes_within(within_s)
        return True

    def status(self) -> dict[str, Any]:
        """Return what the control API says of this server."""
        told = status(self.executor, self.decider, self.supervisor)
        asked = not self.server.sleep.itself
        own = self._own_sleeps.seen(self._t_s(time.monotonic())) if asked else None
        return {
            **told,
            "engines": self.engines.status(),
            "warming": self.warmer.status(),
            "pages": self.pages.status(),
            "calendar": self.calendars.status(),
            "sleeps_itself": own.plain() if own else None,
        }

    def wake(self, wake_request: WakeRequest) -> None:
        """Somebody needs the server."""
        if self.decider.may_wake(wake_request):
            self.executor.wake(wake_request)

    def refused(self, refusal: Refusal) -> None:
        """One that says it is a search engine was sent away."""
        self.engines.told(refusal, self.state())

    def stored(self, record: Stored) -> None:
        """Hear of an answer that the cache keeps."""
        self.warmer.stored(record)
        self.pages.stored(record)

    def heard(self, events: list[Event], *, fresh: bool) -> None:
        """Learn of requests that ended; `fresh`: they ended just now."""
        self.webhooks.heard(events)
        self.engines.heard(events)
        self.warmer.heard(events)
        self.pages.heard(events)
        self.decider.heard(events, fresh=fresh)

    def sleep(self, reason: Reason, *, by_hand: bool = False) -> list[Reason]:
        """Put the server to sleep unless something speaks against it; return what does."""
        return self.decider.sleep(reason, by_hand=by_hand)

    def set_mode(self, *, awake: bool, until_s: float | None = None) -> None:
        """Keep the server awake, until an epoch time if given; or leave it to the policy."""
        self.decider.set_mode(awake=awake, until_s=until_s)

    def commission(self, plan: Plan) -> list[Reason]:
        """Begin a commissioning, or return what speaks against it."""
        if self.supervisor.running:
            return [Reason("server.commissioned_already")]
        if self.server.sleep.never:
            return [no_order(self.server)]
        kept = self.machine.kept_awake(time.monotonic())
        if needed := [self.machine.mode.reason] if kept else self.decider.needed():
            return needed
        if blind := self.supervisor.arming.sight:
            return [blind]
        if unanswered := self.supervisor.unanswered():
            return [unanswered]
        self.supervisor.start(plan)
        return []

    def supervised(self, *, running: bool) -> None:
        """Ping as often as a commissioning needs it, and leave the rest to the policy after."""
        self.executor.probe_again()
        if not running:
            asyncio.get_running_loop().call_soon(self.decider.decide)
