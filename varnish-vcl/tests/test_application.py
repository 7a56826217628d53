"""Applications that FastAPI, uvicorn and nginx serve: APIs, streams, writes."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import Box, free_port

from tests.patience import PATIENCE_S, wait_for

HERE = Path(__file__).parent
CAMERA_MB = 64
"""Twice the memory of this Varnish's cache."""

STREAMS = [
    "text/event-stream",
    "Text/Event-Stream; charset=utf-8",
    "multipart/x-mixed-replace;boundary=frame",
    "MULTIPART/X-MIXED-REPLACE; boundary=frame",
    "application/x-ndjson",
    "application/stream+json",
    "application/json-seq",
    "application/grpc-web+proto",
    "audio/mpeg",
    "application/ogg",
    "video/mp2t",
]


FLAGS = "flags=default,waiting_page,defer"
"""As the box has them at first: other tests share it."""


def serve(box: Box, port: int, *command: str | Path) -> Iterator[Box]:
    """Run a server behind the box; then the box has its own again."""
    process = subprocess.Popen(command, cwd=HERE)
    try:
        wait_for(lambda: answers(port) or process.poll() is not None, f"{command[0]}")
        assert process.poll() is None
        box.set("state=awake", f"address=127.0.0.1:{port}", f"{FLAGS},frozen")
        yield box
    finally:
        box.set("state=asleep", f"address=127.0.0.1:{box.server_port}", FLAGS)
        process.terminate()
        process.wait(PATIENCE_S)
    assert "not panicked" in box.adm("panic.show")


def answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/first")
        return connection.getresponse().status in (200, 404)
    except OSError:
        return False
    finally:
        connection.close()


@pytest.fixture(scope="module")
def fastapi(box: Box) -> Iterator[Box]:
    """The box in front of FastAPI."""
    port = free_port()
    arguments = ["--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "1"]
    yield from serve(box, port, sys.executable, "-m", "uvicorn", "fastapi_app:app", *arguments)


@pytest.fixture
def visitors(box: Box) -> Iterator[Callable[..., HTTPResponse]]:
    """Visitors, each with a connection, which stays open until the test ends."""
    connections = []

    def get(path: str, **headers: str) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE_S)
        connections.append(connection)
        connection.request(
            "GET", path, headers={n.replace("_", "-"): v for n, v in headers.items()}
        )
        return connection.getresponse()

    yield get
    for connection in connections:
        connection.close()


def counter(box: Box, name: str) -> int:
    """A counter of Varnish's."""
    said = subprocess.run(
        ["varnishstat", "-n", box.name, "-1", "-f", name],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return int(said.split()[1])


def test_an_api_with_keys_never_gets_another_key_s_response(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    assert b"alice" in visitors("/users/me", X_API_Key="key-a").read()
    assert b"bob" in visitors("/users/me", X_API_Key="key-b").read()
    assert visitors("/users/me", X_API_Key="wrong").status == 401
    assert visitors("/users/me").status == 401


def test_an_api_with_keys_answers_nobody_from_the_cache_while_the_server_sleeps(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    assert b"alice" in visitors("/users/me", X_API_Key="key-a").read()
    page = visitors("/page").read()
    fastapi.set("state=asleep", "hold_limit_ms=300")
    try:
        assert visitors("/page").read() == page
        assert visitors("/users/me", X_API_Key="wrong").status == 503
        assert visitors("/users/me").status == 503
    finally:
        fastapi.set("state=awake", "hold_limit_ms=60000")


def test_without_caching_headers_only_content_of_pages_is_cached(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    kinds = dict.fromkeys(
        ["text/html; charset=utf-8", "Text/CSS", "text/javascript", "image/svg+xml", "font/woff2"],
        True,
    ) | dict.fromkeys(
        [
            *("application/json", "application/problem+json", "application/xml", "text/xml"),
            *("text/plain", "application/octet-stream", "text/csv", "text/calendar"),
            "application/pdf",
        ],
        False,
    )
    for kind, cached in kinds.items():
        path = f"/kind?content_type={quote(kind)}"
        assert (visitors(path).read() == visitors(path).read()) is cached, kind


def test_each_visitor_gets_events_of_their_own_one_by_one(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    streams = [visitors("/events") for _ in range(3)]
    seen = [[stream.readline() for _ in range(3)] for stream in streams]
    numbers = [re.search(rb"visit (\d+) message 0", lines[0]) for lines in seen]
    assert all(numbers)
    assert len({number[1] for number in numbers if number}) == 3
    assert all(b"message 1" in lines[2] for lines in seen)


def test_a_stream_of_any_kind_is_passed_even_if_the_server_allows_caching(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    for kind in STREAMS:
        name = re.sub(r"\W", "", kind)
        path = f"/stream/{name}?content_type={quote(kind)}"
        first, second = (visitors(path) for _ in range(2))
        seen = [first.readline(), second.readline(), first.readline()]
        expected = [b"visit 1 message 0\n", b"visit 2 message 0\n", b"visit 1 message 1\n"]
        assert seen == expected, kind


def test_a_camera_s_stream_takes_no_room_and_goes_on(
    fastapi: Box, visitors: Callable[..., HTTPResponse]
) -> None:
    page = visitors("/page").read()
    evicted = counter(fastapi, "MAIN.n_lru_nuked")
    stream = visitors(f"/camera?pictures={16 * CAMERA_MB}")
    for _ in range(CAMERA_MB):
        assert len(stream.read(1 << 20)) == 1 << 20
    assert visitors("/page").read() == page
    assert counter(fastapi, "MAIN.n_lru_nuked") == evicted
    # Varnish frees the bytes that it has sent, although the stream goes on.
    wait_for(lambda: counter(fastapi, "SMA.Transient.g_bytes") < 4 << 20, "memory to be freed")


def test_when_a_camera_s_viewer_leaves_the_server_is_asked_no_more(
    fastapi: Box,
) -> None:
    with closing(HTTPConnection("127.0.0.1", fastapi.port, timeout=PATIENCE_S)) as viewer:
        viewer.request("GET", "/camera?pictures=1000000")
        assert viewer.getresponse().read(1 << 20)
    wait_for(lambda: counter(fastapi, "SMA.Transient.g_bytes") < 1 << 20, "the fetch to end")


NGINX = """
daemon off;
master_process off;
pid {tmp}/pid;
error_log stderr;
events {{ }}
http {{
    access_log {tmp}/log combined;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location = /first {{ add_header Cache-Control no-store; return 200 first; }}
        # The connection ends, and there is no answer.
        location / {{ return 444; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def nginx(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Box, Path]]:
    """The box in front of nginx, which ends connections without an answer; and nginx's log."""
    tmp, port = tmp_path_factory.mktemp("nginx"), free_port()
    (tmp / "conf").write_text(NGINX.format(tmp=tmp, port=port))
    for served in serve(box, port, "/usr/sbin/nginx", "-e", "stderr", "-c", tmp / "conf"):
        yield served, tmp / "log"


def arrivals(nginx: tuple[Box, Path], method: str) -> int:
    """How often a request gets to nginx that it does not answer, on a connection used before."""
    box, log = nginx
    with closing(HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE_S)) as visitor:
        for attempt in range(50):
            visitor.request("GET", "/first")
            assert visitor.getresponse().read() == b"first"
            reused = counter(box, "MAIN.backend_reuse")
            visitor.request(method, f"/{attempt}")
            assert visitor.getresponse().status == 503
            # Varnish may not yet have had the first one's connection back.
            if counter(box, "MAIN.backend_reuse") > reused:
                return log.read_text().count(f'"{method} /{attempt} HTTP/1.1" 444')
    raise AssertionError("no connection was used again")


def test_a_write_reaches_a_server_that_hangs_up_once(nginx: tuple[Box, Path]) -> None:
    box, log = nginx
    for method in ("POST", "PUT", "PATCH", "DELETE", "MKCOL", "LOCK"):
        with closing(HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE_S)) as visitor:
            # Varnish has a connection that was used before, and does not use it.
            visitor.request("GET", "/first")
            assert visitor.getresponse().read() == b"first"
            visitor.request(method, "/write")
            assert visitor.getresponse().status == 503
        assert log.read_text().count(f'"{method} /write HTTP/1.1" 444') == 1, method


def test_a_read_is_tried_on_a_new_connection_when_a_server_hangs_up(
    nginx: tuple[Box, Path],
) -> None:
    for method in ("GET", "OPTIONS", "PROPFIND"):
        assert arrivals(nginx, method) == 2, method
