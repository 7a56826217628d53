"""What keeps the server awake whatever the policy says, seen in the whole box."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.clients import PROGRAM, ask, at_once, fresh
from tests.office import Office
from tests.office.box import ADDRESS, HOST, RefusedError
from tests.office.namespace import wait_for
from tests.office.websocket import Client

WORK = "/app/reply"
ALWAYS = ["mon-sun 00:00-24:00"]


def vetoes(office: Office) -> str:
    return "; ".join(office.box.status()["vetoes"])


@pytest.fixture
def configured(office: Office) -> Iterator[Office]:
    yield office
    office.box.reconfigure()


def test_a_request_at_the_server_is_a_veto_while_it_lasts(office: Office) -> None:
    slow = partial(ask, office.client, f"{fresh(WORK)}&delay_s=2")
    with at_once([slow]) as calls:
        wait_for(lambda: "requests at the server: 1" in vetoes(office), "the veto")
    assert calls[0].result().status == 200
    wait_for(lambda: "requests at the server" not in vetoes(office), "the end of the veto")


def test_an_open_websocket_keeps_the_server_awake_even_by_hand(office: Office) -> None:
    with office.client.connect(ADDRESS, 80) as line:
        client = Client(line, HOST, "/app/ws", {})
        assert client.echo(b"here") == b"here"
        with pytest.raises(RefusedError, match="WebSocket"):
            office.box.api("POST", "/v1/servers/web/sleep", {})
        client.close()
    wait_for(lambda: "WebSocket" not in vetoes(office), "the end of the veto")


def test_work_keeps_the_server_awake_after_its_request_has_ended(configured: Office) -> None:
    configured.box.reconfigure(server={"awake": {"work_paths": [WORK], "work_s": 6.0}})
    assert ask(configured.client, fresh(), headers=PROGRAM).status == 200
    assert "work behind" not in vetoes(configured)
    assert ask(configured.client, fresh(WORK)).status == 200
    wait_for(lambda: f"work behind {WORK}" in vetoes(configured), "the veto")
    with pytest.raises(RefusedError, match="work behind"):
        configured.box.api("POST", "/v1/servers/web/sleep", {})
    configured.box.sleep()
    assert configured.server.board.state == "off"


def test_office_hours_are_a_veto_but_not_by_hand(configured: Office) -> None:
    configured.box.reconfigure(server={"awake": {"hours": ALWAYS, "time_zone": "UTC"}})
    assert "office hours until" in vetoes(configured)
    configured.box.sleep()
    assert configured.server.board.state == "off"


def test_bad_hours_are_refused_with_their_key(configured: Office) -> None:
    with pytest.raises(RefusedError, match="must be as") as refused:
        configured.box.reconfigure(server={"awake": {"hours": ["9 to 5"]}})
    assert refused.value.answer["where"] == "server.web.awake.hours[0]"
