"""Savings: sums that are those of their parts, measured and modelled told apart, gaps left out."""

import math
from dataclasses import replace
from datetime import UTC, date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naproxy.core.energy import Power
from naproxy.core.rates import Rates, Tariff, Worth, band, by_tariff, flat
from naproxy.history.read.savings import (
    CONFIGURED,
    Assumptions,
    Cell,
    Measured,
    Saved,
    cell,
    saved,
    total,
    valued,
)
from naproxy.history.read.states import InState

POWER = Power(on_w=40.0, off_w=2.0, switch_j=100.0, proxy_w=5.0)
ASSUMED = Assumptions(POWER, dict.fromkeys(("on_w", "off_w", "switch_j", "proxy_w"), CONFIGURED))

ON_KW = POWER.on_w / 1000


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


def test_a_meter_is_taken_as_it_is_and_what_it_lacks_is_modelled_and_said_to_be() -> None:
    halves = Measured(4 * 1800, 1800)
    for case, part, expected in (
        (
            *("measured", Cell(0, 3600, 0, 3600, 1, Measured(7200, 3600))),
            {"measured_j": 7200, "modelled_j": 0, "gross_j": 40 * 3600 - 7200},
        ),
        (
            *("no meter", Cell(0, 3600, 600, 3000, 2)),
            {
                **{"measured_s": 0, "modelled_s": 3600, "modelled_j": POWER.energy_j(600, 3000, 2)},
                **{"gross_j": POWER.saving_j(3000, 2), "box_modelled_j": 5 * 3600},
            },
        ),
        (
            *("a gap of the meter", Cell(0, 60, 0, 60, 0, Measured(90, 45))),
            {"measured_s": 45, "modelled_s": 15, "measured_j": 90, "modelled_j": 15 * POWER.off_w},
        ),
        ("an unknown state", Cell(0, 60, server=Measured(600, 60)), {"gross_j": 40 * 60 - 600}),
        ("more than always on", Cell(0, 60, 60, 0, 0, Measured(3000, 60)), {"gross_j": -600}),
        (
            *("the box measured for half of the time", Cell(0, 3600, 0, 3600, 0, box=halves)),
            {"box_measured_j": 4 * 1800, "box_modelled_j": 5 * 1800},
        ),
    ):
        found = saved(part, ASSUMED)
        got = {name: getattr(found, name) for name in expected}
        assert got == pytest.approx(expected), case


def test_a_cell_with_half_of_the_box_costs_half_of_its_energy() -> None:
    part = Cell(0, 3600, 0, 3600, 0, box=Measured(4 * 1800, 1800))
    half = replace(part, box_share=0.5)
    assert saved(half, ASSUMED).box_j == pytest.approx(saved(part, ASSUMED).box_j / 2)


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


# What it is worth

DAY_AND_NIGHT = Rates(
    by_tariff(None, [Tariff(date(1970, 1, 1), 0.32, (band("mon-sun 22:00-06:00 0.24"),))], UTC),
    flat(400, UTC),
)


def hours_of(watts: dict[int, float]) -> list[Cell]:
    """One cell for each hour since 1970 that is named, with what a meter measured of it."""
    return [
        Cell(hour * 3600, 3600, 3600, 0, 0, Measured(on_w * 3600, 3600), Measured(5 * 3600, 3600))
        for hour, on_w in watts.items()
    ]


def test_each_hour_is_worth_its_own_price() -> None:
    found = valued(hours_of({12: 50.0, 23: 10.0}), ASSUMED, DAY_AND_NIGHT)
    assert found.used.money == pytest.approx(0.050 * 0.32 + 0.010 * 0.24)
    assert found.always.money == pytest.approx(ON_KW * (0.32 + 0.24))
    assert found.box.money == pytest.approx(0.005 * (0.32 + 0.24))
    assert found.net.money == pytest.approx(
        (ON_KW - 0.050 - 0.005) * 0.32 + (ON_KW - 0.010 - 0.005) * 0.24
    )
    assert found.net.co2_g == pytest.approx(found.sums.net_j / 3.6e6 * 400)


def test_the_worth_of_a_range_is_that_of_its_parts() -> None:
    parts = hours_of({hour: 7.0 * (hour % 5) for hour in range(48)})
    whole = valued(parts, ASSUMED, DAY_AND_NIGHT)
    halves = valued(parts[:17], ASSUMED, DAY_AND_NIGHT) + valued(parts[17:], ASSUMED, DAY_AND_NIGHT)
    assert halves.net.money == pytest.approx(whole.net.money)
    assert halves.sums.net_j == pytest.approx(whole.sums.net_j)


def test_a_price_that_holds_from_a_day_on_leaves_what_was_before_without_money() -> None:
    since = Rates(by_tariff(None, [Tariff(date(1970, 1, 2), 0.3)], UTC), flat(None, UTC))
    assert valued(hours_of({12: 50.0}), ASSUMED, since).net == Worth(None, None)
    both = valued(hours_of({12: 50.0, 36: 50.0}), ASSUMED, since)
    assert both.used.money == pytest.approx(0.050 * 0.3)
