"""Routes of the controller that the web interface only passes on."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Blueprint, Flask
from flask.testing import FlaskClient
from naproxy.api.shapes import obj, string
from naproxy.api.table import ROUTES
from naproxy_webui.http.control import Control
from naproxy_webui.http.mount import mount

ASKED: list[tuple[Any, ...]] = []


@pytest.fixture
def mounted(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """The application with a blueprint of mounted routes; the controller says the same to all."""
    ASKED.clear()

    def ask(_: Control, *asked: Any) -> dict[str, Any]:
        ASKED.append(asked)
        return {"state": "waking", "more": 1}

    monkeypatch.setattr(Control, "ask", ask)
    made = Blueprint("mounted", __name__)
    mount(made, "server.wake", "/api/m/<server>/wake", answer=obj({"state": string()}))
    mount(made, "server.pin", "/api/m/pin", server=lambda named: named or "web")
    mount(made, "server.host_key", "/api/m/pin", server=lambda named: named or "web")
    mount(made, "box.logs", "/api/m/logs", then=lambda said: {**said, "then": True})
    app.register_blueprint(made)
    return app


def test_a_mounted_route_is_as_the_table_declares_it(mounted: Flask) -> None:
    view: Any = mounted.view_functions["mounted.box_logs"]
    declared = view.naproxy_route
    assert (declared.path, declared.query) == ("/api/m/logs", ROUTES["box.logs"].query)
    assert view.naproxy_access == ROUTES["box.logs"].access


def test_path_query_and_body_are_passed_on_and_only_the_declared_answer_comes_back(
    mounted: Flask, client: FlaskClient
) -> None:
    answer = client.post("/api/m/web/wake", json={})
    assert (answer.status_code, answer.json) == (202, {"state": "waking"})
    assert ASKED[-1][:3] == ("POST", "/v1/servers/web/wake", {})
    answer = client.get("/api/m/logs?source=system&limit=5")
    assert answer.json == {"state": "waking", "more": 1, "then": True}
    assert ASKED[-1][1] == "/v1/box/logs?source=system&limit=5"
    assert client.get("/api/m/logs?limit=0").status_code == 400


def test_a_request_may_name_the_server(mounted: Flask, client: FlaskClient) -> None:
    pin = {"fingerprint": "SHA256:abcdef"}
    assert client.put("/api/m/pin", json={**pin, "server": "shop"}).status_code == 200
    assert ASKED[-1][:3] == ("PUT", "/v1/servers/shop/host-key", pin)
    assert client.put("/api/m/pin", json=pin).status_code == 200
    assert ASKED[-1][1] == "/v1/servers/web/host-key"
    assert client.get("/api/m/pin?server=shop").status_code == 200
    assert ASKED[-1][1] == "/v1/servers/shop/host-key"
