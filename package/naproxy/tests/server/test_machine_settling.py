"""After a wake: when the site answers as it did before it slept."""

from dataclasses import replace

import pytest
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.server import machine
from naproxy.server.machine import Times
from naproxy.server.machine_io import (
    Alert,
    Answer,
    SleepAnswered,
    SleepAsked,
    SleepOrdered,
    WakeAsked,
)
from naproxy.server.seeing import Sign
from test_machine import IDLE, RUNG, TIMES, WAKE_REQUEST, Office


def woken(proper: int = 200, *, times: Times = TIMES, known: machine.Wakes | None = None) -> Office:
    """Slept with this status known, and is called now; `known`: of wakes before."""
    office = Office(times=times)
    if known:
        office.machine.wakes = known
    office.see(Sign.READY, status=200)
    office.see(Sign.READY if proper < 500 else Sign.UNFIT, status=proper)
    office.step(SleepAsked(IDLE))
    office.play(machine.DRAIN_S + 0.01)
    office.step(SleepOrdered())
    office.step(SleepAnswered(Answer.ACCEPTED, Reason("sleep.accepted")))
    office.play(2, Sign.SILENT)
    assert office.state() is State.ASLEEP
    office.step(WakeAsked(WAKE_REQUEST))
    office.clear()
    return office


def test_a_status_of_the_start_is_not_ready_and_the_one_from_before_the_sleep_is() -> None:
    for proper, other in ((200, 404), (200, 302), (302, 200), (401, 404)):
        office = woken(proper)
        for status in (503, other):
            office.see(Sign.READY if status < 500 else Sign.UNFIT, status=status)
            assert office.state() is State.WAKING, (proper, status)
        office.see(Sign.READY, status=proper)
        assert office.state() is State.AWAKE, proper
        assert office.machine.uncached_s == machine.UNCACHED_S


def test_a_site_that_has_changed_is_ready_after_a_while_and_known_from_then_on() -> None:
    office = woken(200)
    office.see(Sign.READY, status=301)
    office.now_s += machine.OTHER_S
    office.see(Sign.READY, status=301)
    assert office.state() is State.AWAKE
    assert office.machine.proper == 301


def test_a_site_that_was_in_maintenance_before_it_slept_is_not_waited_for() -> None:
    for learns, state in ((True, State.AWAKE), (False, State.WAKING)):
        office = woken(503, times=replace(TIMES, learns_proper=learns))
        office.see(Sign.UNFIT, status=503)
        assert office.state() is state, learns
    for status in (200, 404):
        office = woken(503)
        office.see(Sign.READY, status=status)
        assert office.state() is State.AWAKE, status


def test_a_quick_wake_with_the_usual_answer_is_kept_at_once() -> None:
    office = woken()
    office.play(2)
    office.see(Sign.READY, status=200)
    assert office.machine.uncached_s == 0


def test_a_slow_wake_is_not_kept_for_as_long_as_it_took() -> None:
    office = woken()
    office.now_s += 45
    office.see(Sign.READY, status=200)
    assert round(office.machine.uncached_s) == 45


def test_gateway_errors_soon_after_a_wake_hold_requests_again_and_later_do_not() -> None:
    for status, later_s, state in (
        (502, 1, State.WAKING),
        (503, 1, State.WAKING),
        (504, 1, State.WAKING),
        (500, 1, State.AWAKE),
        (503, machine.RESUME_S - 1, State.WAKING),
        (503, machine.RESUME_S + 1, State.AWAKE),
    ):
        office = woken()
        office.see(Sign.READY, status=200)
        office.play(later_s)
        for _ in range(machine.SILENT_PROBES):
            office.see(Sign.UNFIT, status=status)
        assert office.state() is state, (status, later_s)


def test_after_a_start_gateway_errors_mean_so_for_longer() -> None:
    office = woken()
    office.see(Sign.REFUSING)
    office.see(Sign.READY, status=200)
    assert office.machine.settle_s == machine.SETTLE_S
    office.play(machine.SETTLE_S - 1)
    for _ in range(machine.SILENT_PROBES):
        office.see(Sign.UNFIT, status=503)
    assert office.state() is State.WAKING


def test_a_server_that_was_never_put_to_sleep_passes_its_errors_on() -> None:
    office = Office().awake()
    for _ in range(machine.SILENT_PROBES):
        office.see(Sign.UNFIT, status=503)
    assert office.state() is State.AWAKE


def test_an_answer_no_worse_than_before_the_sleep_is_ready_at_once() -> None:
    for proper, status in ((0, 404), (404, 200), (401, 204)):
        office = woken(proper)
        office.see(Sign.READY, status=status)
        assert office.state() is State.AWAKE, (proper, status)


# How long it is waited for


def started(office: Office, after_s: float, took_s: float, sign: Sign | None = None) -> State:
    """Let it be up so long after the call; return what it was called just before."""
    office.play(after_s, sign or Sign.SILENT)
    before = office.state()
    office.now_s += took_s - after_s
    office.see(Sign.READY, status=200)
    assert office.state() is State.AWAKE
    return before


def test_a_server_that_was_switched_off_is_waited_for_as_long_as_it_may_take_to_start() -> None:
    for took_s in (75, 179):
        office = woken(times=replace(TIMES, off=True))
        assert started(office, took_s - 1, took_s) is State.WAKING
        assert office.machine.wakes.took_s == [pytest.approx(took_s)]
        assert not office.of(Alert), "no alert for a start that is only slow"


def test_a_server_that_never_starts_is_given_up_in_the_end() -> None:
    office = woken(times=replace(TIMES, off=True))
    office.play(machine.START_S + 1, Sign.SILENT)
    assert office.state() is State.TROUBLE


def test_a_wake_that_took_longer_than_it_was_waited_for_is_waited_for_the_next_time() -> None:
    office = woken()
    assert started(office, 74, 75) is State.TROUBLE
    office = woken(known=office.machine.wakes)
    assert started(office, 100, 101) is State.WAKING


def test_a_wake_by_hand_after_minutes_is_not_learned() -> None:
    office = woken()
    started(office, 10, machine.LEARN_MOST_S + 1)
    assert office.machine.wakes.took_s == []


def test_a_server_that_is_seen_to_start_is_waited_for() -> None:
    office = woken()
    assert started(office, machine.START_S - 2, machine.START_S - 1, Sign.REFUSING) is State.WAKING


def test_known_wakes_shorten_the_wait_for_a_server_that_is_switched_off() -> None:
    wakes = machine.Wakes()
    for took_s in range(41, 61):
        assert wakes.patience_s(off=True) == machine.START_S or len(wakes.took_s) >= 5
        wakes.add(float(took_s))
    assert wakes.patience_s(off=True) == pytest.approx(1.5 * 59.05)


def test_a_web_server_that_was_stopped_is_not_waited_for_as_a_start() -> None:
    office = Office(times=replace(TIMES, off=True)).awake()
    office.play(RUNG.attempts * RUNG.spacing_s + 1, Sign.REFUSING)
    assert office.state() is State.TROUBLE


def test_a_late_answer_is_expected_later_and_never_at_once() -> None:
    office = woken()
    for gone_s, eta_s in ((1, 4), (4, 1), (5, 1.25), (40, 10)):
        since_s = office.machine.since_s
        assert office.machine.eta_s(since_s + gone_s) == pytest.approx(eta_s), gone_s
