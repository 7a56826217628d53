"""The controller's own pieces, put together for virtual time: docs/demo.md says what is real."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naproxy.config import document as config
from naproxy.config.document import Server
from naproxy.controller import slots
from naproxy.controller.context import BoxContext
from naproxy.controller.executing import Executor
from naproxy.controller.learning import Learner
from naproxy.controller.probing import Prober
from naproxy.controller.runner import Runner
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.daemon.main import PRUNE_S, SAVE_S
from naproxy.history.write.journal import Journal
from naproxy.history.write.writer import History
from naproxy.lab.estimate.accesslog import Entry
from naproxy.server.commissioning import Plan
from naproxy.server.machine_io import Transition
from naproxy.server.sight import Look
from naproxy.shm import datagram
from naproxy.shm.events import Event
from naproxy.shm.page import Page

from tests.heard import Heard
from tests.simulator.past import clock, log
from tests.simulator.past.board import Board, Mishaps, Pinger, Ready, Sleeper, Waker
from tests.simulator.past.draw import Meter
from tests.simulator.past.front import HOST, Front

METER = "simulated"
"""Name of the meter: nothing was measured."""

MAC = "02:00:5e:10:00:02"
CONFIG = f"""
[[server]]
id = "web"
address = "127.0.0.1"
mac = "{MAC}"
hosts = ["{HOST}"]
[server.sleep]
driver = "ssh"
[server.ready]
check_mac = false
asleep_interval_s = 60
[server.promise]
fraction = 0.04
[server.policy]
name = "teacher"
"""
"""The office: one delayed request in 25, and a rule that learns. Probes are rare.

The pages that show it promise one in twenty: a demonstration that greets with a broken promise
teaches nothing.
"""

_NO_INTERFACE = "none"
_SETTLE_S = 30.0
DAY_S = 86400.0


def configured(text: str) -> Server:
    """Return the server of a configuration, which is seldom probed."""
    server = config.parse(text).server[0]
    return replace(server, ready=replace(server.ready, interval_s=60.0))


class _Page(Page):
    """Tells somebody else of each state too, as the futex does Varnish."""

    hears: Front | None = None

    def set_state(self, index: int, state: int, t_us: int) -> int:
        woken = super().set_state(index, state, t_us)
        if self.hears:
            self.hears.state(State(state))
        return woken


class _Executor(Executor):
    """The controller's, with the machine behind its drivers."""

    board: Board
    """Of the class: the drivers are made amidst the making of a runner."""

    def _equip(self, server: Server, interface: str) -> None:
        super()._equip(server, interface)
        self._wakers = [Waker(self.board)]
        self._sleeper = Sleeper(self.board, time.time)
        self._prober = Prober(
            Ready(self.board), server.ready.timeout_s, self.step, lambda _: None, lambda: None
        )
        self._pinger = Pinger(self.board, self._pinged)  # type: ignore[assignment]

    def _look_around(self) -> None:
        """Look only while it changes: once a second for weeks costs more than all the rest."""
        if self._look:
            self._look.cancel()
            self._look = None
        if self.machine.state not in (State.AWAKE, State.ASLEEP):
            super()._look_around()

    def _entered(self, change: Transition) -> None:
        super()._entered(change)
        self._loop.call_soon(self._look_around)


async def nobody_around(_: Server) -> Look:
    """Look at a server that no visitor comes to past the box."""
    return Look(time.time(), "refused")


class _Runner(Runner):
    """The controller's, with this executor."""

    executors = _Executor


@dataclass
class Told:
    """What came of it."""

    requests: int = 0
    said: list[str] = field(default_factory=list)


class Past:
    """One run: requests in, a history out."""

    def __init__(self, now: clock.Clock, data_dir: Path, run_dir: Path, mishaps: Mishaps) -> None:
        dice = random.Random(20)
        self.told = Told()
        self._heard = Heard(self._say)
        self._now = now
        self._metered_s = int(now.wall())
        self._board = Board(now.wall, dice, mishaps)
        self._meter = Meter(dice)
        self._journal = Journal(data_dir, clock=now.wall)
        self._page = _Page(run_dir)
        self._history = History(
            self._journal,
            now.epoch_s,
            monotonic=now.monotonic,
            wall=now.wall,
            synchronised=lambda: True,
            boot="virtual time",
        )
        self._history.watch(["web"])
        self._keep_days = config.Box().keep_days
        box = BoxContext(self._page, self._journal, now.epoch_s, self._power_w, look=nobody_around)
        server = configured(CONFIG)
        slots.assign(self._page, [server])
        _Executor.board = self._board
        self.runner = _Runner(box, 0, server, _NO_INTERFACE)
        self._learner = Learner(self._page)
        self._learner.serve([HOST])
        self._front = Front(
            self._page, server, now.wall, ended=self._ended, wake=self._wake, dice=dice
        )
        self._page.hears = self._front

    def _say(self, words: str) -> None:
        self.told.said.append(f"{self._now.wall():.0f} {words}")

    def _power_w(self, _server: str) -> float:
        """What the controller hears of the meter: a commissioning fits its watts by it."""
        at_s = int(self._now.wall())
        seconds = self._meter.seconds(self._board.changes, {}, at_s, at_s + 1)
        return next(seconds).mean_mw / 1000

    # What the controller does with requests and datagrams

    def _ended(self, event: Event) -> None:
        self.told.requests += 1
        self._learner.heard([event])
        self._history.request("web", event)
        if not Klass(event.klass).robot:
            # As the page of a real Varnish would say: they ask for the website by its name.
            self.runner.supervisor.visited(self._now.wall(), None)
        self.runner.heard([event], fresh=True)

    def _wake(self, data: bytes) -> None:
        _, asked = datagram.parse(data)
        # There is no DNS in the past: no search engine is known to be one.
        if isinstance(asked, WakeRequest):
            self.runner.wake(asked)

    # What it does by the clock

    async def run(self, requests: Sequence[log.Timed], end_s: float) -> None:
        """Live until `end_s`, epoch seconds."""
        self.runner.start()
        loop = asyncio.get_running_loop()
        loop.call_later(_SETTLE_S, self.runner.commission, Plan())
        self._tick_later()
        self._save()
        self._prune()
        playing = asyncio.ensure_future(self._front.play(requests))
        await asyncio.sleep(end_s - self._now.wall())
        playing.cancel()
        self.runner.stop(why=Reason("server.stopped"))
        self._gather(int(end_s))
        self._history.flush()
        self._journal.close()
        self._heard.close()

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(self._history.next_s, self._tick)

    def _tick(self) -> None:
        self._gather(int(self._now.wall()) // 60 * 60)
        self._history.tick()
        self._tick_later()

    def _gather(self, end_s: int) -> None:
        changes = self._board.changes
        for second in self._meter.seconds(changes, self._front.busy_s, self._metered_s, end_s):
            if not any(a <= second.t_s < b for a, b in self._board.mishaps.unmetered):
                self._history.add_second(METER, second)
        self._metered_s = max(self._metered_s, end_s)
        # Everything before is written: keep what the next seconds begin with.
        del changes[:-64]
        self._front.busy_s.clear()

    def _save(self) -> None:
        asyncio.get_running_loop().call_later(SAVE_S, self._save)
        self.runner.save()

    def _prune(self) -> None:
        asyncio.get_running_loop().call_later(PRUNE_S, self._prune)
        self._journal.prune(self._keep_days)

    # What people do by hand

    def at(self, t_s: float, do: Any, *arguments: Any, **named: Any) -> None:
        """Have somebody do something at a time, epoch seconds."""
        loop = asyncio.get_running_loop()
        loop.call_later(t_s - self._now.wall(), lambda: do(*arguments, **named))

    def keep_awake(self, hours: float) -> None:
        """Somebody keeps the server awake for a while."""
        self.runner.set_mode(awake=True, until_s=self._now.wall() + 3600 * hours)

    def arm(self) -> None:
        """Somebody looks at a server that did not wake, and trusts it again."""
        self.runner.supervisor.arm()


def make(data_dir: Path, days: float, end_s: float, entries: Sequence[Entry]) -> Told:
    """Write a history of so many days that ends at `end_s`, into an empty directory."""
    now = clock.Clock(end_s - DAY_S * days)
    with tempfile.TemporaryDirectory(prefix="naproxy-past-") as run_dir, now.installed():
        past: Past | None = None

        async def live() -> None:
            nonlocal past
            past = Past(now, data_dir, Path(run_dir), mishaps(end_s - DAY_S * days, end_s))
            plan_hands(past, end_s, days)
            await past.run(list(log.timed(entries, now.wall(), end_s)), end_s)

        gc.collect()
        gc.freeze()
        with asyncio.Runner(loop_factory=lambda: clock.loop(now)) as runner:
            runner.run(live())
        assert past
        return past.told


def mishaps(start_s: float, end_s: float) -> Mishaps:
    """What goes wrong: a backup each night, once a pulled cable, once a silent meter."""
    # Who attaches the box at three in the morning does so when no backup runs.
    found = Mishaps(busy=lambda t_s: _backup(t_s) if t_s - start_s >= DAY_S / 24 else "")
    if end_s - start_s >= 14 * DAY_S:
        found.deaf.append((end_s - 12 * DAY_S, end_s - 12 * DAY_S + 4 * 3600))
        found.unmetered.append((end_s - 9.3 * DAY_S, end_s - 9.2 * DAY_S))
    return found


def _backup(t_s: float) -> str:
    minute = t_s % DAY_S / 60
    return "a backup is running" if 180 <= minute < 205 else ""


def plan_hands(past: Past, end_s: float, days: float) -> None:
    """What people do in that time."""
    if days >= 14:
        past.at(end_s - 11.2 * DAY_S, past.arm)
        past.at(end_s - 5.4 * DAY_S, past.keep_awake, 2.0)
