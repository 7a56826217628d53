import random
from collections.abc import Callable

import pytest
from naproxy.core.reason import Reason, own_words, together
from naproxy.core.state import State
from naproxy.server.commissioning import (
    BUSY_S,
    EVERY_S,
    PREPARE_S,
    Cancel,
    Commanded,
    Commissioning,
    Drawn,
    Entered,
    Event,
    Given,
    Inhibited,
    Order,
    Passed,
    Phase,
    Plan,
)
from naproxy.server.seeing import Pinged

TESTED = Reason("server.commissioned_now")
WOKE_ITSELF = Reason("server.woke_itself")
STOPPED = Reason("server.stopped_answering", detail=own_words("no answer in 1 s"))
NOT_UP = Reason("server.not_up", calls=60, took_s=30, why=own_words("it draws 1.6 W"))
CONNECTIONS = Reason("server.connections", number=1)
PLAN = Plan(cycles=5, awake_s=10.0, asleep_s=10.0)
FALL_S, RISE_S = 3.9, 0.15
ON_W, OFF_W, SWITCH_J = 43.3, 1.6, 170.7
SURGE_W = ON_W + (SWITCH_J - FALL_S * (ON_W - OFF_W)) / RISE_S


class Office:
    """A server, a clock, a ping and a meter; `step` is every 10 ms."""

    STEP_S = 0.01

    def __init__(self, plan: Plan = PLAN, state: State = State.AWAKE) -> None:
        self.now_s = 1000.0
        self.state = state
        self.commissioning = Commissioning(plan, self.now_s, state)
        self.orders: list[Order] = []
        self.fall_s = FALL_S
        self.asked_s = 0.0
        self.login_s: float | None = None
        self._given_s = -1.0
        self.inhibitors: tuple[Reason, ...] = ()
        self.wakes = True
        self.meter: Callable[[float], float | None] | None = lambda power_w: power_w
        self.pings = True
        self.firmware = False
        self._due_s = -1.0
        self._every_s = self.now_s
        self._energy_j = 0.0
        self._read_s = self.now_s

    def power_w(self) -> float:
        if self.state is State.WAKING:
            return SURGE_W
        return OFF_W if self.state is State.ASLEEP else ON_W

    def send(self, event: Event) -> None:
        for order in self.commissioning.step(self.now_s, event):
            self.orders.append(order)
            if order is Order.SLEEP and self.inhibitors:
                self.send(Inhibited(self.inhibitors))
            elif order is Order.SLEEP:
                self.enter(State.FALLING_ASLEEP, TESTED)
                self.send(Commanded())
                self._due_s = self.now_s + self.fall_s + self.asked_s + (self.login_s or 0.0)
                self._given_s = self.now_s + self.asked_s
            elif self.state is State.ASLEEP:
                self.wake()

    def wake(self, reason: Reason = TESTED) -> None:
        self.enter(State.WAKING, reason)
        self._due_s = self.now_s + RISE_S

    def enter(self, state: State, reason: Reason = TESTED, took_s: float | None = None) -> None:
        self.state = state
        self.send(Entered(state, reason, took_s))

    def play(self, seconds: float) -> "Office":
        end_s = self.now_s + seconds
        while self.now_s < end_s and not self.commissioning.ended:
            self.now_s += self.STEP_S
            self._energy_j += self.power_w() * self.STEP_S
            if 0 < self._given_s <= self.now_s:
                self._given_s = -1.0
                self.send(Given(self.login_s))
            if 0 < self._due_s <= self.now_s:
                self._due_s = -1.0
                self._due()
            if self.now_s >= self._every_s:
                self._every_s += EVERY_S
                self._look()
        return self

    def _due(self) -> None:
        if self.state is State.FALLING_ASLEEP:
            self.enter(State.ASLEEP, took_s=self.fall_s)
        elif self.state is State.WAKING and self.wakes:
            self.enter(State.AWAKE, Reason("server.up_after", took_s=RISE_S), RISE_S)
        elif self.state is State.WAKING:
            self.enter(State.TROUBLE, NOT_UP)

    def _look(self) -> None:
        up = self.state in (State.AWAKE, State.FALLING_ASLEEP)
        self.send(Pinged(self.pings and (up or self.firmware), self.now_s))
        # A meter tells the mean since it was last read.
        mean_w = self._energy_j / max(self.now_s - self._read_s, 1e-9)
        self._energy_j, self._read_s = 0.0, self.now_s
        self.send(Drawn(self.meter(mean_w) if self.meter else None))
        self.send(Passed())

    def to(self, phase: Phase, most_s: float = 1000.0) -> "Office":
        end_s = self.now_s + most_s
        while self.commissioning.phase is not phase:
            assert self.now_s < end_s, self.commissioning.phase
            assert not self.commissioning.ended, self.commissioning.reason
            self.play(self.STEP_S)
        return self

    def status(self) -> dict[str, object]:
        return self.commissioning.status(self.now_s)


def assert_failed(office: Office, cycle: int, why: Reason, *, disproved: bool) -> None:
    made = office.commissioning
    reason = Reason("server.in_cycle", cycle=cycle, cycles=5, why=why)
    assert (made.phase, made.reason, made.disproved) == (Phase.FAILED, reason, disproved)


@pytest.fixture(scope="module")
def passed() -> Office:
    """One whose server woke every time."""
    return Office().play(1000)


def test_a_server_that_wakes_every_time_is_armed(passed: Office) -> None:
    assert passed.commissioning.phase is Phase.PASSED
    assert passed.commissioning.reason == Reason("server.woke_every_time", times=5)
    assert passed.orders.count(Order.SLEEP) == 5
    assert passed.state is State.AWAKE


def test_times_and_mean_power_of_each_cycle_are_measured(passed: Office) -> None:
    for cycle in passed.commissioning.cycles:
        assert (cycle.fell_s, cycle.rose_s) == (FALL_S, RISE_S)
        assert cycle.fell_ping_s == pytest.approx(FALL_S, abs=EVERY_S + 0.02)
        assert cycle.rose_ping_s == pytest.approx(RISE_S, abs=EVERY_S + 0.02)
        assert cycle.awake_w == pytest.approx(ON_W, rel=0.05)
        assert cycle.asleep_w == pytest.approx(OFF_W, rel=0.1)


def test_the_time_of_a_login_is_subtracted_from_the_time_to_fall_asleep(passed: Office) -> None:
    assert all(cycle.fell_net_s is None for cycle in passed.commissioning.cycles)
    assert "fell_net_s" not in passed.status()["times"]  # type: ignore[operator]
    office = Office()
    office.asked_s, office.login_s = 0.7, 0.5
    office.play(1000)
    for cycle in office.commissioning.cycles:
        assert cycle.fell_ping_s == pytest.approx(0.7 + 0.5 + FALL_S, abs=EVERY_S + 0.04)
        assert cycle.fell_net_s == pytest.approx(FALL_S, abs=EVERY_S + 0.04)
    times = office.status()["times"]
    assert times["fell_net_s"]["p50"] == pytest.approx(FALL_S, abs=0.2)  # type: ignore[index]


def test_the_whiles_differ_so_that_watts_and_joules_can_be_told_apart(passed: Office) -> None:
    cycles = passed.commissioning.cycles
    assert [round(c.on_s, -1) for c in cycles] == [10, 50, 10, 50, 30]
    assert [round(c.off_s - FALL_S, -1) for c in cycles] == [10, 10, 50, 50, 30]


def test_power_and_switch_cost_are_recovered_from_a_meter_with_noise() -> None:
    office = Office()
    chance = random.Random(42)
    office.meter = lambda power_w: power_w + chance.gauss(0, 0.5)
    office.play(1000)
    fit = office.status()["fit"]
    assert isinstance(fit, dict)
    for name, truth in (("on_w", ON_W), ("off_w", OFF_W), ("switch_j", SWITCH_J)):
        assert fit[name]["low"] <= truth <= fit[name]["high"]
        assert fit[name]["value"] == pytest.approx(truth, rel=0.05, abs=0.2)


def test_without_a_meter_times_are_measured_all_the_same() -> None:
    office = Office()
    office.meter = None
    office.play(1000)
    assert office.commissioning.phase is Phase.PASSED
    status = office.status()
    assert (status["fit"], status["no_fit"]) == (None, Reason("server.no_meter").plain())
    assert status["times"]["rose_s"]["p50"] == RISE_S  # type: ignore[index]


def test_a_meter_that_was_silent_for_long_gives_no_energy() -> None:
    office = Office()
    office.meter = lambda power_w: power_w if int(office.now_s) % 20 < 10 else None
    office.play(1000)
    assert all(cycle.energy_j is None for cycle in office.commissioning.cycles)


def test_without_pings_of_the_server_the_times_are_those_of_the_probe_only() -> None:
    for firmware, notes in ((False, []), (True, [Reason("server.firmware_pings")])):
        office = Office()
        office.pings, office.firmware = firmware, firmware
        office.play(1000)
        assert office.commissioning.phase is Phase.PASSED, firmware
        pings = {(c.fell_ping_s, c.rose_ping_s) for c in office.commissioning.cycles}
        assert pings == {(None, None)}, firmware
        assert office.commissioning.notes == notes, firmware
        assert "rose_ping_s" not in office.status()["times"], firmware  # type: ignore[operator]


def test_one_failed_wake_is_enough_not_to_arm_and_the_server_is_still_to_be_woken() -> None:
    office = Office().to(Phase.AWAKE).to(Phase.ASLEEP)
    office.wakes = False
    office.play(1000)
    assert_failed(office, 2, NOT_UP, disproved=True)
    assert len(office.commissioning.cycles) == 1
    assert office.orders[-1] is Order.WAKE


def test_a_server_that_goes_down_again_after_the_wake_is_not_armed() -> None:
    office = Office().to(Phase.AWAKE)
    office.enter(State.WAKING, STOPPED)
    assert office.commissioning.phase is Phase.FAILED
    assert office.commissioning.disproved


def test_a_moment_without_an_answer_while_awake_is_not_a_failure() -> None:
    office = Office().to(Phase.AWAKE)
    office.enter(State.UNKNOWN, STOPPED)
    office.enter(State.AWAKE, Reason("server.answers"))
    assert office.play(1000).commissioning.phase is Phase.PASSED


def test_a_server_that_sleeps_is_woken_first() -> None:
    office = Office(state=State.ASLEEP).play(1000)
    assert office.orders[0] is Order.WAKE
    assert office.commissioning.phase is Phase.PASSED


def test_cancelled_it_ends_awake_and_not_armed() -> None:
    preparing = Office(state=State.WAKING)
    others = (Phase.FALLING, Phase.ASLEEP, Phase.RISING, Phase.AWAKE)
    for office in (preparing, *(Office().to(phase) for phase in others)):
        phase, awake = office.commissioning.phase, office.state is State.AWAKE
        office.orders.clear()
        office.send(Cancel())
        assert office.commissioning.phase is Phase.CANCELLED, phase
        assert office.orders == ([] if awake else [Order.WAKE]), phase


def test_somebody_who_needs_the_server_shortens_its_sleep_and_no_more() -> None:
    office = Office().to(Phase.ASLEEP).play(2)
    office.wake(own_words("page asked for by 192.0.2.17"))
    office.play(1000)
    assert office.commissioning.phase is Phase.PASSED
    assert office.commissioning.cycles[0].off_s == pytest.approx(FALL_S + 2, abs=0.2)


def test_a_wake_while_it_falls_asleep_begins_the_cycle_again() -> None:
    office = Office().to(Phase.FALLING).play(1)
    again = Reason("server.woke_again")
    office.enter(State.AWAKE, again)
    office._due_s = -1
    office.play(1000)
    assert office.commissioning.phase is Phase.PASSED
    assert office.commissioning.notes == [Reason("server.cycle_again", cycle=1, why=again)]
    assert office.orders.count(Order.SLEEP) == 6


def test_a_server_that_wakes_by_itself_each_time_is_not_armed() -> None:
    office = Office()
    for _ in range(3):
        office.to(Phase.ASLEEP)
        office.enter(State.AWAKE, WOKE_ITSELF)
    why = Reason("server.did_not_stay_asleep", times=3, why=WOKE_ITSELF)
    assert_failed(office, 1, why, disproved=False)


def test_a_reason_against_sleep_is_waited_for_and_reported() -> None:
    office = Office()
    office.inhibitors = (CONNECTIONS,)
    office.play(5)
    assert office.commissioning.phase is Phase.PREPARING
    assert office.status()["reason"] == CONNECTIONS.plain()
    office.inhibitors = ()
    assert office.play(1000).commissioning.phase is Phase.PASSED


@pytest.mark.parametrize(
    "busy",
    [
        Reason("sleep.busy_load", load="4.20", limit="1.0"),
        Reason("sleep.busy_packages", file="/var/lib/dpkg/lock"),
    ],
)
def test_a_server_that_is_busy_after_an_installation_is_waited_for(busy: Reason) -> None:
    refused = Reason("sleep.refused", who=Reason("sleep.the_server"), words=busy)

    def refuse(office: Office, seconds: float) -> None:
        end_s = office.now_s + seconds
        while office.now_s < end_s and not office.commissioning.ended:
            office.to(Phase.FALLING)
            office.play(0.1)
            office.enter(State.AWAKE, refused)
            office._due_s = -1.0
            assert office.status()["reason"] == refused.plain()
            office.play(EVERY_S)

    office = Office()
    refuse(office, PREPARE_S + 60)
    assert office.play(1000).commissioning.phase is Phase.PASSED
    office = Office()
    refuse(office, BUSY_S - 20)
    office.inhibitors = (refused,)
    office.play(60)
    assert_failed(office, 1, Reason("server.cannot_sleep", why=refused), disproved=False)


def test_a_lasting_reason_against_sleep_ends_it_with_that_reason() -> None:
    office = Office()
    kept = Reason("server.kept_awake")
    office.inhibitors = (kept, CONNECTIONS)
    office.play(PREPARE_S + 1)
    why = Reason("server.cannot_sleep", why=together(kept, CONNECTIONS))
    assert_failed(office, 1, why, disproved=False)


def test_after_the_end_nothing_is_asked_for_any_more() -> None:
    office = Office().play(1000)
    office.orders.clear()
    office.enter(State.TROUBLE, NOT_UP)
    office.send(Passed())
    assert (office.orders, office.commissioning.phase) == ([], Phase.PASSED)


def test_progress_is_told() -> None:
    status = Office().to(Phase.AWAKE).to(Phase.ASLEEP).status()
    assert (status["cycle"], status["cycles"], status["phase"]) == (2, 5, "asleep")
    assert len(status["done"]) == 1  # type: ignore[arg-type]
