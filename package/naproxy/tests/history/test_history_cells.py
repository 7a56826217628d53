"""Cells of savings, read from a real history: whole, in parts, with and without a meter."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from history_box import DAY_S, HOUR_S, Box, live, three_hours
from naproxy.core.energy import Power
from naproxy.core.reason import Reason, own_words
from naproxy.core.state import State
from naproxy.history.read import queries
from naproxy.history.read.cells import Source, cells, mean_w
from naproxy.history.read.savings import Assumptions, Saved, saved, total
from reading import answer

POWER = Power(on_w=43.0, off_w=2.0, switch_j=100.0, proxy_w=5.0)
WEB = Source("web", "web")
NO_METER = Source("web")
HOURS = 9
ASSUMED = Assumptions(POWER, {})


pytestmark = pytest.mark.usefixtures("watching")


def sleep_and_wake(box: Box) -> None:
    """Some hours of a server that sleeps now and then."""
    chosen = random.Random(1)
    before = State.UNKNOWN
    left = HOURS * 60
    while left > 0:
        for state in (State.AWAKE, State.ASLEEP):
            box.journal.transition("web", before, state, own_words("x"))
            minutes = min(left, chosen.randrange(10, 50))
            live(box, state, minutes)
            before, left = state, left - minutes


@pytest.fixture(scope="module")
def slept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """Those hours, for tests that only read."""
    made = Box(tmp_path_factory.mktemp("slept"))
    made.history.watch(["web"])
    sleep_and_wake(made)
    made.history.flush()
    yield made
    made.stop()


def sums(box: Box, source: Source, from_s: int, to_s: int) -> Saved:
    box.history.flush()
    found = answer(box, cells, source, from_s, to_s)
    assert sum(c.length_s for c in found) == to_s - from_s
    assert [c.t_s for c in found] == sorted(c.t_s for c in found)
    return total(saved(c, ASSUMED) for c in found)


def now_s(box: Box) -> int:
    return int(box.wall_s) // 60 * 60


def test_a_range_saves_what_its_parts_save(slept: Box) -> None:
    from_s, to_s = HOUR_S - 600, now_s(slept)
    whole = sums(slept, WEB, from_s, to_s)
    cuts = [from_s, HOUR_S + 1860, HOUR_S + 3600, HOUR_S + 5 * 3600 + 60, to_s]
    parts = total(sums(slept, WEB, a, b) for a, b in pairwise(cuts))
    assert whole.gross_j == pytest.approx(parts.gross_j)
    assert whole.net_j == pytest.approx(parts.net_j)
    assert whole.measured_s == pytest.approx(parts.measured_s)
    assert whole.switches == parts.switches > 0


def test_measured_energy_is_the_meters_own_and_without_a_meter_states_say_nearly_the_same(
    slept: Box,
) -> None:
    measured, modelled = (sums(slept, source, HOUR_S, now_s(slept)) for source in (WEB, NO_METER))
    assert measured.measured_j == pytest.approx(slept.energy("minutes") / 1000)
    assert (measured.measured_s, measured.modelled_s) == (HOURS * 3600, 0)
    assert modelled.measured_s == 0
    switched_j = POWER.switch_j * modelled.switches
    assert modelled.gross_j == pytest.approx(measured.gross_j - switched_j, rel=0.01)


def test_a_silent_meter_is_modelled_by_the_states_of_that_time(box: Box) -> None:
    box.journal.transition("web", State.UNKNOWN, State.AWAKE, own_words("x"))
    live(box, State.AWAKE, 90)
    box.journal.transition("web", State.AWAKE, State.ASLEEP, own_words("x"))
    live(box, State.ASLEEP, 45, metered=False)  # silent only while it sleeps
    live(box, State.ASLEEP, 180)
    found = sums(box, WEB, HOUR_S, now_s(box))
    assert found.modelled_s == pytest.approx(45 * 60, abs=61)
    assert found.modelled_j == pytest.approx(45 * 60 * 2.0 + POWER.switch_j, rel=0.03)


def test_a_time_of_which_nothing_is_known_is_in_no_sum(box: Box) -> None:
    sleep_and_wake(box)
    before = sums(box, WEB, HOUR_S, now_s(box))
    box.journal.transition("web", State.ASLEEP, State.UNKNOWN, Reason("server.stopped"))
    box.stop()
    box.pass_s(DAY_S)
    box.start()
    after = sums(box, WEB, HOUR_S, now_s(box))
    assert after.known_s == pytest.approx(before.known_s, abs=1)
    assert after.gross_j == pytest.approx(before.gross_j, rel=1e-6)


def test_savings_stay_when_transitions_and_minutes_are_gone(box: Box) -> None:
    sleep_and_wake(box)
    live(box, State.ASLEEP, 120)
    end_s = HOUR_S + HOURS * 3600
    with_meter, without = (sums(box, s, HOUR_S, end_s) for s in (WEB, NO_METER))
    for table in ("transitions", "minutes", "seconds"):
        box.journal.store.execute(f"DELETE FROM {table}")
    assert sums(box, WEB, HOUR_S, end_s).gross_j == pytest.approx(with_meter.gross_j, rel=1e-3)
    assert sums(box, NO_METER, HOUR_S, end_s).gross_j == pytest.approx(without.gross_j, rel=1e-3)


def test_mean_power_of_a_state_is_measured_in_its_middle(slept: Box) -> None:
    for source, state, mean in (
        (WEB, "awake", 43.0),
        (WEB, "asleep", 2.0),
        (WEB, "trouble", None),
        (NO_METER, "awake", None),
    ):
        expected = mean and pytest.approx(mean)
        assert answer(slept, mean_w, source, state, slept.wall_s) == expected, (source, state)


def test_an_hour_in_which_a_price_changes_is_minutes_with_the_same_sums(slept: Box) -> None:
    asked = WEB, HOUR_S, now_s(slept) // 3600 * 3600
    hours = answer(slept, cells, *asked)
    half_past = next(c.t_s for c in hours if c.length_s == 3600) + 1800
    fine = answer(slept, cells, *asked, lambda a, b: a < half_past < b)
    assert len(fine) == len(hours) + 59
    assert half_past in [c.t_s for c in fine]
    fine_j, hours_j = (total(saved(c, ASSUMED) for c in found).net_j for found in (fine, hours))
    assert fine_j == pytest.approx(hours_j)


def test_what_a_meter_measured_by_time_is_as_fine_as_a_price(box: Box) -> None:
    three_hours(box)
    box.history.flush()
    asked = "web", HOUR_S - 600, now_s(box)
    energy_mj, _ = answer(box, queries.energy, *asked)
    plain = answer(box, queries.energy_by_time, *asked, lambda _a, _b: False)
    fine = answer(box, queries.energy_by_time, *asked, lambda _a, _b: True)
    for parts in (plain, fine):
        assert sum(energy_j for _, _, energy_j in parts) == pytest.approx(energy_mj / 1000)
        assert all(one[1] <= other[0] for one, other in pairwise(parts))
    assert {end_s - begin_s for begin_s, end_s, _ in plain} == {60, 3600}
    assert {end_s - begin_s for begin_s, end_s, _ in fine} == {60}


def test_a_year_of_which_little_is_known_is_few_cells(box: Box) -> None:
    box.journal.transition("web", State.UNKNOWN, State.AWAKE, own_words("x"))
    live(box, State.AWAKE, 90)
    box.history.flush()
    found = answer(box, cells, WEB, HOUR_S - 365 * DAY_S, now_s(box))
    assert len(found) < 365 * 24 + 4 * 60
    assert found[0].t_s == HOUR_S - 365 * DAY_S
