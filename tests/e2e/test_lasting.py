"""Requests that last: a client that sends no more, a server whose cable is pulled."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.clients import PROGRAM, ask, fresh, half_closed
from tests.e2e.conftest import no_cable
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.websocket import Client

SECONDS = 20
"""Four seconds of silence, three probes, and a margin for a busy machine."""


def in_flight(office: Office, name: str, number: int) -> None:
    wait_for(lambda: office.box.status()["counters"][name] == number, f"{number} {name}")


def test_requests_in_flight_end_within_seconds_when_the_cable_is_pulled(office: Office) -> None:
    """A request that waits for its response, one in the middle of it, and a WebSocket."""
    line = office.client.connect(ADDRESS, 80, timeout_s=60)
    chat = Client(line, HOST, "/app/ws", PROGRAM)
    assert chat.echo(b"hello") == b"hello"
    with ThreadPoolExecutor(2) as pool:
        slow = [
            pool.submit(ask, office.client, fresh(f"/app/reply?delay_s=300&n={n}"), method=method)
            for n, method in enumerate(("GET", "POST"))
        ]
        in_flight(office, "fetching_now", 2)
        in_flight(office, "piping_now", 1)
        with no_cable(office):
            began_s = time.monotonic()
            for each in slow:
                assert each.result(60).status == 503
            line.settimeout(60)
            with pytest.raises((ConnectionError, EOFError)):
                chat.echo(b"anybody?")
            assert time.monotonic() - began_s < SECONDS
    in_flight(office, "piping_now", 0)


def test_a_client_that_sends_no_more_is_answered_after_the_wake(asleep: Office) -> None:
    assert half_closed(asleep.client, fresh()).startswith(b"HTTP/1.1 200")
