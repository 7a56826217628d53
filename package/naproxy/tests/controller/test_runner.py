import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from naproxy import policy
from naproxy.config import document
from naproxy.controller.executing import Executor, _times
from naproxy.controller.ping import Pinger
from naproxy.controller.runner import Runner
from naproxy.core import office_time, page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason, own_words, reason_of, stored_reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import Klass, State
from naproxy.history.write.journal import Journal
from naproxy.policy.base import Decision, Policy, Request
from naproxy.server import own_sleeps
from naproxy.server import stages as stages_
from naproxy.server.commissioning import Cycle, Plan
from naproxy.server.jobs import Job
from naproxy.server.machine_io import (
    Observed,
    RungFailed,
    SleepAsked,
    SleepOrdered,
    Transition,
)
from naproxy.server.seeing import Pinged, Sign
from naproxy.server.stages import Stage
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page
from one_runner import keep, running
from samples import FETCH, WEB, server

SERVER = server()
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


Start = Callable[..., AbstractAsyncContextManager[Runner]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a runner, more than once if the test does; each takes up what the last one saved."""

    def start(awake: str = "", ahead_s: float = 0.0) -> AbstractAsyncContextManager[Runner]:
        epoch_s = time.time() - time.monotonic() + ahead_s
        return running(tmp_path, server(f"[server.awake]\n{awake}"), epoch_s=epoch_s)

    return start


@pytest.fixture
def runner(start: Start, spy: Spy, enter: Callable[..., Any]) -> Runner:
    """A runner whose policy is the spy."""
    started: Runner = enter(start())
    return started


def event(outcome: Outcome = Outcome.FETCH, **changes: Any) -> Event:
    return replace(FETCH, **{"t_us": page.monotonic_us(), "outcome": outcome, **changes})


def hear(runner: Runner, outcome: Outcome = Outcome.FETCH, **changes: Any) -> None:
    """A request has ended just now."""
    runner.decider.heard([event(outcome, **changes)], fresh=True)


async def test_a_request_reaches_the_policy_in_epoch_seconds(runner: Runner, spy: Spy) -> None:
    hear(runner, delay_ms=250)
    hear(runner, Outcome.WAITING_PAGE, klass=7)
    request, waited = spy.requests
    assert request.t_s == pytest.approx(time.time(), abs=60)
    assert (request.client, request.path, request.delay_s) == (7, 8, 0.25)
    assert (request.needs_server, request.page_load) == (True, False)
    assert waited.delay_s == SERVER.wake_expect_s, "the waiting page means a wake"
    assert waited.klass is Klass.PERSON, "as any class that is not known"


async def test_spared_page_load_needs_the_server_only_when_it_waits(
    runner: Runner, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.decider, "spares", lambda event: event.path == 8)
    runner.machine.state = State.AWAKE
    hear(runner)
    hear(runner, path=9)
    hear(runner, Outcome.HELD)
    assert [request.needs_server for request in spy.requests] == [False, True, True]


async def test_times_given_to_the_policy_never_decrease(runner: Runner, spy: Spy) -> None:
    now_us = page.monotonic_us()
    for t_us in (now_us, now_us - 5_000_000, now_us + 1):
        hear(runner, t_us=t_us)
    times = [r.t_s for r in spy.requests]
    assert times == sorted(times)


async def test_a_request_of_no_robot_proves_visitors_come_through_the_box(runner: Runner) -> None:
    around = runner.supervisor.around
    for day in (1, 2, 3, 4):
        around.connected(86400.0 * day, day, 1)
    assert around.blind(4)
    today = office_time.local(time.time()).toordinal()
    for klass, hears in ((Klass.CRAWLER, False), (Klass.PERSON, True), (Klass.API, True)):
        around.through(1)
        hear(runner, klass=klass)
        assert (around.dump()["through"] == today) is hears, klass


async def test_after_a_restart_the_policy_hears_only_news(start: Start, spy: Spy) -> None:
    old = event()
    async with start() as runner:
        runner.decider.heard([old], fresh=True)
    async with start() as runner:
        runner.decider.heard([old, event()], fresh=False)
    assert len(spy.requests) == 2
    assert spy.loaded == {"kept": 1}


async def test_a_policy_changed_during_a_sleep_is_told_so(runner: Runner, spy: Spy) -> None:
    runner.machine.state = State.ASLEEP
    runner.configure(SERVER, "lo")
    assert [state for _, state in spy.states] == [State.ASLEEP]
    assert spy.loaded == {"kept": 1}


async def test_values_learned_by_a_clock_far_ahead_are_dropped(start: Start, spy: Spy) -> None:
    async with start(ahead_s=86400):
        pass
    async with start():
        assert spy.loaded is None


async def test_a_clock_a_little_ahead_before_makes_no_time_go_back(start: Start, spy: Spy) -> None:
    for ahead_s in (600, 0):
        async with start(ahead_s=ahead_s) as runner:
            hear(runner)
    assert spy.requests[1].t_s >= spy.requests[0].t_s


async def test_the_status_has_every_counter_of_every_class(runner: Runner) -> None:
    runner.executor.record.requests[Klass.CRAWLER][Outcome.REFUSED] = 5
    requests = runner.status()["counters"]["requests"]
    assert requests["crawler"]["refused"] == 5
    assert set(requests) == {k.name.lower() for k in Klass}
    assert set(requests["person"]) == {o.name.lower() for o in Outcome}


def test_a_server_that_is_switched_off_is_expected_later_than_one_that_resumes() -> None:
    for sleep, said_s in (("ram", 5), ("off", 60)):
        [made] = document.parse(f'{WEB}[server.sleep]\ndriver = "ssh"\nstate = "{sleep}"\n').server
        assert _times(made).wake_expect_s == said_s, sleep


async def test_the_proper_answer_and_the_length_of_wakes_are_kept(runner: Runner) -> None:
    executor, machine = runner.executor, runner.machine
    machine.proper, machine.wakes.took_s = 302, [75.0, 80.0]
    assert runner.status()["proper_status"] == 302
    kept = executor.kept()
    for other, status in (({}, 302), ({"proper": {"of": "another site", "status": 200}}, 0)):
        machine.proper, machine.wakes.took_s = 0, []
        executor.take_up(json.loads(json.dumps({**kept, **other})))
        assert machine.proper == status, other
        assert machine.wakes.took_s == [75.0, 80.0]
    for strange in (None, 7, "x", [None, "7", -1, 1e9]):
        machine.wakes.took_s = []
        executor.take_up({**kept, "wakes_s": strange, "proper": strange})
        assert machine.wakes.took_s == [], strange


async def test_an_invalid_or_expired_mode_is_not_taken_up(
    tmp_path: Path, start: Start, spy: Spy
) -> None:
    modes: list[Any] = [3]
    for until_s in ("x", 1e308, float("inf"), float("nan"), 10**400, time.time() - 1):
        modes.append({"awake": True, "until_s": until_s})
    for mode in modes:
        keep(tmp_path, "server.web", {"mode": mode, "t_s": "x", "policy": []})
        async with start() as runner:
            assert runner.status()["mode"] == "auto", mode


async def test_state_that_a_policy_cannot_restore_is_logged_and_ignored(
    tmp_path: Path, start: Start, spy: Spy, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(Spy, "load", refuse)
    keep(tmp_path, "server.web", {"t_s": 1.0, "policy": {"name": spy.name, "state": {}}})
    async with start() as runner:
        assert runner.status()["mode"] == "auto"
    assert "web: what was kept of it is of no use: OverflowError('too large')" in said


async def test_a_mode_ends_by_the_wall_clock(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time
    awake_with_requests(runner)
    runner.set_mode(awake=True, until_s=wall() + 3600)
    monkeypatch.setattr(time, "time", lambda: wall() - 7200)
    hear(runner, Outcome.HIT)
    left_s = runner.machine.mode.until_s - time.monotonic()
    assert left_s == pytest.approx(3600 + 7200, abs=60)


async def test_a_request_at_the_server_that_means_work_is_an_inhibitor(
    start: Start, spy: Spy
) -> None:
    async with start('work_paths = ["/backup"]') as runner:
        runner.machine.state = State.AWAKE
        for outcome, found in ((Outcome.REFUSED, []), (Outcome.FETCH, [["/backup"]])):
            hear(runner, outcome, flags=page_h.E_NEEDED | page_h.E_WORK)
            for by_hand in (False, True):
                inhibitors = runner.decider.inhibitors(by_hand=by_hand)
                work = [each.params["paths"] for each in inhibitors if each.code == "server.work"]
                assert work == found, (outcome, by_hand)


def awake_with_requests(runner: Runner) -> None:
    runner.machine.state = State.AWAKE
    for fetching in (1, 2, 0):
        runner.executor.record.fetching_now = fetching
        hear(runner, Outcome.HIT)


async def test_inhibitors_are_logged_once_until_they_change_and_kept_in_the_journal(
    runner: Runner, spy: Spy, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, float, bool, Reason]] = []
    monkeypatch.setattr(Journal, "decision", lambda _, *what: noted.append(what))
    spy.decision = Decision(True, IDLE)
    awake_with_requests(runner)
    inhibitors = [FETCHING, NO_WAY], [NO_WAY]
    would = [Reason("server.would_sleep", why=IDLE, inhibitors=each) for each in inhibitors]
    assert [words for words in said if "would sleep" in words] == [f"web: {each}" for each in would]
    name, t_s, sleep, reason = noted[0]
    assert (name, sleep, reason) == ("web", False, would[0])
    assert t_s == pytest.approx(time.time(), abs=60)


# Awake ahead of need

ALWAYS = 'hours = ["mon-sun 00:00-24:00"]'


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[WakeRequest]:
    found: list[WakeRequest] = []
    monkeypatch.setattr(Executor, "wake", lambda _, wake_request: found.append(wake_request))
    return found


def asleep_since(runner: Runner, days: float) -> None:
    """It has slept for so long, and somebody is served from the cache."""
    runner.machine.state = State.ASLEEP
    runner.machine.since_s = time.monotonic() - 86400 * days
    hear(runner, Outcome.HIT)


async def test_a_policy_may_wake_ahead_of_need(
    runner: Runner, spy: Spy, woken: list[WakeRequest]
) -> None:
    spy.decision = Decision(False, OPENS, wake=True)
    asleep_since(runner, 0)
    assert woken == [WakeRequest("policy", OPENS)]


async def test_a_server_is_woken_for_its_hours(
    start: Start, spy: Spy, woken: list[WakeRequest]
) -> None:
    async with start(ALWAYS) as runner:
        asleep_since(runner, 2)
    assert [(each.who, each.why.code) for each in woken] == [("schedule", "server.office_hours")]


async def test_a_sleep_within_its_hours_lasts(
    start: Start, spy: Spy, woken: list[WakeRequest]
) -> None:
    async with start(ALWAYS) as runner:
        asleep_since(runner, 0)
    assert woken == []


async def test_no_wake_ahead_in_quiet_hours(
    start: Start, spy: Spy, woken: list[WakeRequest]
) -> None:
    spy.decision = Decision(False, OPENS, wake=True)
    async with start(ALWAYS.replace("hours", "quiet")) as runner:
        asleep_since(runner, 2)
        decision = runner.status()["decision"]
    assert woken == []
    opens, quiet = stored_reason(decision["reason"]).parts()
    assert (opens, quiet.code) == (OPENS, "server.quiet_hours")


async def test_a_server_is_woken_for_its_appointment(
    runner: Runner, woken: list[WakeRequest]
) -> None:
    runner.executor.appointments.told([Job("backup.timer", 86400.0)], time.time() - 86400.0)
    asleep_since(runner, 1.5)
    assert [(each.who, each.why.code) for each in woken] == [("schedule", "sleep.appointment")]


async def test_an_appointment_that_is_due_is_an_inhibitor(runner: Runner) -> None:
    runner.executor.appointments.told([Job("backup.timer", 100.0)], time.time())
    runner.machine.state = State.AWAKE
    status = runner.status()
    assert "sleep.appointment" in [each["code"] for each in status["inhibitors"]]
    assert [each["name"] for each in status["appointments"]] == ["backup.timer"]


# What it does by itself


async def test_its_own_sleeps_are_told_and_kept_until_they_are_left_to_it(start: Start) -> None:
    seen = Reason("server.sleeps_itself", number=3).plain()
    async with start() as runner:
        runner.machine._traffic_s -= 600
        for _ in range(own_sleeps.TIMES):
            for before, state in pairwise(
                (State.AWAKE, State.UNKNOWN, State.WAKING, State.AWAKE),
            ):
                runner._noted(Transition(before, state, own_words("")), time.monotonic())
        assert runner.status()["sleeps_itself"] == seen
    async with start() as runner:
        assert runner.status()["sleeps_itself"] == seen
        runner.configure(server('[server.sleep]\ndriver = "itself"\n'), "lo")
        assert runner.status()["sleeps_itself"] is None


# The ladder


LOOPBACK_RUNG = '[[server.wake]]\n[[server.wake]]\ndriver = "udp"\naddress = "127.0.0.1"\n'


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_call_that_fails_after_the_server_was_taken_out_is_not_followed_by_another(
    start: Start, stopped: bool, said: list[str]
) -> None:
    async with start(LOOPBACK_RUNG) as runner:
        runner.wake(WakeRequest("command", BY_HAND))
        if stopped:
            runner.stop(why=Reason("server.no_longer_configured"))
        runner.executor.step(RungFailed(0, own_words("no route")))
        assert any("did not wake it" in words for words in said) is not stopped


@pytest.mark.parametrize(
    ("on_page", "in_journal", "slept"),
    [
        (State.FALLING_ASLEEP, State.AWAKE, True),
        (State.AWAKE, State.ASLEEP, False),
        (State.UNKNOWN, State.ASLEEP, True),
        (State.UNKNOWN, State.AWAKE, False),
    ],
)
async def test_state_in_the_page_is_newer_than_the_journal(
    tmp_path: Path, start: Start, on_page: State, in_journal: State, slept: bool
) -> None:
    with closing(Journal(tmp_path)) as journal:
        journal.transition("web", State.UNKNOWN, in_journal, BY_HAND)
    Page(tmp_path).set_state(0, on_page, 1)
    async with start() as runner:
        assert runner.machine.slept is slept


# What fails must not keep a server asleep


class Broken:
    """A way to wake that has a fault."""

    def send(self, failed: Callable[[Reason], None]) -> None:
        raise OSError(24, "Too many open files")


async def test_a_way_to_wake_that_raises_is_passed_over(start: Start, said: list[str]) -> None:
    async with start(LOOPBACK_RUNG) as runner:
        runner.executor._wakers[0] = Broken()
        runner.wake(WakeRequest("command", BY_HAND))
        assert runner.executor.record.state == State.WAKING
        assert runner.executor._timer
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert runner.machine.ladder.now == "udp"
        assert any("Too many open files" in words for words in said)


async def test_an_effect_that_fails_takes_no_other_with_it(runner: Runner, said: list[str]) -> None:
    def fault(*_: Any) -> None:
        raise RuntimeError("a fault")

    runner.executor._probe = fault  # type: ignore[method-assign]
    runner.wake(WakeRequest("command", BY_HAND))
    assert runner.executor._timer
    assert runner.executor.record.state == State.WAKING
    assert any("a fault" in words for words in said)


async def test_a_change_during_a_commissioning_leaves_no_old_probes(runner: Runner) -> None:
    runner.start()
    runner.supervisor.start(Plan())
    probes, pings = runner.executor._prober, runner.executor._pinger
    runner.configure(replace(SERVER, port=2), "lo")
    assert not runner.supervisor.running
    assert probes._timer is None
    assert pings._timer is None
    assert runner.executor._prober._timer


async def test_a_cut_off_commissioning_wakes_the_server_once(start: Start, spy: Spy) -> None:
    async with start() as runner:
        runner.supervisor.start(Plan())
    for interrupted in (True, False):
        async with start() as runner:
            assert runner.supervisor.interrupted is interrupted
            up = Transition(State.WAKING, State.AWAKE, Reason("server.answers"))
            runner.supervisor.entered(up, None, slept=False)


async def test_nothing_is_decided_for_a_server_that_was_taken_out(runner: Runner, spy: Spy) -> None:
    runner.machine.state = State.AWAKE
    spy.decision = Decision(False, OPENS, check_at_s=time.time() + 60)
    runner.stop(why=Reason("server.no_longer_configured"))
    runner.decider.decide()
    assert runner.decider._check is None


@pytest.mark.parametrize("last", [State.WAKING, State.TROUBLE])
@pytest.mark.parametrize("slept", [True, False])
async def test_a_wake_that_was_cut_off_is_resumed_as_the_same_kind(
    tmp_path: Path, start: Start, last: State, slept: bool
) -> None:
    async with start() as runner:
        runner.machine.slept = slept
    with closing(Journal(tmp_path)) as journal:
        journal.transition("web", State.ASLEEP, last, BY_HAND)
    Page(tmp_path).set_state(0, last, 1)
    async with start() as runner:
        runner.start()
        assert (runner.machine.slept, runner.machine.pending is not None) == (slept, slept)


async def test_a_proof_does_not_hold_when_a_rung_of_the_ladder_is_gone(start: Start) -> None:
    async with start(LOOPBACK_RUNG) as runner:
        runner.supervisor.arming.prove()
        runner.supervisor.visited(1e9, None)
        runner.supervisor.arm()  # keeps it
    async with start(LOOPBACK_RUNG) as runner:
        assert runner.supervisor.arming.why_not is None
    async with start() as runner:
        otherwise = Reason("server.commissioned_otherwise", server="web")
        assert runner.supervisor.arming.why_not == otherwise


async def test_a_kept_commissioning_is_told_as_reasons(tmp_path: Path, start: Start) -> None:
    ours = {
        "phase": "cancelled",
        "reason": Reason("server.cancelled").plain(),
        "notes": [Reason("server.firmware_pings").plain()],
        "no_fit": Reason("server.no_meter").plain(),
    }
    older = {"phase": "armed", "reason": "it woke 5 times", "notes": ["cycle 1 begun again: busy"]}
    of_older = {
        "phase": "passed",
        "passed": True,
        "armed": False,
        "reason": own_words("it woke 5 times").plain(),
        "notes": [own_words("cycle 1 begun again: busy").plain()],
        "fit": None,
        "no_fit": own_words("no meter").plain(),
    }
    for kept, told in (
        (ours, {**ours, "passed": False, "armed": False}),
        (older | {"fit": None, "fit_words": "no meter"}, of_older),
    ):
        keep(tmp_path, "commissioning.web", kept)
        async with start() as runner:
            assert runner.supervisor.report() == told


async def test_an_invalid_kept_report_is_still_told(tmp_path: Path, start: Start) -> None:
    for strange in (5, "x", {"code": 1}, [[1], {"code": "core.all"}]):
        kept = {"reason": strange, "notes": strange, "no_fit": strange}
        keep(tmp_path, "commissioning.web", kept)
        async with start() as runner:
            report = runner.supervisor.report()
        told = {reason_of(report["reason"]).code, *(n["code"] for n in report["notes"])}
        assert told == {"core.own_words"}, strange


# Where the seconds of a wake go


def wake_up(runner: Runner) -> None:
    """It sleeps, somebody needs it, it answers a ping, takes a connection and is ready."""
    machine, executor = runner.machine, runner.executor
    machine.state, machine.slept = State.ASLEEP, True
    executor.wake(WakeRequest("192.0.2.17", "page", klass="person"))
    assert machine.state is State.WAKING
    now_s = time.monotonic()
    executor._pinged(Pinged(True, now_s))
    executor._connected()
    executor._probed(Observed(Sign.READY, Reason("ready.status", status=200), now_s))
    assert machine.state is State.AWAKE


def stage_names(stages: list[dict[str, Any]]) -> list[str]:
    return [each["stage"] for each in stages]


async def test_a_wake_is_kept_with_its_stages(runner: Runner, tmp_path: Path) -> None:
    wake_up(runner)
    await asyncio.sleep(0)
    [wake] = runner._box.journal.rows("wakes", "web", 0, 10)
    assert wake["outcome"] == "up"
    assert stage_names(wake["stages"]) == ["network", "port", "answer"]
    last = runner.supervisor.wake_stages()["last"]
    assert last == {"t_s": wake["t_s"], "stages": wake["stages"]}


async def test_a_visit_before_the_order_to_sleep_is_written_as_no_sleep_and_no_wake(
    runner: Runner,
) -> None:
    executor, rows = runner.executor, runner._box.journal.rows
    executor.step(Observed(Sign.READY, Reason("ready.status", status=200), time.monotonic()))
    executor.step(SleepAsked(Reason("server.by_hand")))
    await asyncio.sleep(0)
    assert runner.state() is State.FALLING_ASLEEP
    runner.wake(WakeRequest("192.0.2.17", "page", klass="person"))
    await asyncio.sleep(0)
    assert runner.state() is State.AWAKE
    assert [row["to"] for row in rows("transitions", "web", 0, 10)] == ["awake"]
    assert rows("wakes", "web", 0, 10) == []
    # From the order on it is one.
    executor.step(SleepAsked(Reason("server.by_hand")))
    await asyncio.sleep(0)
    executor.step(SleepOrdered())
    assert rows("transitions", "web", 0, 10)[0]["to"] == "falling_asleep"


async def test_pings_are_quick_while_it_wakes_and_slow_after(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_s: list[float] = []
    monkeypatch.setattr(Pinger, "every", lambda _, s: every_s.append(s))
    wake_up(runner)
    assert every_s[0] == 0.1
    assert every_s[-1] >= 1.0


async def test_pings_answered_by_the_firmware_are_not_a_stage(runner: Runner) -> None:
    machine = runner.machine
    machine.state, machine.slept = State.ASLEEP, True
    runner.executor.step(Pinged(True, time.monotonic()))
    assert machine.sight.firmware_answers
    runner.executor.wake(WakeRequest("192.0.2.17", "page", klass="person"))
    runner.executor._pinged(Pinged(True, time.monotonic()))
    ready = Observed(Sign.READY, Reason("ready.status", status=200), time.monotonic())
    runner.executor._probed(ready)
    await asyncio.sleep(0)
    [wake] = runner._box.journal.rows("wakes", "web", 0, 10)
    assert stage_names(wake["stages"]) == ["answer"]


async def test_a_server_that_was_not_asleep_has_no_stages(runner: Runner) -> None:
    """Its web server restarted: that says nothing about waking."""
    machine = runner.machine
    machine.state, machine.slept = State.AWAKE, False
    for _ in range(3):
        refused = Observed(Sign.REFUSING, Reason("ready.refused"), time.monotonic())
        runner.executor._probed(refused)
    assert machine.state is State.WAKING
    ready = Observed(Sign.READY, Reason("ready.status", status=200), time.monotonic())
    runner.executor._probed(ready)
    await asyncio.sleep(0)
    [wake] = runner._box.journal.rows("wakes", "web", 0, 10)
    assert wake["stages"] == []


async def test_a_second_commissioning_shows_the_first_one_s_stages_as_before(
    start: Start, spy: Spy
) -> None:
    first = (Stage("network", 3.0), Stage("answer", 0.3))
    for stages, before in ((first, ()), (first[1:], first)):
        async with start() as runner:
            supervisor = runner.supervisor
            supervisor.start(Plan(cycles=1))
            assert supervisor.commissioning
            cycle = Cycle(1, 4.0, 3.5, None, None, 15.0, 15.0, None, None, None, stages)
            supervisor.commissioning.cycles.append(cycle)
            supervisor.cancel()
            told = supervisor.wake_stages()
        async with start() as runner:
            kept = runner.supervisor.wake_stages()
        for wake in (told, kept):
            assert stages_.load(wake["stages"]) == stages
            assert stages_.load(wake["before"]) == before
        assert bool(kept["advice"]) == (stages == first)
