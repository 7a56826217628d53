"""What the machine believes of probes, pings and a meter together."""

from naproxy.core.reason import Reason, own_words
from naproxy.core.state import State
from naproxy.server import machine
from naproxy.server.machine_io import (
    Alert,
    Answer,
    Observed,
    SendWake,
    SleepAnswered,
    SleepAsked,
    SleepOrdered,
    Traffic,
    WakeAsked,
)
from naproxy.server.seeing import Metered, Pinged, Sign
from test_machine import IDLE, PROBE_S, TIMES, WAKE_REQUEST, Office

ON_W, OFF_W = 43.3, 1.6


class Seeing(Office):
    """An office with pings and a meter: told every 100 ms while time is played."""

    power_w: float | None = None
    pings: bool | None = None

    def look(self, seconds: float, sign: Sign) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            if self.power_w is not None:
                self.step(Metered(self.power_w))
            if self.pings is not None:
                self.step(Pinged(self.pings, self.now_s - 0.01))
            self.play(PROBE_S, sign)

    def ordered(self) -> "Seeing":
        """Awake, and then ordered to sleep."""
        self.awake()
        self.look(1, Sign.READY)
        self.step(SleepAsked(IDLE))
        self.play(machine.DRAIN_S + 0.01)
        self.step(SleepOrdered())
        self.step(SleepAnswered(Answer.ACCEPTED, own_words("accepted")))
        return self

    def fallen(self) -> "Seeing":
        """Awake, put to sleep, and seen asleep."""
        self.ordered()
        self.power_w = None if self.power_w is None else OFF_W
        self.pings = None if self.pings is None else False
        self.look(3, Sign.SILENT)
        assert self.machine.state is State.ASLEEP
        self.clear()
        return self

    def in_trouble(self, sign: Sign = Sign.SILENT) -> Reason:
        """Call it in vain; return what people are told."""
        self.step(WakeAsked(WAKE_REQUEST))
        self.look(TIMES_S, sign)
        assert self.machine.state is State.TROUBLE
        assert self.machine.alert
        return self.machine.alert


TIMES_S = 4 * 0.5 + 0.2


def seeing(power_w: float | None = None, pings: bool | None = None) -> Seeing:
    office = Seeing()
    office.power_w, office.pings = power_w, pings
    return office


# Asleep


def test_silent_with_the_power_up_is_not_asleep() -> None:
    office = seeing(power_w=ON_W).ordered()
    office.look(10, Sign.SILENT)
    assert office.state() is State.FALLING_ASLEEP
    office.power_w = OFF_W
    office.look(0.5, Sign.SILENT)
    assert office.state() is State.ASLEEP


def test_a_server_that_crashes_while_it_falls_asleep_is_woken_and_told_apart() -> None:
    office = seeing(power_w=ON_W).ordered()
    office.look(TIMES.sleep_timeout_s + 0.5, Sign.SILENT)
    assert office.state() is State.WAKING
    assert office.machine.reason == Reason("server.draws_on", took_s=30)


def test_a_request_does_not_wait_for_a_slow_meter() -> None:
    office = seeing(power_w=ON_W).ordered()
    office.step(WakeAsked(WAKE_REQUEST))
    office.look(1.5, Sign.SILENT)
    assert office.state() is State.WAKING
    assert SendWake() in office.effects
    office.look(0.2, Sign.READY)
    assert office.state() is State.AWAKE
    assert not office.machine.alert


def test_a_meter_that_stopped_talking_keeps_nothing_from_being_seen_asleep() -> None:
    office = seeing(power_w=ON_W).ordered()
    office.power_w = None
    office.look(7, Sign.SILENT)
    assert office.state() is State.ASLEEP


# What cannot pass for awake


def test_a_firmware_that_answers_pings_does_not_pass_for_awake() -> None:
    office = seeing(pings=True).fallen()
    office.pings = True
    office.look(20, Sign.SILENT)
    assert office.state() is State.ASLEEP
    office.step(WakeAsked(WAKE_REQUEST))
    office.look(1, Sign.SILENT)
    assert office.state() is State.WAKING


def test_a_foreign_machine_on_its_address_does_not_pass_for_awake() -> None:
    office = seeing().fallen()
    alert = office.in_trouble(Sign.FOREIGN)
    assert alert.params["why"] == own_words("foreign")
    office.look(20, Sign.FOREIGN)
    assert office.state() is State.TROUBLE


def test_a_foreign_machine_at_the_start_is_not_a_sleeping_server_and_delays_no_visitor() -> None:
    for slept in (False, True):
        office = Seeing(slept=slept)
        office.look(machine.GONE_S + 0.5, Sign.FOREIGN)
        assert office.states() == [State.TROUBLE], slept
        assert office.of(Alert) == [Alert(own_words("foreign"))], slept


def test_a_server_whose_address_was_taken_while_awake_is_not_held_up_either() -> None:
    office = seeing()
    office.awake()
    office.look(10, Sign.FOREIGN)
    assert office.states() == [State.UNKNOWN, State.TROUBLE]
    office.look(1, Sign.READY)
    assert office.state() is State.AWAKE


def test_requests_that_a_foreign_machine_answers_do_not_pass_for_the_server() -> None:
    office = seeing()
    office.awake()
    for _ in range(30):
        office.look(0.2, Sign.FOREIGN)
        office.step(Traffic())
    assert office.states()[0] is State.UNKNOWN


def test_an_answer_begun_before_the_silence_is_still_an_answer_of_a_server_that_is_up() -> None:
    office = seeing().fallen()
    office.step(Observed(Sign.READY, own_words("HTTP status 200"), office.now_s - 0.5))
    assert office.state() is State.AWAKE


# Why it does not come up


def test_alert_says_how_often_it_was_called_and_why_it_is_not_up() -> None:
    silent = own_words("silent")
    for power_w, pings, why in (
        (41.0, None, Reason("server.why_hangs_draws", detail=silent, draws_w=41.0)),
        (None, True, Reason("server.why_hangs", detail=silent)),
    ):
        office = seeing(power_w and ON_W, pings).fallen()
        office.power_w, office.pings = power_w, pings
        alert = office.in_trouble()
        assert alert.code == "server.not_up", why
        assert (alert.params["calls"], alert.params["why"]) == (4, why), why


def test_the_alert_changes_when_the_trouble_does_and_not_for_another_figure() -> None:
    office = seeing(power_w=ON_W).fallen()
    first = office.in_trouble()
    office.power_w = OFF_W + 0.1
    office.look(10, Sign.SILENT)
    assert office.machine.alert == first
    office.power_w = ON_W
    office.look(10, Sign.SILENT)
    assert office.machine.alert
    assert office.machine.alert.code == "server.still_not_up"
    assert office.machine.alert.params["why"].code == "server.why_hangs_draws"


# Nobody is held up


def test_neither_ping_nor_meter_takes_awake_from_a_server_that_answers() -> None:
    for event in (Metered(0.0), Metered(OFF_W), Pinged(False, 200.0), Pinged(True, 0.0)):
        office = seeing()
        office.awake()
        for _ in range(50):
            office.step(event)
            office.play(PROBE_S, Sign.READY)
        assert office.state() is State.AWAKE, event
        assert office.states() == [], event


def test_a_probe_that_expired_does_not_end_awake() -> None:
    office = seeing()
    office.awake()
    for _ in range(20):
        office.play(0.2, Sign.SILENT)
        office.play(0.1, Sign.READY)
    assert office.states() == []


def test_no_probe_at_all_does_not_end_awake() -> None:
    office = seeing()
    office.awake()
    office.play(3600)
    assert office.states() == []
