"""Visits past the box: how they are counted, and when the box says that it sees nobody."""

import json

from naproxy.core.reason import Reason
from naproxy.server.around import SILENT_S, Around

DAY = 739_000


def seen(*days: int, through: int = 0) -> Around:
    """One visitor past the box on each of these days, and a person through it on another."""
    around = Around()
    around.through(DAY + through)
    for day in days:
        around.connected(day * 86400.0, DAY + day, 1)
    return around


def test_a_connected_visitor_is_not_a_new_visit_but_one_back_after_half_an_hour_is() -> None:
    around = Around()
    for t_s, number in ((0.0, 2), (60.0, 3), (120.0, 1), (180.0, 2)):
        around.connected(t_s, DAY, number)
    assert (around.on(DAY), around.total) == (4, 4)
    around.connected(180.0 + SILENT_S, DAY, 2)
    assert around.on(DAY) == 6


def test_a_visit_over_midnight_counts_on_both_days_and_once_in_all() -> None:
    by_box, by_server = Around(), Around()
    for day in (0, 1):
        by_box.connected(60.0 * day, DAY + day, 2)
        by_server.counted(DAY + day, "a", 2, 2)
    for around in (by_box, by_server):
        assert (around.on(DAY), around.on(DAY + 1), around.total) == (2, 2, 2)


def test_after_the_clock_was_set_back_counting_restarts() -> None:
    around = Around()
    around.connected(1e9, DAY, 2)
    around.connected(0.0, DAY - 1, 2)
    assert (around.on(DAY - 1), around.on(DAY)) == (2, 0)


def test_the_box_is_blind_if_people_come_past_it_only() -> None:
    for around, today, *blind in (
        (seen(1, 2), 2),  # two days only
        (seen(1, 2), 3, 3, 2),
        (seen(1, 3), 3, 3, 2),
        (seen(3), 3),  # on one day only
        (seen(0, 3), 3),  # the other was a day with a person
        (seen(1, 2), 5),  # too long ago
        (seen(1, 2, 3, through=3), 3),
        (seen(1, 2, 3, through=1), 3),
        (seen(1, 2, 3, 4, 5), 5, 5, 3),
        (seen(), 9),  # nobody anywhere: the office is closed
    ):
        why = Reason("server.blind", days=blind[0], around=blind[1]) if blind else None
        assert around.blind(DAY + today) == why, (around.dump(), today)


def test_a_box_that_never_saw_a_person_counts_from_the_first_visit_past_it() -> None:
    around = Around()
    for day in range(3):
        assert around.blind(DAY + day) is None
        around.connected(day * 86400.0, DAY + day, 1)
    assert around.blind(DAY + 3) == Reason("server.blind", days=3, around=2)


def test_one_person_through_the_box_ends_it() -> None:
    around = seen(1, 2, 3)
    assert around.blind(DAY + 3)
    assert around.through(DAY + 3)
    assert around.blind(DAY + 3) is None
    assert not around.through(DAY + 3)


def test_the_servers_counts_are_taken_once_and_go_on_after_their_restart() -> None:
    around = Around()
    for run, visits, here, news, total in (
        ("a", 2, 2, True, 2),
        ("a", 2, 2, False, 2),
        ("a", 5, 1, True, 5),
        ("b", 2, 0, True, 7),  # it counts anew
        ("b", 1, 0, True, 7),  # a count that goes back brings nobody
        ("b", 3, 0, True, 9),
    ):
        assert around.counted(DAY, run, visits, here) is news, (run, visits)
        assert (around.on(DAY), around.total) == (total, total), (run, visits)


def test_a_count_of_nobody_begins_no_days_without_a_person() -> None:
    around = Around()
    for day in range(9):
        around.counted(DAY + day, "a", 0, 0)
    assert around.blind(DAY + 9) is None
    assert around.tells


def test_the_box_is_blind_by_the_servers_count_as_by_its_own() -> None:
    around = Around()
    around.through(DAY)
    for day in (1, 2):
        around.counted(DAY + day, "a", day, 0)
        assert around.blind(DAY + day) is None
    assert around.blind(DAY + 3) == Reason("server.blind", days=3, around=2)


def test_values_kept_by_an_older_box_are_restored() -> None:
    kept, around = seen(1, 2, 3).dump(), Around()
    del kept["told"]
    around.load(kept)
    assert (around.total, around.tells) == (3, False)


def test_the_kept_values_are_bounded() -> None:
    around = seen(*range(1000))
    assert len(around.dump()["days"]) == 8
    assert around.total == 1000


def test_it_is_the_same_after_a_restart() -> None:
    around, again = seen(1, 2, 3), Around()
    around.counted(DAY + 3, "a", 5, 1)
    again.load(json.loads(json.dumps(around.dump())))
    assert again.dump() == around.dump()
    assert again.blind(DAY + 3) == around.blind(DAY + 3)
    again.counted(DAY + 3, "a", 6, 1)
    assert again.total == around.total + 1


def test_invalid_kept_values_count_as_nothing() -> None:
    for changes in (
        {"days": None},
        {"days": [1]},
        {"days": [[DAY, "x"]]},
        {"days": [[DAY, -1]]},
        {"through": "never"},
        {"now": [1]},
        {"now": None},
        {"total": -1},
        {"told": [1]},
        {"told": ["a", "b"]},
        {"told": 7},
        {"total": float("inf")},
    ):
        around = Around()
        around.load({**seen(1).dump(), **changes})
        assert around.dump() == Around().dump(), changes
