"""/login, its second step and /api/logout."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from flask import Response, g, make_response, request
from naproxy.api.routes import JSON
from naproxy.api.shapes import boolean, obj

from naproxy_webui.auth import guard
from naproxy_webui.auth.second import same_password
from naproxy_webui.auth.users import User
from naproxy_webui.http.access import access
from naproxy_webui.http.api import json_response, route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import t
from naproxy_webui.render import render

blueprint = Page("login", __name__, "/login")


@blueprint.get("/login")
@access(open=True)
def page() -> Response:
    """Show the form; redirect users who are already logged in."""
    if not guard.keys().users.exist():
        return guard.redirect_to("/claim")
    goal = destination(request.args.get("next", ""))
    if g.user is not None:
        return guard.redirect_to(goal)
    return _form(goal)


@blueprint.post("/login")
@access(open=True)
def log_in() -> Response:
    """Begin a session, ask for the code of a second factor, or say why not.

    A page that is open, whose session has ended, asks for JSON. Its changes carry `csrf` from now
    on; the code is sent with `step`.
    """
    name, goal = request.form.get("name", ""), destination(request.form.get("next", ""))
    try:
        user = guard.check_password(name, request.form.get("password", ""))
    except ApiError as refused:
        if _on_page():
            raise
        return _form(goal, name, refused)
    keys = guard.keys()
    if keys.seconds.of(user) is None:
        return _signed_in(user, goal)
    step = keys.waiting.begin(user, keys.users.digest(user))
    if _on_page():
        return json_response({"csrf": None, "step": step})
    return _code_form(goal, step)


@blueprint.post("/login/code")
@access(open=True)
def log_in_by_code() -> Response:
    """Begin a session with a second factor's code, after the right password."""
    keys, step = guard.keys(), request.form.get("step", "")
    goal = destination(request.form.get("next", ""))
    number, password = keys.waiting.find(step) or (0, b"")
    user = keys.users.get(number)
    try:
        if user is None or not same_password(password, keys.users.digest(user)):
            raise _too_late()
        guard.check_code(user, request.form.get("code", ""))
        if not keys.waiting.end(step):
            raise _too_late()
    except ApiError as refused:
        if _on_page():
            raise
        return _code_form(goal, step, refused) if refused.where else _form(goal, "", refused)
    return _signed_in(user, goal)


def _too_late() -> ApiError:
    return ApiError(HTTPStatus.FORBIDDEN, t("login.code_late"))


def _on_page() -> bool:
    return request.accept_mimetypes.best == JSON


def _signed_in(user: User, goal: str) -> Response:
    session, secret = guard.begin(user)
    made = json_response({"csrf": session.csrf}) if _on_page() else guard.redirect_to(goal)
    return guard.with_cookie(made, secret)


@route(blueprint, "POST", "/api/logout", answer=obj(ok=boolean()), role="viewer", scope="session")
def log_out() -> Any:
    """End this session."""
    return guard.log_out(json_response({"ok": True}))


def destination(wanted: str) -> str:
    """Return where to go after login: a path of ours, never another site."""
    good = re.fullmatch(r"/(?!/)[A-Za-z0-9._~/?&=%:+-]{0,500}", wanted)
    return wanted if good else "/"


def _form(goal: str, name: str = "", refused: ApiError | None = None) -> Response:
    return _shown("login.html", refused, next=goal, name=name[:100])


def _code_form(goal: str, step: str, refused: ApiError | None = None) -> Response:
    return _shown("login_code.html", refused, next=goal, step=step)


def _shown(template: str, refused: ApiError | None, **values: str) -> Response:
    words = refused.words if refused else None
    status = refused.status if refused else HTTPStatus.OK
    made = make_response(render(template, error=words, **values), status)
    made.headers.update(refused.headers if refused else {})
    return made
