"""/update: a new image for the box, looked at before it is written, and the way back."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from naproxy.api.shapes import obj, string
from naproxy.api.table import ROUTES

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import t
from naproxy_webui.pages.uploads.uploads import uploads
from naproxy_webui.render import render

blueprint = Page("update", __name__, "/update", place=60)

_CHECK: Final = ROUTES["update.check"]


@blueprint.get("/update")
def page() -> str:
    """Show the page; all of it comes from the API."""
    return render("update.html")


def _told(said: dict[str, Any]) -> Any:
    """Return what the controller has, in the user's language."""
    return {**in_words(said, "problem"), "job": in_words(said["job"], "error")}


mount(blueprint, "update", "/api/update", then=_told)
mount(blueprint, "update.install", "/api/update/install", then=_told)
mount(blueprint, "update.activate", "/api/update/activate", then=_told)
mount(blueprint, "update.forget", "/api/update", then=_told)
mount(blueprint, "box.reboot", "/api/update/restart", answer=obj({}))


@route(
    blueprint,
    "POST",
    "/api/update/check",
    body=obj(upload=string(minLength=1, maxLength=100)),
    answer=_CHECK.answer,
    status=_CHECK.status,
    refusals=(404, *_CHECK.refusals),
)
def check(body: dict[str, Any]) -> Any:
    """Look at an image that was uploaded; nothing is written."""
    found = uploads().get(body["upload"])
    if not found.complete or found.kind != "image":
        raise ApiError(HTTPStatus.CONFLICT, t("update.not_whole"), "upload")
    uploads().touch(found)
    file = {"file": str(uploads().path(found).absolute())}
    return _told(control().call("update.check", file))
