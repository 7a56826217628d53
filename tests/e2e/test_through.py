"""HTTPS connections passed through to the server: they wake it and get its own certificate."""

import contextlib
import hashlib
import socket
import ssl
import struct
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.e2e.clients import Answer, ask, at_once, fresh, half_closed
from tests.e2e.conftest import no_cable
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, HOST, RefusedError, toml
from tests.simulator.office.office import CLIENT_ADDRESS
from tests.simulator.office.server import Site

SHOP = "shop.office.example"
BELOW = "any.below.example"
CONFIG: dict[str, Any] = {
    "server": {
        "hosts": [HOST, "*.below.example"],
        "https": {"mode": "through"},
    }
}
SITE = Site(https=(HOST, BELOW))
LARGE = 8 << 20
HANDSHAKE = b"\x16"
"""How the server's first word begins (RFC 8446, 5.1)."""


@pytest.fixture(scope="module")
def theirs(shared: Office) -> str:
    """The fingerprint of the certificate that only the server has."""
    issued = pki.issue(shared.authority, HOST, BELOW)
    shared.server.serve(issued)
    wait_for(lambda: shared.box.listens(443), "the edge")
    return pki.fingerprint(issued)


def visit(office: Office, path: str, **more: Any) -> Answer:
    return ask(office.client, path, https=pki.context(office.authority), **more)


def told(office: Office) -> dict[str, int]:
    said: dict[str, int] = office.box.status()["https"]["through"]
    return said


def test_visitors_are_shown_the_servers_own_certificate(theirs: str, office: Office) -> None:
    assert pki.shown(office.client, ADDRESS, HOST) == theirs
    assert pki.shown(office.client, ADDRESS, BELOW) == theirs
    assert visit(office, fresh()).status == 200


def test_a_visitor_wakes_the_server_and_gets_its_answer(theirs: str, asleep: Office) -> None:
    before = told(asleep)
    with asleep.client.connect(ADDRESS, 443) as line:
        line.settimeout(40)
        context = pki.context(asleep.authority)
        with context.wrap_socket(line, server_hostname=HOST) as visitor:
            shown = visitor.getpeercert(binary_form=True)
            assert shown
            assert hashlib.sha256(shown).hexdigest() == theirs
            visitor.sendall(f"GET {fresh()} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
            assert visitor.recv(12) == b"HTTP/1.1 200"
    asleep.box.await_state("awake")
    assert told(asleep)["held"] == before["held"] + 1
    wake = asleep.box.wakes()[0]
    assert (wake["class"], wake["reason"]) == ("person", "pass")
    assert wake["who"] == CLIENT_ADDRESS
    assert wake["host"] == "web"


def hello_to(name: str) -> bytes:
    """A ClientHello."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        bio = ssl._create_unverified_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
        bio.do_handshake()
    return out.read()


@pytest.mark.alone
def test_a_hello_and_a_reset_wake_nobody(theirs: str, asleep: Office) -> None:
    said = hello_to(HOST)
    packets = asleep.server.board.report()["counts"]["magic"]
    # In one record, and in two.
    split = said[:3] + b"\0\7" + said[5:12] + said[:3] + (len(said) - 12).to_bytes(2, "big")
    for hello in [said, split + said[12:]] * 4:
        with asleep.client.connect(ADDRESS, 443) as line:
            line.sendall(hello)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Some are gone before haproxy passes them on. One that is refused comes after all of them.
    with pytest.raises((ssl.SSLError, OSError)):
        pki.shown(asleep.client, ADDRESS, "other.example")
    wait_for(lambda: told(asleep)["open"] == 0, "all of them to be gone")
    assert asleep.box.status()["state"] == "asleep"
    assert asleep.server.board.report()["counts"]["magic"] == packets


def test_a_client_that_sends_no_more_is_answered_after_the_wake(
    theirs: str, asleep: Office
) -> None:
    hello = ssl.MemoryBIO()
    stream = pki.context(asleep.authority).wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        stream.do_handshake()
    with asleep.client.connect(ADDRESS, 443, timeout_s=40) as line:
        line.sendall(hello.read())
        line.shutdown(socket.SHUT_WR)
        assert line.recv(1) == HANDSHAKE


def test_a_client_that_sends_no_more_gets_the_whole_response(theirs: str, office: Office) -> None:
    answer = half_closed(office.client, fresh(), pki.context(office.authority))
    assert answer.startswith(b"HTTP/1.1 200")


def test_nobody_is_passed_on_without_a_name_of_the_server(theirs: str, asleep: Office) -> None:
    for name in (None, "other.example", "two.levels.below.example", "below.example"):
        with pytest.raises((ssl.SSLError, OSError)):
            pki.shown(asleep.client, ADDRESS, name)
    assert asleep.box.status()["state"] == "asleep"


def test_varnish_serves_visitors_over_http(theirs: str, office: Office) -> None:
    answer = ask(office.client, fresh("/app/reply"))
    assert (answer.status, "via" in answer.headers) == (200, True)


def test_passed_through_visitors_do_not_count_as_past_the_box(theirs: str, office: Office) -> None:
    assert office.box.api("POST", "/v1/servers/web/look", {})["look"]["port"] == "open"
    # The controller looks each 10 s what the edge does.
    wait_for(lambda: office.box.status()["https"]["sight"] is None, "the edge to be seen", 30)


def test_a_long_transfer_keeps_the_server_awake(theirs: str, office: Office) -> None:
    def inhibitors() -> list[str]:
        return [each["code"] for each in office.box.status()["inhibitors"]]

    with office.client.connect(ADDRESS, 443) as line:
        line.settimeout(40)
        context = pki.context(office.authority)
        with context.wrap_socket(line, server_hostname=HOST) as visitor:
            visitor.sendall(f"GET /app/flow?size={LARGE} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
            assert visitor.recv(1)
            wait_for(lambda: "server.connections" in inhibitors(), "the inhibitor")
            with pytest.raises(RefusedError):
                office.box.api("POST", "/v1/servers/web/sleep", {})
            received = 1
            while data := visitor.recv(1 << 16):
                received += len(data)
            assert received > LARGE
    wait_for(lambda: "server.connections" not in inhibitors(), "its end")


@pytest.mark.long
def test_requests_in_flight_end_within_seconds_when_the_cable_is_pulled(
    theirs: str, office: Office
) -> None:
    """A request that the server has got, and one that it does not get any more."""
    context = pki.context(office.authority)
    with ExitStack() as lines:
        got, late = (
            context.wrap_socket(
                lines.enter_context(office.client.connect(ADDRESS, 443, timeout_s=30)),
                server_hostname=HOST,
            )
            for _ in range(2)
        )
        head = f"GET {fresh('/app/reply?delay_s=300&n=')} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
        got.sendall(head)
        with no_cable(office):
            late.sendall(head)
            for each in (got, late):
                with suppress(ConnectionError):
                    assert each.recv(1) == b""


def test_each_connection_is_counted(theirs: str, office: Office) -> None:
    before = told(office)["passed"]
    calls = [lambda: visit(office, fresh()) for _ in range(5)]
    with at_once(calls) as done:
        assert [each.result().status for each in done] == [200] * 5
    assert told(office)["passed"] == before + 5


def test_a_name_that_the_box_serves_is_served_beside(theirs: str, office: Office) -> None:
    config = office.box.default_config(**CONFIG)
    own = {
        **config["server"][0],
        "id": "shop",
        "hosts": [SHOP],
        # Two servers have not the same card; it is the same machine all the same.
        "mac": "02:00:00:00:00:99",
        "ready": {**config["server"][0]["ready"], "check_mac": False},
        "default": False,
        "https": {"mode": "box"},
        "sleep": {"driver": "none"},
    }
    config["server"].append(own)
    office.box.api("PUT", "/v1/config", toml(config).encode())
    ours = pki.issue(office.authority, SHOP)
    try:
        office.box.give(main=ours)
        assert pki.shown(office.client, ADDRESS, HOST) == theirs
        assert pki.shown(office.client, ADDRESS, SHOP) == pki.fingerprint(ours)
        answer = visit(office, fresh("/app/reply"), host=SHOP)
        assert (answer.status, "via" in answer.headers) == (200, True)
        assert office.box.api("GET", "/v1/edge")["uncovered"] == []
        # A browser that uses the box's connection for the other name, too.
        with office.client.connect(ADDRESS, 443) as line:
            context = pki.context(office.authority)
            with context.wrap_socket(line, server_hostname=SHOP) as visitor:
                visitor.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
                assert visitor.recv(12) == b"HTTP/1.1 421"
    finally:
        office.box.reconfigure(**CONFIG)
