"""The process itself, without lighttpd, against hostile clients."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from naproxy_webui.main import main
from server import MOST_GUESSES, PASSWORD, WebUi, read_all

MOST_PSS_KB = 45_000
"""The web interface's share of a box with 512 MB."""


@pytest.fixture
def webui(tmp_path: Path) -> Iterator[WebUi]:
    made = WebUi(tmp_path)
    yield made
    made.close()


def raw(webui: WebUi, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", webui.port), timeout=10) as sock:
        with suppress(OSError):  # the answer may come, and the end, before all is sent
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


def test_it_takes_less_memory_than_it_may(webui: WebUi) -> None:
    cookie = webui.claim()
    before_kb = webui.pss_kb()
    form = urlencode({"name": "anna", "password": PASSWORD})
    for _ in range(2):
        assert webui.call("POST", "/login", form).status == 303
    assert webui.pss_kb() < before_kb + 4000  # the 16 MiB of a check are given back
    for path in ("/", "/account", "/api/account", "/api/openapi.json"):
        webui.call("GET", path, Cookie=cookie)
    assert webui.pss_kb() < MOST_PSS_KB


def test_a_clients_claimed_address_and_scheme_are_ignored(webui: WebUi) -> None:
    said: list[int] = []
    while 429 not in said and len(said) < MOST_GUESSES:
        lies = {"X-Forwarded-For": f"198.51.100.{len(said)}", "X-Forwarded-Proto": "https"}
        answer = webui.call("POST", "/claim", "code=x", **lies)
        assert "Set-Cookie" not in answer.headers
        said.append(answer.status)
    # Refused for the code, not for the Origin: that is of http, as the connection.
    assert (said[:5], said[-1]) == ([403] * 5, 429)


def test_hostile_bytes_get_an_error_and_nothing_else(webui: WebUi) -> None:
    for sent in (
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /static/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/x/..%2f..%2f..%2fguard.py HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/x//etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/x/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /login?next=%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /login HTTP/1.1\r\nHost: localhost\r\nCookie: naproxy=\xff\x00\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        answer = raw(webui, sent)
        status = re.match(rb"HTTP/1\.[01] (\d+)", answer)
        assert status is None or status[1] in (
            b"303",
            b"308",
            b"400",
            b"404",
            b"413",
            b"421",
            b"431",
        ), sent
        for secret in (b"root:", b"import ", b"Traceback", b"Set-Cookie"):
            assert secret not in answer, sent
        assert webui.call("GET", "/api/health").status == 200, sent


def test_those_who_dawdle_do_not_keep_others_out(webui: WebUi) -> None:
    dawdlers = [socket.create_connection(("127.0.0.1", webui.port)) for _ in range(20)]
    for sock in dawdlers:
        sock.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nn")
    assert webui.call("GET", "/api/health").status == 200
    for sock in dawdlers:
        sock.close()


def test_users_forgotten_by_the_command_can_be_claimed_again(tmp_path: Path) -> None:
    webui = WebUi(tmp_path)
    webui.claim()
    webui.close()
    folders = ("--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run-webui"))
    console = tmp_path / "console"
    assert main([*folders, "--forget-users", "--announce", str(console)]) == 0
    assert "claim code" in console.read_text()
    again = WebUi(tmp_path)
    assert again.claim_code() in console.read_text()
    again.close()
