"""Nobody keeps a server awake alone: `Shares` beside a policy, with hostile visitors for a week."""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, takewhile
from typing import Final

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from naproxy import policy
from naproxy.core.state import Klass, State
from naproxy.policy import thesis, timeout
from naproxy.policy.base import Policy, Request
from naproxy.server.shares import (
    ACCOUNTS,
    OWN,
    OWN_ROBOT,
    ROBOTS_S,
    Limit,
    Party,
    Settings,
    Shares,
    Use,
)

DAY_S: Final = 86400.0
WAKE_S: Final = 5.0
BEAT_S: Final = 0.25
STEP_S: Final = 5.0
VISITOR: Final = Party(1, 101)
STRANGER: Final = Party(2, 102)
ROBOT: Final = Party(2, 102, robot=True)
PROGRAM: Final = Party(2, 102, program=True)


def shares(**changes: int) -> Shares:
    return Shares(Settings(**changes))


def passed(made: Shares, seconds: float, uses: list[Use], *, day: int = 1) -> None:
    """Let time pass in steps as the controller's, all of it paid."""
    start_s = made._t_s or 0.0
    made.pass_time(start_s, day, uses, paid=True)
    for number in range(1, math.ceil(seconds) + 1):
        made.pass_time(start_s + min(number, seconds), day, uses, paid=True)


def woken(made: Shares, *parties: Party) -> None:
    """Let it sleep, and wake for these who ask a second from each other."""
    made.slept(0.0)
    for t_s, party in enumerate(parties):
        made.ask(float(t_s), party, awake=False)
    made.woke(5.0)


@pytest.mark.parametrize(
    ("settings", "party", "share_s", "people_too"),
    [
        ({"awake_s": 100}, STRANGER, 100, True),
        ({}, VISITOR, 8 * 3600, True),
        ({}, ROBOT, 600, False),
        ({}, PROGRAM, 600, False),
        ({"awake_s": 60}, PROGRAM, 60, True),
        ({"awake_s": 3600}, PROGRAM, 600, False),
    ],
)
def test_who_has_requests_in_flight_pays_for_the_time_until_the_share_is_used_up(
    settings: dict[str, int], party: Party, share_s: int, people_too: bool
) -> None:
    made = shares(**settings)
    passed(made, share_s - 1, [Use(party, 1)])
    assert not made.over(party)
    passed(made, 1, [Use(party, 1)])
    assert made.over(party)
    assert made.spent == ((party.address,) if people_too else ())
    assert made.spent_by_programs == (() if party.person else (party.address,))


@pytest.mark.parametrize(
    ("settings", "party", "wakes"),
    [({}, VISITOR, 100), ({}, PROGRAM, 10), ({"wakes": 2}, STRANGER, 2)],
)
def test_a_wake_counts_when_the_server_sleeps_again_until_the_share_is_used_up(
    settings: dict[str, int], party: Party, wakes: int
) -> None:
    made = shares(**settings)
    for wake in range(wakes):
        woken(made, party)
        assert not made.over(party), wake
    made.slept(6.0)
    assert made.over(party)


def test_person_behind_the_address_of_a_program_that_is_over_is_not() -> None:
    made = shares()
    passed(made, 2000, [Use(PROGRAM, 1)])
    assert made.over(PROGRAM)
    assert not made.over(STRANGER)
    assert made.visitor(STRANGER)


def test_addresses_of_a_network_pay_together_and_programs_of_it_half_an_hour() -> None:
    made = shares(awake_s=100)
    for number in range(4):
        passed(made, 75, [Use(Party(10 + number, 99), 1)])
    assert made.over(Party(10, 99))
    assert made.over(Party(1000, 99))
    assert made.spent == (99,)
    made = shares()
    for address in range(10):
        passed(made, 180, [Use(Party(10 + address, 102, program=True), 1)])
    assert made.over(Party(99, 102, program=True))
    assert not made.over(Party(99, 102))


@pytest.mark.parametrize("other", [VISITOR, OWN])
def test_those_in_flight_at_once_split_it_and_the_offices_own_pay_nothing(other: Party) -> None:
    made = shares(awake_s=100)
    uses = [Use(STRANGER, 50), Use(other, 1)]
    passed(made, 199, uses)
    assert not made.over(STRANGER)
    passed(made, 1, uses)
    assert made.over(STRANGER)
    assert made.over(other) is (other is VISITOR)


def test_with_nobody_in_flight_who_asked_last_pays() -> None:
    made = shares(awake_s=100)
    made.ask(0.0, VISITOR, awake=True)
    made.ask(0.0, STRANGER, awake=True)
    passed(made, 20, [])
    assert made.addresses.left_s(STRANGER.address) == 80
    assert made.addresses.left_s(VISITOR.address) == 100


def test_when_it_waits_for_one_no_longer_who_asked_before_pays() -> None:
    made = shares(awake_s=1000)
    passed(made, 0, [])
    made.addresses.charge(STRANGER.address, 980, 0)
    made.ask(0.0, VISITOR, awake=True)
    made.ask(0.0, STRANGER, awake=True)
    passed(made, 30, [])
    assert made.addresses.left_s(STRANGER.address) == pytest.approx(10, abs=1)
    assert made.addresses.left_s(VISITOR.address) == pytest.approx(980, abs=1)


def test_it_waits_for_one_a_quarter_of_what_is_left_to_him_and_for_the_offices_own_on() -> None:
    made = shares(awake_s=100)
    made.addresses.charge(STRANGER.address, 20, 0)
    made.ask(0.0, STRANGER, awake=True)
    assert made.others_since_s(19.9) == 0.0
    assert made.others_since_s(20.0) is None
    made.ask(0.0, OWN, awake=True)
    assert made.others_since_s(1e6) == 0.0


@pytest.mark.parametrize(("party", "part"), [(STRANGER, 100), (PROGRAM, 50), (ROBOT, 50)])
def test_a_policy_learns_from_people_until_the_share_ends_and_from_programs_for_half(
    party: Party, part: int
) -> None:
    made = shares(awake_s=100)
    made._charge(party, part - 1, 0)
    assert made.visitor(party)
    made._charge(party, 1, 0)
    assert not made.visitor(party)


def test_a_lone_program_comes_back_ten_times_before_it_is_over() -> None:
    made = shares()
    for visit in range(9):
        t_s = 1000.0 * visit
        made.slept(t_s)
        made.ask(t_s, PROGRAM, awake=False)
        made.woke(t_s + WAKE_S)
        made._t_s = t_s + WAKE_S
        while made.others_since_s(made._t_s) is not None:
            made.pass_time(made._t_s + 1, 1, [], paid=True)
    assert not made.over(PROGRAM)


def test_time_that_is_not_paid_or_that_nobody_looked_is_on_nobodys_account() -> None:
    for times, paid in ((range(1000), False), ((0, 5000), True)):
        made = shares(awake_s=100)
        for t_s in times:
            made.pass_time(float(t_s), 1, [Use(STRANGER, 1)], paid=paid)
        assert not made.over(STRANGER), paid


def test_all_robots_pay_together_and_each_for_its_address_too() -> None:
    made = shares(awake_s=100)
    for number in range(10):
        passed(made, 10, [Use(Party(10 + number, 20 + number, robot=True), 1)])
    assert made.robots_over
    assert made.over(Party(1000, 1001, robot=True))
    assert not made.over(Party(10, 20))


def test_one_stranger_does_not_use_up_the_robots_share() -> None:
    made = shares()
    for _ in range(10):
        woken(made, ROBOT)
    made.slept(0.0)
    passed(made, 600, [Use(ROBOT, 1)])
    assert made.over(ROBOT)
    assert not made.over(Party(1000, 1001, robot=True))


def test_robots_of_one_network_use_up_a_quarter_of_the_robots_share() -> None:
    made = shares(awake_s=100)
    for number in range(3):
        for address in range(4):
            passed(made, 20, [Use(Party(10 * number + address, number, robot=True), 1)])
    assert not made.robots_over
    passed(made, 24, [Use(Party(100, 100, robot=True), 1)])
    assert not made.robots_over
    passed(made, 1, [Use(Party(100, 100, robot=True), 1)])
    assert made.robots_over


def test_a_stranger_who_poses_as_a_robot_too_has_one_account() -> None:
    made = shares(awake_s=100)
    passed(made, 50, [Use(STRANGER, 1)])
    passed(made, 50, [Use(ROBOT, 1)])
    assert made.over(STRANGER)
    assert not made.robots_over


def test_those_who_ask_for_the_same_wake_split_it() -> None:
    made = shares(wakes=2)
    for _ in range(3):
        woken(made, STRANGER, VISITOR)
    for _ in range(2):
        made.slept(0.0)
    assert not made.over(STRANGER)


def test_who_is_answered_after_the_wake_is_on_that_wake_and_not_on_the_next() -> None:
    made = shares(wakes=1)
    woken(made, VISITOR)
    made.ask(5.0, VISITOR, awake=False)
    made.slept(100.0)
    assert made.over(VISITOR)
    made.ask(200.0, STRANGER, awake=False)
    made.woke(205.0)
    made.slept(300.0)
    assert made.over(STRANGER)


def test_who_asks_while_it_falls_asleep_is_on_the_next_wake() -> None:
    made = shares(wakes=1)
    made.woke(0.0)
    made.falls_asleep()
    made.ask(1.0, STRANGER, awake=False)
    made.slept(2.0)
    assert not made.over(STRANGER)
    made.woke(7.0)
    assert made.others_since_s(8.0) == 7.0
    made.slept(60.0)
    assert made.over(STRANGER)


def test_a_robot_that_waits_for_a_wake_is_whom_it_is_woken_for() -> None:
    made = shares(wakes=1)
    made.slept(0.0)
    made.pass_time(1.0, 1, [Use(ROBOT, 1)], paid=True)
    made.woke(5.0)
    made.slept(60.0)
    assert made.over(ROBOT)


def test_a_server_that_nobody_asked_for_is_awake_for_the_office_whoever_came_before() -> None:
    for visits in ((), (VISITOR,)):
        made = shares(awake_s=100)
        for party in visits:
            made.ask(0.0, party, awake=True)
        made.slept(50.0)
        made.woke(60.0)
        assert made.others_since_s(64.0) == 60.0
        passed(made, 1000, [])
        assert made.spent == ()


def test_the_day_after_the_accounts_are_empty() -> None:
    made = shares(awake_s=100)
    passed(made, 100, [Use(STRANGER, 1)])
    passed(made, 1, [], day=2)
    assert made.spent == ()
    passed(made, 98, [Use(STRANGER, 1)], day=2)
    assert not made.over(STRANGER)


def test_without_limits_nobody_is_ever_over() -> None:
    made = shares(awake_s=0, wakes=0)
    for _ in range(100):
        woken(made, STRANGER)
    passed(made, 5000, [Use(STRANGER, 1)])
    assert not made.over(STRANGER)


def test_another_limit_holds_for_the_day_that_is_under_way() -> None:
    made = shares(awake_s=100)
    passed(made, 100, [Use(STRANGER, 1)])
    made.configure(Settings(awake_s=200))
    assert not made.over(STRANGER)
    made.configure(Settings(awake_s=50))
    assert made.over(STRANGER)


@pytest.mark.parametrize("robot", [ROBOT, OWN_ROBOT])
def test_robots_in_flight_keep_it_awake_for_a_minute_on_end(robot: Party) -> None:
    made = shares()
    uses = [Use(robot, 1)]
    assert made.keeping(0.0, uses) == uses
    assert made.keeping(ROBOTS_S - 1, uses) == uses
    assert made.keeping(ROBOTS_S, uses) == []
    assert made.keeping(ROBOTS_S + 1, []) == []
    assert made.keeping(ROBOTS_S + 2, uses) == uses


def test_robots_one_after_another_are_robots_on_end() -> None:
    made = shares()
    for second in range(int(ROBOTS_S)):
        assert made.keeping(second, [Use(Party(second + 1, 9, robot=True), 1)])
    assert made.keeping(ROBOTS_S, [Use(Party(999, 9, robot=True), 1)]) == []


def test_people_in_flight_keep_it_awake_without_end_unless_they_are_over() -> None:
    made = shares(awake_s=100)
    uses = [Use(STRANGER, 1), Use(VISITOR, 1), Use(OWN, 1)]
    assert made.keeping(0.0, uses) == made.keeping(1e6, uses) == uses
    passed(made, 100, [Use(STRANGER, 1)])
    assert made.keeping(2e6, uses) == uses[1:]


def test_a_flood_of_addresses_takes_bounded_memory_and_forgets_no_spender() -> None:
    made = shares()
    passed(made, 200, [Use(PROGRAM, 1)])  # a third of a share
    for number in range(2 * ACCOUNTS):
        flooding = Party(10 + number, 10**6 + number, program=True)
        made.ask(200.0, flooding, awake=True)
        made.pass_time(200.0 + 2.0 * number, 1, [], paid=True)
    assert all(len(accounts) <= ACCOUNTS for accounts in made._all)
    flooded_s = made._t_s or 0.0
    assert flooded_s < DAY_S
    passed(made, 400, [Use(PROGRAM, 1)])
    assert made.over(PROGRAM)


@hypothesis_settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 700), st.integers(0, 3))))
def test_of_a_full_table_the_largest_accounts_stay(charges: list[tuple[int, float, int]]) -> None:
    made = shares()
    for who, awake_s, wakes in charges:
        made.programs.charge(who, awake_s, wakes)
    over = set(made.programs.over)
    for who in range(2 * 10**6, 2 * 10**6 + ACCOUNTS):
        made.programs.charge(who, 0.001, 0.0)
    made.programs.change(Limit(600, 10))
    assert set(made.programs.over) == over


# A week with somebody hostile


@dataclass
class World:
    """A server, a policy and the shares, put together as the controller does it."""

    policy: Policy
    shares: Shares
    state: State = State.ASLEEP
    t_s: float = 1.7e9 // DAY_S * DAY_S
    awake_s: float = 0.0
    waiting_s: float = math.inf
    since_s: float = -math.inf
    in_flight: dict[Party, float] = field(default_factory=dict)
    refused: list[Party] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def uses(self) -> list[Use]:
        self.in_flight = {p: end for p, end in self.in_flight.items() if end > self.t_s}
        return self.shares.keeping(self.t_s, [Use(party, 1) for party in self.in_flight])

    def until(self, end_s: float) -> None:
        """Let time pass: small steps while it is awake, one while it sleeps."""
        while self.t_s < end_s:
            if self.state is State.ASLEEP:
                self.t_s = end_s
                return
            uses, patient = self.uses(), not self.policy.decide(self.t_s).sleep
            if self.state is State.AWAKE and not patient and not uses:
                self.sleep()
                continue
            before_s = self.t_s
            self.t_s = min(end_s, self.t_s + STEP_S, self.waiting_s)
            # At the end of a share the controller looks four times a second.
            if self.near_the_end():
                self.t_s = min(self.t_s, before_s + BEAT_S)
            self.awake_s += self.t_s - before_s
            day = int(self.t_s // DAY_S)
            used_up = self.shares.pass_time(self.t_s, day, uses, paid=True)
            since_s = self.shares.others_since_s(self.t_s) or -math.inf
            if used_up or since_s < self.since_s:
                self.forget()
            self.since_s = since_s
            if self.t_s >= self.waiting_s:
                self.wake()

    def near_the_end(self) -> bool:
        accounts = self.shares._all[:-1]
        return any(
            each.limit.awake_s - account.awake_s < STEP_S
            for each in accounts
            for who, account in each._accounts.items()
            if each.limit.awake_s and who not in each.over
        )

    def forget(self) -> None:
        since_s = self.shares.others_since_s(self.t_s)
        self.policy.forget(self.t_s - 1e9 if since_s is None else since_s)

    def wake(self) -> None:
        self.state, self.waiting_s = State.AWAKE, math.inf
        self.policy.observed(self.t_s, State.AWAKE)
        self.shares.woke(self.t_s)
        if self.shares.others_since_s(self.t_s) is None:
            self.forget()

    def sleep(self) -> None:
        self.state = State.ASLEEP
        self.policy.observed(self.t_s, State.FALLING_ASLEEP)
        self.policy.observed(self.t_s, State.ASLEEP)
        self.shares.slept(self.t_s)
        self.slept.append(self.t_s)

    def request(self, party: Party, lasts_s: float) -> None:
        if self.shares.over(party):
            self.refused.append(party)
            if self.state is State.AWAKE:
                self.in_flight[party] = self.t_s + lasts_s
            return
        awake = self.state is State.AWAKE
        klass = Klass.CRAWLER if party.robot else Klass.API if party.program else Klass.PERSON
        if self.state is State.ASLEEP:
            self.state, self.waiting_s = State.WAKING, self.t_s + WAKE_S
        self.in_flight[party] = self.t_s + lasts_s + (0.0 if awake else WAKE_S)
        delay_s = 0.0 if awake else WAKE_S
        request = Request(self.t_s, party.address, klass, True, True, delay_s=delay_s)
        if self.shares.visitor(party):
            self.policy.request(request)
        if self.policy.counts(request) or not awake:
            self.shares.ask(self.t_s, party, awake=awake)


Doing = tuple[float, Party, float]
"""When, who, how long its request lasts."""

VISITS: Final = [
    (day * DAY_S + hour * 3600.0, VISITOR, 0.5) for day in range(7) for hour in (8, 16)
]
WEEK_S: Final = 7 * DAY_S


def hostile(
    cycle_of: list[tuple[float, bool, float]], stranger: Party = PROGRAM
) -> Iterator[Doing]:
    """Do the same things over and over: wait, ask as oneself or as a robot, and stay."""
    t_s = 0.0
    for wait_s, robot, lasts_s in cycle(cycle_of):
        t_s += wait_s
        if t_s >= WEEK_S:
            return
        yield t_s, ROBOT if robot else stranger, lasts_s


def live(
    world: World, attack: Iterator[Doing], visits: Sequence[Doing] = (), length_s: float = WEEK_S
) -> World:
    start_s = world.t_s
    doings = heapq.merge(attack, visits)
    for t_s, party, lasts_s in takewhile(lambda doing: doing[0] < length_s, doings):
        world.until(start_s + t_s)
        world.request(party, lasts_s)
    world.until(start_s + length_s)
    return world


def world_of(made: Policy, **limits: int) -> World:
    world = World(made, shares(**limits))
    world.policy.observed(world.t_s, State.ASLEEP)
    world.shares.slept(world.t_s)
    return world


SETUP: Final = policy.Setup(4.1, 0.9, 60.0, 4.0, WAKE_S)


def waiting(idle_s: float) -> Policy:
    return timeout.make(timeout.Settings(idle_s=idle_s), SETUP)


def alone(visits: list[Doing], idle_s: float) -> float:
    """Return what visitors who come one by one cost at most."""
    return sum(WAKE_S + lasts_s + idle_s for _, _, lasts_s in visits)


STRATEGIES: Final = {
    "a silent tunnel": [(5.0, False, WEEK_S)],
    "a silent tunnel, opened anew": [(30.0, False, 3600.0)],
    "a byte every 3 s as a robot": [(3.0, True, 4.0)],
    "a robot's POST in bytes, and again": [(58.0, True, 57.0)],
    "a page each minute": [(60.0, False, 0.1)],
    "a page each ten minutes": [(601.0, False, 0.1)],
    "just before it sleeps": [(170.0, False, 0.1)],
    "woken again and again": [(190.0, False, 0.1)],
    "person and robot in turn": [(20.0, False, 15.0), (10.0, True, 60.0)],
}
MOST_A_DAY_S: Final = 600 + WAKE_S + 2 * BEAT_S
PERSON_A_DAY_S: Final = 8 * 3600 + WAKE_S + 2 * BEAT_S


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("idle_s", [180.0, 7200.0])
def test_a_program_costs_at_most_ten_minutes_a_day_in_a_week(name: str, idle_s: float) -> None:
    world = live(world_of(waiting(idle_s)), hostile(STRATEGIES[name]))
    assert world.awake_s <= 7 * MOST_A_DAY_S


@pytest.mark.parametrize("name", STRATEGIES)
def test_who_poses_as_a_person_costs_at_most_eight_hours_a_day_in_a_week(name: str) -> None:
    world = live(world_of(waiting(7200.0)), hostile(STRATEGIES[name], STRANGER))
    assert world.awake_s <= 7 * PERSON_A_DAY_S


@pytest.mark.parametrize("name", ["a page each ten minutes", "person and robot in turn"])
def test_without_a_limit_the_same_keeps_it_awake_all_day(name: str) -> None:
    limits = {"awake_s": 0, "wakes": 0}
    attack = hostile(STRATEGIES[name])
    world = live(world_of(waiting(7200.0), **limits), attack, length_s=DAY_S)
    assert world.awake_s > 0.99 * DAY_S


things = st.tuples(
    st.floats(60.0, 5000.0), st.booleans(), st.sampled_from([0.1, 50.0, 59.0, 600.0, 90000.0])
)


@hypothesis_settings(max_examples=25)
@given(st.lists(things, min_size=1, max_size=6), st.sampled_from([60.0, 240.0, 1800.0]))
def test_no_stranger_costs_more_than_the_share_nor_harms_a_visitor(
    attack: list[tuple[float, bool, float]], idle_s: float
) -> None:
    world = live(world_of(waiting(idle_s)), hostile(attack), VISITS)
    assert world.awake_s <= alone(VISITS, idle_s) + 7 * MOST_A_DAY_S
    assert VISITOR not in world.refused
    for t_s, _, _ in VISITS:
        asked_s = 1.7e9 // DAY_S * DAY_S + t_s
        assert not any(asked_s <= slept_s < asked_s + idle_s for slept_s in world.slept)


@given(st.lists(things, min_size=1, max_size=4))
@hypothesis_settings(max_examples=20)
def test_the_rule_of_the_thesis_waits_for_no_spender(
    attack: list[tuple[float, bool, float]],
) -> None:
    # With a promise that allows every wait: how often it may be broken is another question.
    made = thesis.make(thesis.Settings(min_awake_s=300, min_idle_s=1800, fraction=1.0), SETUP)
    assert live(world_of(made), hostile(attack)).awake_s <= 7 * MOST_A_DAY_S


def test_five_strangers_of_five_networks_cost_five_shares() -> None:
    attack = (
        (t_s, Party(10 + t_s // 30 % 5, 20 + t_s // 30 % 5, program=True), 40.0)
        for t_s in range(0, int(WEEK_S), 30)
    )
    world = live(world_of(waiting(7200.0)), attack)
    assert world.awake_s <= 5 * 7 * MOST_A_DAY_S
