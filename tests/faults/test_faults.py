"""Each fault once, and how the campaign judges. The campaign itself: `make faults`."""

import os
import random
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.faults.campaign import Campaign, Row, campaign, drawn
from tests.faults.kinds import DAY_S, FAULTS
from tests.faults.visitors import Visitors
from tests.faults.watch import Seen, judge
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT

SEED = 1


@pytest.fixture(scope="module")
def office() -> Iterator[Campaign]:
    if os.geteuid() != 0:
        pytest.skip("an office needs root")
    with campaign(SEED, ROOT / "build/faults/test") as made:
        yield made


@pytest.fixture(scope="module", params=range(len(FAULTS)), ids=lambda n: drawn(SEED, n)[0])
def row(office: Campaign, request: pytest.FixtureRequest) -> Row:
    return office.cycle(request.param)


def test_nothing_is_lost_whatever_happens(row: Row) -> None:
    assert (row.lost, row.sent_twice, row.failed) == (0, 0, False), row.words
    assert row.visits > 20


def test_only_a_step_of_the_clock_lets_requests_be_sent_again(row: Row) -> None:
    assert row.sent_again == 0 or row.fault == "clock_step", row.words


def test_a_step_of_the_clock_closes_a_connection_unread_and_it_is_sent_again(
    office: Campaign,
) -> None:
    scene = office.scene
    lines: list[socket.socket] = []

    def connect(*args: Any, **options: Any) -> socket.socket:
        lines.append(scene.office.client.connect(*args, **options))
        if len(lines) == 1:
            time.sleep(0.02)  # Varnish has taken it, and waits timeout_linger, 0.05 s
            scene.clock.step(10 * DAY_S)
            closed, _, _ = select.select(lines, [], [], 10)
            assert closed
        return lines[-1]

    # Varnish that has just started takes a connection when the step is over.
    assert not Visitors(scene.office, random.Random(SEED), cut=False).visit("hit").wrong
    late = cast(Office, SimpleNamespace(client=SimpleNamespace(connect=connect)))
    visit = Visitors(late, random.Random(SEED), cut=False).visit("hit")
    scene.clock.step(0)
    assert (visit.wrong, visit.sent_again, len(lines)) == ("", True, 2)


def test_no_state_shown_is_wrong_for_long(row: Row) -> None:
    assert row.wrong_state_s < 10, row.words


def test_each_round_has_every_fault_once() -> None:
    for turn in range(3):
        kinds = [drawn(7, turn * len(FAULTS) + place)[0] for place in range(len(FAULTS))]
        assert Counter(kinds) == Counter(list(FAULTS))


def test_a_cycle_is_drawn_the_same_again() -> None:
    assert [drawn(3, n)[:2] for n in range(50)] == [drawn(3, n)[:2] for n in range(50)]
    assert [drawn(3, n)[:2] for n in range(50)] != [drawn(4, n)[:2] for n in range(50)]


def test_the_longest_wrong_stretch_counts_and_to_know_nothing_is_counted_apart() -> None:
    back: list[Seen] = [(0.0, "awake"), (5.0, "asleep"), (9.0, "awake")]
    off: list[Seen] = [(0.0, "on"), (4.0, "off"), (6.0, "on")]
    on: list[Seen] = [(0.0, "on")]
    for claims, truths, end_s, wrong_s, unknown_s in (
        (back, off, 10.0, 3.0, 0.0),
        ([(0.0, "asleep")], on, 8.0, 8.0, 0.0),
        ([(0.0, "asleep"), (2.0, "waking"), (5.0, "awake")], on, 9.0, 5.0, 0.0),
        ([(0.0, "unknown"), (3.0, "awake")], on, 9.0, 0.0, 3.0),
    ):
        verdict = judge(claims, truths, end_s)
        assert (verdict.wrong_s, verdict.unknown_s) == (wrong_s, unknown_s), claims
        assert verdict.what == ("asleep instead of on" if wrong_s else ""), claims
