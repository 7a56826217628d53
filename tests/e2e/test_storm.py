"""Two hundred requests of every kind arrive while the server sleeps: nothing is lost."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.e2e.clients import ASSET, Answer, ask, at_once
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.websocket import Client

KINDS = {"unique": 40, "same": 40, "post": 40, "head": 30, "upload": 20, "websocket": 30}
ALL = sum(KINDS.values())
OWN = ("post", "upload", "websocket", "unique")
"""Each of these is a request to the server of its own."""


@dataclass
class Storm:
    """The requests, their responses, and when the server ran again."""

    office: Office
    up_s: float = 0.0
    bodies: dict[str, list[bytes]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)

    def every(self) -> list[Answer]:
        return [answer for answers in self.answers.values() for answer in answers]


def websocket(office: Office, number: int, message: bytes) -> Answer:
    """Open a WebSocket, send one message and give what came back as the answer's body."""
    request_id = f"websocket-{number}"
    began_s = time.monotonic()
    with office.client.connect(ADDRESS, 80, timeout_s=40) as line:
        client = Client(line, HOST, "/app/ws", {"X-Request-Id": request_id})
        echo = client.echo(message) if client.accepted else b""
        client.close()
    return Answer(request_id, client.status, {}, echo, began_s, time.monotonic())


def calls(office: Office, bodies: dict[str, list[bytes]]) -> dict[str, list[Callable[[], Answer]]]:
    get = partial(ask, office.client, headers=ASSET)
    post = partial(ask, office.client, "/app/echo", method="POST")
    return {
        "unique": [partial(get, f"/images/{n:03}.png?storm") for n in range(KINDS["unique"])],
        "same": [partial(get, "/app/reply?h.Cache-Control=max-age%3D60")] * KINDS["same"],
        "post": [partial(post, body=body) for body in bodies["post"]],
        "head": [partial(get, f"/css/base.css?{n}", method="HEAD") for n in range(KINDS["head"])],
        "upload": [partial(post, body=body) for body in bodies["upload"]],
        "websocket": [partial(websocket, office, *sent) for sent in enumerate(bodies["websocket"])],
    }


@pytest.fixture(scope="module")
def storm(shared: Office) -> Storm:
    """Let all of them arrive before the server may wake, as with a slow machine."""
    box, board = shared.box, shared.server.board
    box.sleep()
    board.configure(never_wake=True)
    storm = Storm(shared)
    for kind, size in {"post": 1000, "upload": 1 << 20, "websocket": 10_000}.items():
        storm.bodies[kind] = [os.urandom(size) for _ in range(KINDS[kind])]
    by_kind = calls(shared, storm.bodies)
    with at_once(call for kind in by_kind.values() for call in kind) as futures:
        wait_for(lambda: box.page().server[0].held_now == ALL, f"{ALL} held requests")
        board.configure(never_wake=False)
        wait_for(lambda: board.state == "on", "the server to wake")
        storm.up_s = board.report()["transitions"][-1]["t_s"]
    results = iter(futures)
    for kind in by_kind:
        storm.answers[kind] = [next(results).result() for _ in by_kind[kind]]
    # The server writes a line of a WebSocket when it hears that it is closed.
    closed = {answer.request_id for answer in storm.answers["websocket"]}
    wait_for(lambda: closed <= shared.server.received().keys(), "the access log")
    return storm


def test_every_request_is_answered(storm: Storm) -> None:
    for kind, number in KINDS.items():
        wanted = 101 if kind == "websocket" else 200
        outcomes = Counter((answer.status, answer.error) for answer in storm.answers[kind])
        assert outcomes == {(wanted, ""): number}, kind


def test_nobody_was_answered_before_the_server_ran(storm: Storm) -> None:
    assert min(answer.ended_s for answer in storm.every()) > storm.up_s


def test_all_were_answered_right_after_the_wake(storm: Storm) -> None:
    # 60 MB of bodies and 200 threads of Python share two cores here.
    assert max(answer.ended_s for answer in storm.every()) - storm.up_s < 10


def test_no_request_was_sent_twice(storm: Storm) -> None:
    received = storm.office.server.received()
    twice = {answer.request_id for answer in storm.every() if received[answer.request_id] > 1}
    assert not twice


def test_each_request_reached_the_server_once(storm: Storm) -> None:
    received = storm.office.server.received()
    for kind in OWN:
        assert {received[answer.request_id] for answer in storm.answers[kind]} == {1}, kind


def test_the_same_object_was_fetched_once_for_all(storm: Storm) -> None:
    assert {answer.body for answer in storm.answers["same"]} == {storm.answers["same"][0].body}
    received = storm.office.server.received()
    assert sum(received[answer.request_id] for answer in storm.answers["same"]) == 1


def test_bodies_arrive_and_come_back_as_they_were_sent(storm: Storm) -> None:
    for kind, bodies in storm.bodies.items():
        for answer, body in zip(storm.answers[kind], bodies, strict=True):
            assert answer.body == body, kind
            if kind != "websocket":
                assert answer.headers["body-sha256"] == hashlib.sha256(body).hexdigest(), kind


def test_each_was_counted_as_held(storm: Storm) -> None:
    server = storm.office.box.page().server[0]
    assert server.held_now == 0
    assert sum(server.delays) >= ALL


def test_no_connection_was_dropped(storm: Storm) -> None:
    assert storm.office.box.varnishstat()["MAIN.sess_dropped"] == 0
