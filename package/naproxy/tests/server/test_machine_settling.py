"""After a wake: when the site answers as it did before it slept."""

from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.server import machine
from naproxy.server.machine_io import Answer, SleepAnswered, SleepAsked, SleepOrdered, WakeAsked
from naproxy.server.seeing import Sign
from test_machine import IDLE, WAKE_REQUEST, Office


def woken(proper: int = 200) -> Office:
    """Slept with this status known, and is called now."""
    office = Office()
    office.see(Sign.READY, status=proper)
    office.step(SleepAsked(IDLE))
    office.play(machine.DRAIN_S + 0.01)
    office.step(SleepOrdered())
    office.step(SleepAnswered(Answer.ACCEPTED, Reason("sleep.accepted")))
    office.play(2, Sign.SILENT)
    assert office.state() is State.ASLEEP
    office.step(WakeAsked(WAKE_REQUEST))
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
        (503, machine.SETTLE_S + 1, State.AWAKE),
    ):
        office = woken()
        office.see(Sign.READY, status=200)
        office.play(later_s)
        for _ in range(machine.SILENT_PROBES):
            office.see(Sign.UNFIT, status=status)
        assert office.state() is state, (status, later_s)


def test_a_server_that_was_never_put_to_sleep_passes_its_errors_on() -> None:
    office = Office().awake()
    for _ in range(machine.SILENT_PROBES):
        office.see(Sign.UNFIT, status=503)
    assert office.state() is State.AWAKE


def test_what_is_no_worse_than_before_is_ready_at_once() -> None:
    for proper, status in ((0, 404), (404, 200), (401, 204)):
        office = woken(proper)
        office.see(Sign.READY, status=status)
        assert office.state() is State.AWAKE, (proper, status)
