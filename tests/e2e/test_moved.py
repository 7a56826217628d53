"""The server comes back at another address, or with another card: found, named, adopted at once."""

import http.server
import socket
import threading

import pytest
from naproxy.core.reason import reason_of

from tests.e2e.clients import ask, fresh
from tests.e2e.conftest import settle_asleep, settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import RefusedError
from tests.simulator.office.namespace import ip
from tests.simulator.office.server import ADDRESS, ADDRESS_V6, MAC, OTHER_ADDRESS

CONFIG = {
    "server": {
        "wake": [{"spacing_s": 0.1, "attempts": 5}],
        "ready": {"kind": "http", "path": "/robots.txt", "interval_s": 0.5},
    }
}


def adopted(office: Office, address: str, code: str) -> None:
    """The box names where the server is; one call has it look there."""
    there = {"address": address, "mac": MAC}
    wait_for(lambda: office.box.status()["moved"] == there, f"the server at {address}")
    alert = reason_of(office.box.status()["alert"])
    assert code in alert.codes()
    with pytest.raises(RefusedError):
        office.box.api("POST", "/v1/servers/web/adopt", {**there, "address": "192.0.2.99"})
    office.box.api("POST", "/v1/servers/web/adopt", there)
    office.box.await_state("awake")
    assert office.box.status()["moved"] is None
    assert ask(office.client, fresh()).status == 200


def test_a_server_that_comes_back_at_another_address_is_found_by_its_card(shared: Office) -> None:
    settle_asleep(shared)
    shared.server.add_address(OTHER_ADDRESS)
    shared.server.drop_address(ADDRESS)
    try:
        shared.box.api("POST", "/v1/servers/web/wake", {})
        shared.box.await_state("trouble")
        adopted(shared, OTHER_ADDRESS, "server.moved")
    finally:
        shared.server.add_address(ADDRESS)
        shared.server.drop_address(OTHER_ADDRESS)
        shared.box.reconfigure(**CONFIG)
    settle_awake(shared)


def test_a_server_with_another_card_is_named_and_adopted(office: Office) -> None:
    server = {**CONFIG["server"], "mac": "02:00:5e:10:00:99"}
    office.box.reconfigure(server=server)
    adopted(office, ADDRESS, "ready.stranger")


class _Web(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


def test_another_machine_at_the_servers_ipv6_address_does_not_pass_for_it(office: Office) -> None:
    box, client, server = office.box, office.client.name, office.server.name
    box.reconfigure(server={**CONFIG["server"], "address": ADDRESS_V6})
    box.await_state("awake")
    assert ask(office.client, fresh()).status == 200
    box.sleep()
    ip("-n", server, "addr", "del", f"{ADDRESS_V6}/64", "dev", "eth0")
    ip("-n", client, "addr", "add", f"{ADDRESS_V6}/128", "dev", "eth0", "nodad")
    try:
        with office.client.entered():
            web = _Web((ADDRESS_V6, 80), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
        box.api("POST", "/v1/servers/web/wake", {})
        wait_for(
            lambda: "02:00:5e:10:00:10" in str(box.status()["alert"]),
            "the other machine to be seen",
        )
        assert box.status()["state"] == "trouble"
        web.shutdown()
        web.server_close()
    finally:
        ip("-n", client, "addr", "del", f"{ADDRESS_V6}/128", "dev", "eth0")
        ip("-n", server, "addr", "add", f"{ADDRESS_V6}/64", "dev", "eth0", "nodad")
        box.run(["ip", "neigh", "flush", "dev", "eth0"])
        box.reconfigure(**CONFIG)
    settle_awake(office)
