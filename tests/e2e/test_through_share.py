"""A client with an exhausted share cannot wake the server over passed-through HTTPS either."""

import socket
import struct
from typing import Any

import pytest

from tests.e2e.test_through import hello_to, told
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.server import Site

pytestmark = pytest.mark.long

CONFIG: dict[str, Any] = {
    "server": {"https": {"mode": "through"}, "share": {"wakes": 1}},
}


SITE = Site(https=(HOST,))


@pytest.fixture(scope="module")
def passed_on(shared: Office) -> None:
    """Its server has a certificate, and visitors are passed on to it."""
    shared.server.serve(pki.issue(shared.authority, HOST))
    wait_for(lambda: shared.box.listens(443), "the edge")


def visit_and_reset(office: Office) -> None:
    """Say for whom it is, wait until the server is awake or the box has refused, and go."""
    before = told(office)
    with office.client.connect(ADDRESS, 443) as line:
        line.sendall(hello_to(HOST))
        wait_for(
            lambda: any(
                told(office)[name] > before[name] for name in ("held", "passed", "refused")
            ),
            "something to become of it",
        )
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_client_wakes_the_server_as_often_as_its_share_has_wakes(
    passed_on: None, asleep: Office
) -> None:
    woken = 0
    for _ in range(8):
        visit_and_reset(asleep)
        if asleep.box.status()["state"] != "asleep":
            woken += 1
            asleep.box.await_state("awake")
            asleep.box.sleep()
            asleep.box.await_state("asleep")
    assert woken == 1
    assert told(asleep)["refused"] == 7
