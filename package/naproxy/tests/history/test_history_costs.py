import sqlite3
from typing import Any

import pytest
from history_box import HOUR_S, START_S, Box
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.read import costs, timeline

ON_MW, OFF_MW = 40_000, 2_000


def cycle(box: Box) -> None:
    """20 minutes asleep, then 10 awake, measured."""
    box.journal.transition("web", State.FALLING_ASLEEP, State.ASLEEP, own_words("idle"))
    box.meter(1200, OFF_MW)
    box.journal.transition("web", State.WAKING, State.AWAKE, own_words("up"))
    box.meter(600, ON_MW)


def read(box: Box, db: sqlite3.Connection) -> tuple[costs.Curve, list[timeline.Stretch]]:
    box.history.flush()
    power = costs.curve(db, "web", START_S, box.wall_s)
    return power, timeline.stretches(db, "web", START_S, box.wall_s)


def test_energy_between_two_times_is_that_of_the_seconds_and_a_gap_adds_nothing(
    box: Box, db: sqlite3.Connection
) -> None:
    cycle(box)
    box.pass_s(3600)
    box.meter(60, ON_MW)
    power, _ = read(box, db)
    for from_s, to_s, expected in (
        (0, 1800, (1200 * 2 + 600 * 40, 1800)),
        (30, 90, (120, 60)),
        (-900, 0, (0, 0)),
        (2400, 3000, (0, 0)),
        (0, 5460, (1200 * 2 + 660 * 40, 1860)),
    ):
        assert power.between(START_S + from_s, START_S + to_s) == expected, (from_s, to_s)


def test_the_power_asleep_is_measured_and_not_known_from_a_minute(
    box: Box, db: sqlite3.Connection
) -> None:
    box.journal.transition("web", State.FALLING_ASLEEP, State.ASLEEP, own_words("idle"))
    box.meter(120, OFF_MW)
    assert costs.asleep_w(*read(box, db)) is None
    box.meter(1080, OFF_MW)
    assert costs.asleep_w(*read(box, db)) == pytest.approx(2.0)


def charged(box: Box, db: sqlite3.Connection, wakes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    power, states = read(box, db)
    costs.charge(wakes, states, [power] if power.starts_s else [], 2.0, box.wall_s)
    return wakes


def test_a_wake_costs_what_it_kept_awake_beyond_sleep(box: Box, db: sqlite3.Connection) -> None:
    cycle(box)
    cycle(box)
    first, last = charged(box, db, [{"t_s": START_S + 1200.0}, {"t_s": START_S + 3000.0}])
    assert first == {"t_s": START_S + 1200, "awake_s": 600, "extra_j": pytest.approx(600 * 38)}
    assert last["awake_s"] == 600


def test_wakes_of_one_time_awake_are_not_counted_twice(box: Box, db: sqlite3.Connection) -> None:
    cycle(box)
    found = charged(box, db, [{"t_s": START_S + 1200.0}, {"t_s": START_S + 1500.0}])
    assert [wake["awake_s"] for wake in found] == [300, 300]


def test_without_readings_no_energy_is_said(box: Box, db: sqlite3.Connection) -> None:
    box.journal.transition("web", State.WAKING, State.AWAKE, own_words("up"))
    box.pass_s(600)
    [wake] = charged(box, db, [{"t_s": float(START_S)}])
    assert (wake["awake_s"], wake["extra_j"]) == (600, None)


def test_the_parts_of_a_day_are_all_of_its_energy(box: Box, db: sqlite3.Connection) -> None:
    cycle(box)
    box.journal.transition("web", State.AWAKE, State.FALLING_ASLEEP, own_words("idle"))
    box.meter(30, ON_MW)
    cycle(box)
    power, states = read(box, db)
    days = [(HOUR_S, START_S + 900), (START_S + 900, HOUR_S + 86400)]
    found = costs.split(power, states, days)
    assert sum(sum(day.values()) for day in found) == pytest.approx(
        power.between(HOUR_S, HOUR_S + 86400)[0]
    )
    assert found[0] == {"asleep": 1800, "awake": 0, "changing": 0, "unknown": 0}
    assert found[1]["changing"] > 0
    assert found[1]["unknown"] == 0


def test_energy_of_no_known_state_is_no_states(box: Box, db: sqlite3.Connection) -> None:
    box.meter(60, ON_MW)
    power, states = read(box, db)
    [day] = costs.split(power, states, [(HOUR_S, HOUR_S + 86400)])
    assert day == {"asleep": 0, "awake": 0, "changing": 0, "unknown": 2400}
