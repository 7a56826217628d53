"""Experiments on energy: their plan, and what they allow to say."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.reading import PowerSample
from naproxy.lab.measure.experiment import Judge, Phase, Run, order, phase, run_window, seen

IDLE_W, BUSY_W = 20.0, 30.0


def run(
    command: int = 0,
    n: int = 0,
    *,
    busy_w: float = BUSY_W,
    idle_w: float = IDLE_W,
    duration_s: float = 10.0,
    units: float | None = None,
) -> Run:
    """A run of a command that begins on a whole second, with a second of idling around it."""
    baseline = Phase(0, 10, idle_w * 10, 10, 10)
    window_s = round(duration_s) + 2
    energy_j = busy_w * duration_s + idle_w * (window_s - duration_s)
    ran = Phase(10, 10 + window_s, energy_j, window_s, window_s)
    return Run(n, command, baseline, ran, duration_s, units)


def noisy(command: int, busy_w: float, error_w: float, runs: int = 10, seed: int = 1) -> list[Run]:
    chance = random.Random(f"{seed} {command}")
    return [run(command, n, busy_w=busy_w + chance.gauss(0, error_w)) for n in range(runs)]


# The plan


@given(st.integers(1, 6), st.integers(0, 20), st.integers())
def test_each_round_has_each_command_once(commands: int, rounds: int, seed: int) -> None:
    plan = order(commands, rounds, seed)
    assert len(plan) == rounds
    assert all(sorted(one) == list(range(commands)) for one in plan)


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    assert order(3, 20, 1) == order(3, 20, 1) != order(3, 20, 2)


# The phases


@given(st.floats(0, 1e9), st.floats(0, 1e4), st.floats(0.02, 60))
def test_the_window_holds_the_run_and_a_reading_on_either_side(
    start_s: float, length_s: float, period_s: float
) -> None:
    low_s, high_s = run_window(start_s, start_s + length_s, period_s)
    assert low_s <= start_s - period_s
    assert high_s >= start_s + length_s + period_s
    assert high_s - low_s <= length_s + 2 * period_s + 2.001


def test_a_phase_is_the_seconds_in_it_and_a_gap_is_not_filled() -> None:
    seconds = [PowerSample(t, 2, 5000, 5000, 5000, 5000, 1000) for t in (9, 10, 12, 13)]
    found = phase(seconds, 10, 13)
    assert found == Phase(10, 13, 10.0, 2.0, 4)
    assert found.mean_w == 5
    assert found.covered == pytest.approx(2 / 3)


def test_a_run_with_a_gap_was_not_seen() -> None:
    whole = run()
    gap = Phase(10, 20, 90.0, 9.0, 9)
    assert seen(whole)
    assert not seen(Run(0, 0, gap, whole.run, 10.0))
    assert not seen(Run(0, 0, whole.baseline, gap, 10.0))


@given(st.floats(0.1, 100), st.floats(0, 500), st.floats(0, 500))
def test_idling_around_a_run_is_not_counted(
    duration_s: float, idle_w: float, above_w: float
) -> None:
    found = run(busy_w=idle_w + above_w, idle_w=idle_w, duration_s=duration_s)
    assert found.above_idle_j == pytest.approx(above_w * duration_s, abs=1e-6)
    assert found.energy_j == pytest.approx((idle_w + above_w) * duration_s, abs=1e-6)


# What it says


def figures(runs: list[Run], within: float = 0.1) -> dict[str, tuple[float, str | None]]:
    return {
        f.name: (f.estimate.value, f.doubt) for f in Judge(1.0, within).figures(runs) if f.estimate
    }


def test_a_quiet_measurement_is_concluded() -> None:
    found = figures(noisy(0, BUSY_W, 0.1))
    assert list(found) == ["energy", "above idle"]  # without units, nothing by unit
    for name, energy_j in (("energy", 300), ("above idle", 100)):
        value, doubt = found[name]
        assert value == pytest.approx(energy_j, abs=1)
        assert doubt is None


def test_energy_per_unit_is_the_mean_of_the_runs_own() -> None:
    runs = [run(units=100), run(units=200), run(units=400)]
    [_, _, unit, above] = Judge(1.0).figures(runs)
    assert unit.estimate
    assert unit.estimate.value == pytest.approx((3 + 1.5 + 0.75) / 3)
    assert above.estimate
    assert above.estimate.value == pytest.approx((1 + 0.5 + 0.25) / 3)


def test_a_run_like_idling_is_told_from_nothing_by_nobody() -> None:
    found = figures(noisy(0, IDLE_W, 0.1))
    assert found["energy"][1] is None
    assert "cannot be told from nothing" in (found["above idle"][1] or "")


def test_a_wide_interval_is_refused_with_the_runs_that_would_do() -> None:
    doubt = figures(noisy(0, BUSY_W, 5, runs=10), within=0.01)["energy"][1] or ""
    assert "1 % are wanted: about " in doubt
    needed = int(doubt.split("about ")[1].split()[0])
    assert needed > 10
    assert figures(noisy(0, BUSY_W, 5, runs=3 * needed), within=0.01)["energy"][1] is None


def test_two_runs_are_too_few() -> None:
    [energy, _] = Judge(1.0).figures(noisy(0, BUSY_W, 0.1, runs=2))
    assert energy.estimate is None
    assert energy.doubt == "2 runs that the meter saw are too few: at least 3 are needed"


def test_a_run_too_short_for_its_meter_is_refused() -> None:
    runs = [run(duration_s=4.9) for _ in range(10)]
    [energy, _] = Judge(1.0).figures(runs)
    assert energy.doubt
    assert "4.90 s is too short for a meter with a reading each 1 s" in energy.doubt
    [comparison] = Judge(1.0).comparisons([*runs, *noisy(1, 99, 0.1)], 2)
    assert not comparison.concluded


def test_commands_that_differ_more_than_the_noise_are_told_apart() -> None:
    runs = noisy(0, 30, 0.5) + noisy(1, 33, 0.5)
    [found] = Judge(1.0).comparisons(runs, 2)
    assert found.concluded
    assert found.words.endswith(" % less")
    [found] = Judge(1.0).comparisons(noisy(0, 33, 0.5) + noisy(1, 30, 0.5), 2)
    assert found.words.endswith(" % more")


def test_noise_larger_than_the_difference_is_not_concluded_from() -> None:
    [found] = Judge(1.0).comparisons(
        [run(c, n, busy_w=30 + 0.1 * c + n % 2) for n in range(10) for c in (0, 1)], 2
    )
    assert not found.concluded
    assert "the noise does not allow to tell them apart" in found.words


def test_equal_commands_are_rarely_told_apart() -> None:
    told = 0
    for seed in range(200):
        runs = [r for c in range(3) for r in noisy(c, 30, 2, seed=seed)]
        told += any(found.concluded for found in Judge(1.0).comparisons(runs, 3))
    # At most 5 %, of three comparisons together: 10 of 200, standard deviation 3.1.
    assert told < 20


def test_drift_that_both_share_hides_a_difference_from_welch_and_not_from_pairs() -> None:
    runs = [run(c, n, busy_w=30 + 2 * n + c + 0.01 * (n % 3)) for n in range(10) for c in (0, 1)]
    assert not Judge(1.0).comparisons(runs, 2)[0].concluded
    assert Judge(1.0, paired=True).comparisons(runs, 2)[0].concluded


def test_pairs_are_made_of_rounds_that_have_both() -> None:
    runs = noisy(0, 30, 0.5)[2:] + noisy(1, 33, 0.5)[:9]
    [found] = Judge(1.0, paired=True).comparisons(runs, 2)
    assert found.test
    assert found.test.degrees == 6
