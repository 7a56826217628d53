import sqlite3

import pytest
from history_box import START_S, Box
from naproxy.core.reason import Reason, own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.read import timeline

X = own_words("x")
IDLE = Reason("policy.idle", idle_s=63)
UP = Reason("server.up_after", took_s=5)


def change(box: Box, before: State, state: State, after_s: float, reason: Reason = X) -> None:
    box.journal.transition("web", before, state, reason)
    box.pass_s(after_s)


def cycle(box: Box, who: str = "192.0.2.1") -> None:
    """Ten minutes asleep, woken in 5 s, five minutes awake, asleep within 5 s."""
    change(box, State.FALLING_ASLEEP, State.ASLEEP, 600, IDLE)
    box.journal.wake_opened(
        "web", WakeRequest(who, "page", "GET", "person", "Mozilla/5.0", "w", "/")
    )
    change(box, State.ASLEEP, State.WAKING, 5, own_words(f"GET / by {who}"))
    change(box, State.WAKING, State.AWAKE, 300, UP)
    change(box, State.AWAKE, State.FALLING_ASLEEP, 5, IDLE)


def kinds(found: list[timeline.Stretch]) -> list[tuple[str, float]]:
    return [(s.state, s.end_s - s.t_s) for s in found]


def test_the_states_of_a_range_are_cut_to_it(box: Box, db: sqlite3.Connection) -> None:
    cycle(box)
    found = timeline.stretches(db, "web", START_S + 100, START_S + 650)
    assert kinds(found) == [("asleep", 500), ("waking", 5), ("awake", 45)]
    assert [s.reason for s in found] == [
        each.text() for each in (IDLE, own_words("GET / by 192.0.2.1"), UP)
    ]


def test_a_state_is_known_from_its_transition_on_and_nothing_before_the_first(
    box: Box, db: sqlite3.Connection
) -> None:
    change(box, State.FALLING_ASLEEP, State.ASLEEP, 0)
    for from_s, to_s, expected in (
        (-100, 0, []),
        (-100, 50, [(START_S, START_S + 50)]),
        (5000, 6000, [(START_S + 5000, START_S + 6000)]),
    ):
        found = timeline.stretches(db, "web", START_S + from_s, START_S + to_s)
        assert [(s.t_s, s.end_s) for s in found] == expected, from_s
        assert all(s.state == "asleep" for s in found), from_s


def test_after_a_controller_was_cut_off_nothing_is_known_until_the_next_start(
    box: Box, db: sqlite3.Connection
) -> None:
    change(box, State.UNKNOWN, State.AWAKE, 0)
    box.meter(120)
    box.history.flush()
    box.pass_s(3600)
    change(box, State.UNKNOWN, State.AWAKE, 60, Reason("server.answers"))
    found = timeline.stretches(db, "web", START_S, START_S + 3780)
    assert kinds(found) == [("awake", 120), ("unknown", 3600), ("awake", 60)]
    assert (found[1].id, found[1].reason) == (0, "")


def test_a_restart_within_a_moment_is_no_gap(box: Box, db: sqlite3.Connection) -> None:
    change(box, State.UNKNOWN, State.AWAKE, 0)
    box.meter(120)
    box.history.flush()
    change(box, State.UNKNOWN, State.AWAKE, 60, Reason("server.answers"))
    found = timeline.stretches(db, "web", START_S, START_S + 180)
    assert kinds(found) == [("awake", 120), ("awake", 60)]


def test_a_wake_is_found_for_the_transition_it_led_to(box: Box, db: sqlite3.Connection) -> None:
    for who in ("192.0.2.1", "192.0.2.2"):
        cycle(box, who)
    found = timeline.stretches(db, "web", START_S, box.wall_s)
    led = timeline.wakes_of(db, "web", found)
    waking = [s.id for s in found if s.state == "waking"]
    assert [led[n]["who"] for n in waking] == ["192.0.2.1", "192.0.2.2"]
    assert set(led) == set(waking)


def test_who_asked_while_the_server_fell_asleep_is_found(box: Box, db: sqlite3.Connection) -> None:
    change(box, State.AWAKE, State.FALLING_ASLEEP, 2)
    box.journal.wake_opened("web", WakeRequest("192.0.2.9", "page", klass="person"))
    box.pass_s(3)
    change(box, State.FALLING_ASLEEP, State.ASLEEP, 0)
    change(box, State.ASLEEP, State.WAKING, 5)
    found = timeline.stretches(db, "web", START_S, box.wall_s)
    led = timeline.wakes_of(db, "web", found)
    assert [wake["who"] for wake in led.values()] == ["192.0.2.9"]


def test_shares_of_a_range_add_up_to_it(box: Box, db: sqlite3.Connection) -> None:
    for _ in range(30):
        cycle(box)
    from_s, to_s = START_S + 33.0, box.wall_s
    found = timeline.stretches(db, "web", from_s, to_s)
    parts = timeline.shares(found, from_s, to_s, 7)
    assert len(parts) == 7
    assert sum(sum(p["seconds"].values()) for p in parts) == pytest.approx(to_s - from_s)
    asleep_s = sum(s.end_s - s.t_s for s in found if s.state == "asleep")
    assert sum(p["seconds"].get("asleep", 0) for p in parts) == pytest.approx(asleep_s)
    assert sum(p["changes"] for p in parts) == sum(1 for s in found if s.t_s > from_s)
    assert [p["seconds"] for p in timeline.shares([], 0, 100, 4)] == [{}, {}, {}, {}]


def test_servers_are_those_of_the_journal(box: Box, db: sqlite3.Connection) -> None:
    assert timeline.servers(db) == []
    for name in ("web", "shop", "web", "mail"):
        box.journal.transition(name, State.UNKNOWN, State.AWAKE, X)
    assert timeline.servers(db) == ["mail", "shop", "web"]
