"""The route that empties the cache: what Varnish is asked, and what is refused."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.cached import Cached
from naproxy.api.calls import ApiError, Call, answer
from naproxy.controller.varnish import Varnish


class Listener:
    """Says the same to everybody at a socket of Varnish's, and notes what it was asked."""

    def __init__(self, path: Path) -> None:
        self.asked: list[bytes] = []
        self.says = b"HTTP/1.1 200 Emptied\r\nContent-Length: 0\r\n\r\n"
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.bind(str(path))
        self._sock.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._sock.accept()
            except OSError:
                return
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(4096)
                self.asked.append(head)
                connection.sendall(self.says)

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    made = Listener(tmp_path / "box.sock")
    yield made
    made.close()


def empty(place: Path, body: Any) -> Any:
    handlers = Cached(Varnish(place / "box.sock"), lambda: {"web"}).handlers()
    call = Call("POST", ("v1", "cache", "empty"), {}, json.dumps(body).encode())
    return asyncio.run(answer(handlers, call))


def test_varnish_forgets_what_is_named(tmp_path: Path, listener: Listener) -> None:
    for body, headers in (
        ({}, []),
        ({"server": "web"}, [b"X-Naproxy-Server: web"]),
        (
            {"server": "web", "path": "/Bücher und mehr/"},
            [b"X-Naproxy-Server: web", b"X-Naproxy-Path: /B%C3%BCcher%20und%20mehr/"],
        ),
        ({"path": "/a%20b"}, [b"X-Naproxy-Path: /a%20b"]),
        ({"tag": "post-1"}, [b"X-Naproxy-Tag: post-1"]),
    ):
        assert empty(tmp_path, body) == (200, {}), body
        lines = listener.asked[-1].split(b"\r\n")
        assert lines[0] == b"PURGE / HTTP/1.1", body
        assert [line for line in lines if line.startswith(b"X-Naproxy")] == headers


def test_an_impossible_request_is_rejected_without_asking_varnish(
    tmp_path: Path, listener: Listener, subtests: pytest.Subtests
) -> None:
    for body, status, where in (
        ({"server": "other"}, 404, "server"),
        ({"server": "web", "tag": "a"}, 400, "tag"),
        ({"path": "/", "tag": "a"}, 400, "tag"),
        ({"path": "blog/"}, 400, "path"),
        ({"path": "/blog?a"}, 400, "path"),
        ({"path": "/a\r\nX-Naproxy-Tag: b"}, 400, "path"),
        ({"path": "/a\n"}, 400, "path"),
        ({"path": ""}, 400, "path"),
        ({"path": "/" + "ü" * 43}, 400, "path"),
        ({"path": 7}, 400, "path"),
        ({"tag": "a b"}, 400, "tag"),
        ({"tag": 'a" && obj.status == "200'}, 400, "tag"),
        ({"tag": ".*"}, 400, "tag"),
        ({"tag": "a\n"}, 400, "tag"),
        ({"host": "a"}, 400, "host"),
        ([], 400, None),
    ):
        with subtests.test(body=body), pytest.raises(ApiError) as refused:
            empty(tmp_path, body)
        assert (refused.value.status, refused.value.body["where"]) == (status, where), body
        assert not listener.asked, body


def test_an_error_of_varnish_is_told(
    tmp_path: Path, listener: Listener, subtests: pytest.Subtests
) -> None:
    for says, said in (
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
        (b"nonsense\r\n", "no answer by HTTP"),
        (b"", "no answer by HTTP"),
    ):
        listener.says = says
        with subtests.test(says=says), pytest.raises(ApiError, match=said) as refused:
            empty(tmp_path, {"server": "web"})
        assert refused.value.status == 502, says


def test_a_varnish_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="no such file"):
        empty(tmp_path, {})
