"""/api/openapi.json: the API's description, from the declarations of its routes."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, current_app

from naproxy_webui.http.api import route

blueprint = Blueprint("description", __name__)


@route(
    blueprint,
    "GET",
    "/api/openapi.json",
)
def openapi() -> Any:
    """This description: OpenAPI 3.1."""
    from naproxy_webui.http.openapi import describe  # noqa: PLC0415 - asked for rarely

    return describe(current_app)
