from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.energy import Power, idealised
from naproxy.lab.estimate.bounds import Bounds, Sleeps
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.simulate import Simulation
from naproxy.policy import Setup, schedule, teacher, thesis, timeout
from naproxy.policy.base import Policy
from traffic_maker import Asked, ask, chunks, days

POWER = Power()
WAKE_S, SLEEP_S, DELTA_S = 5.0, 4.0, 0.05
LEAD_S = WAKE_S - DELTA_S


def bounds(
    asked: list[Asked], cache: str = "none", wake_s: float = WAKE_S, size: int = 100
) -> Bounds:
    found = Sleeps(CACHES[cache], wake_s=wake_s, delta_s=DELTA_S, least_s=POWER.break_even_s)
    for chunk in chunks(asked, size):
        found.feed(chunk)
    return Bounds(found, POWER)


def saved_j(asleep_s: float, cycles: int = 1) -> float:
    return POWER.saving_j(asleep_s, cycles)


EVENING = [ask(0), ask(1000), ask(1001), ask(4000), ask(4100)]


def test_a_gap_costs_all_who_come_while_the_server_wakes() -> None:
    for fraction, closed, saved in (
        # A server that wakes on arrival never sleeps if nobody may wait.
        (0.0, False, 0.0),
        # The budget goes to the gap that is worth most.
        (0.2, False, saved_j(2999)),
        # Three delays: 2995 s from the end of a wake on for one, 100 s for one, 1000 s for two.
        (0.6, False, saved_j(2995 + 1000, 2)),
        # In a closed loop a client costs once.
        (0.4, True, saved_j(2995 + 1000, 2)),
    ):
        made = bounds(EVENING).reactive(fraction, closed=closed)
        assert made.saving_j == pytest.approx(saved, rel=1e-3), fraction


def test_a_server_that_wakes_is_not_asleep() -> None:
    # Both gaps, and the second of 20 s begins with the wake after the first.
    asked = [ask(0), ask(1000), ask(1020), ask(1021)]
    made = bounds(asked).reactive(1.0, closed=False)
    assert made.saving_j == pytest.approx(saved_j(1000 + 20 - WAKE_S, 2), rel=1e-3)


def test_waking_ahead_costs_a_wake_time_where_the_budget_does_not_cover_it() -> None:
    for fraction, wakes in ((0.0, 3), (0.2, 2)):
        made = bounds(EVENING).pre_wake(fraction, closed=False)
        expected_j = saved_j(1000 + 2999 + 100 - wakes * LEAD_S, 3)
        assert made.saving_j == pytest.approx(expected_j, rel=1e-3), fraction


def test_sleeping_to_the_end_of_the_log_delays_nobody() -> None:
    robots_end = [ask(0), (500.0, 9, 0, ask(0)[3].CRAWLER, 0)]
    assert bounds(robots_end).reactive(0.0, closed=False).saving_j == pytest.approx(saved_j(500))


@given(days())
def test_the_idealised_model_is_equation_4_4(asked: list[Asked]) -> None:
    times = sorted(a[0] for a in asked)
    gaps = [b - a for a, b in pairwise(times)]
    # A gap of exactly the break-even length saves nothing either way.
    expected = idealised(gaps, POWER.break_even_s)
    assert bounds(asked).idealised().saving_j == pytest.approx(
        POWER.saving_j(expected.off_s, expected.switches)
    )


@given(days(), st.sampled_from([0.0, 0.1, 0.3, 1.0]))
def test_the_reactive_bound_is_that_of_trying_every_set_of_gaps(
    asked: list[Asked], fraction: float
) -> None:
    asked = sorted(asked, key=lambda a: a[0])[:9]
    times = [a[0] for a in asked]
    gaps = [
        (a, b, sum(b <= t < b + WAKE_S - DELTA_S for t in times))
        for a, b in pairwise(times)
        if b - a > POWER.break_even_s
    ]

    def saving_j(chosen: tuple[tuple[float, float, int], ...]) -> float:
        asleep_s, up_s = 0.0, times[0]
        for begin_s, end_s, _ in chosen:
            asleep_s += end_s - max(begin_s, up_s)
            up_s = end_s + WAKE_S
        return POWER.saving_j(asleep_s, len(chosen))

    best_j = max(
        saving_j(chosen)
        for n in range(len(gaps) + 1)
        for chosen in combinations(gaps, n)
        if sum(d for *_, d in chosen) <= fraction * len(times)
    )
    made_j = bounds(asked).reactive(fraction, closed=False).saving_j
    assert made_j >= best_j - 1e-6
    if fraction == 1.0:
        assert made_j == pytest.approx(best_j)


@given(days(), st.sampled_from(sorted(CACHES)))
def test_bounds_are_ordered(asked: list[Asked], cache: str) -> None:
    made = bounds(asked, cache)
    ideal_j = made.idealised().saving_j
    for closed in (False, True):
        for fraction in (0.01, 0.1, 0.5):
            reactive_j = made.reactive(fraction, closed=closed).saving_j
            pre_wake_j = made.pre_wake(fraction, closed=closed).saving_j
            assert reactive_j <= pre_wake_j * 1.001 + 1e-6
            assert pre_wake_j <= ideal_j * 1.001 + 1e-6
            assert reactive_j >= made.reactive(fraction / 2, closed=closed).saving_j * 0.999 - 1e-6
            assert made.reactive(fraction, closed=True).saving_j >= (
                made.reactive(fraction, closed=False).saving_j * 0.999 - 1e-6
            )


@given(days(robots=True), st.sampled_from(sorted(CACHES)), st.integers(1, 5))
def test_chunking_does_not_matter(asked: list[Asked], cache: str, size: int) -> None:
    once, again = bounds(asked, cache), bounds(asked, cache, size=size)
    assert once.reactive(0.1, closed=True) == again.reactive(0.1, closed=True)


def policies(setup: Setup) -> list[Policy]:
    return [
        *(timeout.Timeout(timeout.Settings(idle_s=s)) for s in (1.0, 5.0, 30.0, 3000.0)),
        thesis.make(thesis.Settings(fraction=1.0), setup),
        teacher.make(teacher.Settings(), setup),
        schedule.make(schedule.Settings(idle_s=10.0), setup),
    ]


@given(
    days(),
    st.sampled_from(sorted(CACHES)),
    st.sampled_from([0.0, 0.15, 5.0, 60.0]),
    st.booleans(),
)
def test_no_policy_ever_beats_its_bound(
    asked: list[Asked], cache: str, wake_s: float, closed: bool
) -> None:
    assert_bounded([ask(0), *asked], cache, wake_s, closed=closed)


def test_a_request_that_needs_the_server_sooner_may_spare_others_their_delay() -> None:
    # The file has expired an hour later, and who asks for it wakes the server for the rest.
    burst = [ask(3721)] * 3
    asked = [ask(0), ask(0, path=3), ask(3720, path=3), *burst]
    assert_bounded(asked, "thesis", 0.15, closed=False)
    # Frozen, it would not have expired, and one delay would not do.
    reactive_j = bounds(asked, "frozen", 0.15).reactive(1 / len(asked), closed=False).saving_j
    assert reactive_j < bounds(asked, "thesis", 0.15).reactive(1 / 6, closed=False).saving_j


def test_a_late_wake_ahead_of_need_delays_fewer() -> None:
    # Woken as the first of four comes, the server is up before the others do.
    asked = [ask(0), ask(1000), *[ask(1004.5)] * 3]
    saving_j = bounds(asked).pre_wake(0.2, closed=False).saving_j
    assert saving_j >= saved_j(1000 - 0.5)


def assert_bounded(asked: list[Asked], cache: str, wake_s: float, *, closed: bool) -> None:
    """Compare what every policy saves with the bound at the promise that it kept."""
    made = bounds(asked, cache, wake_s)
    setup = Setup(POWER.break_even_s, 0.1, DELTA_S, SLEEP_S, wake_s)
    for policy in policies(setup):
        simulation = Simulation(
            policy, CACHES[cache], wake_s=wake_s, sleep_s=SLEEP_S, delta_s=DELTA_S, closed=closed
        )
        for chunk in chunks(asked):
            simulation.feed(chunk)
        outcome = simulation.finish()
        # At the promise that it kept, whatever it was asked for.
        fraction = outcome.delayed(DELTA_S, closed=closed) / outcome.requests
        # Both of these may wake the server before a request needs it.
        ahead = policy.name in ("schedule", "teacher")
        limit = made.pre_wake if ahead else made.reactive
        saved = outcome.saving_j(POWER)
        assert saved <= limit(fraction, closed=closed).saving_j + 1e-6, policy.name
        assert saved <= made.idealised().saving_j + 1e-6, policy.name
