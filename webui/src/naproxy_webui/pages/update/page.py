"""/update: a new image for the box, looked at before it is written, and the way back."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import (
    ANY_OBJECT,
    array,
    boolean,
    choice,
    integer,
    nullable,
    obj,
    string,
)

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import t
from naproxy_webui.pages.uploads.uploads import uploads
from naproxy_webui.render import render

PAGE = Page(name="update", path="/update", place=60)
blueprint = Blueprint("update", __name__)

_ASK_S: Final = 60.0
"""RAUC may take a while on a small box."""

_REASON: Final = obj({"code": string(), "params": ANY_OBJECT})
_SLOT: Final = obj(
    {
        "name": string(),
        "booted": boolean(description="it runs now"),
        "boots_next": boolean(description="it runs after a restart"),
        "good": boolean(description="the boot loader may start it"),
        "version": string(description="empty: not written by an update"),
        "installed": string(description="ISO 8601, or empty"),
    }
)
_BUNDLE: Final = obj(
    {
        "board": string(),
        "version": string(),
        "description": string(),
        "build": string(),
        "signed_by": string(),
        "image_bytes": integer(),
    }
)
_JOB: Final = obj(
    {
        "phase": choice("none", "checking", "ready", "refused", "writing", "written", "failed"),
        "percent": integer(minimum=0, maximum=100),
        "step": string(),
        "bundle": nullable(_BUNDLE),
        "order": choice("newer", "same", "older", "unknown"),
        "error": string(description="why it was refused or failed, in words"),
        "error_reason": nullable(_REASON),
        "why": choice("", "signature", "format", "board", "file", "rauc"),
    }
)
_UPDATE: Final = obj(
    {
        "supported": boolean(),
        "problem": nullable(string(description="why nothing is known of the slots, in words")),
        "problem_reason": nullable(_REASON),
        "board": string(),
        "version": string(description="what runs"),
        "slots": array(_SLOT),
        "confirmed": nullable(boolean(description="what runs was found to be in order")),
        "job": _JOB,
    }
)
_REFUSALS: Final = (409, 502)


@blueprint.get("/update")
def page() -> str:
    """Show the page; all of it comes from the API."""
    return render("update.html")


@route(
    blueprint,
    "GET",
    "/api/update",
    summary="Which image runs, and how far an update is",
    answer=_UPDATE,
)
def update() -> Any:
    """Return what the controller has, in the user's language."""
    return _told(control().get("/v1/update", timeout_s=_ASK_S))


@route(
    blueprint,
    "POST",
    "/api/update/check",
    summary="Look at an image that was uploaded; nothing is written",
    body=obj({"upload": string(minLength=1, maxLength=100)}),
    answer=_UPDATE,
    status=HTTPStatus.ACCEPTED,
    refusals=(404, *_REFUSALS),
)
def check(body: dict[str, Any]) -> Any:
    """Have the controller copy and verify it."""
    found = uploads().get(body["upload"])
    if not found.complete or found.kind != "image":
        raise ApiError(HTTPStatus.CONFLICT, t("update.not_whole"), "upload")
    uploads().touch(found)
    return _ask("POST", "/check", {"file": str(uploads().path(found).absolute())})


@route(
    blueprint,
    "POST",
    "/api/update/install",
    summary="Write what was looked at; `older`: also if it is not newer than what runs",
    body=obj({"older": boolean()}),
    answer=_UPDATE,
    status=HTTPStatus.ACCEPTED,
    refusals=_REFUSALS,
)
def install(body: dict[str, Any]) -> Any:
    """Begin to write."""
    return _ask("POST", "/install", body)


@route(
    blueprint,
    "POST",
    "/api/update/activate",
    summary="Have the other image run after a restart, or the one that runs now after all",
    body=obj({"slot": choice("other", "booted")}),
    answer=_UPDATE,
    refusals=_REFUSALS,
)
def activate(body: dict[str, Any]) -> Any:
    """Tell the boot loader."""
    return _ask("POST", "/activate", body)


@route(
    blueprint,
    "DELETE",
    "/api/update",
    summary="Forget what was looked at",
    answer=_UPDATE,
    refusals=_REFUSALS,
)
def forget() -> Any:
    """Forget it."""
    return _ask("DELETE", "", {})


@route(
    blueprint,
    "POST",
    "/api/update/restart",
    summary="Restart the box",
    body=obj({}),
    answer=obj({}),
    status=HTTPStatus.ACCEPTED,
    refusals=_REFUSALS,
)
def restart(body: dict[str, Any]) -> Any:
    """Restart the whole machine."""
    control().post("/v1/box/reboot", body)
    return {}


def _ask(method: str, path: str, body: object) -> Any:
    return _told(control().ask(method, f"/v1/update{path}", body, _ASK_S))


def _told(said: dict[str, Any]) -> Any:
    return {**in_words(said, "problem"), "job": in_words(said["job"], "error")}
