import asyncio
import time
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from looked import nobody_around
from naproxy import policy
from naproxy.config import document as config
from naproxy.controller.context import BoxContext
from naproxy.controller.executing import Executor
from naproxy.controller.runner import Runner
from naproxy.core.reason import Reason, own_words, reason_of, stored_reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.history.write.journal import Journal
from naproxy.policy.base import Decision, Policy, Request
from naproxy.server import own_sleeps
from naproxy.server.commissioning import Plan
from naproxy.server.jobs import Job
from naproxy.server.machine_io import RungFailed, Transition
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Outcome, Page

TEXT = """
[[server]]
id = "web"
address = "127.0.0.1"
port = 1
mac = "02:00:00:00:00:01"
"""
IDLE = Reason("policy.idle", idle_s=63)
OPENS = own_words("the office opens at 8")
BY_HAND = Reason("server.by_hand")
NO_WAY = Reason("sleep.no_way")
FETCHING = Reason("server.fetching", number=1)


class Spy(Policy):
    """A policy that notes what it is told."""

    name = "spy"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.states: list[tuple[float, State]] = []
        self.loaded: Any = None
        self.decision = Decision(False, own_words("as the test says"))

    def request(self, request: Request) -> None:
        self.requests.append(request)

    def observed(self, t_s: float, state: State) -> None:
        self.states.append((t_s, state))

    def decide(self, t_s: float) -> Decision:
        return self.decision

    def dump(self) -> dict[str, Any]:
        return {"kept": 1}

    def load(self, saved: Any) -> None:
        self.loaded = saved


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    made = Spy()
    monkeypatch.setattr(policy, "make", lambda *_: made)
    return made


def play(
    tmp_path: Path,
    what: Callable[[Runner, BoxContext], Any],
    *,
    ahead_s: float = 0.0,
    awake: str = "",
) -> Any:
    """Run `what` with a server that nobody looks at: nothing is started."""

    async def inside() -> Any:
        journal = Journal(tmp_path)
        shared = Page(tmp_path)
        box = BoxContext(shared, journal, time.time() - time.monotonic() + ahead_s)
        text = f"{TEXT}[server.awake]\n{awake}"
        server = config.parse(text).server[0]
        nobody_around(journal, server)
        runner = Runner(box, 0, server, "lo")
        try:
            return what(runner, box)
        finally:
            await asyncio.sleep(0)
            runner.stop(why=Reason("server.stopped"))
            journal.close()

    return asyncio.run(inside())


def event(outcome: Outcome = Outcome.FETCH, **changes: Any) -> Event:
    values: dict[str, Any] = {
        "seq": 1,
        "t_us": page.monotonic_us(),
        "client": 7,
        "path": 8,
        "delay_ms": 0,
        "agent": 0xFFFFFFFF,
        "server": 0,
        "klass": Klass.PERSON,
        "outcome": outcome,
        "flags": page.E_NEEDED,
        "status": 200,
        "method": 0,
    }
    return Event(**{**values, **changes})


def test_a_request_reaches_the_policy_in_epoch_seconds(tmp_path: Path, spy: Spy) -> None:
    play(tmp_path, lambda r, _: r.decider.heard([event(delay_ms=250)], fresh=True))
    [request] = spy.requests
    assert request.t_s == pytest.approx(time.time(), abs=5)
    assert (request.client, request.path, request.delay_s) == (7, 8, 0.25)
    assert request.needs_server
    assert not request.page_load


def test_times_given_to_the_policy_never_decrease(tmp_path: Path, spy: Spy) -> None:
    now_us = page.monotonic_us()
    later = [event(t_us=now_us), event(t_us=now_us - 5_000_000), event(t_us=now_us + 1)]
    play(tmp_path, lambda r, _: r.decider.heard(later, fresh=True))
    times = [r.t_s for r in spy.requests]
    assert times == sorted(times)


def test_who_got_the_waiting_page_was_delayed_by_a_wake(tmp_path: Path, spy: Spy) -> None:
    play(tmp_path, lambda r, _: r.decider.heard([event(Outcome.WAITING_PAGE)], fresh=True))
    assert spy.requests[0].delay_s == config.parse(TEXT).server[0].wake.expect_s


def test_a_class_that_is_not_known_counts_as_a_person(tmp_path: Path, spy: Spy) -> None:
    play(tmp_path, lambda r, _: r.decider.heard([event(klass=7)], fresh=True))
    assert spy.requests[0].klass is Klass.PERSON


@pytest.mark.parametrize(("klass", "hears"), [("PERSON", True), ("API", True), ("CRAWLER", False)])
def test_whoever_is_no_robot_shows_that_visitors_come_through_the_box(
    tmp_path: Path, spy: Spy, klass: str, hears: bool
) -> None:
    def visit(runner: Runner, _: Any) -> None:
        around = runner.supervisor.around
        for day in (1, 2, 3, 4):
            around.connected(86400.0 * day, day, 1)
        assert around.blind(4)
        runner.decider.heard([event(klass=Klass[klass])], fresh=True)
        today = date.today().toordinal()
        assert (around.dump()["through"] == today) is hears

    play(tmp_path, visit)


def test_the_policy_hears_after_a_restart_only_what_it_has_not_heard(
    tmp_path: Path, spy: Spy
) -> None:
    old = event()
    play(tmp_path, lambda r, _: r.decider.heard([old], fresh=True))
    new = event()
    play(tmp_path, lambda r, _: r.decider.heard([old, new], fresh=False))
    assert len(spy.requests) == 2
    assert spy.loaded == {"kept": 1}


def test_a_policy_changed_while_the_server_sleeps_is_told_so(tmp_path: Path, spy: Spy) -> None:
    def change(runner: Runner, _: BoxContext) -> None:
        runner.machine.state = State.ASLEEP
        runner.configure(config.parse(TEXT).server[0], "lo")

    play(tmp_path, change)
    assert [state for _, state in spy.states] == [State.ASLEEP]
    assert spy.loaded == {"kept": 1}


def test_what_was_learned_by_a_clock_far_ahead_is_dropped(tmp_path: Path, spy: Spy) -> None:
    play(tmp_path, lambda r, _: None, ahead_s=86400)
    play(tmp_path, lambda r, _: None)
    assert spy.loaded is None


def test_a_clock_a_little_ahead_before_makes_no_time_go_back(tmp_path: Path, spy: Spy) -> None:
    play(tmp_path, lambda r, _: r.decider.heard([event()], fresh=True), ahead_s=600)
    play(tmp_path, lambda r, _: r.decider.heard([event()], fresh=True))
    assert spy.requests[1].t_s >= spy.requests[0].t_s


def test_no_way_to_sleep_is_an_inhibitor(tmp_path: Path, spy: Spy) -> None:
    assert NO_WAY in play(tmp_path, lambda r, _: r.decider.inhibitors())


def test_the_status_has_every_counter_of_every_class(tmp_path: Path, spy: Spy) -> None:
    def look(runner: Runner, box: BoxContext) -> Any:
        box.page.server(0).requests[Klass.CRAWLER][Outcome.REFUSED] = 5
        return runner.status()

    requests = play(tmp_path, look)["counters"]["requests"]
    assert requests["crawler"]["refused"] == 5
    assert set(requests) == {k.name.lower() for k in Klass}
    assert set(requests["person"]) == {o.name.lower() for o in Outcome}


def test_a_policy_may_ask_for_a_wake_ahead_of_need(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[WakeRequest] = []
    monkeypatch.setattr(Executor, "wake", lambda _, wake_request: woken.append(wake_request))
    spy.decision = Decision(False, OPENS, wake=True)

    def asleep(runner: Runner, _: BoxContext) -> None:
        runner.machine.state = State.ASLEEP
        runner.decider.heard([event(Outcome.HIT)], fresh=True)

    play(tmp_path, asleep)
    assert woken == [WakeRequest("policy", OPENS)]


def test_a_saved_state_that_is_nonsense_is_ignored(tmp_path: Path, spy: Spy) -> None:
    journal = Journal(tmp_path)
    for value in ({"mode": 3, "t_s": "x", "policy": []}, {"mode": {"awake": True, "until_s": "x"}}):
        journal.save("server.web", value)
        assert play(tmp_path, lambda r, _: r.status()["mode"]) == "auto"
    journal.close()


@pytest.mark.parametrize("until_s", [1e308, float("inf"), float("nan"), 10**400])
def test_a_mode_for_longer_than_anybody_may_set_is_not_taken_up(
    tmp_path: Path, spy: Spy, until_s: float
) -> None:
    journal = Journal(tmp_path)
    journal.save("server.web", {"mode": {"awake": True, "until_s": until_s}})
    journal.close()
    assert play(tmp_path, lambda r, _: r.status()["mode"]) == "auto"


def test_what_a_policy_cannot_take_up_is_said_and_left(
    tmp_path: Path, spy: Spy, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(Spy, "load", refuse)
    journal = Journal(tmp_path)
    journal.save("server.web", {"t_s": 1.0, "policy": {"name": spy.name, "state": {}}})
    journal.close()
    assert play(tmp_path, lambda r, _: r.status()["mode"]) == "auto"
    assert "web: what was kept of it is of no use: OverflowError('too large')" in said


def test_a_mode_whose_time_is_over_is_not_taken_up(tmp_path: Path, spy: Spy) -> None:
    journal = Journal(tmp_path)
    journal.save("server.web", {"mode": {"awake": True, "until_s": time.time() - 1}})
    journal.close()
    assert play(tmp_path, lambda r, _: r.status()["mode"]) == "auto"


def test_a_mode_ends_by_the_wall_clock_also_if_that_is_set_back(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time

    def two_hours_back(runner: Runner, box: BoxContext) -> float:
        awake_with_requests(runner, box)
        runner.set_mode(awake=True, until_s=wall() + 3600)
        monkeypatch.setattr(time, "time", lambda: wall() - 7200)
        runner.decider.heard([event(Outcome.HIT)], fresh=True)
        return runner.machine.mode.until_s - time.monotonic()

    assert play(tmp_path, two_hours_back) == pytest.approx(3600 + 7200, abs=60)


def after_work(runner: Runner, _: BoxContext) -> Any:
    runner.machine.state = State.AWAKE
    runner.decider.heard([event(flags=page.E_NEEDED | page.E_WORK)], fresh=True)
    return runner.decider.inhibitors(), runner.decider.inhibitors(by_hand=True)


def test_a_request_that_means_work_is_an_inhibitor_after_it_ended(tmp_path: Path, spy: Spy) -> None:
    for inhibitors in play(tmp_path, after_work, awake='work_paths = ["/backup"]'):
        [work] = [inhibitor for inhibitor in inhibitors if inhibitor.code == "server.work"]
        assert work.params["paths"] == ["/backup"]


def test_work_that_never_reached_the_server_is_no_inhibitor(tmp_path: Path, spy: Spy) -> None:
    def turned_away(runner: Runner, _: BoxContext) -> Any:
        runner.decider.heard([event(Outcome.REFUSED, flags=page.E_WORK)], fresh=True)
        return runner.decider.inhibitors()

    assert "server.work" not in [inhibitor.code for inhibitor in play(tmp_path, turned_away)]


def awake_with_requests(runner: Runner, box: BoxContext) -> None:
    runner.machine.state = State.AWAKE
    for fetching in (1, 2, 0):
        box.page.server(0).fetching_now = fetching
        runner.decider.heard([event(Outcome.HIT)], fresh=True)


def test_inhibitors_are_said_once_until_they_change(
    tmp_path: Path, spy: Spy, said: list[str]
) -> None:
    spy.decision = Decision(True, IDLE)
    play(tmp_path, awake_with_requests)
    inhibitors = [FETCHING, NO_WAY], [NO_WAY]
    would = (Reason("server.would_sleep", why=IDLE, inhibitors=each) for each in inhibitors)
    assert [words for words in said if "would sleep" in words] == [f"web: {each}" for each in would]


def test_inhibitors_are_in_the_journal_with_the_decision(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, float, bool, Reason]] = []
    monkeypatch.setattr(Journal, "decision", lambda _, *what: noted.append(what))
    spy.decision = Decision(True, IDLE)
    play(tmp_path, awake_with_requests)
    [(server, t_s, sleep, reason), *_] = noted
    assert (server, sleep) == ("web", False)
    assert t_s == pytest.approx(time.time(), abs=5)
    assert (reason.code, reason.params["why"]) == ("server.would_sleep", IDLE)
    assert reason.params["inhibitors"][0] == FETCHING


ALWAYS = 'hours = ["mon-sun 00:00-24:00"]'


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[WakeRequest]:
    wake_requests: list[WakeRequest] = []
    monkeypatch.setattr(
        Executor, "wake", lambda _, wake_request: wake_requests.append(wake_request)
    )
    return wake_requests


def asleep_since(days: float) -> Callable[[Runner, BoxContext], Any]:
    def look(runner: Runner, _: BoxContext) -> Any:
        runner.machine.state = State.ASLEEP
        runner.machine.since_s = time.monotonic() - 86400 * days
        runner.decider.heard([event(Outcome.HIT)], fresh=True)
        return runner.status()

    return look


def test_a_sleeping_server_is_woken_for_its_hours(
    tmp_path: Path, spy: Spy, woken: list[WakeRequest]
) -> None:
    play(tmp_path, asleep_since(2), awake=ALWAYS)
    assert [wake_request.who for wake_request in woken] == ["schedule"]
    assert woken[0].why.code == "server.office_hours"


def test_a_server_put_to_sleep_within_its_hours_is_left_alone(
    tmp_path: Path, spy: Spy, woken: list[WakeRequest]
) -> None:
    play(tmp_path, asleep_since(0), awake=ALWAYS)
    assert woken == []


def test_in_quiet_hours_nobody_wakes_ahead_of_need(
    tmp_path: Path, spy: Spy, woken: list[WakeRequest]
) -> None:
    spy.decision = Decision(False, OPENS, wake=True)
    status = play(tmp_path, asleep_since(2), awake=ALWAYS.replace("hours", "quiet"))
    assert woken == []
    opens, quiet = stored_reason(status["decision"]["reason"]).parts()
    assert (opens, quiet.code) == (OPENS, "server.quiet_hours")


def test_a_sleeping_server_is_woken_for_its_own_appointment(
    tmp_path: Path, spy: Spy, woken: list[WakeRequest]
) -> None:
    def look(runner: Runner, box: BoxContext) -> Any:
        told = [Job("backup.timer", 86400.0)]
        runner.executor.appointments.told(told, time.time() - 86400.0)
        return asleep_since(1.5)(runner, box)

    play(tmp_path, look)
    assert [wake_request.who for wake_request in woken] == ["schedule"]
    assert woken[0].why.code == "sleep.appointment"


def test_an_appointment_is_an_inhibitor_until_it_had_a_moment_to_begin(
    tmp_path: Path, spy: Spy
) -> None:
    def look(runner: Runner, _: BoxContext) -> Any:
        runner.executor.appointments.told([Job("backup.timer", 100.0)], time.time())
        runner.machine.state = State.AWAKE
        return runner.status()

    status = play(tmp_path, look)
    assert "sleep.appointment" in [each["code"] for each in status["inhibitors"]]
    assert [each["name"] for each in status["appointments"]] == ["backup.timer"]


# What it does by itself


def test_its_own_sleeps_are_told_and_kept_until_they_are_left_to_it(tmp_path: Path) -> None:
    def falls_silent(runner: Runner, _: BoxContext) -> Any:
        runner.machine._traffic_s -= 600
        for _ in range(own_sleeps.TIMES):
            for before, state in pairwise(
                (State.AWAKE, State.UNKNOWN, State.WAKING, State.AWAKE),
            ):
                runner._noted(Transition(before, state, own_words("")), time.monotonic())
        return runner.status()["sleeps_itself"]

    def left_alone(runner: Runner, _: BoxContext) -> Any:
        before = runner.status()["sleeps_itself"]
        left = config.parse(f'{TEXT}[server.sleep]\ndriver = "itself"\n').server[0]
        runner.configure(left, "lo")
        return before, runner.status()["sleeps_itself"]

    seen = Reason("server.sleeps_itself", number=3).plain()
    assert play(tmp_path, falls_silent) == seen
    assert play(tmp_path, left_alone) == (seen, None)


# The ladder


LOOPBACK_RUNG = '[[server.rung]]\ndriver = "udp"\naddress = "127.0.0.1"\n'


@pytest.mark.parametrize("stopped", [True, False])
def test_a_call_that_fails_after_the_server_was_taken_out_is_not_followed_by_another(
    tmp_path: Path, stopped: bool, said: list[str]
) -> None:

    def late(runner: Runner, _: BoxContext) -> None:
        runner.wake(WakeRequest("command", BY_HAND))
        if stopped:
            runner.stop(why=Reason("server.no_longer_configured"))
        runner.executor.step(RungFailed(0, own_words("no route")))
        assert any("did not wake it" in words for words in said) is not stopped

    play(tmp_path, late, awake=LOOPBACK_RUNG)


@pytest.mark.parametrize(
    ("on_page", "in_journal", "slept"),
    [
        (State.FALLING_ASLEEP, State.AWAKE, True),
        (State.AWAKE, State.ASLEEP, False),
        (State.UNKNOWN, State.ASLEEP, True),
        (State.UNKNOWN, State.AWAKE, False),
    ],
)
def test_what_the_page_knows_is_newer_than_the_journal(
    tmp_path: Path, spy: Spy, on_page: State, in_journal: State, slept: bool
) -> None:
    journal = Journal(tmp_path)
    journal.transition("web", State.UNKNOWN, in_journal, BY_HAND)
    journal.close()
    Page(tmp_path).set_state(0, on_page, 1)
    assert play(tmp_path, lambda r, _: r.machine.slept) is slept


# What fails must not keep a server asleep


class Broken:
    """A way to wake that has a fault."""

    def send(self, failed: Callable[[Reason], None]) -> None:
        raise OSError(24, "Too many open files")


def test_a_way_to_wake_that_raises_is_passed_over_and_all_else_is_done(
    tmp_path: Path, spy: Spy, said: list[str]
) -> None:

    async def inside() -> None:
        journal = Journal(tmp_path)
        shared = Page(tmp_path)
        box = BoxContext(shared, journal, time.time() - time.monotonic())
        runner = Runner(box, 0, config.parse(TEXT + LOOPBACK_RUNG).server[0], "lo")
        runner.executor._wakers[0] = Broken()
        runner.wake(WakeRequest("command", BY_HAND))
        assert shared.server(0).state == State.WAKING
        assert runner.executor._timer
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert runner.machine.ladder.now == "udp"
        assert any("Too many open files" in words for words in said)
        runner.stop(why=Reason("server.stopped"))
        journal.close()

    asyncio.run(inside())


def test_an_effect_that_fails_takes_no_other_with_it(
    tmp_path: Path, spy: Spy, said: list[str]
) -> None:

    def inside(runner: Runner, box: BoxContext) -> None:
        def fault(*_: Any) -> None:
            raise RuntimeError("a fault")

        runner.executor._probe = fault  # type: ignore[method-assign]
        runner.wake(WakeRequest("command", BY_HAND))
        assert runner.executor._timer
        assert box.page.server(0).state == State.WAKING

    play(tmp_path, inside)
    assert any("a fault" in words for words in said)


def test_a_new_configuration_amid_a_commissioning_leaves_no_old_probes_behind(
    tmp_path: Path, spy: Spy
) -> None:
    def inside(runner: Runner, _: BoxContext) -> None:
        runner.start()
        runner.supervisor.start(Plan())
        probes, pings = runner.executor._prober, runner.executor._pinger
        runner.configure(config.parse(TEXT.replace("port = 1", "port = 2")).server[0], "lo")
        assert not runner.supervisor.running
        assert probes._timer is None
        assert pings._timer is None
        assert runner.executor._prober._timer

    play(tmp_path, inside)


def test_a_commissioning_that_was_cut_off_wakes_the_server_at_one_start_only(
    tmp_path: Path, spy: Spy
) -> None:
    play(tmp_path, lambda runner, _: runner.supervisor.start(Plan()))

    def found(runner: Runner, _: BoxContext) -> bool:
        interrupted = runner.supervisor.interrupted
        up = Transition(State.WAKING, State.AWAKE, Reason("server.answers"))
        runner.supervisor.entered(up, None, slept=False)
        return interrupted

    assert play(tmp_path, found) is True
    assert play(tmp_path, found) is False


def test_nothing_is_decided_for_a_server_that_was_taken_out(tmp_path: Path, spy: Spy) -> None:
    def inside(runner: Runner, _: BoxContext) -> None:
        runner.machine.state = State.AWAKE
        spy.decision = Decision(False, OPENS, check_at_s=time.time() + 60)
        runner.stop(why=Reason("server.no_longer_configured"))
        runner.decider.decide()
        assert runner.decider._check is None

    play(tmp_path, inside)


@pytest.mark.parametrize("last", [State.WAKING, State.TROUBLE])
@pytest.mark.parametrize("slept", [True, False])
def test_a_wake_that_was_cut_off_is_taken_up_again_as_what_it_was(
    tmp_path: Path, spy: Spy, last: State, slept: bool
) -> None:
    journal = Journal(tmp_path)
    journal.save("server.web", {"slept": slept})
    journal.transition("web", State.ASLEEP, last, BY_HAND)
    journal.close()
    Page(tmp_path).set_state(0, last, 1)

    def inside(runner: Runner, _: BoxContext) -> tuple[bool, bool]:
        runner.start()
        return runner.machine.slept, runner.machine.pending is not None

    assert play(tmp_path, inside) == (slept, slept)


def test_that_it_was_put_to_sleep_is_kept_over_a_wake_that_is_cut_off(
    tmp_path: Path, spy: Spy
) -> None:
    def inside(runner: Runner, box: BoxContext) -> Any:
        runner.machine.slept = True
        runner.save()
        return box.journal.saved("server.web")["slept"]

    assert play(tmp_path, inside) is True


def test_a_proof_does_not_hold_when_a_rung_of_the_ladder_is_gone(tmp_path: Path, spy: Spy) -> None:
    def prove(runner: Runner, _: BoxContext) -> None:
        runner.supervisor.arming.prove()
        runner.supervisor.visited(1e9, None)
        runner.supervisor.arm()  # keeps it

    play(tmp_path, prove, awake=LOOPBACK_RUNG)
    arming = play(tmp_path, lambda runner, _: runner.supervisor.arming, awake=LOOPBACK_RUNG)
    assert arming.why_not is None
    arming = play(tmp_path, lambda runner, _: runner.supervisor.arming)
    assert arming.why_not == Reason("server.commissioned_otherwise", server="web")


def test_what_an_older_naproxy_kept_of_a_commissioning_is_told_as_reasons(
    tmp_path: Path, spy: Spy
) -> None:
    kept = {"phase": "armed", "reason": "it woke 5 times", "notes": ["cycle 1 begun again: busy"]}
    journal = Journal(tmp_path)
    journal.save("commissioning.web", kept | {"fit": None, "fit_words": "no meter"})
    journal.close()
    report = play(tmp_path, lambda runner, _: runner.supervisor.report())
    assert report == {
        "phase": "passed",
        "passed": True,
        "armed": False,
        "reason": own_words("it woke 5 times").plain(),
        "notes": [own_words("cycle 1 begun again: busy").plain()],
        "fit": None,
        "no_fit": own_words("no meter").plain(),
    }


@pytest.mark.parametrize("strange", [5, "x", {"code": 1}, [[1], {"code": "core.all"}]])
def test_a_kept_report_that_makes_no_sense_is_told_all_the_same(
    tmp_path: Path, spy: Spy, strange: object
) -> None:
    journal = Journal(tmp_path)
    journal.save("commissioning.web", {"reason": strange, "notes": strange, "no_fit": strange})
    journal.close()
    report = play(tmp_path, lambda runner, _: runner.supervisor.report())
    assert {reason_of(report["reason"]).code, *(n["code"] for n in report["notes"])} == {
        "core.own_words"
    }


def test_a_commissioning_that_this_naproxy_kept_is_told_as_it_is(tmp_path: Path, spy: Spy) -> None:
    kept = {
        "phase": "cancelled",
        "reason": Reason("server.cancelled").plain(),
        "notes": [Reason("server.firmware_pings").plain()],
        "no_fit": Reason("server.no_meter").plain(),
    }
    journal = Journal(tmp_path)
    journal.save("commissioning.web", kept)
    journal.close()
    report = play(tmp_path, lambda runner, _: runner.supervisor.report())
    assert report == {**kept, "passed": False, "armed": False}
