"""Servers that need each other: machines with a clock of their own, then runners as they are."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from looked import nobody_around
from naproxy.config import document
from naproxy.controller import slots
from naproxy.controller.context import BoxContext
from naproxy.controller.needing import Company, Needing
from naproxy.controller.runner import Runner
from naproxy.core import page_h
from naproxy.core.reason import Reason, own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.write.journal import Journal
from naproxy.server.commissioning import Plan
from naproxy.server.jobs import Job
from naproxy.server.ladder import Ladder, Rung
from naproxy.server.machine import Machine, Times
from naproxy.server.machine_io import (
    Answer,
    Event,
    Needed,
    Observed,
    RunSleep,
    SendWake,
    SleepAnswered,
    SleepAsked,
    SleepOrdered,
    Tick,
    Transition,
    WakeAsked,
)
from naproxy.server.seeing import Sign
from naproxy.shm.page import Page

from tests.patience import PATIENCE_S

VISIT = WakeRequest("192.0.2.17", "page", klass="person")
STEP_S = 0.05


def servers(needs: Mapping[str, tuple[str, ...]]) -> tuple[document.Server, ...]:
    text = "".join(
        f'[[server]]\nid = "{name}"\naddress = "127.0.0.{number}"\nport = 1\n'
        f'mac = "02:00:00:00:00:0{number}"\nneeds = {list(of)}\n'
        for number, (name, of) in enumerate(needs.items(), 1)
    )
    return document.parse(text.replace("'", '"')).server


class Computer:
    """A server that boots and falls asleep as a real one does, and the machine that follows it."""

    def __init__(self, name: str, house: "House") -> None:
        self.name, self.house = name, house
        self.on, self.boots_s, self.up_s = False, 2.0, math.inf
        self.needing = Needing(name, house.company)
        times = Times(needs=bool(house.needs[name]), off=True)
        self.machine = Machine(times, Ladder([Rung(spacing_s=0.5, attempts=4)]), 0.0, slept=True)
        self.calls: list[float] = []
        self.states: list[tuple[float, State]] = []
        self.do(self.machine.start(0.0))

    def state(self) -> State:
        return self.machine.state

    def wake(self, wake_request: WakeRequest) -> None:
        self.step(WakeAsked(wake_request))

    def up_in_s(self) -> float:
        if self.state() is State.AWAKE:
            return 0.0
        eta_s = self.machine.eta_s(self.house.now_s)
        return self.machine.wake.value_s + self.needing.up_in_s() if eta_s is None else eta_s

    def patience_s(self) -> float:
        return self.machine.hold_s + self.needing.patience_s()

    def in_use(self, within_s: float) -> bool:
        return self.state() is not State.ASLEEP

    def step(self, event: Event) -> None:
        self.do(self.machine.step(self.house.now_s, event))

    def do(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case SendWake():
                    self.calls.append(self.house.now_s)
                    self.up_s = min(self.up_s, self.house.now_s + self.boots_s)
                case RunSleep():
                    self.step(SleepOrdered())
                    self.on, self.up_s = False, math.inf
                    self.step(SleepAnswered(Answer.ACCEPTED, own_words("yes")))
                case Transition(state=state):
                    self.states.append((self.house.now_s, state))
                    if state is State.WAKING:
                        self.needing.wake()

    def pass_by(self) -> None:
        now_s = self.house.now_s
        self.on |= now_s >= self.up_s
        sign = Sign.READY if self.on else Sign.SILENT
        self.step(Observed(sign, own_words(sign.value), now_s - (0 if self.on else 0.3)))
        if self.machine.next_s <= now_s:
            self.step(Tick(0, self.needing.look() if self.machine.prepares else Needed()))
        if self.state() is State.AWAKE:
            self.needing.keep()
            if self.house.sleepy and not self.needing.inhibitors(0.0):
                self.step(SleepAsked(own_words("nobody is there")))


class House:
    """Computers that may all sleep as soon as no other needs them, if they are `sleepy`."""

    def __init__(self, **needs: tuple[str, ...]) -> None:
        self.now_s, self.needs, self.sleepy = 0.0, needs, False
        self.computers: dict[str, Computer] = {}
        self.company = Company(lambda: self.computers)
        self.company.configure(servers(needs))
        self.computers = {name: Computer(name, self) for name in needs}
        self.until(lambda: self.all(State.ASLEEP))

    def __getattr__(self, name: str) -> Computer:
        return self.computers[name]

    def all(self, state: State) -> bool:
        return all(each.state() is state for each in self.computers.values())

    def until(self, done: Callable[[], bool], limit_s: float = 1000.0) -> float:
        end_s = self.now_s + limit_s
        while not done():
            assert self.now_s < end_s, {n: c.machine.reason for n, c in self.computers.items()}
            self.now_s += STEP_S
            for each in self.computers.values():
                each.pass_by()
        return self.now_s

    def order(self, state: State) -> list[str]:
        """Return who came to a state, in that order."""
        came = [(t_s, c.name) for c in self.computers.values() for t_s, s in c.states if s is state]
        return [name for _, name in sorted(came)]


def test_a_chain_wakes_from_its_end_and_each_answers_before_the_next_is_called() -> None:
    house = House(web=("db",), db=("nas",), nas=())
    house.nas.boots_s = 40.0
    house.web.wake(VISIT)
    house.until(lambda: house.web.state() is State.AWAKE)
    assert house.order(State.AWAKE) == ["nas", "db", "web"]
    [up_s] = [t_s for t_s, state in house.nas.states if state is State.AWAKE]
    assert up_s < house.db.calls[0]
    assert all(not c.machine.alert for c in house.computers.values())
    assert house.web.machine.wake.last_s == pytest.approx(2, abs=1), "its own, not the chain's"


def test_they_fall_asleep_in_the_other_order_and_the_host_last() -> None:
    house = House(web=("host",), mail=("host", "web"), host=())
    house.mail.wake(VISIT)
    house.until(lambda: house.all(State.AWAKE))
    house.sleepy = True
    house.until(lambda: house.all(State.ASLEEP))
    assert house.order(State.ASLEEP)[-3:] == ["mail", "web", "host"]


def test_a_visit_while_the_nas_falls_asleep_wakes_it_again_first() -> None:
    house = House(web=("nas",), nas=())
    house.nas.wake(VISIT)
    house.until(lambda: house.nas.state() is State.AWAKE)
    house.sleepy = True
    house.until(lambda: house.nas.state() is State.FALLING_ASLEEP and not house.nas.on)
    house.web.wake(VISIT)
    house.sleepy = False
    house.until(lambda: house.all(State.AWAKE))
    assert house.order(State.AWAKE)[-2:] == ["nas", "web"]


def test_a_nas_that_does_not_come_up_is_not_waited_for_for_ever() -> None:
    house = House(web=("nas",), nas=())
    house.nas.boots_s = math.inf
    began_s = house.now_s
    house.web.wake(VISIT)
    up_s = house.until(lambda: house.web.state() is State.AWAKE)
    assert 180 <= up_s - began_s < 190, "as soon as it is in trouble, and not before"
    without = Reason("server.woken_without", names=("nas",))
    assert house.web.machine.alert == without


def test_a_nas_that_falls_asleep_by_itself_is_woken_while_it_is_needed() -> None:
    house = House(web=("nas",), nas=())
    house.web.wake(VISIT)
    house.until(lambda: house.all(State.AWAKE))
    house.nas.machine.state, house.nas.machine.slept = State.ASLEEP, True
    house.nas.on, house.nas.up_s = False, math.inf
    house.until(lambda: house.nas.state() is State.WAKING)
    house.until(lambda: house.all(State.AWAKE))


# Runners, as the controller has them


class Office:
    """The controller's runners; nothing looks at the servers."""

    def __init__(self, directory: Path, needs: Mapping[str, tuple[str, ...]]) -> None:
        self.journal = Journal(directory)
        self.page = Page(directory)
        self.runners: dict[str, Runner] = {}
        company = Company(lambda: self.runners)
        epoch_s = time.time() - time.monotonic()
        box = BoxContext(self.page, self.journal, epoch_s, company=company)
        configured = servers(needs)
        company.configure(configured)
        for index, server in enumerate(configured):
            nobody_around(self.journal, server)
            self.runners[server.id] = Runner(box, index, server, "lo")
        self.calls: list[str] = []
        for name, runner in self.runners.items():
            runner.executor._wakers = [_Waker(name, self.calls)]

    def put(self, **states: State) -> None:
        for name, state in states.items():
            machine = self.runners[name].machine
            machine.state, machine.slept = state, state is State.ASLEEP

    def ready(self, name: str) -> None:
        seen = Observed(Sign.READY, Reason("ready.status", status=200), time.monotonic())
        self.runners[name].executor.step(seen)

    async def until(self, done: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        for runner in self.runners.values():
            runner.stop(why=Reason("server.stopped"))


class _Waker:
    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def send(self, failed: Callable[[Reason], None]) -> None:
        self.calls.append(self.name)


@pytest.fixture
def office(tmp_path: Path, loop: asyncio.Runner) -> Iterator[Office]:
    async def make() -> Office:
        return Office(tmp_path, {"web": ("nas",), "mail": (), "nas": ()})

    made = loop.run(make())
    with closing(made.journal):
        yield made

        async def stop() -> None:
            made.stop()

        loop.run(stop())


def needed_by(*names: str) -> dict[str, Any]:
    return {"code": "server.needed_by", "params": {"names": list(names)}}


async def test_the_status_names_for_whom_a_server_stays_awake(office: Office) -> None:
    office.put(web=State.AWAKE, mail=State.AWAKE, nas=State.AWAKE)
    nas = office.runners["nas"]
    assert needed_by("web") in nas.status()["inhibitors"]
    by_hand = nas.sleep(Reason("server.by_hand"), by_hand=True)
    assert Reason("server.needed_by", names=("web",)) in by_hand
    assert not any(
        each.code == "server.needed_by" for each in office.runners["web"].sleep(VISIT.why)
    )
    office.put(web=State.ASLEEP)
    assert needed_by("web") not in nas.status()["inhibitors"]


@pytest.mark.parametrize(
    "state", [State.UNKNOWN, State.WAKING, State.TROUBLE, State.FALLING_ASLEEP]
)
async def test_a_server_that_may_be_in_use_counts_as_in_use(office: Office, state: State) -> None:
    office.put(web=state, nas=State.AWAKE)
    assert needed_by("web") in office.runners["nas"].status()["inhibitors"]


async def test_a_server_stays_awake_for_one_that_is_about_to_wake(office: Office) -> None:
    office.put(web=State.ASLEEP, nas=State.AWAKE)
    web, nas = office.runners["web"], office.runners["nas"]
    web.machine.since_s = time.monotonic() - 3600
    web.executor.appointments.told([Job("backup.timer", 7200.0)], time.time())
    assert needed_by("web") not in nas.status()["inhibitors"]
    web.executor.appointments.told([Job("backup.timer", 45.0)], time.time())
    assert needed_by("web") in nas.status()["inhibitors"]


async def test_no_commissioning_begins_while_the_server_is_needed(office: Office) -> None:
    office.put(web=State.AWAKE, nas=State.AWAKE)
    nas = office.runners["nas"]
    object.__setattr__(nas.server.sleep, "never", False)
    assert nas.commission(Plan()) == [Reason("server.needed_by", names=("web",))]


async def test_a_wake_calls_the_needed_server_and_waits_for_its_answer(office: Office) -> None:
    office.put(web=State.ASLEEP, nas=State.ASLEEP)
    web = office.runners["web"]
    web.wake(VISIT)
    assert office.calls == ["nas"], "at once"
    assert web.state() is State.WAKING, "requests are held"
    await office.until(lambda: web.machine.waits_for)
    told = web.status()["reason"]
    assert "server.waits_for" in str(told)
    assert web.status()["eta_s"] > 5.0
    assert office.calls.count("web") == 0
    office.ready("nas")
    await office.until(lambda: "web" in office.calls)
    office.ready("web")
    assert web.state() is State.AWAKE
    await asyncio.sleep(0)
    [wake] = office.journal.rows("wakes", "nas", 0, 10)
    assert Reason("server.needed_by", names=("web",)).code in str(wake)


async def test_a_server_whose_needs_are_met_is_called_at_once(office: Office) -> None:
    office.put(web=State.ASLEEP, nas=State.AWAKE)
    office.runners["web"].wake(VISIT)
    await office.until(lambda: office.calls == ["web"])


async def test_needed_servers_in_trouble_are_named(office: Office) -> None:
    office.put(web=State.ASLEEP, nas=State.TROUBLE)
    web = office.runners["web"]
    web.wake(VISIT)
    await office.until(lambda: "web" in office.calls)
    office.ready("web")
    alert = web.status()["alert"]
    assert alert == Reason("server.woken_without", names=("nas",)).plain()
    office.ready("nas")
    web.executor._look_around()
    assert web.status()["alert"] is None


async def test_countdown_and_hold_limit_include_the_needed_server(office: Office) -> None:
    office.put(web=State.ASLEEP, nas=State.ASLEEP)
    web, nas = office.runners["web"], office.runners["nas"]
    nas.machine.wake.add(70.0)
    web.executor._look_around()
    assert web.executor.record.wake_expect_ms == 75000
    assert web.executor.record.hold_limit_ms == round(1000 * web.executor.hold_s)
    assert web.executor.hold_s == 420, "its own three and a half minutes, and those of the NAS"


def test_varnish_sends_no_packet_to_a_server_that_others_wake_before(tmp_path: Path) -> None:
    page = Page(tmp_path)
    for index, server in enumerate(servers({"web": ("nas",), "nas": ()})):
        slots.write_server(page, index, server, "lo", default=False, wake_expect_s=5, hold_s=60)
    flags = [page.server(index).flags & page_h.F_WOL for index in (0, 1)]
    assert flags == [0, page_h.F_WOL]
