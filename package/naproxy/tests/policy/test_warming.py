"""The planner of what to fetch before a sleep."""

import json
import time
from typing import Any

from naproxy.policy.warming import ENTRIES, Bounds, Costs, Warming, wait_j

MONDAY_S = 1_700_438_400.0
COSTS = Costs(switch_j=170.7, saved_w=41.7, wake_s=5.0)
LOGO, PAGE, FONT = 1, 2, 3


def knowing(*held: int, size: int = 1000) -> Warming:
    """Return a planner whose server has these files."""
    made = Warming()
    for path in held:
        made.stored(MONDAY_S, path, size, 120.0, held=True)
    return made


def visits(made: Warming, count: int, *paths: int, at_s: float = 0.0) -> float:
    """Let clients ask for these, an hour from each other; returns when the last is over."""
    t_s = MONDAY_S + at_s
    for n in range(count):
        t_s += 3600
        for path in paths:
            made.asked(t_s, path, n + 7, asleep=True)
    return t_s + 3600


def planned(made: Warming, t_s: float, **bounds: Any) -> list[int]:
    return [fetch.path for fetch in made.plan(t_s, COSTS, Bounds(**bounds))]


def test_what_woke_the_server_is_fetched_again_once_it_is_stale() -> None:
    made = knowing(LOGO)
    t_s = visits(made, 3, LOGO)
    assert planned(made, t_s) == [LOGO]
    made.stored(t_s, LOGO, 1000, 120.0, held=True, validated=True)
    assert planned(made, t_s + 60, fresh_s=30) == []
    assert planned(made, t_s + 60) == [LOGO], "it may have been changed since, and sleeps are long"


def test_nothing_is_fetched_for_visits_that_wake_the_server_anyway() -> None:
    """Because a page is not held, or because no cache may answer it."""
    for cacheable in (True, False):
        made = knowing(LOGO)
        if cacheable:
            made.stored(MONDAY_S, PAGE, 1000, 120.0, held=False)
        for n in range(5):
            made.asked(MONDAY_S + n * 3600, LOGO, n, asleep=True)
            made.asked(MONDAY_S + n * 3600 + 5, PAGE, n, asleep=True, cacheable=cacheable)
        assert planned(made, MONDAY_S + 30_000) == [], cacheable


def test_a_page_that_is_held_brings_its_files_along() -> None:
    made = knowing(LOGO, PAGE, FONT)
    t_s = visits(made, 2, PAGE, LOGO, FONT)
    assert sorted(planned(made, t_s)) == [LOGO, PAGE, FONT]


def test_each_is_expected_to_save_more_than_it_costs() -> None:
    made = knowing(LOGO)
    made.stored(MONDAY_S, FONT, 80 << 20, 120.0, held=True)
    made.stored(MONDAY_S, FONT, 80 << 20, 120.0, held=True)  # and changes each time
    t_s = visits(made, 1, LOGO)
    t_s = visits(made, 1, FONT, at_s=t_s - MONDAY_S)
    t_s = visits(made, 40, PAGE, at_s=t_s - MONDAY_S)
    (fetch,) = made.plan(t_s, COSTS)
    assert fetch.path == LOGO
    assert fetch.gain_j > fetch.cost_j
    assert made.plan(t_s, COSTS._replace(saved_w=0.0, switch_j=0.0)) == []
    assert made.plan(t_s, COSTS, Bounds(least_gain=1e6)) == []


def test_the_plan_is_bounded_and_has_the_best_first() -> None:
    made = knowing(*range(10, 40), size=1 << 20)
    for path in range(10, 40):
        for n in range(path - 9):
            made.asked(MONDAY_S + path, path, 100 * path + n, asleep=True)
    t_s = MONDAY_S + 3600
    assert planned(made, t_s, most=3) == [39, 38, 37]
    assert len(planned(made, t_s, longest_s=0.055)) == 5
    for path in range(10, 40):
        made.lost(path)
    assert len(planned(made, t_s, most_bytes=4 << 20)) == 4, "what was dropped is fetched whole"


def test_more_is_asked_for_at_its_part_of_the_week() -> None:
    made = knowing(LOGO, FONT)
    for day in range(5):
        for hour, path in ((2, PAGE), (3, LOGO), (4, PAGE), (14, PAGE), (15, FONT), (16, PAGE)):
            made.asked(MONDAY_S + day * 86400 + hour * 3600, path, day, asleep=True)
    night_s = MONDAY_S + 7 * 86400 + 3 * 3600
    assert planned(made, night_s)[0] == LOGO
    assert planned(made, night_s + 12 * 3600)[0] == FONT


def test_what_browsers_and_robots_ask_for_is_fetched_before_anybody_asked() -> None:
    made = Warming()
    made.expect(MONDAY_S, LOGO)
    assert planned(made, MONDAY_S + 60) == [LOGO]


def test_wakes_that_warming_avoided_are_counted_once_a_wake() -> None:
    made = knowing(LOGO)
    t_s = visits(made, 3, LOGO)
    made.stored(t_s, LOGO, 0, 120.0, held=True, validated=True)
    made.warmed(LOGO, 0, 0.01)
    made.slept(t_s)
    for after_s in (1000, 1005, 5000):
        made.asked(t_s + after_s, LOGO, after_s, asleep=True)
    made.asked(t_s + 6000, PAGE, 9, asleep=True)
    made.woke(t_s + 6000)
    assert made.gained.wakes_avoided == 2
    made.asked(t_s + 7000, LOGO, 10, asleep=True)
    made.plan(t_s + 8000, COSTS)
    assert made.gained.wakes_avoided == 2, "the server has been awake since"


def test_a_wake_costs_what_the_shorter_stays_awake_show() -> None:
    made, t_s = knowing(LOGO), MONDAY_S
    for n in range(200):
        made.woke(t_s)
        t_s += 20 if n % 3 == 0 else 4000
        made.slept(t_s)
        t_s += 600
    assert 10 < made.again_s < 60


def test_memory_is_bounded_and_keeps_what_is_asked_for() -> None:
    made = knowing(LOGO)
    t_s = visits(made, 3, LOGO)
    for path in range(100, 100 + 3 * ENTRIES):
        made.stored(t_s, path, 10, 120.0, held=True)
    assert len(made) <= ENTRIES
    assert LOGO in planned(made, t_s)
    for client in range(5000):
        made.asked(t_s, LOGO, client, asleep=True)


def test_a_dump_that_does_not_fit_is_ignored() -> None:
    good = {"t_s": 0, "again_s": 60.0, "unavoidable": [1.0] * 8, "gained": [0] * 4, "entries": []}
    for wrong in (
        None,
        [],
        {"entries": 3},
        {**good, "t_s": "now", "unavoidable": [], "gained": []},
        {**good, "unavoidable": [1e300] * 8},
        {**good, "unavoidable": [float("nan")] * 8},
    ):
        made = Warming()
        made.load(wrong, MONDAY_S)
        assert planned(made, MONDAY_S) == [], wrong


def test_it_survives_a_restart_and_one_entry_that_does_not_fit_costs_no_other() -> None:
    made = knowing(LOGO)
    t_s = visits(made, 3, LOGO)
    planned(made, t_s)
    saved, rates = json.loads(json.dumps(made.dump(t_s))), [1.0] * 8
    for row in (
        saved["entries"][0],
        None,
        [],
        ["1", 1, 1.0, True, 0.0, 0.0, rates],
        [True, 1, 1.0, True, 0.0, 0.0, rates],
        [-1, 1, 1.0, True, 0.0, 0.0, rates],
        [1, 1 << 99, 1.0, True, 0.0, 0.0, rates],
        [1, 1, -1.0, True, 0.0, 0.0, rates],
        [1, 1, 1.0, True, 0.0, 0.0, [1.0] * 9],
        [1, 1, 1.0, True, 0.0, 0.0, "11111111"],
        [1, 1, 1.0, True, 0.0, 0.0, [float("inf")] * 8],
        {"path": 1},
    ):
        again = Warming()
        again.load({**saved, "entries": [row, *saved["entries"]]}, t_s + 60)
        assert planned(again, t_s + 60) == [LOGO], row


def test_the_price_of_a_wait_is_what_a_sleep_saves_as_far_as_waits_are_short() -> None:
    assert wait_j(1000.0, 5, 10) == 500.0
    assert wait_j(1000.0, 50, 10) == 1000.0
    assert wait_j(1000.0, 1, 0) == 1000.0
    assert wait_j(-5.0, 1, 1) == 0.0


def test_a_plan_takes_a_moment() -> None:
    made = knowing(*range(2000))
    for path in range(2000):
        made.asked(MONDAY_S, path, path, asleep=True)
    made.asked(MONDAY_S + 100, 0, 0, asleep=True)
    begun_s = time.process_time()
    assert len(made.plan(MONDAY_S + 4000, COSTS)) == Bounds().most
    # It takes 4 ms; comparing each address with each other would take half a second.
    assert time.process_time() - begun_s < 0.2


def test_a_page_that_is_held_from_now_on_is_fetched_and_no_longer_when_it_is_not() -> None:
    made = Warming()
    made.stored(MONDAY_S, PAGE, 1000, 120.0, held=False)
    made.hold(PAGE, held=True)
    t_s = visits(made, 3, PAGE)
    assert planned(made, t_s) == [PAGE]
    made.hold(PAGE, held=False)
    assert planned(made, t_s) == []


def test_a_fetch_that_is_over_does_not_hide_that_the_cache_had_the_page() -> None:
    made = knowing(PAGE)
    assert not made.would_answer(PAGE, MONDAY_S - 1)
    assert made.would_answer(PAGE, MONDAY_S + 500)
    made.stored(MONDAY_S + 500.2, PAGE, 1000, 120.0, held=True)
    assert made.would_answer(PAGE, MONDAY_S + 500)
    made.lost(PAGE)
    assert not made.would_answer(PAGE, MONDAY_S + 600)
