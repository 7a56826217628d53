"""What the tests of the web interface share: the application, and a real controller."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.app import create_app
from naproxy_webui.settings import Settings

sys.path.append(str(Path(__file__).parents[2] / "package/naproxy/tests"))

from box import Box


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """No controller runs there; `box` starts one."""
    return Settings(
        data_dir=tmp_path / "data",
        state_dir=tmp_path / "webui",
        run_dir=tmp_path / "run-webui",
        control_socket=str(tmp_path / "run/control.sock"),
    )


@pytest.fixture
def app(settings: Settings) -> Flask:
    return create_app(settings)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """The administrator's browser."""
    return app.test_client()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A real controller process with one server that can sleep."""
    made = Box(tmp_path).start()
    yield made
    made.close()
