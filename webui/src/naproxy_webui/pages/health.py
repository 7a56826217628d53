"""/api/health: whether the web interface answers, and the controller behind it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from naproxy_webui.api import route
from naproxy_webui.control import control
from naproxy_webui.errors import ApiError
from naproxy_webui.page import Page
from naproxy_webui.shapes import boolean, obj

PAGE = Page(name="health", path="/api/health")
blueprint = Blueprint("health", __name__)


@route(
    blueprint,
    "GET",
    "/api/health",
    summary="Whether the web interface and the controller answer",
    answer=obj({"ok": boolean(), "controller": boolean()}),
    open=True,
)
def health() -> Any:
    """Say that we are here, and whether the controller is."""
    try:
        control().get("/v1/health", timeout_s=2.0)
    except ApiError:
        return {"ok": True, "controller": False}
    return {"ok": True, "controller": True}
