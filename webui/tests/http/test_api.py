"""The API matches its description: checks of it, and schemathesis against a real server."""

from __future__ import annotations

import http.client
import json
import os
import re
import socketserver
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from box import Box
from flask import Flask
from flask.testing import FlaskClient
from naproxy.api.routes import Route
from server import PASSWORD, WebUi

NOT_FUZZED = (
    r"^/api/(setup|box|update)"  # these change networks, clocks, power: tested separately
    # Too large bodies are refused in plain text before the application: test_settings_https.
    r"|^/api/certificates"
    r"|^/api/(logout|users/|account/(password|sessions))"  # would lock itself out
)
SECONDS = {"token": 20, "session": 15, "nobody": 8}
"""Time for each identity: most cases are the same each time (coverage), the rest are random."""
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance", "negative_data_rejection"),
    *("missing_required_header", "unsupported_method"),
)


def test_every_address_has_one_view(app: Flask) -> None:
    found = Counter(
        (method, re.sub(r"<[^>]*>", "<>", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    )
    assert [each for each, count in found.items() if count > 1] == []


def test_every_route_of_the_api_is_described(app: Flask, client: FlaskClient) -> None:
    description = client.get("/api/openapi.json").json
    assert description["openapi"] == "3.1.0"
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(("/api/", "/metrics")):
            path = re.sub(r"<(?:[^:>]*:)?(\w+)>", r"{\1}", rule.rule)
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                assert method.lower() in description["paths"][path], (method, path)
    operations = [each for path in description["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"] for each in operations)


def test_bodies_are_described_only_with_checked_keywords(app: Flask) -> None:
    for view in app.view_functions.values():
        declared = getattr(view, "naproxy_route", None)
        if isinstance(declared, Route) and declared.body_media == "application/json":
            for shape in (declared.body, declared.answer):
                assert_known(shape)


def assert_known(shape: Any) -> None:
    """Fail for a key of JSON Schema that shapes.check would pass over."""
    known = {
        *("type", "enum", "properties", "required", "additionalProperties", "items", "minItems"),
        *("maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "description"),
    }
    if shape is None:
        return
    assert set(shape) <= known, shape
    for below in (*shape.get("properties", {}).values(), shape.get("items")):
        assert_known(below)


class Emptied(socketserver.StreamRequestHandler):
    """Varnish's answer to the controller that has it empty the cache."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 Emptied\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebUi, Path]]:
    """A claimed box with a real controller; and its description in a file."""
    folder = tmp_path_factory.mktemp("api")
    box = Box(folder).start()
    webui = WebUi(folder, folder / "run/control.sock")
    with socketserver.ThreadingUnixStreamServer(str(folder / "run/box.sock"), Emptied) as varnish:
        threading.Thread(target=varnish.serve_forever, args=(0.02,), daemon=True).start()
        yield webui, folder
        varnish.shutdown()
    webui.close()
    box.close()


def ask(webui: WebUi, method: str, path: str, headers: dict[str, str], body: object = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", webui.port, timeout=20)
    sent = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{webui.port}"}
    connection.request(method, path, json.dumps(body), {**sent, **headers})
    return connection.getresponse().read().decode()


@pytest.fixture(scope="module")
def credentials(stage: tuple[WebUi, Path]) -> dict[str, dict[str, str]]:
    """Headers of a program with a token, of a browser that is logged in, of nobody."""
    webui, folder = stage
    cookie = {"Cookie": webui.claim()}
    found = re.search(r'csrf-token" content="([^"]+)', ask(webui, "GET", "/account", cookie))
    assert found
    session = {**cookie, "X-CSRF-Token": found[1], "Origin": f"http://127.0.0.1:{webui.port}"}
    token = {"name": "fuzz", "scope": "change"}
    made = json.loads(ask(webui, "POST", "/api/account/tokens", session, token))
    description = json.loads(ask(webui, "GET", "/api/openapi.json", cookie))
    description = with_names(description)
    (folder / "token.json").write_text(json.dumps(description))
    # Headers that we pass must not be parameters, because schemathesis may leave these out.
    description = without_security(description)
    for who in ("session", "nobody"):
        (folder / f"{who}.json").write_text(json.dumps(description))
    return {
        "token": {"Authorization": f"Bearer {made['secret']}"},
        "session": session,
        "nobody": {},
    }


def with_names(description: dict[str, Any]) -> dict[str, Any]:
    """Name the server there is: no program guesses it."""
    for operations in description["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in ("server", "name"):
                    parameter["schema"] = {"anyOf": [{"const": "web"}, parameter["schema"]]}
    return description


def without_security(description: dict[str, Any]) -> dict[str, Any]:
    del description["components"]["securitySchemes"], description["security"]
    for operations in description["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    return description


@pytest.mark.parametrize(
    "who", ["token", *(pytest.param(n, marks=pytest.mark.long) for n in ("session", "nobody"))]
)
def test_schemathesis_finds_nothing(
    stage: tuple[WebUi, Path], credentials: dict[str, dict[str, str]], who: str
) -> None:
    webui, folder = stage
    checks = (*CHECKS, "ignored_auth") if who == "token" else CHECKS
    headers = [f"{name}: {value}" for name, value in credentials[who].items()]
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("schemathesis"), "run", folder / f"{who}.json"),
            *("--url", f"http://127.0.0.1:{webui.port}", "--phases", "coverage,fuzzing"),
            *("--max-examples", "8", "--max-time", str(SECONDS[who])),
            *("--seed", os.environ.get("SEED", "1")),
            *("--checks", ",".join(checks), "--exclude-path-regex", NOT_FUZZED),
            *("--continue-on-failure", "--no-color", "--warnings", "off"),
            *(part for header in headers for part in ("-H", header)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-2000:]
    assert "Traceback" not in webui.log.read_text()


def test_the_password_was_not_changed_by_it(stage: tuple[WebUi, Path]) -> None:
    form = urlencode({"name": "anna", "password": PASSWORD})
    assert stage[0].call("POST", "/login", form).status == 303
