"""A controller that hangs, and one that does not say what it should."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.http.control import Control
from naproxy_webui.office.office import forget_office, office
from naproxy_webui.options import Settings

Answering = Callable[[bytes], None]


@pytest.fixture
def answering(settings: Settings) -> Iterator[Answering]:
    """Return a function that says what is answered in the controller's place from now on."""
    Path(settings.control_socket).parent.mkdir(parents=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(settings.control_socket)
    listener.listen()
    said = [b""]

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said[0])
                connection.sendall(head + said[0])

    threading.Thread(target=serve, daemon=True).start()
    yield lambda body: said.__setitem__(0, body)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_malformed_answer_makes_a_page_with_headers(
    answering: Answering, client: FlaskClient
) -> None:
    for body in (b"[]", b"null", b"7", b'{"office": 7, "box": []}', b'{"office": null}', b"{}"):
        answering(body)
        with client.application.app_context():
            forget_office()
        for path in ("/settings", "/update", "/api/now", "/api/settings", "/no-such-page"):
            answer = client.get(path)
            assert "Content-Security-Policy" in answer.headers, (body, path)
        assert client.get("/account").status_code == 200, body


def test_only_one_waits_for_a_hung_controller(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    health, hangs, asked, go = [0], [False], threading.Event(), threading.Event()

    def get(_: Control, path: str, **__: object) -> dict[str, object]:
        if path == "/v1/health":
            health[0] += 1
            if hangs[0]:
                asked.set()
                go.wait(10)
        return {}

    monkeypatch.setattr(Control, "get", get)
    said = {"ok": True, "controller": True}
    assert app.test_client().get("/api/health").json == said
    hangs[0] = True
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(app.test_client().get, "/api/health")
        assert asked.wait(10)
        assert [app.test_client().get("/api/health").json for _ in range(5)] == 5 * [said]
        go.set()
        assert waits.result().json == said
    assert health[0] == 2


def test_an_answer_from_before_a_change_is_not_used_after_it(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["before", "after"]

    def get(_: Control, path: str, **__: object) -> dict[str, object]:
        said = {"office": {"name": names[0]}}
        if len(names) > 1:  # somebody changes it while the answer is on its way
            names.pop(0)
            forget_office()
        return said

    monkeypatch.setattr(Control, "get", get)
    with app.test_request_context():
        office()
        assert office().name == "after"
