"""The agent on the server counts who comes past the box, and the box tells it."""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from naproxy.core.reason import Reason

from tests.e2e.clients import PROGRAM, ask, fresh, visitor
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.server import ADDRESS

pytestmark = pytest.mark.long

AGENT = ROOT / "package/naproxy-agent/src/naproxy_agent.py"
KEY = bytes(range(32)).hex()


@pytest.fixture(scope="module", autouse=True)
def agent(shared: Office) -> None:
    """The agent runs on the server, as a file of its configuration would have it."""
    server = shared.server
    key, config = shared.box.directory / "agent.key", server.directory / "agent.conf"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    sleep = server.directory / "naproxy-sleep"
    config.write_text(
        "[agent]\nserver = web\n"
        # All of this machine is the server's here: its users, its load.
        "[stay-awake]\ninhibitors = no\nlogged-in-users = no\nload-above = any\n"
        f"[sleep]\nmem = {sleep}\n"
    )
    server.popen_inside([sys.executable, AGENT, "--config", config, "--key", key], log="agent")


@pytest.fixture(autouse=True)
def by_agent(office: Office) -> None:
    """The box puts the server to sleep by the agent, which has told it something."""
    await_told(office, lambda around: around is not None, "the agent to tell")


def ask_agent(office: Office) -> None:
    """Have the box ask now: a new configuration makes it do so."""
    config: dict[str, Any] = office.box.default_config()
    config["server"][0]["sleep"] = {
        "driver": "agent",
        "key_file": str(office.box.directory / "agent.key"),
    }
    office.box.api("PUT", "/v1/config", toml(config).encode())


def around(office: Office) -> dict[str, Any]:
    told: dict[str, Any] = office.box.status()["https"]["around"]
    return told


def await_told(office: Office, enough: Callable[[dict[str, Any] | None], bool], what: str) -> None:
    """Have the box ask until that is told; the agent looks at most once a second."""

    def told() -> bool:
        ask_agent(office)
        time.sleep(0.2)
        return enough(office.box.status()["https"]["around"])

    wait_for(told, what)


def await_total(office: Office, number: int) -> None:
    await_told(office, lambda told: bool(told and told["total"] == number), f"{number} visits")


def test_a_visitor_past_the_box_is_counted_and_keeps_the_server_awake(office: Office) -> None:
    before, source = around(office), visitor(1)
    with closing(office.client.connect(ADDRESS, 80, source=source)):
        await_total(office, before["total"] + 1)
        office.box.api("POST", "/v1/servers/web/sleep", {})
        why = Reason("sleep.busy_port", port=80, peer=source, number=1).plain()
        wait_for(lambda: str(why) in str(office.box.status()["inhibitors"]), "the refusal")
    after = around(office)
    assert (after["how"], after["today"]) == ("agent", before["today"] + 1)


def test_a_connection_past_the_box_is_counted_after_its_end(office: Office) -> None:
    before = around(office)["total"]
    with closing(office.client.connect(ADDRESS, 80, source=visitor(2))) as line:
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while line.recv(65536):
            pass
    await_total(office, before + 1)


def test_a_visitor_through_the_box_is_not_counted(office: Office) -> None:
    before = around(office)["total"]
    assert ask(office.client, fresh(), headers=PROGRAM, source=visitor(3)).status == 200
    with closing(office.client.connect(ADDRESS, 80, source=visitor(4))):
        await_total(office, before + 1)


def test_the_count_goes_on_after_a_sleep(office: Office) -> None:
    before = around(office)["total"]
    office.box.sleep()
    office.box.wake()
    with closing(office.client.connect(ADDRESS, 80, source=visitor(5))):
        await_total(office, before + 1)
