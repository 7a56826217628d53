"""A server that falls asleep by itself: nothing is refused, lost or sent twice.

REQUESTS: how many of all kinds come around its sleeps, 80 by default.
"""

import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.clients import ASSET, Answer, ask, at_once, fresh, visitor
from tests.e2e.test_storm import websocket
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST, toml

AT_A_SLEEP = 40
REQUESTS = int(os.environ.get("REQUESTS", "80"))
BODY = bytes(range(256)) * 4096


def chunked(office: Office, number: int) -> Answer:
    """Send a body whose length is not known before."""
    request_id, began_s = f"chunked-{number}", time.monotonic()
    head = (
        f"POST /app/echo HTTP/1.1\r\nHost: {HOST}\r\nX-Request-Id: {request_id}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with office.client.connect(ADDRESS, 80, timeout_s=40, source=visitor(number)) as line:
        line.sendall(head.encode() + b"5\r\nhello\r\n")
        line.sendall(b"6\r\n world\r\n0\r\n\r\n")
        with line.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            body = answer.read().partition(b"\r\n\r\n")[2]
    return Answer(request_id, status, {}, body, began_s, time.monotonic())


def calls(office: Office, numbers: Iterator[int]) -> Iterator[Callable[[], Answer]]:
    """Make requests, of one kind after the other."""
    client = office.client
    for number in numbers:
        source = visitor(number)
        yield [
            partial(ask, client, fresh("/images/001.png"), headers=ASSET, source=source),
            partial(ask, client, "/app/echo", method="POST", body=BODY, source=source),
            partial(chunked, office, number),
            partial(websocket, office, number, b"hello world"),
            partial(ask, client, "/app/echo", method="POST", body=BODY, source=source, after_s=0.5),
        ][number % 5]


def after(wait_s: float, call: Callable[[], Answer]) -> Answer:
    time.sleep(wait_s)
    return call()


FIXED = {"naproxy.config.document.Server": {"connect_timeout_s": 0.5}}


def good(answer: Answer) -> bool:
    """Is it the server's own, and whole?"""
    if answer.request_id.startswith("websocket-"):
        return answer.status == 101 and answer.body == b"hello world"
    if answer.request_id.startswith("chunked-"):
        return answer.status == 200 and answer.body == b"hello world"
    digest = answer.headers.get("body-sha256")
    return answer.status == 200 and digest in (None, hashlib.sha256(BODY).hexdigest())


def leave_alone(office: Office, **server: Any) -> None:
    config = office.box.default_config(server=server)
    config["server"][0]["sleep"] = {"driver": "itself"}
    office.box.api("PUT", "/v1/config", toml(config).encode())


@pytest.fixture
def left_alone(office: Office) -> Office:
    leave_alone(office)
    office.server.board.configure(wake_s=1.0)
    return office


def test_nothing_that_comes_around_its_sleeps_is_refused_lost_or_sent_twice(
    left_alone: Office,
) -> None:
    office, dice, answers = left_alone, random.Random(1), list[Answer]()
    numbers = iter(range(REQUESTS))
    for _ in range(0, REQUESTS, AT_A_SLEEP):
        office.box.await_state("awake")
        batch = [
            partial(after, dice.uniform(0, 3), call)
            for call, _ in zip(calls(office, numbers), range(AT_A_SLEEP), strict=False)
        ]
        with at_once(batch) as pending:
            time.sleep(0.8)
            office.server.board.suspend()
        answers += [future.result() for future in pending]
    wrong = [answer for answer in answers if not good(answer)]
    assert not wrong, f"{len(wrong)} of {len(answers)}: {wrong[:5]}"
    asked = {answer.request_id for answer in answers}
    served = office.server.received()
    assert {name: served[name] for name in asked} == dict.fromkeys(asked, 1)


def test_the_box_gives_it_no_order(left_alone: Office) -> None:
    inhibitors = [reason["code"] for reason in left_alone.box.status()["inhibitors"]]
    assert "sleep.itself" in inhibitors


def test_a_request_calls_it_before_the_box_has_noticed(left_alone: Office) -> None:
    office = left_alone
    time.sleep(2.5)  # it has answered nobody lately
    office.server.board.suspend()
    wait_for(lambda: office.server.board.state == "off", "the server to sleep")
    assert ask(office.client, fresh("/images/001.png"), headers=ASSET).status == 200
    office.box.await_state("awake")
    woken = [change["reason"]["code"] for change in office.box.transitions()]
    assert "server.took_no_connection" in woken


def test_a_request_that_could_not_connect_is_sent_when_it_can(left_alone: Office) -> None:
    office, body = left_alone, b"order=1"
    # It has answered just now, so the box does not look before it sends.
    ask(office.client, fresh("/images/001.png"), headers=ASSET)
    office.server.board.suspend()
    wait_for(lambda: office.server.board.state == "off", "the server to sleep")
    # One has the connection of before; the others need new ones.
    post = partial(ask, office.client, "/app/echo", method="POST", body=body)
    with at_once([post] * 3) as pending:
        pass
    answers = [future.result() for future in pending]
    assert [(answer.status, answer.body) for answer in answers] == [(200, body)] * 3
    ids = [answer.request_id for answer in answers]
    wait_for(lambda: all(office.server.received()[each] for each in ids), "the access log")
    assert [office.server.received()[each] for each in ids] == [1] * 3
