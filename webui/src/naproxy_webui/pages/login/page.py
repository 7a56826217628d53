"""/login and /api/logout."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from flask import Response, g, make_response, request
from naproxy.api.routes import JSON
from naproxy.api.shapes import boolean, obj

from naproxy_webui.auth import guard
from naproxy_webui.http.access import access
from naproxy_webui.http.api import json_response, route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.render import render

blueprint = Page("login", __name__, "/login")


@blueprint.get("/login")
@access(open=True)
def page() -> Response:
    """Show the form; who is logged in already goes on."""
    if not guard.keys().users.exist():
        return guard.redirect_to("/claim")
    goal = destination(request.args.get("next", ""))
    if g.user is not None:
        return guard.redirect_to(goal)
    return _form(goal)


@blueprint.post("/login")
@access(open=True)
def log_in() -> Response:
    """Begin a session, or say why not.

    A page that is open, whose session has ended, asks for JSON: `csrf` is what its changes carry
    from now on.
    """
    name, goal = request.form.get("name", ""), destination(request.form.get("next", ""))
    on_page = request.accept_mimetypes.best == JSON
    try:
        user = guard.check_password(name, request.form.get("password", ""))
    except ApiError as refused:
        if on_page:
            raise
        return _form(goal, name, refused)
    session, secret = guard.begin(user)
    made = json_response({"csrf": session.csrf}) if on_page else guard.redirect_to(goal)
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
    words = refused.words if refused else None
    status = refused.status if refused else HTTPStatus.OK
    made = make_response(render("login.html", next=goal, name=name[:100], error=words), status)
    made.headers.update(refused.headers if refused else {})
    return made
