"""The box asks the server over HTTPS: woken and awake, with the right name, streaming."""

import contextlib
import hashlib
import http.client
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients import PROGRAM, Answer, ask, fresh
from tests.e2e.conftest import no_cable
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.websocket import Client

ODD_PORT = 8443
RUDE = "rude.office.example"
RUDE_SITE = """
server {{
    listen 443 ssl;
    server_name {name};
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    location = /page {{ add_header Cache-Control no-store; return 200 page; }}
    # The connection ends, and there is no answer.
    location / {{ return 444; }}
}}
"""
ODD = Path(__file__).with_name("odd_tls.py")


def by_https(office: Office, **changes: Any) -> dict[str, Any]:
    """Changes of the configuration."""
    # The API lets a configuration name no file elsewhere.
    file = office.box.directory / "authority.pem"
    file.write_bytes(office.authority.root.pem)
    https = {"to_server": "https", "to_server_ca_file": str(file), **changes}
    return {"server": {"https": https}}


def problem(office: Office) -> dict[str, Any] | None:
    """The box's report on the server's certificate."""
    [told] = office.box.api("GET", "/v1/status")["box"]["edge"]["to_server"]
    found: dict[str, Any] | None = told["problem"]
    return found


def answers(office: Office, status: int) -> Answer:
    """The first answer with this status: a new configuration takes a moment."""

    def right() -> Answer | None:
        answer = ask(office.client, fresh())
        return answer if answer.status == status else None

    answer = wait_for(right, f"status {status}", 60)
    assert answer
    return answer


@pytest.fixture(scope="module")
def asked_by_https(shared: Office) -> Office:
    """Its server speaks HTTPS, and is asked by it; another one there has odd answers."""
    shared.box.await_state("awake")
    issued = shared.authority.issue(HOST, by=shared.authority.root)
    shared.server.serve(issued)
    shared.box.reconfigure(**by_https(shared))
    shared.box.start_edge()
    odd: list[str | Path] = [sys.executable, ODD, str(ODD_PORT), issued.file, issued.key_file]
    shared.server.popen_inside(odd, log="odd")
    wait_for(partial(shared.server.listens, ODD_PORT), "the odd server")
    answers(shared, 200)
    return shared


@pytest.fixture(scope="module")
def asked_oddly(asked_by_https: Office) -> None:
    """From here on the odd server is asked: its tests are the last."""
    office = asked_by_https
    office.box.reconfigure(**by_https(office, to_server_port=ODD_PORT))
    wait_for(lambda: ask(office.client, fresh("/go")).body == b"gone", "the odd server", 60)


@pytest.fixture
def odd(asked_oddly: None, office: Office) -> Office:
    """The server that answers oddly."""
    return office


def seen(office: Office, answer: Answer) -> dict[str, Any]:
    """The server's record of the request."""
    [found] = wait_for(
        lambda: [r for r in office.server.requests() if r["id"] == answer.request_id], "the log"
    )
    return found


@contextlib.contextmanager
def connection(office: Office) -> Iterator[http.client.HTTPConnection]:
    """A connection to the box."""
    made = http.client.HTTPConnection(ADDRESS, timeout=60)
    made.sock = office.client.connect(ADDRESS, 80, timeout_s=60)
    with contextlib.closing(made):
        yield made


def test_a_request_wakes_the_server_and_reaches_it_over_https(
    asked_by_https: Office, asleep: Office
) -> None:
    answer = ask(asleep.client, fresh())
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "held")
    heard = seen(asleep, answer)
    assert (heard["scheme"], heard["proto"], heard["host"]) == ("https", "http", HOST)
    assert heard["forwarded"]
    assert problem(asleep) is None


def test_idle_connections_to_the_server_end_by_themselves(
    asked_by_https: Office, office: Office
) -> None:
    """Else they would keep it awake, or be dead when it is woken."""
    assert ask(office.client, fresh()).status == 200

    def none_left() -> bool:
        said = office.box.run(["ss", "-Htn", "state", "established", "dport", "=", ":443"]).stdout
        return not said.strip()

    wait_for(none_left, "haproxy to end them", 60)


def test_a_cached_file_is_served_by_its_etag_and_in_ranges(
    asked_by_https: Office, office: Office
) -> None:
    path = next(each for each in office.server.paths if each.endswith(".css"))
    whole = ask(office.client, path)
    part = ask(office.client, path, headers={"Range": "bytes=2-5"})
    assert (part.status, part.body) == (206, whole.body[2:6])
    same = ask(office.client, path, headers={"If-None-Match": whole.headers["etag"]})
    assert (same.status, same.body) == (304, b"")


def test_a_websocket_goes_through(asked_by_https: Office, office: Office) -> None:
    with office.client.connect(ADDRESS, 80, timeout_s=60) as line:
        socket = Client(line, HOST, "/app/ws", {})
        assert socket.accepted
        for message in (b"one", b"x" * 70000):
            assert socket.echo(message) == message
        socket.close()


def arrivals(office: Office, method: str) -> int:
    """How often the server got a request that it hung up on, after an answer over the same way."""
    assert ask(office.client, "/page", host=RUDE).body == b"page"
    path = fresh("/hang-up")
    assert ask(office.client, path, method=method, host=RUDE).status == 503
    wanted = (method, path)

    def arrived() -> int:
        return sum((r["method"], r["target"]) == wanted for r in office.server.requests())

    return wait_for(arrived, "the request in the server's log")


def test_a_write_reaches_a_server_that_hangs_up_once(
    asked_by_https: Office, office: Office
) -> None:
    issued = office.authority.issue(RUDE, by=office.authority.root)
    names = {"name": RUDE, "certificate": issued.file, "key": issued.key_file}
    office.server.add_site("rude", RUDE_SITE.format(**names))
    # A GET comes again, on another connection, if its own was used before.
    wait_for(lambda: arrivals(office, "GET") == 2, "a connection to be used again", 60)
    assert [arrivals(office, "DELETE") for _ in range(10)] == [1] * 10


@pytest.mark.long
def test_requests_in_flight_end_within_seconds_when_the_cable_is_pulled(
    asked_by_https: Office, office: Office
) -> None:
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(ask, office.client, fresh("/app/reply?delay_s=300&n="), timeout_s=120)
        wait_for(lambda: office.box.status()["counters"]["fetching_now"], "the request")
        with no_cable(office):
            answer = slow.result(130)
            assert answer.status == 503, answer
            assert answer.took_s < 45, answer


def test_a_wrong_certificate_is_refused_at_once_with_words(
    asked_by_https: Office, office: Office
) -> None:
    right = office.authority.issue(HOST, by=office.authority.root)
    wrong = office.authority.issue("other.example", by=office.authority.root)
    office.server.serve(wrong)
    try:
        refused = answers(office, 503)
        assert refused.took_s < 10
        asked = len(office.server.requests())
        # It looks again after a change of configuration, and at least once an hour.
        office.box.reconfigure(**by_https(office, to_server_name=HOST))
        wait_for(
            lambda: (problem(office) or {}).get("code") == "https.shown_for_others", "words", 60
        )
        assert answers(office, 503).headers["x-naproxy"] == "error"
        paths = [each["target"] for each in office.server.requests()[asked:]]
        assert set(paths) <= {"/robots.txt", "/favicon.ico", "/"}  # the box's own questions
    finally:
        office.server.serve(right)
        office.box.reconfigure(**by_https(office))
    answers(office, 200)
    wait_for(lambda: problem(office) is None, "the box to see it", 120)


def test_early_hints_are_dropped_and_harm_nobody_else(odd: Office) -> None:
    answer = ask(odd.client, fresh("/early"))
    assert (answer.status, answer.body) == (200, b"after the hints")
    assert ask(odd.client, fresh("/go")).body == b"gone"


def test_no_server_is_asked_for_trailers(odd: Office) -> None:
    answer = ask(odd.client, fresh("/trailers"), headers={"TE": "trailers", "Connection": "TE"})
    assert (answer.status, answer.body) == (200, b"body")


def test_an_event_comes_before_the_next_is_made(odd: Office) -> None:
    with connection(odd) as stream:
        stream.request("GET", fresh("/events"), headers={"Host": HOST, **PROGRAM})
        answer = stream.getresponse()
        assert answer.read1() == b"data: first\n\n"
        assert ask(odd.client, fresh("/go")).status == 200
        assert answer.read() == b"data: second\n\n"


def test_an_upload_may_be_chunked(odd: Office) -> None:
    blocks = [bytes([n]) * 70000 for n in range(30)]
    with connection(odd) as upload:
        headers = {"Host": HOST, **PROGRAM}
        upload.request("POST", fresh("/upload"), iter(blocks), headers, encode_chunked=True)
        length, digest, coding, _ = upload.getresponse().read().decode().split()
    assert (int(length), coding) == (30 * 70000, "chunked")
    assert digest == hashlib.sha256(b"".join(blocks)).hexdigest()


def test_the_box_says_100_continue_itself(odd: Office) -> None:
    with connection(odd) as upload:
        sock = upload.sock
        sock.sendall(
            f"POST {fresh('/upload')} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: curl/8\r\n"
            "Expect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n".encode()
        )
        with sock.makefile("rb") as stream:
            assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"
            assert stream.readline() == b"\r\n"
            sock.sendall(b"body")
            assert stream.read().endswith(b" -")
