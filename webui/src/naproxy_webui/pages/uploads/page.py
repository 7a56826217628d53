"""/api/uploads: large files in pieces, for the pages that need one (uploads.py)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Blueprint
from naproxy.api.shapes import boolean, choice, integer, obj, string

from naproxy_webui.http.api import route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.pages.uploads.uploads import KINDS, PIECE_BYTES, Upload, uploads

blueprint = Blueprint("uploads", __name__)

_UPLOAD = obj(
    id=string(),
    name=string(),
    size=integer(),
    offset=integer(description="bytes that are there: the next piece begins here"),
    complete=boolean(),
    piece_bytes=integer(description="of a piece at the most"),
)


@route(
    blueprint,
    "POST",
    "/api/uploads",
    body=obj(
        name=string(maxLength=255),
        size=integer(minimum=0, maximum=1 << 53),
        kind=choice(*KINDS),
        sha256=string(pattern=r"\A[0-9a-f]{64}\Z", description="must be 64 hexadecimal digits"),
        optional=("sha256",),
    ),
    answer=_UPLOAD,
    status=HTTPStatus.CREATED,
    refusals=(413, 429, 507),
)
def create(body: dict[str, Any]) -> Any:
    """Begin an upload."""
    return _told(uploads().create(body["name"], body["size"], body["kind"], body.get("sha256")))


@route(blueprint, "GET", "/api/uploads/<upload_id>", answer=_UPLOAD, refusals=(404,))
def look(upload_id: str) -> Any:
    """How much of an upload is there."""
    return _told(uploads().get(upload_id))


@route(
    blueprint,
    "PUT",
    "/api/uploads/<upload_id>",
    query={"offset": integer(minimum=0)},
    needed=("offset",),
    body=string(minLength=1, maxLength=PIECE_BYTES),
    body_media="application/octet-stream",
    answer=_UPLOAD,
    refusals=(404, 409, 413, 422, 507),
)
def append(upload_id: str, query: dict[str, Any], body: bytes) -> Any:
    """Append a piece, the body as it is, at the offset that was reached.

    The whole interface takes no longer body than PIECE_BYTES.
    """
    if len(body) > PIECE_BYTES:
        words = t("upload.piece", most=PIECE_BYTES >> 20)
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
    if not body:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("upload.no_piece"))
    return _told(uploads().put(upload_id, query["offset"], body))


@route(blueprint, "DELETE", "/api/uploads/<upload_id>", answer=obj({}))
def remove(upload_id: str) -> Any:
    """Forget an upload.

    One that is not there is forgotten already.
    """
    uploads().remove(upload_id)
    return {}


def _told(upload: Upload) -> dict[str, Any]:
    return {
        "id": upload.id,
        "name": upload.name,
        "size": upload.size,
        "offset": upload.offset,
        "complete": upload.complete,
        "piece_bytes": PIECE_BYTES,
    }
