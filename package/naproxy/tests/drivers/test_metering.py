import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.reading import PowerSample
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.drivers.meter import Fault, Reading
from naproxy.drivers.metering import (
    COUNTER_S,
    SETTLE_S,
    ZERO_AWAKE_S,
    Adapter,
    Counter,
    Energy,
    Gatherer,
    Watch,
    checked,
    energy_between,
)

T = 1_700_000_000.0


def gathered(readings: list[tuple[float, Reading]], period_s: float = 1.0) -> list[PowerSample]:
    """The seconds of readings that came at these times, when all is over."""
    gatherer = Gatherer(period_s)
    found = []
    for t_s, reading in readings:
        gatherer.take(t_s, reading)
        found += gatherer.seconds(t_s)
    return found + gatherer.seconds(readings[-1][0] + 1000)


def every(step_s: float, powers: list[float]) -> list[tuple[float, Reading]]:
    return [(T + n * step_s, Reading(power_w)) for n, power_w in enumerate(powers)]


# Seconds


def test_a_steady_power_is_that_energy_in_each_second() -> None:
    found = gathered(every(0.5, [43.3] * 11))
    assert [s.t_s - T for s in found] == [0, 1, 2, 3, 4]
    assert {(s.count, s.mean_mw, s.energy_mj, s.covered_ms) for s in found} == {
        (2, 43300, 43300, 1000)
    }


def test_a_reading_speaks_for_the_time_before_it() -> None:
    [second] = gathered([(T, Reading(99.0)), (T + 0.4, Reading(10.0)), (T + 1.0, Reading(20.0))])
    assert second.energy_mj == round(1000 * (0.4 * 10 + 0.6 * 20))
    assert (second.min_mw, second.max_mw, second.count) == (10000, 20000, 2)


def test_a_slow_meter_fills_all_the_seconds_it_speaks_for() -> None:
    found = gathered(every(6.0, [100.0, 50.0]), period_s=6.0)
    assert len(found) == 6
    assert {(s.count, s.energy_mj, s.covered_ms) for s in found} == {(1, 50000, 1000)}


def test_one_reading_alone_speaks_for_nothing() -> None:
    assert gathered([(T, Reading(40.0))]) == []


def test_a_second_is_told_once_and_only_when_it_is_over() -> None:
    gatherer = Gatherer(0.5)
    gatherer.take(T, Reading(1.0))
    gatherer.take(T + 0.9, Reading(1.0))
    assert gatherer.seconds(T + 1.1) == []
    gatherer.take(T + 1.4, Reading(1.0))
    assert [s.t_s for s in gatherer.seconds(T + 1.4)] == [T]
    assert [s.t_s for s in gatherer.seconds(T + 9)] == [T + 1]
    assert gatherer.seconds(T + 99) == []


def frames(count: int, energy_j: float, step_s: float = 0.02) -> list[tuple[float, Reading]]:
    """A device that counts energy itself, 50 frames a second."""
    power_w = energy_j / step_s
    reading = Reading(power_w, energy_j=energy_j, covered_s=step_s, elapsed_s=step_s)
    return [(T + 1 + step_s * n, reading) for n in range(count)]


def test_frames_that_come_late_and_together_keep_their_places() -> None:
    late = [(t_s if n % 40 else t_s + 0.7, r) for n, (t_s, r) in enumerate(frames(1000, 0.8))]
    for n, ((a_s, _), (b_s, reading)) in enumerate(pairwise(late)):
        late[n + 1] = (max(a_s, b_s), reading)
    found = gathered(late, 0.02)
    assert sum(s.energy_mj for s in found) == pytest.approx(800_000, abs=1)
    inner = found[2:-2]
    assert all(s.energy_mj == pytest.approx(40_000, rel=0.05) for s in inner)


def test_a_clock_that_drifts_leaves_no_gaps() -> None:
    """30 parts in a million, a crystal's: an hour."""
    gatherer, found = Gatherer(1.0), []
    for n in range(3600):
        gatherer.take(T + n * 1.00003, Reading(10.0, 10.0, 1.0, 1.0))
        found += gatherer.seconds(T + n)
    assert min(s.covered_ms for s in found[1:-1]) >= 998
    assert sum(s.energy_mj for s in found) == pytest.approx(10_000 * len(found), rel=1e-3)


def test_what_the_device_did_not_measure_is_not_covered() -> None:
    half = Reading(40.0, energy_j=20.0, covered_s=0.5, elapsed_s=1.0)
    found = gathered([(T + n, half) for n in range(1, 6)])
    assert {(s.mean_mw, s.energy_mj, s.covered_ms) for s in found} == {(40000, 20000, 500)}


MILLISECONDS = st.integers(1, 8000).map(lambda ms: ms / 1000)
GAPS = st.lists(st.tuples(MILLISECONDS, st.floats(0, 5000)), min_size=1, max_size=60)


@given(GAPS)
def test_energy_is_neither_lost_nor_made(steps: list[tuple[float, float]]) -> None:
    t_s, true_j, covered_s = T, 0.0, 0.0
    readings = [(t_s, Reading(1.0))]
    for gap_s, power_w in steps:
        before_s, t_s = t_s, t_s + gap_s
        readings.append((t_s, Reading(power_w)))
        if t_s - before_s <= 3.0:
            true_j += power_w * (t_s - before_s)
            covered_s += t_s - before_s
    found = gathered(readings)
    assert sum(s.energy_mj for s in found) == pytest.approx(1000 * true_j, abs=2 + len(found))
    assert sum(s.covered_ms for s in found) == pytest.approx(1000 * covered_s, abs=len(found) + 1)
    assert [s.t_s for s in found] == sorted({s.t_s for s in found})
    assert all(1 <= s.covered_ms <= 1000 and s.count >= 1 for s in found)
    assert all(s.min_mw <= s.mean_mw <= s.max_mw for s in found)


# What is refused


def test_a_power_that_cannot_be_is_refused() -> None:
    for power_w, kind in (
        (math.nan, "not_a_number"),
        (math.inf, "not_a_number"),
        (22_001, "huge"),
        (-3, "negative"),
    ):
        with pytest.raises(Fault) as caught:
            checked(Reading(power_w))
        assert caught.value.kind == kind
    little = Reading(-0.2, -0.004, 0.02, 0.02)
    assert checked(little) == Reading(0, 0, 0.02, 0.02), "a little below zero is zero"


# Adapters


def test_the_adapters_loss_is_added() -> None:
    adapter = Adapter(((10.0, 0.7), (40.0, 0.9)))
    assert adapter.mains_w(10) == pytest.approx(10 / 0.7)
    assert adapter.mains_w(25) == pytest.approx(25 / 0.8)
    assert adapter.mains_w(100) == pytest.approx(100 / 0.9)
    assert adapter.mains_w(1) == pytest.approx(1 / 0.7)
    assert Adapter(((10.0, 0.7),), idle_w=0.8).mains_w(0) == 0.8


def test_energy_goes_through_the_adapter_as_power_does() -> None:
    reading = Reading(20.0, energy_j=10.0, covered_s=0.5, elapsed_s=1.0, counter_j=7.0)
    assert Adapter(((1.0, 0.5),)).mains(reading) == Reading(40.0, 20.0, 0.5, 1.0)
    assert Adapter().mains(reading) is reading


# Energy between two times


def second(t_s: float, power_w: float, covered_ms: int = 1000) -> PowerSample:
    mw = round(power_w * 1000)
    return PowerSample(int(t_s), 1, mw, mw, mw, mw * covered_ms // 1000, covered_ms)


def test_energy_between_two_times() -> None:
    seconds = [second(T, 10), second(T + 1, 20), second(T + 3, 30, 500)]
    assert energy_between(seconds, T, T + 4) == Energy(45.0, 2.5)
    assert energy_between(seconds, T + 0.5, T + 1.5) == Energy(15.0, 1.0)
    assert energy_between(seconds, T + 2, T + 3) is None


# Counters


def test_a_counter_is_used_by_its_differences_and_leaves_a_gap_where_it_begins_anew() -> None:
    counter = Counter()
    said = [counter.difference_j(j) for j in (500.0, 510.0, 510.0, 3.0, 5.0)]
    assert said == [None, 10.0, 0.0, None, 2.0]


# Who is believed


class Story:
    """A server and its meter, in seconds."""

    def __init__(self, expected_w: float = 41.7) -> None:
        self.watch = Watch(expected_w)
        self.t_s = T

    def plays(self, *parts: tuple[State, float, float]) -> Reason | None:
        """What is odd after so many seconds of each state and power."""
        for state, power_w, length_s in parts:
            self.watch.entered(self.t_s, state)
            for _ in range(round(length_s)):
                self.t_s += 1
                self.watch.reading(self.t_s, Reading(power_w))
        return self.watch.odd


AWAKE, FALLING, ASLEEP, WAKING = State.AWAKE, State.FALLING_ASLEEP, State.ASLEEP, State.WAKING


@pytest.mark.parametrize(
    ("expected_w", "parts"),
    [
        pytest.param(41.7, [(AWAKE, 43.3, 60), (FALLING, 43.3, 4), (ASLEEP, 1.6, 60)], id="usual"),
        pytest.param(41.7, [(AWAKE, 43.3, 60), (ASLEEP, 0.0, 600)], id="zero asleep"),
        pytest.param(40.0, [(AWAKE, 500.0, 60), (ASLEEP, 460.0, 60)], id="others on its strip"),
        pytest.param(41.7, [(AWAKE, 3.0, 60), (ASLEEP, 0.5, 60)], id="smaller than configured"),
        pytest.param(
            41.7,
            [
                *((AWAKE, 43.3, 60), (ASLEEP, 43.3, SETTLE_S)),
                *((WAKING, 43.3, 3), (AWAKE, 43.3, SETTLE_S)),
            ],
            id="too short a time",
        ),
    ],
)
def test_a_meter_that_falls_with_its_server_is_believed(
    expected_w: float, parts: list[tuple[State, float, float]]
) -> None:
    assert Story(expected_w).plays(*parts) is None


def test_a_meter_that_is_flat_when_the_server_falls_asleep_or_wakes_is_not_until_it_moves() -> None:
    wakes = Story().plays((ASLEEP, 1.6, 60), (WAKING, 1.6, 4), (AWAKE, 1.6, 60))
    assert wakes == Reason("meter.flat", awake_w=1.6, asleep_w=1.6)
    story = Story()
    falls = ((AWAKE, 43.3, 60), (FALLING, 43.3, 4), (ASLEEP, 43.3, 2 * SETTLE_S + 2))
    assert story.plays(*falls) == Reason("meter.flat", awake_w=43.3, asleep_w=43.3)
    assert story.plays((AWAKE, 45.0, 60), (ASLEEP, 1.6, 60)) is None


def test_zero_watts_of_a_server_that_answers_is_told() -> None:
    story = Story()
    assert story.plays((AWAKE, 0.0, ZERO_AWAKE_S + 2)) == Reason("meter.zero")
    assert story.plays((AWAKE, 43.3, 1)) is None


def counted(power_w: float, counted_w: float, length_s: float, step_j: float) -> str:
    watch = Watch(41.7)
    for n in range(round(length_s)):
        counter_j = counted_w * n // step_j * step_j
        watch.reading(T + n, Reading(power_w, counter_j=counter_j))
    return str(watch.odd or "")


def test_a_counter_that_agrees_is_believed_however_coarse() -> None:
    assert not counted(43.3, 43.3, 4 * 3600, 3600.0)
    assert not counted(43.3, 43.3, 2 * COUNTER_S, 3.6)


def test_a_power_that_its_counter_contradicts_is_told() -> None:
    for power_w in (20.0, 0.0):
        assert "its counter says" in counted(power_w, 43.3, 2 * COUNTER_S, 3.6)
