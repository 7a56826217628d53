"""Inhibitors keep the server awake under any policy, seen in the whole box."""

from collections.abc import Iterator
from functools import partial

import pytest
from naproxy.core.reason import Reason, reason_of

from tests.e2e.clients import PROGRAM, ask, at_once, fresh
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST, RefusedError
from tests.simulator.office.websocket import Client

WORK = "/app/reply"
ALWAYS = ["mon-sun 00:00-24:00"]


def inhibitors(office: Office) -> list[Reason]:
    return [reason_of(inhibitor) for inhibitor in office.box.status()["inhibitors"]]


def codes(office: Office) -> list[str]:
    return [inhibitor.code for inhibitor in inhibitors(office)]


FIXED = {"naproxy.server.inhibitors.Settings": {"work_s": 4.0}}


@pytest.fixture
def configured(office: Office) -> Iterator[Office]:
    yield office
    office.box.reconfigure()


def test_a_request_at_the_server_is_an_inhibitor_while_it_lasts(office: Office) -> None:
    slow = partial(ask, office.client, f"{fresh(WORK)}&delay_s=2")
    with at_once([slow]) as calls:
        one = Reason("server.fetching", number=1)
        wait_for(lambda: one in inhibitors(office), "the inhibitor")
    assert calls[0].result().status == 200
    wait_for(lambda: "server.fetching" not in codes(office), "the end of the inhibitor")


def test_an_open_websocket_keeps_the_server_awake_even_by_hand(office: Office) -> None:
    with office.client.connect(ADDRESS, 80) as line:
        client = Client(line, HOST, "/app/ws", {})
        assert client.echo(b"here") == b"here"
        with pytest.raises(RefusedError) as refused:
            office.box.api("POST", "/v1/servers/web/sleep", {})
        assert refused.value.answer["code"] == "server.connections"
        client.close()
    wait_for(lambda: "server.connections" not in codes(office), "the end of the inhibitor")


def test_work_keeps_the_server_awake_after_its_request_has_ended(configured: Office) -> None:
    configured.box.reconfigure(server={"awake": {"work_paths": [WORK]}})
    assert ask(configured.client, fresh(), headers=PROGRAM).status == 200
    assert "server.work" not in codes(configured)
    assert ask(configured.client, fresh(WORK)).status == 200
    wait_for(lambda: "server.work" in codes(configured), "the inhibitor")
    [work] = [inhibitor for inhibitor in inhibitors(configured) if inhibitor.code == "server.work"]
    assert work.params["paths"] == [WORK]
    with pytest.raises(RefusedError) as refused:
        configured.box.api("POST", "/v1/servers/web/sleep", {})
    assert refused.value.answer["code"] == "server.work"
    configured.box.sleep()
    assert configured.server.board.state == "off"


def test_office_hours_are_an_inhibitor_but_not_by_hand(configured: Office) -> None:
    configured.box.reconfigure(server={"awake": {"hours": ALWAYS, "time_zone": "UTC"}})
    assert "server.office_hours" in codes(configured)
    configured.box.sleep()
    assert configured.server.board.state == "off"


def test_a_server_whose_application_is_busy_is_not_put_to_sleep(configured: Office) -> None:
    office, box = configured, configured.box
    box.reconfigure(server={"awake": {"busy_path": "/app/reply?status=503"}})
    box.api("POST", "/v1/servers/web/sleep", {})
    told = ["falling_asleep", "awake"]
    wait_for(lambda: [c["to"] for c in box.transitions()[1::-1]] == told, "its refusal")
    assert box.transitions()[0]["reason"]["code"] == "server.busy"
    assert office.server.board.state == "on"
    box.reconfigure(server={"awake": {"busy_path": "/app/reply"}})
    box.sleep()


WORDS = "a backup is running until 4:00"


def ask_to_sleep(office: Office) -> Reason:
    """Tell a server to sleep that refuses; return why it is awake again."""
    last = office.box.transitions()[0]["id"]
    office.box.api("POST", "/v1/servers/web/sleep", {})
    told = ["falling_asleep", "awake"]

    def since() -> list[str]:
        return [each["to"] for each in reversed(office.box.transitions()) if each["id"] > last]

    wait_for(lambda: since() == told, "its answer")
    return reason_of(office.box.transitions()[0]["reason"])


def test_a_server_that_refuses_serves_and_its_words_are_told_each_time_somebody_asks(
    office: Office,
) -> None:
    office.server.board.configure(refuse=WORDS)
    for _ in range(2):
        assert WORDS in str(ask_to_sleep(office))
        assert WORDS in str(office.box.status()["inhibitors"])
    answer = ask(office.client, fresh())
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "fetch")
    assert office.server.board.state == "on"
