"""More requests than may be held: cache hits stay fast, the excess is told when to come back.

One at a time, cap.vtc proves as much.
"""

import time
from collections import Counter
from functools import partial

import pytest
from naproxy.lab.replay.replay_visit import became

from tests.e2e.clients import ASSET, Answer, ask, at_once
from tests.patience import wait_for
from tests.simulator.office import Office

pytestmark = pytest.mark.long

CAP = 20
EXCESS = 30
FIXED = {"naproxy.config.document.Hold": {"cap": CAP}}
CACHED = "/css/base.css?cap"


class Crowd:
    """The results of CAP + EXCESS requests, and of hits meanwhile."""

    def __init__(self, office: Office):
        self.held_now = 0
        self.hits: list[Answer] = []
        self.answers: list[Answer] = []
        ask(office.client, CACHED, headers=ASSET)
        office.box.sleep()
        board = office.server.board
        board.configure(never_wake=True)
        get = partial(ask, office.client, headers=ASSET)
        calls = [partial(get, f"/images/{n:03}.png?cap") for n in range(CAP + EXCESS)]
        with at_once(calls) as futures:
            wait_for(lambda: sum(f.done() for f in futures) == EXCESS, "the excess to be told")
            self.held_now = int(office.box.page().server[0].held_now)
            self.hits = [get(CACHED) for _ in range(50)]
            self.told_s = time.monotonic()
            board.configure(never_wake=False)
        self.answers = [future.result() for future in futures]

    def told_to_come_back(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.status == 503]


@pytest.fixture(scope="module")
def crowd(shared: Office) -> Crowd:
    shared.box.await_state("awake")
    return Crowd(shared)


def test_as_many_as_the_cap_are_held(crowd: Crowd) -> None:
    assert crowd.held_now == CAP


def test_all_who_were_held_are_answered(crowd: Crowd) -> None:
    counts = Counter(answer.status for answer in crowd.answers)
    assert counts == {200: CAP, 503: EXCESS}


def test_the_excess_is_told_when_to_come_back(crowd: Crowd) -> None:
    assert {a.headers["x-naproxy"] for a in crowd.told_to_come_back()} == {"capped"}
    assert all(int(a.headers["retry-after"]) >= 1 for a in crowd.told_to_come_back())


def test_the_excess_is_told_at_once_and_why(crowd: Crowd) -> None:
    # Fifty threads of Python on two cores share this.
    assert max(answer.took_s for answer in crowd.told_to_come_back()) < 3
    assert b"too many requests wait" in crowd.told_to_come_back()[0].body


def test_hits_are_served_meanwhile(crowd: Crowd) -> None:
    # They were answered before the server could wake.
    assert {(hit.status, became(hit.headers)) for hit in crowd.hits} == {(200, "hit")}


def test_the_excess_never_reached_the_server(crowd: Crowd, shared: Office) -> None:
    received = shared.server.received()
    assert not any(received[answer.request_id] for answer in crowd.told_to_come_back())
