"""/api/pico: a Pico is made our meter; the first run and the settings show it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import obj, string
from naproxy.api.table import ROUTES

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, job_in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.i18n.texts import t
from naproxy_webui.pages.uploads.uploads import uploads

blueprint = Blueprint("pico", __name__)

_KEEP: Final = ROUTES["pico.micropython"]

mount(blueprint, "pico", "/api/pico")
for _job in ("install", "calibrate"):
    mount(blueprint, f"pico.{_job}.begin", f"/api/pico/{_job}")
    mount(blueprint, f"pico.{_job}", f"/api/pico/{_job}", then=job_in_words)
    mount(blueprint, f"pico.{_job}.end", f"/api/pico/{_job}", then=job_in_words)


@route(
    blueprint,
    "PUT",
    "/api/pico/micropython",
    body=obj(upload=string(minLength=1, maxLength=100)),
    answer=_KEEP.answer,
    role="admin",
    scope="session",
    refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE, *_KEEP.refusals),
)
def keep(body: dict[str, Any]) -> Any:
    """Keep a UF2 file that was uploaded, if it is MicroPython for a Pico."""
    found = uploads().get(body["upload"])
    if not found.complete or found.kind != "micropython":
        raise ApiError(HTTPStatus.CONFLICT, t("pico.not_whole"), "upload")
    kept = control().call("pico.micropython", {"file": str(uploads().path(found).absolute())})
    uploads().remove(found.id)
    return kept
