"""The box's view of a server with a meter, and the breaker after a failed wake."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from naproxy.core.reason import Reason, reason_of

from tests.e2e.clients import PERSON, ask, fresh
from tests.e2e.conftest import QUICK, settle_awake
from tests.fixed import CONNECT_AT_ONCE
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import VMOD, RefusedError, toml
from tests.simulator.office.namespace import ROOT, ip
from tests.simulator.office.plug import Plug
from tests.simulator.office.server import ADDRESS

NEVER = {"name": "timeout", "idle_s": 86400.0}
IDLE = {"name": "timeout", "idle_s": 1.0}
WAKE = [{"spacing_s": 0.1}]
FIXED = {**CONNECT_AT_ONCE, "naproxy.drivers.wake.RungSettings": {"attempts": 20}}


class Metered:
    """An office whose server is at a meter."""

    def __init__(self, office: Office, plug: Plug):
        self.office = office
        self.plug = plug
        self.box = office.box

    def configure(self, policy: dict[str, Any] | None = None, **server: Any) -> None:
        config = self.box.default_config(
            server={"wake": WAKE, **server},
            meter=[self.plug.configuration()],
        )
        config["server"][0]["policy"] = policy or NEVER
        self.box.api("PUT", "/v1/config", toml(config).encode())

    def call_in_vain(self) -> Reason:
        """Ask for the server until the box gives up; returns why it is not up."""
        self.box.api("POST", "/v1/servers/web/wake", {})
        self.box.await_state("trouble")
        return self.why_not_up()

    def why_not_up(self) -> Reason:
        """Return why it is not up, as the alert says."""
        alert = reason_of(self.box.status()["alert"])
        assert alert.code in ("server.not_up", "server.still_not_up")
        why: Reason = alert.params["why"]
        return why


@pytest.fixture(scope="module")
def shared() -> Iterator[Metered]:
    assert (VMOD / "libvmod_naproxy.so").exists(), "the VMOD is not built: make build"
    with (
        Office(keep=ROOT / "build/e2e/test_seeing", board=QUICK) as office,
        Plug(office.server.board, office.box.directory / "watts") as plug,
    ):
        metered = Metered(office, plug)
        office.box.fixed = FIXED
        office.box.start()
        metered.configure()
        office.box.await_state("awake")
        yield metered


@pytest.fixture
def awake(shared: Metered) -> Metered:
    settle_awake(shared.office)
    with contextlib.suppress(RefusedError):
        shared.box.api("POST", "/v1/servers/web/arm", {})
    shared.configure()
    return shared


@pytest.fixture
def asleep(awake: Metered) -> Metered:
    awake.box.sleep()
    return awake


# The box's reports of a server that does not come up


def test_a_hung_resume_is_told_from_a_failed_wake(asleep: Metered) -> None:
    asleep.office.server.board.configure(hang=True)
    why = asleep.call_in_vain()
    assert (why.code, why.params["draws_w"]) == ("server.why_hangs_draws", 43.3)
    assert "restart it with its button" in str(why)


def test_a_foreign_machine_on_its_address_does_not_pass_for_the_server(asleep: Metered) -> None:
    office = asleep.office
    office.server.drop_address(ADDRESS)
    ip("-n", office.client.name, "addr", "add", f"{ADDRESS}/32", "dev", "eth0")
    try:
        with office.client.entered():
            server = http.server.HTTPServer((ADDRESS, 80), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        asleep.box.api("POST", "/v1/servers/web/wake", {})
        wait_for(
            lambda: "02:00:5e:10:00:10" in str(asleep.box.status()["alert"]),
            "the other machine to be seen",
        )
        assert asleep.box.status()["state"] == "trouble"
        server.shutdown()
        server.server_close()
    finally:
        ip("-n", office.client.name, "addr", "del", f"{ADDRESS}/32", "dev", "eth0")
        office.server.add_address(ADDRESS)
        # Its kernel would find out by itself, in half a minute.
        office.box.run(["ip", "neigh", "flush", "dev", "eth0"])


# The breaker


def test_a_failed_wake_keeps_it_awake_until_somebody_says_otherwise(asleep: Metered) -> None:
    asleep.office.server.board.configure(never_wake=True)
    asleep.call_in_vain()
    asleep.box.kill_controller()
    asleep.box.start_controller()
    asleep.office.server.board.configure(never_wake=False)
    asleep.box.await_state("awake")
    status = asleep.box.status()
    assert status["armed"] is False
    [inhibitor] = [v for v in map(reason_of, status["inhibitors"]) if v.code == "server.tripped"]
    assert "server.why_failed" in inhibitor.codes()
    assert "naproxy arm web" in str(inhibitor)
    asleep.configure(policy=IDLE)
    wait_for(lambda: asleep.box.status()["decision"]["sleep"], "the policy to want it")
    assert asleep.box.status()["state"] == "awake"
    asleep.box.api("POST", "/v1/servers/web/arm", {})
    asleep.box.await_state("asleep")


# A commissioning that does not go well


def commission(metered: Metered, **plan: Any) -> None:
    body = {"cycles": 2, "awake_s": 0.2, "asleep_s": 0.5, **plan}
    metered.box.api("POST", "/v1/servers/web/commission", body)


def progress(metered: Metered) -> dict[str, Any]:
    report: dict[str, Any] = metered.box.api("GET", "/v1/servers/web/commission")
    return report


def test_a_server_that_does_not_wake_is_not_armed_and_told_why(awake: Metered) -> None:
    awake.configure(armed=False)
    awake.office.server.board.configure(hang=True)
    commission(awake)
    wait_for(lambda: progress(awake)["ended"], "the end")
    report = progress(awake)
    assert report["phase"] == "failed"
    reason = reason_of(report["reason"])
    assert (reason.code, reason.params["cycle"]) == ("server.in_cycle", 1)
    why = reason.params["why"]
    assert why.code == "server.not_up"
    # The ladder has 20 calls; it is waited for as long as its wakes before took, too.
    assert why.params["calls"] >= 20
    assert why.params["why"].code == "server.why_hangs_draws"
    assert "server.why_hangs_draws" in str(awake.box.status()["inhibitors"])


def test_visitors_of_a_server_that_is_being_commissioned_lose_nothing(awake: Metered) -> None:
    awake.configure(armed=False)
    commission(awake, cycles=2, asleep_s=5)
    for _ in range(2):
        wait_for(lambda: progress(awake)["phase"] == "asleep", "a sleep")
        assert ask(awake.office.client, fresh("/app/reply")).status == 200
    wait_for(lambda: progress(awake)["ended"], "the end")
    assert progress(awake)["armed"], progress(awake)["reason"]


# Two servers


def test_of_two_servers_the_one_that_fails_does_not_disarm_the_other(asleep: Metered) -> None:
    box = asleep.box
    config = box.default_config(server={"wake": WAKE}, meter=[asleep.plug.configuration()])
    other = {**config["server"][0], "id": "other", "address": "192.0.2.77", "default": False}
    other |= {"mac": "02:00:5e:10:00:77", "hosts": ["other.office.example"]}
    config["server"].append(other)
    box.api("PUT", "/v1/config", toml(config).encode())

    def of(name: str) -> dict[str, Any]:
        servers = box.api("GET", "/v1/status")["servers"]
        return next(s for s in servers if s["id"] == name)

    wait_for(lambda: of("other")["state"] == "trouble", "the other to fail")
    assert of("other")["alert"]
    assert of("web")["alert"] is None
    assert of("web")["armed"] is True
    assert ask(asleep.office.client, fresh("/app/reply"), headers=PERSON).status in (200, 503)
    wait_for(lambda: of("web")["state"] == "awake", "the first to wake")
    assert ask(asleep.office.client, fresh("/app/reply")).status == 200
