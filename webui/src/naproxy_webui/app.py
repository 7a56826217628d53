"""The application: `create_app` puts it together, nothing is done at import."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

from flask import Flask, Response, current_app, make_response, request
from naproxy.api.routes import JSON
from naproxy.api.shapes import ShapeError
from werkzeug.exceptions import HTTPException

from naproxy_webui import render
from naproxy_webui.auth import guard, passwords
from naproxy_webui.http import headers, static_files
from naproxy_webui.http.api import json_response
from naproxy_webui.http.control import Control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import has, t
from naproxy_webui.office import history
from naproxy_webui.office.office import office
from naproxy_webui.options import Settings
from naproxy_webui.pages import discover

_MISDIRECTED = HTTPStatus.MISDIRECTED_REQUEST


def create_app(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
    cost: Callable[[], passwords.Cost] = passwords.measured,
) -> Flask:
    """Return the web interface of one box; `clock`, `now` and `cost` are the tests' to change."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = guard.MOST_BODY_BYTES
    app.extensions["naproxy_settings"] = settings
    app.extensions["naproxy_office_language"] = lambda: office().language
    app.extensions["naproxy_control"] = Control(settings.control_socket)
    guard.install(app, settings, clock=clock, now=now, cost=cost)
    found = list(discover())
    for blueprint in found:
        app.register_blueprint(blueprint)
    static_files.install(app)
    render.install(app, [page for page in found if isinstance(page, Page)])
    history.install(app)
    headers.install(app)
    app.register_error_handler(ApiError, _refused)
    app.register_error_handler(ShapeError, _misshapen)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _fault)
    return app


def _wants_json() -> bool:
    # A page that signs in again asks for it at /login too.
    return request.path.startswith(("/api/", "/metrics")) or request.accept_mimetypes.best == JSON


def _refused(error: ApiError) -> Response:
    if _wants_json():
        made = json_response(error.body, error.status)
    else:
        # A request for another host gets no links into this site.
        template = "bare.html" if error.status == _MISDIRECTED else "error.html"
        page = render.render(template, status=int(error.status), words=error.words)
        made = make_response(page, int(error.status))
    made.headers.update(error.headers)
    return made


def _misshapen(error: ShapeError) -> Response:
    return _refused(ApiError(HTTPStatus.BAD_REQUEST, error.reason, error.where))


def _http_error(error: HTTPException) -> Response:
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    if error.response is not None or status < HTTPStatus.BAD_REQUEST:
        return make_response(error.get_response())
    key = f"base.status.{status}"
    made = _refused(ApiError(status, t(key) if has(key) else f"{error.name}: {error.description}"))
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After"):
            made.headers[name] = value
    return made


def _fault(error: Exception) -> Response:
    current_app.logger.error("fault at %s", request.path, exc_info=error)
    return _refused(ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, t("base.fault")))
