import json
import random
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy import policy
from naproxy.core.energy import Power
from naproxy.core.reason import Reason
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.simulate import Outcome, Simulation
from naproxy.policy.base import Policy, Request
from naproxy.policy.teacher import TIMEOUTS, Candidates, Kind, Settings, ShadowPolicy
from naproxy.policy.timeout import Settings as TimeoutSettings
from naproxy.policy.timeout import Timeout
from traffic_maker import Asked, ask, chunks, days

SETUP = policy.Setup(
    break_even_s=Power().break_even_s, fraction=0.1, delta_s=0.05, sleep_s=4.0, wake_s=5.0
)
DAY = 86400
START_S = 1_700_000_000.0 // DAY * DAY


def teacher(**changes: Any) -> ShadowPolicy:
    made = policy.make(Settings(**changes), SETUP)
    assert isinstance(made, ShadowPolicy)
    return made


def request(
    t_s: float, client: int = 1, *, delay_s: float = 0.0, needs: bool = True, page: bool = True
) -> Request:
    return Request(t_s, client, Klass.PERSON, needs, page, delay_s=delay_s)


def simulate(
    made: Policy, asked: list[Asked], *, cache: str = "none", closed: bool = False
) -> Outcome:
    simulation = Simulation(
        made, CACHES[cache], wake_s=5.0, sleep_s=4.0, delta_s=0.05, closed=closed
    )
    for chunk in chunks(asked):
        simulation.feed(chunk)
    return simulation.finish()


def office(seed: int, weeks: int, a_day: float) -> list[Asked]:
    """People who come in bursts, in office hours more than at night."""
    chance = random.Random(seed)
    asked: list[Asked] = []
    for hour in range(weeks * 168):
        busy = 3.0 if 8 <= hour % 24 < 18 and hour // 24 % 7 < 5 else 0.2
        visits = chance.random() * 2 * busy * a_day / 24 / 8
        for _ in range(int(visits + chance.random())):
            t_s = (hour + chance.random()) * 3600
            client = chance.randrange(1000)
            for _ in range(chance.choice((1, 1, 2, 8))):
                asked.append(ask(float(int(t_s)), client))
                t_s += chance.expovariate(1 / 20)
    return sorted(asked)


def promise_kept(outcome: Outcome, fraction: float) -> bool:
    """Over all requests of the second day and later."""
    requests, delayed = outcome.days[0]
    last_requests, last_delayed = outcome.days[-1]
    return last_delayed - delayed <= fraction * (last_requests - requests)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fraction", [0.1, 0.02])
def test_the_promise_is_kept_from_the_second_day_on(seed: int, fraction: float) -> None:
    setup = policy.Setup(Power().break_even_s, fraction, 0.05, 4.0, 5.0)
    outcome = simulate(policy.make(Settings(counting="open"), setup), office(seed, 4, 600))
    assert outcome.cycles > 50
    assert promise_kept(outcome, fraction)


def test_it_saves_more_than_any_timeout_that_keeps_the_promise() -> None:
    asked = office(9, 6, 600)
    ours = simulate(teacher(counting="open"), asked)
    best = max(
        outcome.off_s
        for idle_s in (10, 30, 60, 120, 300, 600, 1800)
        if (outcome := simulate(Timeout(TimeoutSettings(idle_s=float(idle_s))), asked))
        and outcome.delayed(0.05, closed=False) <= 0.1 * outcome.requests
    )
    assert ours.off_s > best


def test_a_student_counts_what_a_server_with_its_timeout_does() -> None:
    """The counterfactual is exact: the same figures as a simulation of each timeout."""
    asked = office(3, 1, 300)
    candidates = Candidates(Kind(0.0, presence=False), SETUP, closed=False)
    candidates.begin_hour(1e18, 1.0)
    candidates.last_s = asked[0][0]
    for t_s, client, *_ in asked:
        candidates.see(t_s, client, needs=True)
    for n in range(0, TIMEOUTS, 3):
        outcome = simulate(Timeout(TimeoutSettings(idle_s=candidates.idle_s[n])), asked)
        assert candidates.delayed[n] == pytest.approx(
            outcome.delayed(0.05, closed=False), rel=0.005, abs=1
        )


def test_robots_teach_nothing() -> None:
    made = teacher()
    made.request(request(START_S))
    before = made.dump()
    made.request(replace(request(START_S + 10), klass=Klass.CRAWLER))
    assert made.dump() == before


def test_the_first_day_begins_with_a_plain_timeout() -> None:
    made = teacher()
    made.request(request(START_S))
    assert not made.decide(START_S + 599).sleep
    decision = made.decide(START_S + 601)
    assert decision.sleep
    assert decision.reason.parts() == (
        Reason("policy.idle_of", idle_s=601, least_s=600),
        Reason("policy.first_day", used=0),
    )


def test_nobody_is_delayed_to_learn_where_nobody_may_be() -> None:
    made = policy.make(Settings(), replace(SETUP, fraction=0.0))
    made.request(request(START_S))
    decision = made.decide(START_S + 7200)
    assert not decision.sleep
    assert decision.reason.parts()[0] == Reason("policy.nothing_learned")


def test_after_the_first_day_delays_must_be_earned() -> None:
    made = teacher()
    for minutes in range(0, 1600, 10):
        made.request(request(START_S + minutes * 60.0))
    decision = made.decide(START_S + 1600 * 60 + 7200)
    assert not decision.sleep
    assert decision.reason.parts()[0].code in ("policy.no_budget", "policy.nothing_learned")


def test_a_server_left_asleep_by_the_first_day_is_woken() -> None:
    """Who needs it next would be delayed without a delay that is allowed."""
    made = teacher()
    made.request(request(START_S))
    made.observed(START_S + 12 * 3600, State.FALLING_ASLEEP)
    made.observed(START_S + 12 * 3600 + 4, State.ASLEEP)
    assert not made.decide(START_S + 20 * 3600).wake
    decision = made.decide(START_S + 24 * 3600)
    assert decision.wake
    assert decision.reason.parts()[0] == Reason("policy.first_day_over")


@cache
def taught() -> ShadowPolicy:
    made = teacher()
    simulate(made, office(1, 2, 600))
    return made


def learned() -> ShadowPolicy:
    """One that two weeks have taught."""
    return deepcopy(taught())


def last_of(made: ShadowPolicy) -> float:
    return max(candidates.last_s for candidates in made._classes)


def test_what_an_earlier_version_stored_is_taken_back() -> None:
    record = {"saved_s": [1.0] * TIMEOUTS, "delayed": [2.0] * TIMEOUTS, "cycles": [3.0] * TIMEOUTS}
    stored = {
        "students": [{**record, "last_s": START_S}] * 4,
        "rhythm": {"visits": [1.0] * 168, "hours": [2.0] * 168, "share": 0.5},
        **{"requests": 9.0, "hours": 8.0, "budget": 7.0, "reserve": 6.0, "rule": [3.0, 60.0]},
        **{"begun_s": START_S, "lapsed": True, "hour": 101, "day": 4},
        **{"delays_today": 3, "cycles_today": 2},
    }
    made = teacher()
    made.load(json.loads(json.dumps(stored)))
    stored["rhythm"]["local"] = True
    assert made.dump() == stored


def test_the_rhythm_that_an_earlier_version_stored_by_utc_is_turned_to_the_offices() -> None:
    setup = replace(SETUP, where=ZoneInfo("Europe/Zurich"))
    before, at_home, after = (policy.make(Settings(), each) for each in (SETUP, setup, setup))
    for made in (before, at_home):
        for hour in range(0, 480, 24):
            made.request(request(START_S + hour * 3600.0))
    stored = before.dump()
    del stored["rhythm"]["local"]
    after.load(stored)
    assert after.dump()["rhythm"]["visits"] == at_home.dump()["rhythm"]["visits"]


def test_the_reason_says_what_is_spent_and_how_long_it_is_idle() -> None:
    made = learned()
    t_s = last_of(made) + 10
    made.request(request(t_s, 5, delay_s=5.0))
    decision = made.decide(t_s + 1)
    assert not decision.sleep
    idle, budget = decision.reason.parts()
    assert (idle.code, idle.params["idle_s"]) == ("policy.idle_of", 1)
    assert budget.code == "policy.budget_today"
    assert decision.check_at_s is not None
    later = made.decide(decision.check_at_s)
    assert later.sleep or later.check_at_s is not None


def test_without_budget_it_stays_awake_and_says_so() -> None:
    made = learned()
    t_s = last_of(made)
    for n in range(2000):
        made.request(request(t_s + n / 1000, n, delay_s=5.0))
    decision = made.decide(t_s + 3000)
    assert not decision.sleep
    assert decision.reason.parts()[0].code in ("policy.no_budget", "policy.nothing_learned")


def test_a_restart_forgets_nothing() -> None:
    made = learned()
    again = teacher()
    again.load(json.loads(json.dumps(made.dump())))
    t_s = last_of(made)
    for later_s in (1.0, 30.0, 300.0, 3000.0):
        first, second = made.decide(t_s + later_s), again.decide(t_s + later_s)
        assert (first.sleep, first.reason) == (second.sleep, second.reason)


def mangled(value: Any, draw: st.DrawFn) -> Any:
    """One leaf of a dump replaced."""
    junk = draw(st.sampled_from([None, "x", -1e400, [], {}, float("nan"), -5, True]))
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: mangled(value[key], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mangled(value[at], draw), *value[at + 1 :]]
    return junk


def test_wear_is_limited_where_wanted() -> None:
    asked = office(4, 2, 300)
    free = simulate(teacher(), asked)
    spared = simulate(teacher(most_cycles=5), asked)
    days = asked[-1][0] / DAY
    assert free.cycles > 8 * days
    assert 2 * days < spared.cycles <= 5 * (days + 1) < free.cycles


def test_who_is_served_from_the_cache_may_be_a_reason_to_wake() -> None:
    """With pages that are held, people look at one of them before they want something new."""
    asked: list[Asked] = [ask(0.0, path=2)]
    for day in range(20):
        for visit in range(30):
            t_s = day * DAY + visit * 1500.0
            asked += [ask(t_s, visit, 2), ask(t_s + 20, visit), ask(t_s + 200, visit)]
    made = policy.make(Settings(), policy.Setup(Power().break_even_s, 0.01, 0.05, 4.0, 5.0))
    outcome = simulate(made, asked, cache="frozen-pages", closed=True)
    assert outcome.cycles > 20 * 15
    assert outcome.delayed(0.05, closed=True) < 0.01 * outcome.requests


def test_a_server_found_asleep_at_a_start_is_not_woken_for_who_came_before() -> None:
    made = learned()
    made._rule = 2, 60.0  # a rule with presence
    t_s = last_of(made)
    made.observed(t_s + 100, State.UNKNOWN)
    made.observed(t_s + 101, State.ASLEEP)
    assert not made.decide(t_s + 102).wake
    made.request(request(t_s + 103, 5, needs=False))
    assert made.decide(t_s + 103).wake


def test_a_clock_that_was_half_a_century_behind_costs_no_time() -> None:
    made = teacher()
    made.request(request(0.0))
    begun: list[int] = []
    made._rhythm.begin = begun.append  # type: ignore[method-assign]
    made.decide(START_S)
    assert len(begun) < 1000


DUMP = taught().dump()
LATER_S = last_of(taught()) + 7200


@given(st.data())
def test_what_does_not_fit_is_ignored(data: st.DataObject) -> None:
    made = teacher()
    made.load(mangled(DUMP, data.draw))
    made.request(request(LATER_S, page=False))
    made.decide(LATER_S + 600)
    json.dumps(made.dump(), allow_nan=False)


@given(days())
def test_a_clock_that_stands_still_or_jumps_harms_nothing(asked: list[Asked]) -> None:
    made = teacher()
    t_s = START_S
    for step_s, *_ in asked:
        made.request(request(t_s, page=False))
        made.observed(t_s, State.AWAKE)
        decision = made.decide(t_s)
        assert decision.check_at_s is None or decision.check_at_s > t_s
        t_s += step_s
    json.dumps(made.dump(), allow_nan=False)


# Who is over a share


def patient(kind: int = 0) -> ShadowPolicy:
    """A rule that waits for hours."""
    made = learned()
    made._rule = kind, 7200.0
    made._budget = 100.0
    return made


def test_it_waits_for_no_spender_and_has_learned_from_him_all_the_same() -> None:
    made = patient()
    t_s = last_of(made) + 10
    made.request(request(t_s, 5))
    made.observed(t_s + 1, State.AWAKE)
    assert made.decide(t_s + 2).patient
    before = made.dump()
    made.forget(t_s - 1e9)
    assert made.decide(t_s + 2).sleep
    assert made.dump() == before


def test_who_asks_after_a_spender_is_waited_for() -> None:
    made = patient()
    t_s = last_of(made) + 10
    made.forget(t_s - 1e9)
    made.request(request(t_s, 5))
    assert not made.decide(t_s + 2).sleep


def test_who_asked_before_a_spender_is_waited_for_as_long_as_ever() -> None:
    made = patient()
    t_s = last_of(made) + 10
    for later_s in (0, 1000):
        made.request(request(t_s + later_s, 5))
    made.forget(t_s)
    decision = made.decide(t_s + 1001)
    assert decision.patient
    idle_s = round(7200.0 * made._classes[0].factor)
    assert decision.reason.parts()[0] == Reason("policy.idle_of", idle_s=1001, least_s=idle_s)


def test_an_empty_account_keeps_it_awake_whoever_asks() -> None:
    made = patient()
    made._budget = -100.0
    made.forget(START_S)
    decision = made.decide(last_of(made) + 10)
    assert decision.reason.parts()[0].code == "policy.no_budget"
    assert not decision.patient


def test_a_hit_counts_where_presence_does() -> None:
    for kind, counts in ((0, False), (2, True)):
        made = patient(kind)
        hit = request(last_of(made), 5, needs=False)
        assert made.counts(hit) is counts, kind
        assert made.counts(replace(hit, needs_server=True)), kind
        assert not made.counts(replace(hit, needs_server=True, klass=Klass.CRAWLER)), kind
