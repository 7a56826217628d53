"""Savings: sums that are those of their parts, measured and modelled told apart, gaps left out."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naproxy.core.energy import Power
from naproxy.history.read.savings import (
    CONFIGURED,
    Assumptions,
    Cell,
    Measured,
    Saved,
    cell,
    saved,
    total,
    worth,
)
from naproxy.history.read.states import InState

POWER = Power(on_w=40.0, off_w=2.0, switch_j=100.0, proxy_w=5.0)
ASSUMED = Assumptions(POWER, dict.fromkeys(("on_w", "off_w", "switch_j", "proxy_w"), CONFIGURED))


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    length_s = draw(st.sampled_from([60.0, 3600.0]))
    on_s = draw(st.floats(0, length_s))
    off_s = draw(st.floats(0, length_s - on_s))
    covered_s = draw(st.sampled_from([0.0, length_s]) | st.floats(0, length_s))
    box_s = draw(st.floats(0, length_s))
    return Cell(
        *(0.0, length_s, on_s, off_s, draw(st.integers(0, 20))),
        Measured(draw(st.floats(0, 50)) * covered_s, covered_s),
        Measured(draw(st.floats(0, 10)) * box_s, box_s),
    )


@given(st.lists(cells(), max_size=30), st.integers(0, 30))
@example([Cell(0.0, 60.0, 0.0, 1e-309, 1, Measured(0.0, 60.0))], 0)
def test_savings_of_a_range_are_those_of_its_parts(parts: list[Cell], at: int) -> None:
    each = [saved(part, ASSUMED) for part in parts]
    whole, halves = total(each), total([total(each[:at]), total(each[at:])])
    assert whole.gross_j == pytest.approx(halves.gross_j, abs=1e-3)
    assert whole.net_j == pytest.approx(halves.net_j, abs=1e-3)
    assert whole.net_j == pytest.approx(math.fsum(s.net_j for s in each), abs=1e-3)


@given(cells())
def test_nothing_is_known_of_more_than_the_time_there_was(part: Cell) -> None:
    found = saved(part, ASSUMED)
    assert 0 <= found.measured_s + found.modelled_s <= part.length_s + 1e-6
    assert found.always_j == pytest.approx(POWER.on_w * found.known_s)


@given(cells())
def test_what_is_not_known_saves_nothing_and_costs_nothing(part: Cell) -> None:
    unknown = Cell(part.t_s, part.length_s)
    assert saved(unknown, ASSUMED) == Saved(length_s=part.length_s)


def test_what_was_measured_is_taken_as_it_is() -> None:
    found = saved(Cell(0, 3600, 0, 3600, 1, Measured(7200, 3600)), ASSUMED)
    assert (found.measured_j, found.modelled_j) == (7200, 0)
    assert found.gross_j == 40 * 3600 - 7200


def test_without_a_meter_it_is_the_energy_model() -> None:
    found = saved(Cell(0, 3600, 600, 3000, 2), ASSUMED)
    assert (found.measured_s, found.modelled_s) == (0, 3600)
    assert found.modelled_j == pytest.approx(POWER.energy_j(600, 3000, 2))
    assert found.gross_j == pytest.approx(POWER.saving_j(3000, 2))


def test_a_gap_of_the_meter_is_modelled_and_said_to_be() -> None:
    found = saved(Cell(0, 60, 0, 60, 0, Measured(90, 45)), ASSUMED)
    assert (found.measured_s, found.modelled_s) == (45, 15)
    assert (found.measured_j, found.modelled_j) == (90, pytest.approx(15 * POWER.off_w))


def test_a_measured_time_of_unknown_state_counts() -> None:
    found = saved(Cell(0, 60, server=Measured(600, 60)), ASSUMED)
    assert found.gross_j == 40 * 60 - 600


def test_the_boxs_own_watts_come_off() -> None:
    found = saved(Cell(0, 3600, 0, 3600), ASSUMED)
    assert found.box_modelled_j == 5 * 3600
    measured = saved(Cell(0, 3600, 0, 3600, 0, box=Measured(4 * 1800, 1800)), ASSUMED)
    assert measured.box_measured_j == 4 * 1800
    assert measured.box_modelled_j == 5 * 1800


def test_the_box_is_shared_by_its_servers() -> None:
    half = Assumptions(POWER, {}, box_share=0.5)
    part = Cell(0, 3600, 0, 3600, 0, box=Measured(4 * 1800, 1800))
    assert saved(part, half).box_j == pytest.approx(saved(part, ASSUMED).box_j / 2)


def test_states_are_on_or_off_as_the_energy_model_has_them() -> None:
    states = {
        "awake": InState(10, 1),
        "waking": InState(5, 1),
        "trouble": InState(2, 1),
        "falling_asleep": InState(4, 1),
        "asleep": InState(30, 3),
    }
    made = cell(0, 60, states)
    assert (made.on_s, made.off_s, made.switches) == (17, 34, 3)


def test_a_server_that_draws_more_than_always_on_saves_less_than_nothing() -> None:
    found = saved(Cell(0, 60, 60, 0, 0, Measured(60 * 50, 60)), ASSUMED)
    assert found.gross_j == -600


def test_money_and_co2_only_where_a_price_is_known() -> None:
    assert worth(7.2e6, 0.3, 400).money == pytest.approx(0.6)
    assert worth(7.2e6, 0.3, 400).co2_g == pytest.approx(800)
    assert worth(7.2e6, 0, 0).money is None
    assert worth(7.2e6, 0, 0).co2_g is None
