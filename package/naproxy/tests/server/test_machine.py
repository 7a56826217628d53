import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.reason import Reason, own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server import machine
from naproxy.server.ladder import Ladder, Rung
from naproxy.server.machine import Machine, Times
from naproxy.server.machine_io import (
    Alert,
    Answer,
    Effect,
    Event,
    ModeSet,
    Observed,
    PassedOver,
    Probe,
    RungFailed,
    RunSleep,
    SendWake,
    SleepAnswered,
    SleepAsked,
    SleepOrdered,
    Tick,
    Traffic,
    Transition,
    WakeAsked,
    WakeClosed,
    WakeOpened,
)
from naproxy.server.seeing import Sign

TIMES = Times(
    wake_expect_s=5.0,
    sleep_timeout_s=30.0,
    sleep_expect_s=5.0,
    interval_s=5.0,
)
RUNG = Rung(spacing_s=0.5, attempts=4)
WAKE_REQUEST = WakeRequest(
    "192.0.2.17", "page", "GET", "person", "Firefox", "www.example.org", "/news?id=3"
)
IDLE = Reason("policy.idle", idle_s=63)
BUSY = own_words("backup is running")
PROBE_S = 0.1
PROBE_TIMEOUT_S = 0.3


class Office:
    """Plays time, probes and timers to a machine; `sign` is what probes see."""

    def __init__(
        self, *, slept: bool = False, times: Times = TIMES, rungs: Sequence[Rung] = (RUNG,)
    ) -> None:
        self.now_s = 100.0
        self.machine = Machine(times, Ladder(rungs), self.now_s, slept=slept)
        self.busy = 0
        self.effects: list[Effect] = list(self.machine.start(self.now_s))

    def step(self, event: Event) -> list[Effect]:
        done = self.machine.step(self.now_s, event)
        self.effects += done
        return done

    def see(self, sign: Sign, *, begun_s: float | None = None, status: int = 0) -> list[Effect]:
        begun_s = self.now_s if begun_s is None else begun_s
        return self.step(Observed(sign, own_words(sign.value), begun_s, status))

    def play(self, seconds: float, sign: Sign | None = None) -> None:
        """Let time pass: ticks when due, a probe each 100 ms (None: no probe ends)."""
        end_s = self.now_s + seconds
        probe_s = self.now_s + PROBE_S
        while True:
            due_s = min(self.machine.next_s, probe_s if sign else math.inf)
            if due_s > end_s:
                break
            self.now_s = max(self.now_s, due_s)
            if due_s == self.machine.next_s:
                self.step(Tick(self.busy))
            else:
                late_s = PROBE_TIMEOUT_S if sign is Sign.SILENT else 0.0
                assert sign is not None
                self.see(sign, begun_s=self.now_s - late_s)
                probe_s += PROBE_S
        self.now_s = end_s

    def clear(self) -> None:
        self.effects.clear()

    def state(self) -> State:
        return self.machine.state

    def of(self, kind: type) -> list[Effect]:
        return [e for e in self.effects if isinstance(e, kind)]

    def states(self) -> list[State]:
        return [e.state for e in self.effects if isinstance(e, Transition)]

    def closed(self) -> list[WakeClosed]:
        return [e for e in self.effects if isinstance(e, WakeClosed)]

    def awake(self) -> "Office":
        self.see(Sign.READY)
        assert self.machine.state is State.AWAKE
        self.play(1)
        self.clear()
        return self

    def commanded(self) -> "Office":
        self.awake()
        self.step(SleepAsked(IDLE))
        self.play(machine.DRAIN_S + 0.01)
        assert RunSleep() in self.effects
        self.step(SleepOrdered())
        return self

    def accepted(self) -> "Office":
        self.commanded()
        self.step(SleepAnswered(Answer.ACCEPTED, own_words("accepted")))
        return self

    def asleep(self) -> "Office":
        self.accepted()
        self.play(3, Sign.READY)
        self.play(2, Sign.SILENT)
        assert self.machine.state is State.ASLEEP
        self.clear()
        return self

    def waking(self) -> "Office":
        self.asleep()
        self.step(WakeAsked(WAKE_REQUEST))
        assert self.machine.state is State.WAKING
        return self

    def trouble(self) -> "Office":
        self.waking()
        self.play(RUNG.attempts * RUNG.spacing_s + 0.1, Sign.SILENT)
        assert self.machine.state is State.TROUBLE
        return self


# Start


def test_it_starts_unknown_and_looks_before_it_does_anything() -> None:
    office = Office()
    assert office.state() is State.UNKNOWN
    assert office.effects == [Probe(machine.UNKNOWN_EVERY_S)]


SILENT_LONG = Reason("server.silent_at_start", detail=own_words("silent"))
REFUSED_LONG = Reason("server.silent_at_start", detail=own_words("refusing"))
NOT_PROBED = Reason("server.silent_at_start", detail=Reason("server.not_probed"))
STARTS = [
    (True, Sign.READY, 0, 1, State.AWAKE, Reason("server.answers")),
    (True, Sign.SILENT, 0, 2, State.ASLEEP, Reason("server.slept_before")),
    (True, Sign.SILENT, 2, 2, State.WAKING, Reason("server.requests_asleep", number=2)),
    (True, Sign.REFUSING, 0, 4, State.WAKING, REFUSED_LONG),
    (True, None, 0, 4, State.WAKING, NOT_PROBED),
    (False, Sign.SILENT, 0, 4, State.WAKING, SILENT_LONG),
]


def test_the_state_after_the_start_is_the_observed_one_asleep_before_or_not() -> None:
    for slept, sign, busy, seconds, state, reason in STARTS:
        office = Office(slept=slept)
        office.busy = busy
        office.play(seconds, sign)
        case = (slept, sign, busy)
        assert office.states() == [state], case
        assert office.machine.reason == reason, case
        assert bool(office.of(SendWake)) is (state is State.WAKING), case


def test_an_order_given_before_the_start_may_yet_be_obeyed_so_it_is_woken_at_once() -> None:
    office = Office(slept=True)
    office.see(Sign.READY)
    office.play(2, Sign.SILENT)
    assert office.states() == [State.AWAKE, State.WAKING]


def test_the_packet_is_the_first_effect_of_a_wake_asleep_or_before_anything_is_known() -> None:
    for office in (Office(), Office().asleep()):
        state = office.state()
        done = office.step(WakeAsked(WAKE_REQUEST))
        assert done[0] == SendWake(), state
        assert WakeOpened(WAKE_REQUEST) in done, state
        assert office.machine.reason == WAKE_REQUEST.why, state


# Awake


def test_one_failed_probe_only_makes_it_look_closer() -> None:
    office = Office().awake()
    office.see(Sign.SILENT)
    assert office.effects == [Probe(machine.AWAKE_SUSPECT_EVERY_S)]
    office.clear()
    office.see(Sign.READY)
    assert office.effects == [Probe(TIMES.interval_s)]


def test_a_restarting_web_server_holds_requests_and_is_not_called_asleep() -> None:
    office = Office().awake()
    office.play(1, Sign.REFUSING)
    assert office.states() == [State.WAKING]
    assert office.machine.reason.code == "server.web_server_down"
    office.see(Sign.READY)
    assert office.states() == [State.WAKING, State.AWAKE]


def test_a_wrong_status_is_the_servers_own_affair() -> None:
    office = Office().awake()
    office.play(20, Sign.UNFIT)
    assert office.states() == []


def test_a_server_gone_without_an_order_is_unknown_and_then_woken_or_awake_again() -> None:
    for sign, state in ((Sign.SILENT, State.WAKING), (Sign.READY, State.AWAKE)):
        office = Office().awake()
        office.play(2, Sign.SILENT)
        assert office.states() == [State.UNKNOWN], sign
        office.play(2, sign)
        assert office.states() == [State.UNKNOWN, state], sign


def test_requests_it_answers_are_signs_of_life() -> None:
    office = Office().awake()
    for _ in range(50):
        office.play(0.2, Sign.SILENT)
        office.step(Traffic())
    assert office.states() == []


def test_a_wake_asked_while_awake_or_waking_is_nothing() -> None:
    for reach in (Office.awake, Office.waking):
        office = reach(Office())
        pending = office.machine.pending
        assert office.step(WakeAsked(WAKE_REQUEST)) == [], reach
        assert office.machine.pending is pending, reach
    assert Office().awake().machine.pending is None


# Falling asleep


def test_varnish_is_told_before_the_server_is() -> None:
    office = Office().awake()
    office.step(SleepAsked(IDLE))
    assert office.effects == [Transition(State.AWAKE, State.FALLING_ASLEEP, IDLE)]
    office.play(machine.DRAIN_S)
    assert RunSleep() in office.effects


def test_requests_at_the_server_are_waited_for_and_call_the_sleep_off_if_they_stay() -> None:
    for leave in (True, False):
        office = Office().awake()
        office.step(SleepAsked(IDLE))
        office.busy = 1
        office.play(1)
        assert not office.of(RunSleep)
        office.busy = 0 if leave else 1
        office.play(machine.DRAIN_LIMIT_S - 0.8)
        assert bool(office.of(RunSleep)) is leave
        assert office.state() is (State.FALLING_ASLEEP if leave else State.AWAKE)


def test_a_request_before_the_order_calls_the_sleep_off_and_one_after_it_does_not() -> None:
    for asked in (False, True):
        office = Office().awake()
        office.step(SleepAsked(IDLE))
        office.play(machine.DRAIN_S if asked else 0)
        assert bool(office.of(RunSleep)) is asked
        office.step(WakeAsked(WAKE_REQUEST))
        assert office.state() is State.AWAKE, asked
        assert [each.outcome for each in office.closed()] == ["stayed awake"], asked
        # Nothing was ordered, so nobody has to watch whether it is obeyed.
        assert office.of(Probe)[-1] == Probe(TIMES.interval_s), asked
        office.step(SleepOrdered())
        assert office.state() is State.AWAKE, asked
    ordered = Office().commanded()
    ordered.step(WakeAsked(WAKE_REQUEST))
    assert ordered.state() is State.FALLING_ASLEEP


def test_a_server_that_never_falls_silent_is_not_asleep_and_alerts_at_the_limit() -> None:
    for sign, state in ((Sign.READY, State.AWAKE), (Sign.REFUSING, State.WAKING)):
        office = Office().accepted()
        office.play(TIMES.sleep_timeout_s - 1, sign)
        assert office.state() is State.FALLING_ASLEEP, sign
        office.play(2, sign)
        assert office.state() is state, sign
        assert office.machine.alert == Reason("server.not_asleep", took_s=30), sign


def test_silence_after_the_order_is_asleep_whether_or_not_the_command_returned() -> None:
    for reach in (Office.commanded, Office.accepted):
        office = reach(Office())
        office.play(4, Sign.READY)
        office.play(2, Sign.SILENT)
        assert office.state() is State.ASLEEP, reach
        assert office.machine.reason == IDLE, reach
        assert office.machine.fall.value_s == pytest.approx(4, abs=0.3), reach


def test_falling_takes_no_less_than_no_time_where_it_was_silent_before_the_order() -> None:
    office = Office().awake()
    office.step(SleepAsked(IDLE))
    office.play(machine.DRAIN_S + 1)
    office.step(SleepOrdered())
    office.play(2, Sign.SILENT)
    assert office.machine.fall.last_s == 0


def test_a_probe_that_began_before_it_was_up_raises_no_doubt() -> None:
    office = Office().waking()
    began_s = office.now_s
    office.now_s += 0.9
    office.see(Sign.READY)
    office.now_s += 0.1
    office.see(Sign.SILENT, begun_s=began_s)
    assert office.machine.inhibitors(office.now_s) == []
    office.see(Sign.SILENT)
    assert office.machine.inhibitors(office.now_s) == [Reason("server.just_failed")]


def test_a_sleep_after_a_refusal_ends_what_the_refusal_said() -> None:
    """Else the server, woken for one request, stays awake for what is long over."""
    office = Office().commanded()
    office.step(SleepAnswered(Answer.REFUSED, BUSY))
    office.step(SleepAsked(Reason("server.by_hand"), by_hand=True))
    office.play(machine.DRAIN_S + 0.01)
    office.step(SleepAnswered(Answer.ACCEPTED, own_words("accepted")))
    office.play(5, Sign.SILENT)
    assert office.state() is State.ASLEEP
    office.step(WakeAsked(WAKE_REQUEST))
    office.see(Sign.READY)
    assert office.state() is State.AWAKE
    assert office.machine.inhibitors(office.now_s) == []


def test_each_refusal_in_a_row_is_waited_out_longer_up_to_a_bound() -> None:
    office = Office().awake()
    waits = []
    for _ in range(6):
        office.step(SleepAsked(IDLE))
        office.play(0.2)
        office.step(SleepAnswered(Answer.REFUSED, BUSY))
        assert office.machine.refused is not None
        waits.append(office.machine.refused[0] - office.now_s)
        office.now_s = office.machine.refused[0]
    assert waits == pytest.approx([60, 120, 240, 480, 900, 900])


def test_a_refused_or_failed_command_keeps_it_awake_and_a_failed_one_alerts() -> None:
    for answer, alert in ((Answer.REFUSED, None), (Answer.FAILED, BUSY)):
        office = Office().commanded()
        office.step(SleepAnswered(answer, BUSY))
        assert office.state() is State.AWAKE, answer
        assert office.machine.reason == BUSY, answer
        [inhibitor] = office.machine.inhibitors(office.now_s)
        assert inhibitor == Reason("server.asked_again", why=BUSY, again_s=60), answer
        assert office.machine.alert == alert, answer


def test_a_request_while_it_falls_asleep_waits_for_silence_and_then_wakes_it() -> None:
    office = Office().accepted()
    office.step(WakeAsked(WAKE_REQUEST))
    assert not office.of(SendWake)
    office.play(3, Sign.READY)
    assert office.state() is State.FALLING_ASLEEP
    office.play(1.5, Sign.SILENT)
    assert office.states()[-2:] == [State.ASLEEP, State.WAKING]
    assert SendWake() in office.effects
    office.see(Sign.READY)
    [closed] = office.closed()
    assert (closed.outcome, closed.waited_s) == ("up", pytest.approx(4.5))


def test_a_request_while_the_command_is_refused_ends_awake() -> None:
    office = Office().commanded()
    office.step(WakeAsked(WAKE_REQUEST))
    office.step(SleepAnswered(Answer.REFUSED, BUSY))
    assert office.state() is State.AWAKE
    assert office.machine.pending is None


def test_a_server_that_wakes_before_its_silence_lasted_is_awake_at_once() -> None:
    office = Office().accepted()
    office.step(WakeAsked(WAKE_REQUEST))
    office.play(3, Sign.READY)
    silent_from_s = office.now_s
    office.now_s += 0.3
    office.see(Sign.READY, begun_s=office.now_s - 0.05)
    assert office.state() is State.FALLING_ASLEEP
    office.see(Sign.SILENT, begun_s=silent_from_s)
    office.see(Sign.READY, begun_s=office.now_s)
    assert office.state() is State.AWAKE


def test_a_waiting_visitor_does_not_wait_the_whole_limit_for_a_sleep_that_may_yet_come() -> None:
    office = Office().accepted()
    office.step(WakeAsked(WAKE_REQUEST))
    office.play(2 * TIMES.sleep_expect_s + machine.SILENT_S + 0.2, Sign.READY)
    assert office.state() is State.AWAKE
    office.play(2, Sign.SILENT)
    assert office.state() is State.WAKING


# Asleep


def test_a_sleeping_server_is_looked_at_seldom() -> None:
    office = Office().accepted()
    office.clear()
    office.play(2, Sign.SILENT)
    assert office.of(Probe) == [Probe(TIMES.asleep_interval_s)]


def test_a_server_that_wakes_by_itself_is_awake() -> None:
    office = Office().asleep()
    office.see(Sign.READY)
    assert office.states() == [State.AWAKE]
    assert office.machine.reason == Reason("server.woke_itself")


# Waking and trouble


def test_calls_are_repeated_until_it_answers_and_the_length_of_the_wake_is_recorded() -> None:
    office = Office().waking()
    office.play(1.3, Sign.SILENT)
    assert len(office.of(SendWake)) == 3
    office.see(Sign.READY)
    assert office.closed() == [WakeClosed("up", pytest.approx(1.3), 3)]
    assert office.machine.wake.value_s == pytest.approx(1.3)
    office.clear()
    office.play(10, Sign.READY)
    assert not office.of(SendWake)


def test_the_countdown_follows_the_expected_wake_time() -> None:
    office = Office().waking()
    office.play(1, Sign.SILENT)
    assert office.machine.eta_s(office.now_s) == pytest.approx(4)


def test_a_machine_that_boots_is_waited_for() -> None:
    office = Office().waking()
    office.play(1, Sign.REFUSING)
    office.play(0.4, Sign.UNFIT)
    assert office.states() == [State.WAKING]
    office.see(Sign.READY)
    assert office.state() is State.AWAKE


def test_not_up_after_the_last_call_is_trouble_with_an_alert() -> None:
    office = Office().trouble()
    alert = office.machine.alert
    assert alert
    assert alert.code == "server.not_up"
    assert alert.params["calls"] == 4
    assert alert.params["why"].code == "server.why_unclear"
    assert [each.outcome for each in office.closed()] == ["trouble"]


def test_trouble_goes_on_calling_at_a_growing_bounded_spacing() -> None:
    office = Office().trouble()
    office.clear()
    sent = []
    for _ in range(200):
        office.now_s = office.machine.next_s
        if SendWake() in office.step(Tick()):
            sent.append(office.now_s)
    gaps = [round(b - a, 6) for a, b in pairwise(sent)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == machine.TROUBLE_MOST_S


def test_a_request_in_trouble_calls_again_soon() -> None:
    office = Office().trouble()
    office.play(300, Sign.SILENT)
    office.step(WakeAsked(WAKE_REQUEST))
    assert office.machine.next_s - office.now_s <= RUNG.spacing_s


def test_trouble_ends_when_it_answers() -> None:
    office = Office().trouble()
    office.clear()
    office.see(Sign.READY)
    assert office.states() == [State.AWAKE]
    assert Alert(None) in office.effects
    assert [each.outcome for each in office.closed()] == ["up"]


# Mode


def test_the_mode_awake_is_an_inhibitor_for_its_own_reason_until_its_time_is_over() -> None:
    office = Office().awake()
    until = Reason("server.kept_awake_until", until_at_s=1.8e9)
    office.step(ModeSet(awake=True, until_s=office.now_s + 10, reason=until))
    assert office.machine.inhibitors(office.now_s) == [until]
    assert office.step(SleepAsked(IDLE)) == []
    office.now_s += 10
    assert office.machine.inhibitors(office.now_s) == []


def test_the_mode_awake_wakes_a_server_that_sleeps_or_is_found_asleep_at_the_start() -> None:
    for office in (Office().asleep(), Office(slept=True)):
        before = office.state()
        office.step(ModeSet(awake=True))
        office.play(1.5, Sign.SILENT)
        assert office.state() is State.WAKING, before


def test_a_server_that_is_not_awake_is_not_put_to_sleep() -> None:
    for reach in (Office.commanded, Office.asleep, Office.waking, Office.trouble):
        office = reach(Office())
        assert office.machine.inhibitors(office.now_s), reach
        office.clear()
        assert office.step(SleepAsked(IDLE)) == [], reach


# What always holds

EVENTS = st.one_of(
    st.sampled_from(Sign).map(lambda sign: ("see", sign)),
    st.sampled_from(Answer).map(lambda answer: ("answer", answer)),
    st.sampled_from(
        ["wake", "sleep", "ordered", "traffic", "keep awake", "auto", "busy", "idle"]
    ).map(lambda word: (word, None)),
    st.tuples(st.just("play"), st.tuples(st.floats(0, 40), st.sampled_from([None, *Sign]))),
)


def feed(office: Office, name: str, value: object) -> None:
    if name == "play":
        assert isinstance(value, tuple)
        office.play(*value)
    elif isinstance(value, Sign):
        office.see(value, begun_s=office.now_s - 0.2)
    elif isinstance(value, Answer):
        office.step(SleepAnswered(value, own_words("words")))
    elif name in ("busy", "idle"):
        office.busy = int(name == "busy")
    else:
        named: dict[str, Event] = {
            "wake": WakeAsked(WAKE_REQUEST),
            "sleep": SleepAsked(IDLE),
            "ordered": SleepOrdered(),
            "traffic": Traffic(),
            "keep awake": ModeSet(awake=True, until_s=office.now_s + 60),
            "auto": ModeSet(awake=False),
        }
        office.step(named[name])


@given(st.lists(EVENTS, max_size=40), st.booleans())
def test_whatever_happens(events: list[tuple[str, object]], slept: bool) -> None:
    office = Office(slept=slept)
    state, commanded = State.UNKNOWN, False
    for name, value in events:
        office.clear()
        feed(office, name, value)
        for effect in office.effects:
            if isinstance(effect, RunSleep):
                assert state is State.FALLING_ASLEEP
                commanded = True
            if isinstance(effect, Transition):
                assert effect.before is state
                assert effect.reason
                if effect.state is State.ASLEEP:
                    assert commanded or slept, "nobody put it to sleep"
                state = effect.state
        unit = office.machine
        assert state is unit.state
        if unit.pending:
            assert unit.next_s < math.inf, "a wake was forgotten"
        if unit.state in (State.WAKING, State.TROUBLE):
            assert unit.next_s <= office.now_s + machine.TROUBLE_MOST_S
        if unit.state in (State.WAKING, State.TROUBLE, State.ASLEEP, State.UNKNOWN):
            assert unit.inhibitors(office.now_s)


@given(st.lists(EVENTS, max_size=40), st.booleans())
def test_asleep_only_after_silence_that_lasted(
    events: list[tuple[str, object]], slept: bool
) -> None:
    office = Office(slept=slept)
    real = office.machine.step
    answered_s, silent = office.now_s, 0

    def watched(now_s: float, event: Event) -> list[Effect]:
        nonlocal answered_s, silent
        if isinstance(event, Observed):
            if event.sign in (Sign.SILENT, Sign.FOREIGN):
                silent += 1
            else:
                answered_s, silent = event.begun_s, 0
        effects = real(now_s, event)
        if any(isinstance(e, Transition) and e.state is State.ASLEEP for e in effects):
            assert silent >= machine.SILENT_PROBES
            assert now_s - answered_s >= machine.SILENT_S
        return effects

    office.machine.step = watched  # type: ignore[method-assign]
    for name, value in events:
        feed(office, name, value)


@given(st.lists(EVENTS, max_size=30), st.booleans())
def test_a_server_that_answers_is_awake_in_the_end(
    events: list[tuple[str, object]], slept: bool
) -> None:
    office = Office(slept=slept)
    for name, value in events:
        feed(office, name, value)
    office.step(ModeSet(awake=True))
    office.step(SleepAnswered(Answer.REFUSED, BUSY))
    office.busy = 0
    office.play(TIMES.sleep_timeout_s + 5, Sign.READY)
    assert office.state() is State.AWAKE
    assert office.machine.pending is None


# The ladder

PACKETS = Rung("etherwake", 0.5, 3, key="e")
BMC = Rung("ipmi", 5.0, 2, key="i")
BUTTON = Rung("gpio", 60.0, 1, presses=True, key="g")


def calls(office: Office) -> list[str]:
    rungs = office.machine.ladder.rungs
    return [rungs[e.rung].name for e in office.effects if isinstance(e, SendWake)]


def test_a_rung_whose_calls_are_used_up_is_passed_over_and_that_is_said() -> None:
    office = Office(rungs=(PACKETS, BMC)).waking()
    office.play(1.6, Sign.SILENT)
    assert calls(office) == ["etherwake"] * 3 + ["ipmi"]
    why = Reason("server.not_up_yet")
    over = Reason("server.passed_over", rung="etherwake", next="ipmi", why=why)
    assert office.of(PassedOver) == [PassedOver(over)]


def test_a_rung_that_fails_is_passed_over_at_once_with_its_reason() -> None:
    office = Office(rungs=(BMC, PACKETS)).waking()
    why = own_words("the BMC is not reached")
    done = office.step(RungFailed(0, why))
    assert done[0] == SendWake(1)
    over = Reason("server.passed_over", rung="ipmi", next="etherwake", why=why)
    assert PassedOver(over) in done


def test_the_reason_says_which_rung_woke_it_and_the_next_wake_starts_with_it() -> None:
    office = Office(rungs=(PACKETS, BMC)).waking()
    office.play(4.5, Sign.SILENT)
    office.see(Sign.READY)
    assert office.machine.reason == Reason("server.up_after_by", took_s=4.5, rung="ipmi")
    office.waking()
    assert calls(office) == ["ipmi"]


def test_the_button_of_a_server_that_nobody_put_to_sleep_is_not_pressed() -> None:
    for sign in (Sign.SILENT, Sign.REFUSING):
        office = Office(rungs=(BUTTON,)).awake()
        office.play(200, sign)
        assert office.state() is State.TROUBLE, sign
        assert calls(office) == [], sign


def test_the_button_of_a_server_asked_for_at_the_start_is_pressed_once_it_was_looked_at() -> None:
    for rungs in ((BUTTON,), (BUTTON, PACKETS), (PACKETS, BUTTON)):
        office = Office(rungs=rungs, slept=True)
        office.step(WakeAsked(WAKE_REQUEST))
        assert "gpio" not in calls(office), rungs
        office.play(10, Sign.SILENT)
        assert office.state() is State.WAKING, rungs
        assert calls(office).count("gpio") == 1, rungs


def test_a_server_that_slept_after_its_sleep_was_called_off_was_put_to_sleep() -> None:
    office = Office(rungs=(BUTTON,)).commanded()
    office.step(SleepAnswered(Answer.FAILED, own_words("the connection broke")))
    office.play(3, Sign.SILENT)
    assert office.state() is State.WAKING
    assert office.machine.slept
    assert calls(office) == ["gpio"]


def test_a_server_whose_shutdown_takes_too_long_was_put_to_sleep() -> None:
    office = Office(rungs=(BUTTON,)).accepted()
    office.play(31, Sign.REFUSING)
    assert office.state() is State.WAKING
    assert calls(office) == []
    office.play(5, Sign.SILENT)
    assert office.machine.slept
    assert calls(office) == ["gpio"]


def test_trouble_says_why_the_calls_failed() -> None:
    office = Office(rungs=(PACKETS,)).waking()
    why = own_words("etherwake is not installed")
    office.step(RungFailed(0, why))
    office.play(5, Sign.SILENT)
    assert office.state() is State.TROUBLE
    assert office.machine.alert
    assert Reason("server.call_failed", why=why) in office.machine.alert.parts()


def test_a_call_that_failed_in_an_earlier_wake_is_not_blamed() -> None:
    office = Office(rungs=(PACKETS,)).waking()
    office.step(RungFailed(0, own_words("no route")))
    office.see(Sign.READY)
    office.waking()
    office.play(5, Sign.SILENT)
    assert office.state() is State.TROUBLE
    assert office.machine.alert
    assert office.machine.alert.code == "server.not_up"


def test_a_server_needed_since_before_the_start_is_looked_at_and_woken() -> None:
    office = Office(rungs=(BUTTON,), slept=True)
    office.machine.start(office.now_s, WAKE_REQUEST)
    office.play(2, Sign.SILENT)
    assert office.states() == [State.WAKING]
    assert calls(office) == ["gpio"]


def test_a_server_needed_since_before_the_start_that_is_up_teaches_nothing() -> None:
    office = Office(slept=True)
    office.machine.start(office.now_s, WAKE_REQUEST)
    office.see(Sign.READY)
    assert office.states() == [State.AWAKE]
    assert office.machine.wake.count == 0
    assert [each.outcome for each in office.closed()] == ["stayed awake"]


def test_a_failure_that_comes_too_late_changes_nothing() -> None:
    office = Office(rungs=(PACKETS, BMC)).waking()
    office.see(Sign.READY)
    assert office.step(RungFailed(0, own_words("no route"))) == []
    assert office.state() is State.AWAKE
