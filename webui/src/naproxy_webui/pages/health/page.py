"""/api/health: whether the web interface answers, and the controller behind it."""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

from flask import Blueprint, current_app
from naproxy.api.shapes import boolean, obj

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError

blueprint = Blueprint("health", __name__)

_KEPT: Final = "naproxy_health"


@route(
    blueprint,
    "GET",
    "/api/health",
    answer=obj(ok=boolean(), controller=boolean()),
    open=True,
)
def health() -> Any:
    """Whether the web interface and the controller answer.

    Anybody may ask: one waits for a controller that hangs, the others get what was so before.
    """
    kept: dict[str, Any] = current_app.extensions.setdefault(_KEPT, {"lock": Lock(), "was": False})
    if kept["lock"].acquire(blocking="was_asked" not in kept):
        try:
            control().get("/v1/health", timeout_s=2.0)
            kept["was"] = True
        except ApiError:
            kept["was"] = False
        finally:
            kept["was_asked"] = True
            kept["lock"].release()
    return {"ok": True, "controller": kept["was"]}
