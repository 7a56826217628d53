"""The application: `create_app` puts it together, nothing is done at import."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from flask import Flask, Response, make_response, request
from werkzeug.exceptions import HTTPException

from naproxy_webui import history, render
from naproxy_webui.api import json_response
from naproxy_webui.control import Control
from naproxy_webui.errors import ApiError
from naproxy_webui.page import discover
from naproxy_webui.settings import Settings

MOST_BODY_BYTES: Final = 1 << 20


def create_app(settings: Settings) -> Flask:
    """Return the web interface of one box."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES
    app.extensions["naproxy_settings"] = settings
    app.extensions["naproxy_control"] = Control(settings.control_socket)
    found = list(discover())
    for _, blueprint in found:
        app.register_blueprint(blueprint)
    app.extensions["naproxy_static_version"] = _static_version(app)
    render.install(app, [page for page, _ in found])
    history.install(app)
    app.register_error_handler(ApiError, _refused)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _fault)
    return app


def _static_version(app: Flask) -> str:
    """Return what changes in the addresses of static files when one of them changes."""
    assert app.static_folder
    from pathlib import Path  # noqa: PLC0415

    newest = max((f.stat().st_mtime_ns for f in Path(app.static_folder).rglob("*")), default=0)
    return format(newest // 1_000_000, "x")


def _wants_json() -> bool:
    return request.path.startswith("/api/")


def _refused(error: ApiError) -> Response:
    if _wants_json():
        return json_response(error.body, error.status)
    page = render.render("error.html", status=int(error.status), words=error.words)
    return make_response(page, int(error.status))


def _http_error(error: HTTPException) -> Response:
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    if error.response is not None or status < HTTPStatus.BAD_REQUEST:
        return make_response(error.get_response())
    return _refused(ApiError(status, f"{error.name}: {error.description}"))


def _fault(error: Exception) -> Response:
    from flask import current_app  # noqa: PLC0415

    current_app.logger.error("fault at %s", request.path, exc_info=error)
    return _refused(ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault in Naproxy; see its log"))
