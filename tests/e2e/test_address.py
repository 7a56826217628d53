"""The server moves to another address while it is asked all the time: no request fails."""

import hashlib
import os
from collections import Counter

import pytest

from tests.e2e.clients import Answer, Load, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.server import ADDRESS, OTHER_ADDRESS

MOVES = 6


class Move:
    """All requests while the address changed to and fro, and those that the server saw."""

    def __init__(self, office: Office):
        office.server.add_address(OTHER_ADDRESS)
        self.bodies: dict[str, bytes] = {}
        with Load(lambda n: self._ask(office, n), threads=6) as load:
            for n in range(MOVES):
                address = (OTHER_ADDRESS, ADDRESS)[n % 2]
                before = self._last_at(office, address)
                office.box.reconfigure(server={"address": address})
                wait_for(lambda: self._last_at(office, address) > before + 20, "the move")  # noqa: B023
        self.answers = load.answers
        asked = {answer.request_id for answer in self.answers}
        # The server's log is written after the answer.
        wait_for(lambda: asked <= {seen["id"] for seen in office.server.requests()}, "the log")
        self.seen = [request for request in office.server.requests() if request["id"]]

    def _ask(self, office: Office, n: int) -> Answer:
        if n % 3:
            return ask(office.client, f"/app/reply?delay_s=0.05&h.Cache-Control=no-store&{n}")
        body = os.urandom(2000)
        answer = ask(office.client, "/app/echo", method="POST", body=body)
        self.bodies[answer.request_id] = body
        return answer

    @staticmethod
    def _last_at(office: Office, address: str) -> int:
        return sum(request["server"] == address for request in office.server.requests())


@pytest.fixture(scope="module")
def move(shared: Office) -> Move:
    shared.box.await_state("awake")
    return Move(shared)


def test_no_request_failed(move: Move) -> None:
    outcomes = Counter((answer.status, answer.error) for answer in move.answers)
    assert set(outcomes) == {(200, "")}


def test_both_addresses_were_used(move: Move) -> None:
    assert {request["server"] for request in move.seen} == {ADDRESS, OTHER_ADDRESS}


def test_no_request_was_sent_twice(move: Move) -> None:
    seen = Counter(request["id"] for request in move.seen)
    assert {seen[answer.request_id] for answer in move.answers} == {1}


def test_bodies_were_not_mixed_up(move: Move) -> None:
    for answer in move.answers:
        if answer.request_id in move.bodies:
            body = move.bodies[answer.request_id]
            assert answer.body == body
            assert answer.headers["body-sha256"] == hashlib.sha256(body).hexdigest()


def served(office: Office, request_id: str) -> list[str]:
    """Where the server was asked for this."""
    return [each["server"] for each in office.server.requests() if each["id"] == request_id]


def test_a_sleeping_server_is_woken_at_its_new_address(office: Office) -> None:
    office.server.add_address(OTHER_ADDRESS)
    office.box.sleep()
    office.box.reconfigure(server={"address": OTHER_ADDRESS})
    office.server.drop_address(ADDRESS)
    try:
        answer = ask(office.client, fresh())
        assert answer.status == 200
        wait_for(lambda: served(office, answer.request_id), "the access log")
        assert served(office, answer.request_id) == [OTHER_ADDRESS]
    finally:
        office.server.add_address(ADDRESS)
        office.box.reconfigure()
