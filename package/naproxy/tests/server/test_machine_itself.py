"""A server that falls asleep by itself."""

from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server import machine
from naproxy.server.machine import Times
from naproxy.server.machine_io import Alert, InUse, Probe, SendWake, Traffic, WakeAsked
from naproxy.server.seeing import Sign
from test_machine import BUTTON, TIMES, WAKE_REQUEST, Office
from test_machine_seeing import ON_W, Seeing

ITSELF = Times(5.0, 30.0, 5.0, 5.0, sleeps_itself=True)
SILENT = WakeRequest("192.0.2.17", "miss", silent=True)


def left_to_itself(times: Times = ITSELF) -> Office:
    office = Office(times=times).awake()
    office.play(10, Sign.READY)
    office.clear()
    return office


def test_is_asleep_when_it_is_silent() -> None:
    office = left_to_itself()
    office.play(5, Sign.SILENT)
    assert office.machine.state is State.ASLEEP
    assert office.machine.reason == Reason("server.slept_itself")
    office.play(60, Sign.SILENT)
    assert not any(isinstance(effect, SendWake | Alert) for effect in office.effects)


def test_one_with_requests_at_it_is_woken_at_once_whoever_puts_it_to_sleep() -> None:
    for times in (ITSELF, TIMES):
        office = left_to_itself(times)
        office.busy = 2
        office.play(machine.GONE_S - 1, Sign.SILENT)
        assert office.machine.state is State.WAKING, times
        assert office.machine.reason == Reason("server.requests_asleep", number=2), times


def test_the_box_calls_it_before_a_probe_has_failed() -> None:
    office = left_to_itself(TIMES)
    assert isinstance(office.step(WakeAsked(SILENT))[0], SendWake)
    assert office.machine.state is State.WAKING


def test_one_that_was_only_slow_is_awake_with_the_next_probe_and_teaches_nothing() -> None:
    office = left_to_itself()
    office.step(WakeAsked(SILENT))
    office.play(0.2, Sign.READY)
    assert office.machine.state is State.AWAKE
    assert office.machine.wake.value_s == ITSELF.wake_expect_s


def test_is_probed_when_it_has_answered_no_request_for_a_second() -> None:
    office = Office().awake()
    office.step(Traffic())
    office.now_s += 0.5
    assert not office.step(InUse())
    office.now_s += 0.6
    assert office.step(InUse()) == [Probe(TIMES.interval_s)]


def test_a_state_already_in_doubt_is_not_probed_again() -> None:
    office = Office().awake()
    office.now_s += 5
    office.see(Sign.SILENT)
    office.now_s += 1
    assert not office.step(InUse())


def test_its_power_button_is_pressed_only_if_the_machine_is_seen_to_be_off() -> None:
    for pings, power_w, pressed in (
        (True, None, False),
        (None, None, False),
        (False, None, True),
        (False, 40.0, False),
        (None, 1.6, True),
    ):
        office = Seeing(times=ITSELF, rungs=(BUTTON,))
        office.power_w, office.pings = power_w and ON_W, None if pings is None else True
        office.awake()
        office.look(10, Sign.READY)
        office.power_w, office.pings = power_w, pings
        office.look(6, Sign.SILENT)
        office.step(WakeAsked(WAKE_REQUEST))
        office.look(3, Sign.SILENT)
        assert (SendWake() in office.effects) is pressed, (pings, power_w)
