import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy import policy
from naproxy.core.energy import Power
from naproxy.core.reason import Reason, together
from naproxy.core.state import Klass, State
from naproxy.policy.base import Request
from naproxy.policy.thesis import Settings, Thesis

TABLE_4_2 = policy.Setup(
    break_even_s=Power().break_even_s, fraction=0.01, delta_s=1.0, sleep_s=4.0, wake_s=0.2
)
START_S = 1_700_000_000.0
UNSPENT = Reason("policy.budget", used=0, allowed=2)


def request(
    t_s: float, klass: Klass = Klass.PERSON, *, needs: bool = True, delay_s: float = 0.0
) -> Request:
    return Request(START_S + t_s, 1, klass, needs, False, delay_s=delay_s)


def thesis(**changes: float) -> Thesis:
    made = policy.make(replace(Settings(), **changes), TABLE_4_2)  # type: ignore[arg-type]
    assert isinstance(made, Thesis)
    return made


def fed(times: list[float], **changes: float) -> Thesis:
    made = thesis(**changes)
    for t_s in times:
        made.request(request(t_s))
    return made


def fed_by_minutes(**changes: float) -> Thesis:
    return fed([60.0 * n for n in range(20)], **changes)


def test_the_expected_gap_is_the_mean_over_ten_with_the_open_one() -> None:
    made = fed([float(t) for t in range(0, 130, 10)])
    assert made.expected_gap_s(START_S + 120) == pytest.approx(9.0)
    assert made.expected_gap_s(START_S + 220) == pytest.approx(19.0)


def test_sleep_when_idle_for_five_seconds_and_the_gap_pays() -> None:
    made = fed_by_minutes()
    decision = made.decide(START_S + 19 * 60 + 3)
    assert not decision.sleep
    assert decision.reason == together(Reason("policy.idle_of", idle_s=3, least_s=5), UNSPENT)
    assert decision.check_at_s == START_S + 19 * 60 + 5
    decision = made.decide(START_S + 19 * 60 + 6)
    assert decision.sleep
    assert decision.reason == together(Reason("policy.idle", idle_s=6), UNSPENT)


def test_no_sleep_within_a_minute_of_a_wake() -> None:
    made = fed_by_minutes()
    made.observed(START_S + 1141, State.AWAKE)
    decision = made.decide(START_S + 1171)
    assert decision.reason.parts()[0] == Reason("policy.awake_of", awake_s=30, least_s=60)
    assert decision.check_at_s == START_S + 1201
    assert made.decide(START_S + 1201).sleep


def test_a_burst_is_waited_out_until_the_gap_pays() -> None:
    made = fed([60.0 * n for n in range(20)] + [1200 + n * 0.1 for n in range(10)])
    soon = made.decide(START_S + 1210)
    assert not soon.sleep
    busy, _ = soon.reason.parts()
    assert (busy.code, busy.params["pays_s"]) == ("policy.too_busy", 4.1)
    assert soon.check_at_s == pytest.approx(START_S + 1200 + 10 * 170.7 / 41.7, abs=0.01)
    assert soon.check_at_s is not None
    assert made.decide(soon.check_at_s).sleep


def test_no_sleep_while_the_delays_of_a_day_are_used_up() -> None:
    made = fed_by_minutes()
    for n in range(3):
        made.request(request(1200.0 + n, delay_s=0.06))
    decision = made.decide(START_S + 1300)
    assert not decision.sleep
    assert Reason("policy.budget", used=3, allowed=2) in decision.reason.parts()
    for n in range(20):
        made.request(request(86400 + 60.0 * n))
    assert made.decide(START_S + 86400 * 1.1).sleep


def test_a_wait_of_exactly_delta_is_no_delay() -> None:
    made = thesis()
    made.request(request(0, delay_s=0.05))
    assert made.dump()["hours"][0][2] == 0


def test_robots_count_for_nothing() -> None:
    for klass in Klass:
        made = thesis()
        made.request(request(0, klass, delay_s=9))
        assert (made.dump() == thesis().dump()) is klass.robot, klass


def test_hits_count_for_the_budget_and_make_no_gap() -> None:
    made = thesis()
    made.request(request(0, needs=False))
    assert made.dump()["window_s"] == []
    assert made.dump()["hours"][0][1] == 1


def test_a_server_nobody_ever_needed_or_nobody_for_a_day_may_sleep() -> None:
    assert thesis().decide(START_S).sleep
    assert fed([0.0]).decide(START_S + 2 * 86400).sleep


def test_a_promise_of_no_delay_at_all_keeps_it_awake() -> None:
    assert not fed_by_minutes(fraction=0.0).decide(START_S + 3600).sleep


def test_what_is_kept_over_a_restart_decides_the_same() -> None:
    made = fed([float(n) for n in range(50)])
    made.observed(START_S + 50, State.AWAKE)
    again = thesis()
    again.load(json.loads(json.dumps(made.dump())))
    assert again.decide(START_S + 60) == made.decide(START_S + 60)
    assert again.dump() == made.dump()


def test_what_does_not_fit_is_ignored() -> None:
    good: dict[str, object] = {"window_s": [], "hours": [], "awake_s": None}
    for saved in (
        {},
        {**good, "window_s": 3},
        {**good, "window_s": ["x"]},
        {**good, "window_s": [float("nan")]},
        {**good, "hours": [[1, 2]]},
        {**good, "hours": [[float("inf"), 2, 3]]},
        {**good, "awake_s": "soon"},
    ):
        made = thesis()
        made.load(saved)
        assert made.dump() == thesis().dump(), saved


@given(
    st.lists(st.tuples(st.floats(0, 500), st.booleans(), st.floats(0, 1)), max_size=40),
    st.floats(0.001, 1),
    st.floats(0, 1000),
)
def test_waiting_without_requests_always_ends_or_is_asked_again_later(
    gaps: list[tuple[float, bool, float]], fraction: float, idle_s: float
) -> None:
    made, t_s = thesis(fraction=fraction), 0.0
    for gap_s, needs, delay_s in gaps:
        t_s += gap_s
        made.request(request(t_s, needs=needs, delay_s=delay_s))
    now_s = START_S + t_s + idle_s
    for _ in range(200):
        decision = made.decide(now_s)
        if decision.sleep:
            return
        assert decision.check_at_s is not None
        assert decision.check_at_s > now_s
        now_s = decision.check_at_s
    raise AssertionError(decision.reason)


def test_the_window_forgets_a_spender_and_the_debounce_his_wake() -> None:
    made = thesis(fraction=1.0)
    kept = Request(1000.0, 1, Klass.PERSON, needs_server=True, page_load=True)
    made.request(kept)
    made.observed(1100.0, State.AWAKE)
    for second in range(9):
        made.request(replace(kept, t_s=1101.0 + second))
    assert made.decide(1110.0).patient
    made.forget(1000.0)
    decision = made.decide(1110.0)
    assert decision.sleep
    assert decision.reason.parts()[0] == Reason("policy.idle", idle_s=110)


def test_waiting_for_the_budget_is_no_patience_with_visitors() -> None:
    made = thesis(fraction=0.1, min_awake_s=0)
    late = Request(1000.0, 1, Klass.PERSON, needs_server=True, page_load=True, delay_s=9.0)
    made.request(late)
    decision = made.decide(1100.0)
    assert decision.reason.parts()[0].code == "policy.too_many"
    assert not decision.patient
