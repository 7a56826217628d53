"""A web server that needs a NAS: both sleep, and magic packets wake the NAS first."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.core.reason import reason_of

from tests.e2e.clients import ask, fresh
from tests.e2e.conftest import QUICK, settle
from tests.patience import PATIENCE_S, wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import RefusedError
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.office import NAS
from tests.simulator.office.server import MAC, Server

CALLS = "ether proto 0x0842 or (udp and (port 9 or port 7))"


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Office, Server]]:
    """The web server and the NAS that it needs, both awake."""
    with Office(keep=ROOT / "build/e2e/test_needs", board=QUICK) as office:
        nas = office.add_nas()
        address, _, mac = NAS
        office.box.others = [
            {
                "id": "nas",
                "address": address,
                "mac": mac,
                "armed": True,
                "sleep": {"driver": "ssh", "user": "root", "key_file": str(nas.private_key)},
                "ready": {"kind": "http", "path": "/robots.txt"},
                "policy": {"name": "timeout", "idle_s": 1},
                "wake": [{"driver": "etherwake", "spacing_s": 0.2, "attempts": 10}],
            }
        ]
        office.box.start(server={"needs": ["nas"]})
        office.box.begin_awake()
        yield office, nas


def told(office: Office, server: str) -> dict[str, Any]:
    servers = office.box.api("GET", "/v1/status")["servers"]
    return next(each for each in servers if each["id"] == server)


def await_nas(office: Office, state: str) -> None:
    wait_for(lambda: told(office, "nas")["state"] == state, f"the NAS to be {state}")


@pytest.fixture
def awake(both: tuple[Office, Server]) -> tuple[Office, Server]:
    office, nas = both
    nas.board.reset(QUICK)
    settle(office)
    office.box.begin_awake()
    await_nas(office, "awake")
    return office, nas


@pytest.fixture
def asleep(awake: tuple[Office, Server]) -> tuple[Office, Server]:
    """The web server was put to sleep, and the NAS followed by itself."""
    office, nas = awake
    office.box.sleep()
    await_nas(office, "asleep")
    assert nas.board.state == "off"
    return office, nas


def test_the_nas_stays_awake_as_long_as_the_web_server(awake: tuple[Office, Server]) -> None:
    office, nas = awake
    needed = {"code": "server.needed_by", "params": {"names": ["web"]}}
    wait_for(lambda: told(office, "nas")["decision"]["sleep"], "the NAS's policy to let it sleep")
    assert needed in told(office, "nas")["inhibitors"]
    with pytest.raises(RefusedError) as refused:
        office.box.api("POST", "/v1/servers/nas/sleep", {})
    assert (refused.value.status, "Needed by web" in str(refused.value)) == (409, True)
    naproxy = Path(sys.executable).with_name("naproxy")
    words = office.box.run([naproxy, "status", "--socket", office.box.run_dir / "control.sock"])
    assert "Needed by web" in words.stdout
    assert nas.board.state == "on"


def test_a_visit_wakes_the_nas_first_and_the_web_server_when_it_answers(
    asleep: tuple[Office, Server],
) -> None:
    office, nas = asleep
    nas.board.configure(wake_s=2.0)
    with office.capture(office.box, CALLS) as wire:
        answer = ask(office.client, fresh())
        frames = wire.frames()
    assert answer.status == 200
    assert answer.took_s > 2
    nas_mac, web_mac = (bytes.fromhex(mac.replace(":", "")) * 16 for mac in (NAS[2], MAC))
    calls = [
        name
        for frame in frames
        for name, body in (("nas", nas_mac), ("web", web_mac))
        if body in frame.data
    ]
    assert calls[0] == "nas"
    assert "nas" not in calls[calls.index("web") :], "the NAS answers before the other is called"


@pytest.mark.long  # test_needing.py has it in virtual time
def test_a_nas_that_does_not_wake_costs_the_visitor_no_answer(
    asleep: tuple[Office, Server],
) -> None:
    office, nas = asleep
    nas.board.configure(ignore_packets=10**6)
    answer = ask(office.client, fresh(), timeout_s=PATIENCE_S)
    assert answer.status == 200
    alert = reason_of(told(office, "web")["alert"])
    assert alert.code == "server.woken_without"
    assert alert.params["names"] == ["nas"]
    nas.board.power_on()
    await_nas(office, "awake")
    wait_for(lambda: told(office, "web")["alert"] is None, "the end of the alert")
