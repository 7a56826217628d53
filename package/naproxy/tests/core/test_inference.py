"""What a few measurements say, against published tables and examples."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core import inference
from naproxy.core.inference import paired, student_both_tails, welch

# Hours of sleep gained by ten patients with each of two drugs: Student, "The probable error of
# a mean" (1908), R's data set `sleep`. The figures below are those that R's own example,
# t.test(extra ~ group, data = sleep), prints.
DRUG_1 = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
DRUG_2 = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)


def test_welch_is_that_of_the_published_example() -> None:
    found = welch(DRUG_1, DRUG_2)
    assert found.t == pytest.approx(-1.8608, abs=5e-5)
    assert found.degrees == pytest.approx(17.776, abs=5e-4)
    assert found.p == pytest.approx(0.07939, abs=5e-6)
    assert found.difference.low == pytest.approx(-3.3654832, abs=5e-7)
    assert found.difference.high == pytest.approx(0.2054832, abs=5e-7)


def test_paired_is_that_of_the_published_example() -> None:
    found = paired(DRUG_1, DRUG_2)
    assert found.degrees == 9
    assert found.t == pytest.approx(-4.0621, abs=5e-5)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.difference.low == pytest.approx(-2.4598858, abs=5e-7)
    assert found.difference.high == pytest.approx(-0.7001142, abs=5e-7)


def test_student_t_is_that_of_the_tables() -> None:
    for degrees, share, t in (
        # Abramowitz and Stegun, table 26.10
        (1, 0.975, 12.706),
        (2, 0.975, 4.303),
        (3, 0.995, 5.841),
        (4, 0.95, 2.132),
        (7, 0.975, 2.365),
        (10, 0.9995, 4.587),
        (30, 0.975, 2.042),
        (120, 0.975, 1.980),
    ):
        assert inference.student_t(share, degrees) == pytest.approx(t, abs=5e-4), degrees


@given(st.floats(0, 50), st.integers(1, 60))
def test_student_share_and_t_are_inverse(t: float, degrees: int) -> None:
    share = inference.student_share(t, degrees)
    assert 0.5 <= share <= 1
    if share < 1 - 1e-9:
        assert inference.student_t(share, degrees) == pytest.approx(t, abs=1e-4, rel=1e-4)


def test_percentiles_lie_between_neighbours() -> None:
    assert inference.percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert inference.percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.95) == pytest.approx(4.8)
    assert inference.percentile([7.0], 0.95) == 7.0


def test_chance_alone_is_certain_at_zero_and_impossible_at_infinity() -> None:
    for degrees in (1.0, 1.5, 9.0, 17.776, 1e6):
        assert student_both_tails(0.0, degrees) == 1, degrees
        assert student_both_tails(math.inf, degrees) == 0, degrees


@given(st.floats(0, 1e6), st.floats(1, 1000))
def test_students_distribution_with_one_degree_is_cauchys(t: float, degrees: float) -> None:
    assert student_both_tails(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-9)
    assert 0 <= student_both_tails(t, degrees) <= 1


@given(st.floats(0, 50), st.floats(1, 500), st.floats(0, 5))
def test_what_lies_farther_out_is_less_likely(t: float, degrees: float, more: float) -> None:
    assert student_both_tails(t + more, degrees) <= student_both_tails(t, degrees) + 1e-12


some_values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


@given(some_values, some_values)
def test_the_order_of_two_samples_only_changes_the_sign(a: list[float], b: list[float]) -> None:
    there, back = welch(a, b), welch(b, a)
    assert there.p == pytest.approx(back.p)
    assert there.difference.value == pytest.approx(-back.difference.value)
    assert there.difference.low == pytest.approx(-back.difference.high, rel=1e-6, abs=1e-6)


@given(some_values, some_values)
def test_welchs_degrees_lie_between_one_sample_and_both(a: list[float], b: list[float]) -> None:
    low, high = min(len(a), len(b)) - 1, len(a) + len(b) - 2
    assert low - 1e-9 <= welch(a, b).degrees <= high + 1e-9


@given(some_values)
def test_a_sample_does_not_differ_from_itself(a: list[float]) -> None:
    for found in (welch(a, a), paired(a, a)):
        assert (found.difference.value, found.p) == (0, 1)


def test_a_difference_without_any_noise_is_no_chance() -> None:
    assert paired([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]).p == 0
    assert welch([2.0, 2.0], [1.0, 1.0]).difference == inference.Estimate(1.0, 1.0, 1.0)


def test_intervals_of_unequal_samples_cover_the_truth_as_often_as_they_say() -> None:
    chance = random.Random(1)
    covered = 0
    for _ in range(400):
        a = [chance.gauss(10, 1) for _ in range(10)]
        b = [chance.gauss(7, 4) for _ in range(6)]
        found = welch(a, b).difference
        covered += found.low <= 3 <= found.high
    # 400 trials at 0.95 have a standard deviation of 4.4.
    assert abs(covered - 380) < 18


def test_half_the_interval_needs_four_times_the_runs() -> None:
    assert inference.runs_needed(10, 2.0, 1.0) == 40
    assert inference.runs_needed(10, 1.0, 1.0) == 11
