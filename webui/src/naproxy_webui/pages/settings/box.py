"""/api/box: the box's own affairs (docs/box.md), asked of the controller."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response
from naproxy.api.shapes import boolean, integer, obj, string
from naproxy.api.table import PART_BYTES, ROUTES

from naproxy_webui.auth import guard, user_backup
from naproxy_webui.http.api import attachment, route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.office import forget_office

blueprint = Blueprint("settings_box", __name__)

_FILE: Final = string(description="tar.gz")

mount(blueprint, "box", "/api/box/about")
for _name in (
    *("network", "network.keep", "network.back", "time", "name"),
    *("restart", "reboot", "reset", "logs", "restore.check"),
):
    mount(blueprint, f"box.{_name}", f"/api/box/{_name.replace('.', '/')}")
mount(blueprint, "box.empty", "/api/box/cache/empty")


# Backup, restore, diagnostics


@route(
    blueprint,
    "POST",
    "/api/box/backup",
    body=obj(
        history=boolean(),
        secrets=boolean(),
        password=string(minLength=8, maxLength=200, description="encrypts the file"),
        optional=("history", "secrets", "password"),
    ),
    answer=ROUTES["box.backup"].answer,
    refusals=(409, 422, 507),
    scope="session",
)
def backup(body: dict[str, Any]) -> Any:
    """Make a backup; `secrets` are passwords, keys and users.

    One that is to restore a box has them. With a password it is encrypted.
    """
    people = user_backup.export(guard.keys()) if body.get("secrets") else []
    return _made("backup", control().call("box.backup", {**body, "users": people}))


@route(
    blueprint,
    "GET",
    "/api/box/backup/file",
    answer=_FILE,
    media="application/gzip",
    refusals=(404,),
    role="admin",
    scope="session",
)
def backup_file() -> Response:
    """The backup that was made, once."""
    return _send("backup")


@route(
    blueprint,
    "GET",
    "/api/box/diagnostics/file",
    answer=_FILE,
    media="application/gzip",
    refusals=(404,),
    role="admin",
)
def diagnostics_file() -> Response:
    """The diagnostics that were gathered, once."""
    return _send("diagnostics")


_names: dict[str, str] = {}


def _made(what: str, said: dict[str, Any]) -> dict[str, Any]:
    _names[what] = "".join(c if c.isalnum() or c in "-." else "-" for c in said["name"])
    return said


mount(
    blueprint,
    "box.diagnostics",
    "/api/box/diagnostics",
    then=lambda said: _made("diagnostics", said),
)


def _send(what: str) -> Response:
    """Stream a file out of the controller, a part at a time."""
    ask, route = control(), f"box.{what}.part"
    first = ask.call(route, offset=0)
    data = base64.b64decode(first["data"])
    size = first["bytes"]

    def parts() -> Iterator[bytes]:
        part, sent = data, 0
        while part:
            yield part
            sent += len(part)
            if sent >= size:
                return
            said = ask.call(route, offset=sent)
            part = base64.b64decode(said["data"])

    called = _names.get(what, f"naproxy-{what}.tar.gz")
    answer = attachment(parts(), "application/gzip", called)
    answer.headers["Content-Length"] = str(size)
    return answer


@route(
    blueprint,
    "PUT",
    "/api/box/restore/part",
    query={"offset": integer(minimum=0)},
    needed=("offset",),
    body=string(maxLength=PART_BYTES),
    body_media="application/octet-stream",
    answer=obj(bytes=integer()),
    refusals=(409, 413, 507),
    scope="session",
)
def part(query: dict[str, Any], body: bytes) -> Any:
    """Send a backup in parts, the first at offset 0."""
    if len(body) > PART_BYTES:
        words = f"a part is at most {PART_BYTES} bytes"
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
    return control().call("box.restore.part", body, **query)


@route(
    blueprint,
    "POST",
    "/api/box/restore",
    body=obj(history=boolean(), secrets=boolean()),
    answer=obj(users=integer(description="How many were restored")),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 422),
    scope="session",
)
def restore(body: dict[str, Any]) -> Any:
    """Restore the uploaded backup; the controller restarts.

    Users are restored, too, if the backup has any and the request asks for it.
    """
    said = control().call("box.restore", body)
    count = user_backup.restore(guard.keys(), said["users"]) if body["secrets"] else 0
    forget_office()
    equipment(fresh=True)
    return {"users": count}
