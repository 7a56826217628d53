import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.energy import Power
from naproxy.core.reason import Reason
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.simulate import Outcome, Simulation
from naproxy.policy import Setup, teacher, thesis, timeout
from naproxy.policy.base import Decision, Policy
from traffic_maker import START_S, Asked, ask, chunks, days

POWER = Power()


def after(idle_s: float) -> Policy:
    return timeout.Timeout(timeout.Settings(idle_s=idle_s))


def policies(fraction: float = 0.1) -> list[Policy]:
    setup = Setup(POWER.break_even_s, fraction, 0.05, 4.0, 5.0)
    return [
        after(2.0),
        after(300.0),
        thesis.make(thesis.Settings(fraction=fraction), setup),
        teacher.make(teacher.Settings(counting="open"), setup),
        teacher.make(teacher.Settings(), setup),
    ]


class Recorded(Simulation):
    """Keeps the transitions; a server that falls asleep wakes once it sleeps."""

    def __init__(self, *what: Any, **how: Any) -> None:
        super().__init__(*what, **how)
        self.transitions: list[tuple[float, State]] = []

    def _enter(self, t_s: float, state: State) -> None:
        super()._enter(t_s, state)
        up_s = self._until_s - self._wake_s
        self.transitions.append((up_s if state is State.WAKING else t_s, state))


def run(
    policy: Policy,
    asked: list[Asked],
    cache: str = "none",
    size: int = 1 << 15,
) -> tuple[Outcome, list[tuple[float, State]]]:
    simulation = Recorded(policy, CACHES[cache], wake_s=5.0, sleep_s=4.0, delta_s=0.05)
    for chunk in chunks(asked, size):
        simulation.feed(chunk)
    outcome = simulation.finish()
    return outcome, [(t_s - START_S, state) for t_s, state in simulation.transitions]


def test_a_gap_is_slept_through_and_the_one_who_ends_it_waits() -> None:
    outcome, transitions = run(after(10), [ask(0), ask(100), ask(200)])
    assert transitions == [
        (10, State.FALLING_ASLEEP),
        (14, State.ASLEEP),
        (100, State.WAKING),
        (105, State.AWAKE),
        (115, State.FALLING_ASLEEP),
        (119, State.ASLEEP),
        (200, State.WAKING),
    ]
    assert outcome.waits_ms == {5000: 2}
    assert (outcome.off_s, outcome.cycles, outcome.requests) == (90 + 85, 2, 3)


def test_a_request_while_falling_asleep_waits_for_the_fall_and_the_wake() -> None:
    outcome, transitions = run(after(10), [ask(0), ask(11), ask(60)])
    assert transitions[:3] == [
        (10, State.FALLING_ASLEEP),
        (14, State.WAKING),
        (19, State.AWAKE),
    ]
    assert outcome.waits_ms[8000] == 1
    assert outcome.off_s == 4 + (60 - 29)


def test_a_request_at_the_very_end_of_a_wake_does_not_wait() -> None:
    outcome, _ = run(after(10), [ask(0), ask(100), ask(105)])
    assert outcome.waits_ms == {5000: 1}


def test_in_a_closed_loop_a_client_waits_once_for_a_wake() -> None:
    asked = [ask(0), ask(100), ask(101), ask(102, client=2)]
    outcome, _ = run(after(10), asked)
    assert outcome.delayed(0.05, closed=False) == 3
    assert outcome.delayed(0.05, closed=True) == 2
    assert outcome.requests == 4


def test_only_waits_longer_than_delta_are_delays() -> None:
    outcome, _ = run(after(10), [ask(0), ask(100), ask(104)])
    assert outcome.delayed(1.0, closed=False) == 1
    assert outcome.delayed(0.999, closed=False) == 2


def test_robots_wake_nobody() -> None:
    asked = [ask(0), ask(100, klass=Klass.CRAWLER), ask(200)]
    quiet, _ = run(after(10), asked)
    assert (quiet.cycles, quiet.off_s) == (1, 190)


FETCHED = [ask(0, path=1), ask(50)]


def test_what_the_cache_holds_needs_no_server() -> None:
    for cache, delayed in (("none", 2), ("thesis", 1)):
        outcome, _ = run(after(10), [*FETCHED, ask(100, path=1)], cache)
        assert outcome.delayed(0.05, closed=False) == delayed, cache


def test_the_grace_ends_while_asleep_but_a_frozen_cache_stays() -> None:
    asked = [*FETCHED, ask(40_000, path=1)]
    assert run(after(100), asked, "thesis")[0].delayed(0.05, closed=False) == 1
    assert run(after(100), asked, "frozen")[0].delayed(0.05, closed=False) == 0


def test_stale_copies_are_not_renewed_while_asleep() -> None:
    asked = [ask(0, path=1), *(ask(t, path=1) for t in range(1000, 8000, 1000))]
    outcome, transitions = run(after(100), asked, "thesis")
    # Usable for 120 + 3600 s from the only fetch there was.
    assert (4000, State.WAKING) in transitions
    assert outcome.cycles == 2


def test_pages_are_held_only_where_the_office_wants_it() -> None:
    asked = [ask(0, path=2), ask(50), ask(300, path=2)]
    assert run(after(100), asked, "frozen")[0].delayed(0.05, closed=False) == 1
    assert run(after(100), asked, "frozen-pages")[0].delayed(0.05, closed=False) == 0


def test_the_quantile_is_over_all_requests() -> None:
    outcome = Outcome(requests=100)
    outcome.waits_ms.update({5000: 2, 1000: 3})
    assert outcome.wait_quantile_s(0.99, closed=False) == 5.0
    assert outcome.wait_quantile_s(0.98, closed=False) == 1.0
    assert outcome.wait_quantile_s(0.95, closed=False) == 0.0
    assert outcome.mean_wait_s(closed=False) == pytest.approx(0.13)


def stays(transitions: list[tuple[float, State]], end_s: float) -> dict[State, float]:
    """Time in each state, from the transitions alone."""
    times = dict.fromkeys(State, 0.0)
    states = [(0.0, State.AWAKE), *transitions]
    for n, (from_s, state) in enumerate(states):
        to_s = states[n + 1][0] if n + 1 < len(states) else end_s
        times[state] += min(to_s, end_s) - min(from_s, end_s)
    return times


@given(days(), st.sampled_from(sorted(CACHES)))
def test_energy_is_conserved(asked: list[Asked], cache: str) -> None:
    asked = [ask(0), *asked]
    span_s = max(a[0] for a in asked)
    for policy in policies():
        outcome, transitions = run(policy, asked, cache)
        assert outcome.span_s == span_s
        assert outcome.energy_j(POWER) + outcome.saving_j(POWER) == pytest.approx(
            span_s * POWER.on_w
        )
        times = stays(transitions, span_s)
        falls = sum(state is State.FALLING_ASLEEP for _, state in transitions)
        assert outcome.cycles == falls
        # Of a wake that began while falling asleep the rest of the fall is off, too.
        most_s = times[State.FALLING_ASLEEP] + times[State.ASLEEP] + 4.0 * falls
        assert times[State.ASLEEP] - 1e-6 <= outcome.off_s <= most_s + 1e-6
        assert 0 <= outcome.off_s <= span_s + 1e-6


@given(days(robots=True), st.sampled_from(sorted(CACHES)), st.integers(1, 7))
def test_chunking_does_not_matter(asked: list[Asked], cache: str, size: int) -> None:
    for once, again in zip(policies(), policies(), strict=True):
        assert run(once, asked, cache) == run(again, asked, cache, size)


@given(days(), st.sampled_from(sorted(CACHES)))
def test_closed_loop_never_counts_more_than_open(asked: list[Asked], cache: str) -> None:
    for policy in policies():
        outcome, _ = run(policy, asked, cache)
        assert outcome.delayed(0.05, closed=True) <= outcome.delayed(0.05, closed=False)
        assert outcome.delayed(0.05, closed=False) <= outcome.requests


@given(days())
def test_a_duplicated_second_changes_only_the_counts(asked: list[Asked]) -> None:
    """A line logged twice in the same second by the same client is nobody new."""
    twice = sorted([*asked, asked[len(asked) // 2]], key=lambda a: a[0])
    once, moves = run(after(300), asked)
    again, moves_again = run(after(300), twice)
    assert moves == moves_again
    assert again.requests == once.requests + 1
    assert again.waits_closed_ms == once.waits_closed_ms


def test_days_are_counted_as_they_end() -> None:
    asked = [ask(float(t)) for t in range(0, 3 * 86400, 3600)]
    outcome, _ = run(after(60), asked)
    assert [requests for requests, _ in outcome.days] == [24, 48]
    assert outcome.days[0][1] == 23


def test_what_waited_since_the_second_day_is_told_apart() -> None:
    # Every hour somebody who waits, on the first day; every half minute somebody who does not.
    asked = [ask(float(t)) for t in range(0, 86400, 3600)]
    asked += [ask(86400.0 + t) for t in range(0, 86400, 30)]
    outcome, _ = run(after(60), asked)
    assert outcome.delayed(0.05, closed=False) == 24
    assert outcome.delayed_share(0.05, closed=False) == 24 / (24 + 2880)
    assert outcome.delayed_share_since_day_2(0.05, closed=False) == 1 / 2880
    only, _ = run(after(60), asked[:24])
    assert only.delayed_share_since_day_2(0.05, closed=False) is None


def test_a_policy_may_wake_ahead_of_need() -> None:
    class Alarm:
        name = "alarm"

        def request(self, request: object) -> None: ...
        def observed(self, t_s: float, state: State) -> None: ...
        def dump(self) -> dict[str, object]:
            return {}

        def load(self, saved: object) -> None: ...
        def decide(self, t_s: float) -> Decision:
            due = t_s - START_S >= 500
            return Decision(
                not due, Reason("policy.undecided"), None if due else START_S + 500, wake=due
            )

    outcome, transitions = run(Alarm(), [ask(0), ask(600)])  # type: ignore[arg-type]
    assert (500, State.WAKING) in transitions
    assert outcome.delayed(0.05, closed=False) == 0
    assert math.isclose(outcome.off_s, 500, abs_tol=2)
