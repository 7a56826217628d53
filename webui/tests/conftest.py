"""Shared by the tests of the web interface: the application, browsers, a real controller."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import settings
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from naproxy_webui.app import create_app
from naproxy_webui.auth.guard import Keys
from naproxy_webui.auth.passwords import Cost
from naproxy_webui.http import static_files
from naproxy_webui.options import Settings

sys.path.append(str(Path(__file__).parents[2] / "package/naproxy/tests"))

from box import Box
from history_past import Past, known
from naproxy.core.state import State
from server import PASSWORD

# The same examples every time, however slow the machine is.
settings.load_profile("ci")

CHEAP = Cost(n=2, r=1, p=1)
"""Tests log in often."""
ORIGIN = "http://localhost"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Those of a box without a controller, or with the one of this module's tests."""
    made = Settings(
        data_dir=tmp_path / "data",
        state_dir=tmp_path / "webui",
        run_dir=tmp_path / "run-webui",
        control_socket=str(tmp_path / "run/control.sock"),
        fingerprint=tmp_path / "fingerprint",
    )
    if "started" not in request.fixturenames:
        return made
    started: Box = request.getfixturevalue("started")
    control_socket = str(started.run_dir / "control.sock")
    return replace(made, control_socket=control_socket, data_dir=started.data_dir)


@pytest.fixture(scope="session", autouse=True)
def static_files_hashed_once() -> Iterator[None]:
    """Hash each static file once for all applications."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(static_files, "_version", cache(static_files._version))
        yield


class Compiled(BytecodeCache):
    """Has each template compiled once for all applications."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


@pytest.fixture
def app(settings: Settings, clock: Clock) -> Flask:
    made = create_app(settings, clock=clock, cost=lambda: CHEAP)
    made.jinja_env.bytecode_cache = COMPILED
    return made


@pytest.fixture
def keys(app: Flask) -> Keys:
    found: Keys = app.extensions["naproxy_keys"]
    return found


def browser(app: Flask, name: str, role: str) -> FlaskClient:
    """Return a browser in which somebody of this name is logged in."""
    keys: Keys = app.extensions["naproxy_keys"]
    with app.test_request_context():
        user = next((u for u in keys.users.all() if u.name == name), None)
        user = user or keys.users.add(name, PASSWORD, role)
    session, secret = keys.sessions.begin(user.id, "192.0.2.1", "Firefox")
    client = app.test_client()
    client.set_cookie("naproxy", secret)
    client.environ_base |= {"HTTP_ORIGIN": ORIGIN, "HTTP_X_CSRF_TOKEN": session.csrf}
    return client


def stranger(app: Flask) -> FlaskClient:
    """Return a browser in which nobody is logged in."""
    made = app.test_client()
    made.environ_base |= {"HTTP_ORIGIN": ORIGIN}
    return made


def speak(client: FlaskClient, language: str) -> None:
    """Have its user read this language from now on."""
    answer = client.put("/api/account/language", json={"language": language})
    assert answer.status_code == 200


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """The administrator's browser, logged in; it sends the headers of our pages."""
    return browser(app, "anna", "admin")


@pytest.fixture
def viewer(app: Flask, client: FlaskClient) -> FlaskClient:
    """The browser of a viewer."""
    return browser(app, "vera", "viewer")


@pytest.fixture
def visitor(app: Flask, client: FlaskClient) -> FlaskClient:
    """The browser of somebody who is not logged in, on a box that was claimed."""
    return stranger(app)


@pytest.fixture
def program(app: Flask, keys: Keys, client: FlaskClient) -> Any:
    """Return a function that makes a program's client, with a token of a scope."""

    def make(scope: str) -> FlaskClient:
        with app.test_request_context():
            _, secret = keys.tokens.make(keys.users.all()[0], "a test", scope)
        made = app.test_client()
        made.environ_base |= {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
        return made

    return make


@pytest.fixture
def past(settings: Settings, app: Flask) -> Iterator[Past]:
    """A history of an office whose controller answers, with a meter of the server's."""
    made = Past(settings)
    known(app)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A real controller process with one server that can sleep, for all tests of a module."""
    made = Box(tmp_path_factory.mktemp("box")).start()
    yield made
    made.close()


@pytest.fixture
def box(started: Box) -> Iterator[Box]:
    """The same; each test begins with the same configuration and with the server awake."""
    before = started.file.read_bytes()
    started.wait(State.AWAKE)
    yield started
    started.server.leads = b""
    assert started.call("PUT", "/v1/config", before)[0] == 200
    if started.record().state != State.AWAKE:
        assert started.post("wake")[0] == 202
