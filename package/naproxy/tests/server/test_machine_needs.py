"""A server that needs others: they are up before it is called, or were waited for long enough."""

from dataclasses import replace

import pytest
from naproxy.core.reason import Reason, own_words
from naproxy.core.state import State
from naproxy.server.machine_io import (
    Alert,
    Needed,
    NeedsMet,
    RungFailed,
    SendWake,
    Tick,
    Transition,
    WakeAsked,
)
from naproxy.server.seeing import Sign
from test_machine import TIMES, WAKE_REQUEST, Office

UP = Needed()
NAS = Needed(waking=("nas",), up_in_s=40.0, limit_s=200.0)


class Needy(Office):
    """Its ticks say how the servers are that it needs."""

    def __init__(self) -> None:
        super().__init__(times=replace(TIMES, needs=True))
        self.needed = NAS

    def let(self, seconds: float) -> None:
        """Let time pass while it is silent."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + 0.1)
            self.see(Sign.SILENT, begun_s=self.now_s - 0.3)
            if self.machine.next_s <= self.now_s:
                self.step(Tick(0, self.needed))


@pytest.fixture
def waiting() -> Needy:
    """It slept, somebody asked for it, and the NAS is not up yet."""
    office = Needy()
    office.asleep()
    office.step(WakeAsked(WAKE_REQUEST))
    office.let(1)
    return office


def test_a_server_is_not_called_before_those_that_it_needs_are_up(waiting: Needy) -> None:
    assert waiting.state() is State.WAKING, "requests are held from here on"
    waiting.let(100)
    assert waiting.of(SendWake) == []
    assert waiting.machine.waits_for == Reason("server.waits_for", names=("nas",))
    waiting.needed = UP
    waiting.let(0.2)
    assert waiting.of(SendWake) == [SendWake(0)]
    assert waiting.machine.waits_for is None


def test_one_whose_needs_are_met_is_called_at_once() -> None:
    office = Needy()
    office.asleep()
    office.needed = UP
    office.step(WakeAsked(WAKE_REQUEST))
    assert office.machine.next_s == office.now_s
    office.step(Tick(0, UP))
    assert office.of(SendWake) == [SendWake(0)]


def test_one_that_failed_is_not_waited_for_and_named(waiting: Needy) -> None:
    waiting.needed = Needed(failed=("nas",))
    waiting.let(0.2)
    without = Reason("server.woken_without", names=("nas",))
    assert waiting.of(SendWake) == [SendWake(0)]
    assert waiting.of(Alert) == [Alert(without)]
    waiting.see(Sign.READY)
    assert waiting.state() is State.AWAKE
    assert waiting.machine.alert == without, "it works without what it needs"
    waiting.step(NeedsMet())
    assert waiting.machine.alert is None


def test_waiting_for_them_has_an_end(waiting: Needy) -> None:
    waiting.let(198)
    assert waiting.of(SendWake) == []
    waiting.let(2)
    assert waiting.of(SendWake)
    assert waiting.machine.alert == Reason("server.woken_without", names=("nas",))


def test_how_long_it_takes_to_wake_does_not_include_the_others(waiting: Needy) -> None:
    assert waiting.machine.eta_s(waiting.now_s) == 40 + 5
    waiting.let(60)
    waiting.needed = UP
    waiting.let(0.1)
    waiting.let(3)
    waiting.see(Sign.READY)
    assert waiting.machine.wake.value_s == pytest.approx(3, abs=0.3)
    assert waiting.closed()[0].waited_s == pytest.approx(64, abs=1), "the visitor waited longer"


def test_waiting_for_another_server_never_ends_in_trouble(waiting: Needy) -> None:
    waiting.step(RungFailed(0, own_words("of an earlier call")))
    waiting.let(190)
    assert [e.state for e in waiting.effects if isinstance(e, Transition)] == [State.WAKING]
    waiting.needed = UP
    waiting.let(0.2)
    assert waiting.state() is State.WAKING


def test_one_that_wakes_by_itself_meanwhile_is_awake(waiting: Needy) -> None:
    waiting.see(Sign.READY)
    assert waiting.state() is State.AWAKE
    assert waiting.machine.reason == Reason("server.woke_itself")
    assert waiting.machine.wake.count == 0
    waiting.let(0)
    assert waiting.of(SendWake) == []
