"""The way of the agent: access to the code and the key, and the script as run on a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_front import Front, by_agent, call, paste
from box import Box
from conftest import PASSWORD, Clock
from flask import Flask
from flask.testing import FlaskClient
from naproxy.setup import agent_files
from naproxy_webui.pages.setup import agent

HTTPS = "https://localhost"
OURS = {"Sec-Fetch-Site": "none", "Content-Type": "text/plain"}


@pytest.fixture
def code(box: Box) -> str:
    by_agent(box)
    found: str = call(box, "POST", "/v1/servers/web/agent/code", {})["code"]
    return found


@pytest.fixture
def server(app: Flask, client: FlaskClient) -> FlaskClient:
    """A server's client: without cookie and origin."""
    return app.test_client()


def fetch(server: FlaskClient, code: str | bytes, headers: Any = OURS, where: str = HTTPS) -> Any:
    return server.post("/agent/key", base_url=where, data=code, headers=headers)


def test_a_key_is_given_once_for_a_code(server: FlaskClient, code: str) -> None:
    answer = fetch(server, code)
    assert (answer.status_code, answer.mimetype) == (200, "text/plain")
    assert re.fullmatch(r"[0-9a-f]{64}\n", answer.text)
    assert answer.headers["Cache-Control"] == "no-store"
    again = fetch(server, code)
    assert again.status_code == 403
    assert "works once" in again.text


def test_another_site_and_plain_http_get_no_key_and_spend_no_code(
    server: FlaskClient, code: str
) -> None:
    for headers, where in (
        ({}, HTTPS),
        ({"Origin": "https://evil.example"}, HTTPS),
        ({"Sec-Fetch-Site": "cross-site"}, HTTPS),
        ({"Sec-Fetch-Site": "none", "Origin": "null"}, HTTPS),
        (OURS, "http://localhost"),
    ):
        assert fetch(server, code, headers, where).status_code == 403, (headers, where)
    assert fetch(server, code).status_code == 200


def test_an_invalid_code_gets_no_key(server: FlaskClient, code: str, clock: Clock) -> None:
    for guess in (b"", b"\x00\xff" * 9, b"x" * 65, b"x" * 9999, b"../../x"):
        assert fetch(server, guess).status_code == 403, guess
    clock.now_s += 900
    assert fetch(server, code).status_code == 200


def test_guesses_from_one_address_get_slower_and_keep_nobody_from_logging_in(
    server: FlaskClient, code: str, clock: Clock, visitor: FlaskClient
) -> None:
    said = [fetch(server, f"guess-{n}").status_code for n in range(8)]
    assert said[:5] == [403] * 5
    assert said[-1] == 429
    assert fetch(server, code).status_code == 429
    form = {"name": "anna", "password": PASSWORD}
    assert visitor.post("/login", data=form).status_code == 303
    clock.now_s += 900
    assert fetch(server, code).status_code == 200


def test_only_an_administrator_who_is_logged_in_gets_a_code_or_sees_a_key(
    client: FlaskClient, viewer: FlaskClient, program: Any, box: Box
) -> None:
    by_agent(box)
    for path in ("/api/setup/agent", "/api/setup/agent/key"):
        assert viewer.post(path, json={}).status_code == 403
        assert program("change").post(path, json={}).status_code == 403
    shown = client.post("/api/setup/agent/key", json={})
    assert re.fullmatch(r"[0-9a-f]{64}", shown.json["key"])


def test_a_page_that_came_by_plain_http_has_no_text_to_paste(client: FlaskClient, box: Box) -> None:
    by_agent(box)
    answer = client.post("/api/setup/agent", json={}).json
    assert answer == {"script": None, "sha256": agent_files.digest(), "left_s": 0}


def test_the_text_names_the_box_by_an_address_that_a_url_may_have(app: Flask) -> None:
    for asked, address, box in (
        ("[fd00::5]", None, "https://[fd00::5]:443"),
        ("[fd00::5]:8443", None, "https://[fd00::5]:8443"),
        ("box.local:8443", None, "https://box.local:8443"),
        ("box.local", "fd00::7", "https://[fd00::7]:443"),
    ):
        with app.test_request_context(base_url=f"https://{asked}"):
            assert f"https://{agent._host(address)}:{agent._port()}" == box, (asked, address)


def test_the_program_is_public_and_matches_its_checksum(server: FlaskClient) -> None:
    answer = server.get("/agent/naproxy-agent.tar.gz")
    assert answer.status_code == 200
    assert answer.data == agent_files.packed()


# A server that runs the text, before lighttpd with TLS, the web interface and a controller


@pytest.fixture
def front(tmp_path: Path, box: Box) -> Iterator[Front]:
    (tmp_path / "front").mkdir()
    made = Front(tmp_path / "front", box)
    yield made.claim()
    made.close()


def test_an_impostor_of_the_box_is_not_asked_for_a_key(
    tmp_path: Path, box: Box, front: Front
) -> None:
    by_agent(box)
    text = front.script()
    pin = re.search(r"sha256//([A-Za-z0-9+/]{43}=)", text)
    assert pin
    other = text.replace(pin[1], "A" * 43 + "=")
    refused = paste(tmp_path / "server", other)
    assert refused.returncode == 1
    assert "the box did not answer" in refused.stderr
    assert call(box, "GET", "/v1/servers/web/agent")["state"] == "waiting"
