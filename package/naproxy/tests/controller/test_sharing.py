"""Shares in the controller: who is in flight by the page, who is over, and what follows."""

import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
from naproxy.controller.deciding import ONLY_SPENT
from naproxy.controller.runner import Runner
from naproxy.controller.sharing import Spent, party_at, party_of
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.policy.base import Decision
from naproxy.server.people import Request
from naproxy.server.shares import OWN, OWN_ROBOT, Party, Settings, Shares
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page, fnv
from one_runner import running
from samples import FETCH, WEB

TEXT = f"""{WEB}
armed = true
[server.sleep]
driver = "ssh"
[server.policy]
name = "timeout"
idle_s = 7200
[server.awake]
work_paths = ["/backup"]
"""
SERVER = samples.server(text=TEXT)
VISITOR, STRANGER = Party(1, 101), Party(2, 102)
PROGRAM = STRANGER._replace(program=True)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 10_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "monotonic_ns", lambda: int(1e9 * self.now_s))
        monkeypatch.setattr(time, "time", lambda: 1.8e9 + self.now_s)


class Awake:
    """A server that is awake, and what Varnish says of its clients."""

    def __init__(self, runner: Runner, shared: Page, clock: Clock) -> None:
        self.runner, self.page, self.clock = runner, shared, clock
        self.shares = runner.executor.sharing.shares
        self._numbers = itertools.count(1)
        self._enter(State.AWAKE)
        runner.decider.account()

    def _enter(self, state: State) -> None:
        self.runner.machine.state = state
        self.runner.decider.observed(state, self.clock.now_s)
        self.runner.decider.decide()

    def sleeps(self) -> None:
        """It sleeps."""
        self._enter(State.ASLEEP)

    def woken_by(self, party: Party, outcome: Outcome = Outcome.WAITING_PAGE) -> None:
        """It sleeps, and somebody asks for it."""
        self.sleeps()
        self._enter(State.WAKING)
        self.asks(party, outcome)
        self._enter(State.AWAKE)

    def asks(self, party: Party, outcome: Outcome = Outcome.FETCH, flags: int = 0) -> None:
        """A request of a person that has ended."""
        self.runner.decider.heard([event(self.clock, party, outcome, flags)], fresh=True)

    def shows_a_person(self, party: Party) -> None:
        """It loads what a page embeds."""
        self.asks(party, Outcome.HIT, page_h.E_PAGE_LOAD)
        self.asks(party, Outcome.HIT)

    def in_flight(
        self,
        party: Party,
        people: int = 1,
        robots: int = 0,
        *,
        own: bool = False,
        exempt: bool = False,
    ) -> None:
        row = self.page.layout.client[next(self._numbers)]
        row.address, row.network, row.own, row.exempt = party.address, party.network, own, exempt
        row.in_flight, row.people[0], row.robots[0] = people + robots, people, robots
        self.page.server(0).piping_now += people + robots

    def passes(self, seconds: int, step_s: int = 1) -> None:
        """Let time pass, with looks as the controller's."""
        for _ in range(seconds // step_s):
            self.clock.now_s += step_s
            self.runner.decider.account()
            check_s = self.runner.decider.next_check_s
            if check_s is not None and check_s <= self.clock.now_s:
                self.runner.decider.decide()

    def inhibitors(self) -> list[str]:
        return [each.code for each in self.runner.decider.inhibitors()]

    @property
    def sleeping(self) -> bool:
        return self.runner.machine.state is State.FALLING_ASLEEP


def event(clock: Clock, party: Party, outcome: Outcome = Outcome.FETCH, flags: int = 0) -> Event:
    return replace(
        FETCH,
        t_us=int(1e6 * clock.now_s),
        klass=Klass.CRAWLER if party.robot else Klass.API if party.program else Klass.PERSON,
        outcome=outcome,
        flags=flags | page_h.E_NEEDED,
        address=party.address,
        network=party.network,
    )


@asynccontextmanager
async def awake(directory: Path, clock: Clock) -> AsyncIterator[Awake]:
    async with running(directory, SERVER, epoch_s=1.8e9) as runner:
        yield Awake(runner, Page(directory), clock)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enter: Callable[..., Awake]) -> Awake:
    return enter(awake(tmp_path, Clock(monkeypatch)))


async def test_a_silent_tunnel_keeps_it_awake_for_its_share_and_no_longer(server: Awake) -> None:
    server.woken_by(STRANGER)
    server.in_flight(STRANGER)
    server.passes(599)
    assert not server.sleeping
    assert server.inhibitors() == ["server.connections"]
    server.passes(1)
    assert server.sleeping
    assert server.runner.machine.reason == ONLY_SPENT


async def test_after_a_programs_patience_earlier_clients_count(server: Awake) -> None:
    server.asks(OWN)
    server.passes(100)
    server.asks(PROGRAM)
    server.passes(151)
    reason = server.runner.decider.decision.reason
    assert reason == Reason("policy.idle_of", idle_s=250, least_s=7200.0)
    assert not server.sleeping


async def test_a_visitor_in_flight_keeps_it_awake_when_a_spender_is_over(server: Awake) -> None:
    server.shows_a_person(VISITOR)
    server.in_flight(STRANGER)
    server.passes(500)
    server.in_flight(VISITOR)
    server.passes(202)
    assert server.shares.over(STRANGER)
    assert not server.sleeping
    assert server.inhibitors() == ["server.connections"]


async def test_a_robot_that_found_it_awake_is_nobody_the_server_waits_for(server: Awake) -> None:
    server.asks(VISITOR)
    server.passes(100)
    server.asks(STRANGER._replace(robot=True))
    last = server.shares.asked.last(server.shares)
    assert last is not None
    assert last[0] == VISITOR


async def test_requests_of_a_spent_client_do_not_reach_the_policy(server: Awake) -> None:
    server.asks(VISITOR)
    server.shares.programs.charge(PROGRAM.address, 600.0, 0.0)
    server.passes(100)
    server.asks(PROGRAM)
    server.asks(Party(9, 109), flags=page_h.E_SPENT)
    server.runner.decider.decide()
    reason = server.runner.decider.decision.reason
    assert reason == Reason("policy.idle_of", idle_s=100, least_s=7200.0)


async def test_work_keeps_it_awake_unless_only_spenders_started_it(server: Awake) -> None:
    server.asks(PROGRAM, flags=page_h.E_WORK)
    assert server.inhibitors() == ["server.work"]
    server.shares.programs.charge(PROGRAM.address, 600.0, 0.0)
    assert server.inhibitors() == []
    server.asks(VISITOR, flags=page_h.E_WORK)
    server.asks(PROGRAM, flags=page_h.E_WORK)
    assert server.inhibitors() == ["server.work"]


async def test_the_offices_own_tunnel_keeps_it_awake_without_end(server: Awake) -> None:
    server.in_flight(STRANGER, own=True)
    server.passes(7300, step_s=20)
    assert server.inhibitors() == ["server.connections"]
    assert server.shares.spent == ()


async def test_a_login_keeps_it_awake_though_its_address_is_over(server: Awake) -> None:
    server.in_flight(STRANGER, people=2, exempt=True)
    server.passes(7300, step_s=20)
    assert server.shares.over(STRANGER)
    assert server.inhibitors() == ["server.connections"]


async def test_a_program_in_flight_keeps_it_awake_for_ten_minutes(server: Awake) -> None:
    text = TEXT.replace("7200", "60")
    server.runner.configure(samples.server(text=text), "lo")
    server.in_flight(STRANGER, people=0)
    row = server.page.layout.client[1]
    row.in_flight = row.programs[0] = server.page.server(0).piping_now = 1
    server.passes(599)
    assert not server.sleeping
    server.passes(2)
    assert server.sleeping


@pytest.mark.parametrize("own", [True, False])
async def test_a_robot_in_flight_keeps_it_awake_for_a_minute(own: bool, server: Awake) -> None:
    server.passes(7220, step_s=20)
    assert server.sleeping
    server.runner.machine.state = State.AWAKE
    server.in_flight(STRANGER, people=0, robots=1, own=own)
    assert server.inhibitors() == ["server.connections"]
    server.passes(60)
    assert server.inhibitors() == []


async def test_abandoned_requests_keep_it_awake_for_a_minute(server: Awake) -> None:
    server.asks(STRANGER)
    server.page.server(0).fetching_now = 1
    assert server.inhibitors() == ["server.fetching"]
    server.passes(59)
    assert server.inhibitors() == ["server.fetching"]
    server.passes(1)
    assert server.inhibitors() == []


async def test_a_client_that_keeps_hanging_up_pays_for_it(server: Awake) -> None:
    server.woken_by(PROGRAM)
    server.page.server(0).fetching_now = 1
    for _ in range(30):
        server.asks(PROGRAM)
        server.passes(20)
    assert server.shares.over(PROGRAM)
    server.asks(PROGRAM)
    server.passes(60)
    assert server.sleeping


async def test_a_person_keeps_it_awake_all_day(server: Awake) -> None:
    server.shows_a_person(STRANGER)
    server.in_flight(STRANGER)
    server.passes(60_000, step_s=10)
    assert server.inhibitors() == ["server.connections"]
    assert server.runner.status()["over_share"]["cost"] == 0


@pytest.mark.parametrize("by_hand", [True, False])
async def test_time_awake_for_all_is_on_nobodys_share(server: Awake, by_hand: bool) -> None:
    server.in_flight(STRANGER)
    if by_hand:
        server.runner.set_mode(awake=True)
    else:
        server.runner.decider.decision = Decision(False, Reason("policy.no_budget"))
    server.passes(2000, step_s=20)
    assert server.shares.spent == ()


async def test_the_status_counts_spent_clients_and_strangers_cost(
    server: Awake,
) -> None:
    assert server.runner.status()["over_share"] == {
        "addresses": 0,
        "networks": 0,
        "robots": False,
        "cost": 0.0,
        "most_cost": 0.1,
        "closed": False,
    }
    server.in_flight(STRANGER)
    server.passes(601)
    told = server.runner.status()["over_share"]
    assert told["addresses"] == 1
    assert told["cost"] == pytest.approx(600 * 41.7 * 0.30 / 3.6e6, abs=0.0001)


async def test_a_new_configuration_changes_the_limits_of_the_day(server: Awake) -> None:
    server.in_flight(STRANGER)
    server.passes(601)
    assert server.shares.over(STRANGER)
    text = f"{TEXT}[server.share]\nstrangers_cost = 0\n"
    server.runner.configure(samples.server(text=text), "lo")
    assert not server.shares.over(STRANGER)


async def test_a_page_that_says_so_lets_people_in_when_strangers_have_cost_enough(
    server: Awake,
) -> None:
    server.shares.cost = 0.1
    server.asks(STRANGER, Outcome.SPENT, page_h.E_PAGE_LOAD)
    assert server.shares.over(STRANGER)
    server.asks(STRANGER, Outcome.STATUS)
    assert not server.shares.over(STRANGER)


def test_whose_share_a_request_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    asked = event(clock, STRANGER)
    changes: list[tuple[dict[str, Any], Party]] = [
        ({}, STRANGER),
        ({"klass": Klass.CRAWLER}, STRANGER._replace(robot=True)),
        ({"klass": Klass.API}, STRANGER._replace(program=True)),
        ({"klass": Klass.API, "flags": page_h.E_OWN}, OWN),
        ({"klass": 7}, STRANGER),
        ({"flags": page_h.E_OWN}, OWN),
        ({"flags": page_h.E_OWN, "klass": Klass.MONITOR}, OWN_ROBOT),
        ({"address": 0}, OWN),
    ]
    for changed, party in changes:
        assert party_of(replace(asked, **changed)) == party, changed


# What Varnish is told


def over(*whos: int, robots: bool = False, programs: tuple[int, ...] = ()) -> Shares:
    made = Shares(Settings())
    made.pass_time(0.0, 1, [], paid=False)
    for who in whos:
        made.addresses.charge(who, 600.0, 0.0)
        made.people.open(who, 0, 600.0)
    for who in programs:
        made.programs.charge(who, 600.0, 0.0)
    if robots:
        for address in range(60):
            party = Party(1000 + address, 2000 + address, robot=True)
            made.ask(0.0, party, awake=True)
            made.pass_time(10.0 * (address + 1), 1, [], paid=True)
    return made


def told(shared: Page) -> dict[int, int]:
    return {slot.who: slot.servers for slot in shared.layout.spent if slot.who}


def test_spent_clients_are_in_the_page_by_server_people_apart_from_programs(shared: Page) -> None:
    Spent(shared).tell({0: over(7, 9, programs=(8,)), 3: over(8, 9, programs=(7,))})
    slots = {slot.who: (slot.servers, slot.programs) for slot in shared.layout.spent if slot.who}
    assert slots == {7: (1, 8), 8: (8, 1), 9: (9, 0)}
    assert shared.layout.seq % 2 == 0


def test_of_more_than_the_page_holds_people_come_before_programs(shared: Page) -> None:
    Spent(shared).tell({0: over(1, 2, 3, programs=tuple(range(1000, 1300)))})
    listed = told(shared)
    assert len(listed) == page_h.MOST_SPENT
    assert {1, 2, 3} <= listed.keys()


def test_clients_back_within_their_share_are_removed_even_after_a_restart(
    shared: Page,
) -> None:
    spent = Spent(shared)
    spent.tell({0: over(7, 8, 9)})
    spent.tell({0: over(8)})
    assert told(shared) == {8: 1}
    Spent(shared).tell({2: over(robots=True)})
    assert shared.server(2).spent_mask == 0b101110, "the classes of robots"
    assert shared.server(0).spent_mask == 0
    Spent(shared).tell({0: over()})
    assert (told(shared), shared.server(2).spent_mask) == ({}, 0)


def test_all_but_people_are_refused_when_strangers_have_cost_enough(shared: Page) -> None:
    made = over(7)
    for t_s, load in ((0.0, True), (1.0, False)):
        made.people.saw(Request(t_s, 5, 6, int(t_s), 200, page_load=load))
    made.cost = 0.1
    spent = Spent(shared)
    spent.tell({1: made})
    assert told(shared) == {7: 2, 5: 2 << page_h.SHOWN}
    assert shared.server(1).spent_mask == 0b111111
    made.pass_time(1.0, 2, [], paid=False)
    spent.tell({1: made})
    assert (told(shared), shared.server(1).spent_mask) == ({}, 0)


def test_of_more_than_the_page_holds_the_last_are_told(shared: Page) -> None:
    Spent(shared).tell({0: over(*range(1, 301))})
    assert sorted(told(shared)) == list(range(301 - page_h.MOST_SPENT, 301))


def test_unchanged_values_are_not_written_again(shared: Page) -> None:
    spent = Spent(shared)
    spent.tell({0: over(7)})
    seq = shared.layout.seq
    spent.tell({0: over(7)})
    assert shared.layout.seq == seq


def test_a_page_full_of_noise_in_its_clients_is_read_without_harm(shared: Page) -> None:
    for row in shared.layout.client:
        row.address = row.network = 2**64 - 1
        row.in_flight, row.own = 65535, 255
        for index in range(page_h.SERVERS):
            row.people[index] = row.robots[index] = row.programs[index] = 255
        row.exempt = 255
    assert len(shared.clients()) == page_h.CLIENTS
    assert shared.clients()[0] == (2**64 - 1, 2**64 - 1, 65535, 255, 255, *[255] * 18)


async def test_passed_connections_keep_it_awake_while_bytes_come(server: Awake) -> None:
    service = server.page.layout.service[0]
    service.listen, service.open_now = page_h.Listen.EDGE, 2
    service.last_active_us = page.monotonic_us()
    assert server.inhibitors() == ["server.connections"]
    server.passes(60)
    assert server.inhibitors() == []


async def test_passed_connections_wake_it_until_strangers_have_cost_what_they_may(
    server: Awake,
) -> None:
    asked = WakeRequest("203.0.113.9", "pass", klass="person", host="web", path="port 443")
    decider, shares = server.runner.decider, server.shares
    for _ in range(8):
        for state in (State.FALLING_ASLEEP, State.ASLEEP):
            decider.observed(state, server.clock.now_s)
        assert decider.may_wake(asked)
        decider.observed(State.AWAKE, server.clock.now_s)
    shares.cost = shares.most_cost
    assert not decider.may_wake(asked)
    assert decider.may_wake(replace(asked, who="192.168.0.9"))
    # A request's wake is on a share by its event.
    assert decider.may_wake(replace(asked, method="POST"))


def test_an_address_is_hashed_as_the_vmod_does() -> None:
    """tests of naproxy-through and of the VMOD have the same numbers."""
    for own in ("10.1.2.3", "::ffff:192.168.0.1", "::1", "fe80::1", "fd00::1", "no address", ""):
        assert party_at(own).own, own
    whole = party_at("192.0.2.17")
    assert (whole.address, whole.network) == (fnv(b"\4\xc0\0\2\x11"), fnv(b"n\4\xc0\0\2"))
    assert party_at("::ffff:192.0.2.17") == whole
    same = {party_at(f"2001:db8:0:1::{host}") for host in ("1", "2")}
    assert same == {party_at("2001:db8:0:1:ffff::")}
    assert party_at("2001:db8:0:2::1").network == same.pop().network


async def test_a_passed_connection_keeps_it_awake_beyond_a_persons_share(server: Awake) -> None:
    service = server.page.layout.service[0]
    service.listen, service.open_now = page_h.Listen.EDGE, 1
    server.asks(STRANGER)
    for _ in range(200):
        service.last_active_us = page.monotonic_us()
        server.passes(50, step_s=10)
    assert server.inhibitors() == ["server.connections"]
    assert not server.sleeping
    # Nor does who only asked for a page pay for it.
    assert not server.shares.over(STRANGER)
