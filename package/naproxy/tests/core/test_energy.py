import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.energy import Power, idealised, switch_j

TABLE_4_2 = Power()


def test_equation_4_1() -> None:
    assert TABLE_4_2.energy_j(100, 50, 2) == pytest.approx(100 * 43.3 + 50 * 1.6 + 2 * 170.7)


def test_the_break_even_gap_is_where_sleeping_saves_nothing() -> None:
    assert TABLE_4_2.break_even_s == pytest.approx(4.0935, abs=1e-4)
    assert TABLE_4_2.saving_j(TABLE_4_2.break_even_s, 1) == pytest.approx(0)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 1000))
def test_saved_and_drawn_add_up_to_always_on(on_s: float, off_s: float, switches: int) -> None:
    drawn_j = TABLE_4_2.energy_j(on_s, off_s, switches)
    always_j = (on_s + off_s) * TABLE_4_2.on_w
    assert drawn_j + TABLE_4_2.saving_j(off_s, switches) == pytest.approx(always_j, abs=1e-6)


def test_equation_4_4_sleeps_in_the_gaps_of_the_threshold_and_more() -> None:
    times = idealised([1.0, 4.0, 5.0, 100.0], 5.0)
    assert (times.on_s, times.off_s, times.switches) == (5.0, 105.0, 2)


@given(st.lists(st.floats(0, 1e5), max_size=50), st.floats(0, 1e4))
def test_no_threshold_saves_more_than_the_break_even_gap(gaps: list[float], other: float) -> None:
    best = idealised(gaps, TABLE_4_2.break_even_s)
    made = idealised(gaps, other)
    assert TABLE_4_2.saving_j(made.off_s, made.switches) <= (
        TABLE_4_2.saving_j(best.off_s, best.switches) + 1e-6
    )


def test_a_switch_costs_more_where_falling_asleep_takes_longer_or_more_power() -> None:
    assert switch_j(43.3, 1.6, 4.0) == pytest.approx(170.7)
    assert switch_j(43.3, 1.6, 10.0) == pytest.approx(170.7 + 6 * 41.7)
    assert switch_j(86.6, 3.2, 4.0) == pytest.approx(2 * 170.7)


@pytest.mark.parametrize(
    "wrong", [{"on_w": 1.0, "off_w": 2.0}, {"off_w": -1.0}, {"switch_j": -1.0}, {"proxy_w": -5.0}]
)
def test_impossible_powers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"draw less|not negative"):
        Power(**wrong)
