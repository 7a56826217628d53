"""/api/box: the box's own affairs (docs/box.md), asked of the controller."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response
from naproxy.api.shapes import array, boolean, choice, integer, obj, string

from naproxy_webui.auth import guard, user_backup
from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.office import forget_office

PAGE = Page(name="settings_box", path="/api/box/about")
blueprint = Blueprint("settings_box", __name__)

PART_BYTES: Final = 1 << 19
_LONG_S: Final = 120.0
_TEXT: Final = string(maxLength=253)
_FILE: Final = string(description="tar.gz")


def _ask(method: str, path: str, body: object = None) -> Any:
    return control().ask(method, f"/v1/box{path}", {} if body is None else body, _LONG_S)


@route(
    blueprint,
    "GET",
    "/api/box/about",
    summary="The box: whose machine it is, network, clock, name",
)
def box() -> Any:
    """Return it."""
    return _ask("GET", "")


@route(
    blueprint,
    "PUT",
    "/api/box/network",
    summary="Try network settings: they go back in two minutes unless they are kept",
    body=obj(
        {
            "method": choice("dhcp", "static"),
            "address": _TEXT,
            "gateway": _TEXT,
            "dns": array(_TEXT, maxItems=3),
        },
        optional=("address", "gateway", "dns"),
    ),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 422, 502),
)
def network(body: dict[str, Any]) -> Any:
    """Try them."""
    return _ask("PUT", "/network", body)


@route(
    blueprint,
    "POST",
    "/api/box/network/<what>",
    summary="Keep the network settings that are tried, or go back",
    body=obj({}),
    refusals=(404, 409, 502),
)
def trial(what: str, body: dict[str, Any]) -> Any:
    """End the trial: `keep` or `back`."""
    if what not in ("keep", "back"):
        raise ApiError(HTTPStatus.NOT_FOUND, "must be keep or back", "what")
    return _ask("POST", f"/network/{what}", body)


@route(
    blueprint,
    "PUT",
    "/api/box/time",
    summary="Set the time zone, and who tells the time",
    body=obj({"time_zone": _TEXT, "ntp": array(_TEXT, maxItems=4)}, optional=("ntp",)),
    refusals=(409, 422, 502),
)
def time(body: dict[str, Any]) -> Any:
    """Set it."""
    return _ask("PUT", "/time", body)


@route(
    blueprint,
    "PUT",
    "/api/box/name",
    summary="Name the box",
    body=obj({"name": _TEXT}),
    refusals=(409, 422, 502),
)
def name(body: dict[str, Any]) -> Any:
    """Name it."""
    return _ask("PUT", "/name", body)


@route(
    blueprint,
    "POST",
    "/api/box/restart",
    summary="Restart one of the box's programs",
    body=obj({"service": choice("naproxy", "varnish", "webui", "lighttpd")}),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 422, 502),
)
def restart(body: dict[str, Any]) -> Any:
    """Restart it."""
    return _ask("POST", "/restart", body)


@route(
    blueprint,
    "POST",
    "/api/box/reboot",
    summary="Restart the machine",
    body=obj({}),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 502),
)
def reboot(body: dict[str, Any]) -> Any:
    """Restart it."""
    return _ask("POST", "/reboot", body)


@route(
    blueprint,
    "POST",
    "/api/box/reset",
    summary="Forget everything; the box's name confirms it",
    body=obj({"confirm": _TEXT}),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 422, 502),
    scope="session",
)
def reset(body: dict[str, Any]) -> Any:
    """Forget it."""
    return _ask("POST", "/reset", body)


@route(
    blueprint,
    "POST",
    "/api/box/cache/empty",
    summary="Use nothing any more that is in the cache",
    body=obj({}),
    refusals=(502,),
)
def empty(body: dict[str, Any]) -> Any:
    """Empty it."""
    return _ask("POST", "/cache/empty", body)


@route(
    blueprint,
    "GET",
    "/api/box/logs",
    summary="The last lines of a log, as text",
    query={
        "source": choice("naproxy", "system"),
        "contains": string(maxLength=200),
        "limit": integer(minimum=1, maximum=1000),
    },
    answer=obj({"lines": array(string()), "of": integer()}),
    refusals=(502,),
    role="admin",
)
def logs(query: dict[str, Any]) -> Any:
    """Return them, oldest first."""
    return control().get("/v1/box/logs", timeout_s=30.0, **query)


# Backup, restore, diagnostics

_MADE: Final = obj({"bytes": integer(), "name": string()})


@route(
    blueprint,
    "POST",
    "/api/box/backup",
    summary="Make a backup; `secrets` are passwords, keys and users",
    body=obj({"history": boolean(), "secrets": boolean()}, optional=("history", "secrets")),
    answer=_MADE,
    refusals=(409, 422, 507),
    scope="session",
)
def backup(body: dict[str, Any]) -> Any:
    """Have it made."""
    people = user_backup.export(guard.keys().users) if body.get("secrets") else []
    return _made("backup", _ask("POST", "/backup", {**body, "users": people}))


@route(
    blueprint,
    "GET",
    "/api/box/backup/file",
    summary="The backup that was made, once",
    answer=_FILE,
    media="application/gzip",
    refusals=(404,),
    role="admin",
    scope="session",
)
def backup_file() -> Response:
    """Send it."""
    return _send("backup")


@route(
    blueprint,
    "POST",
    "/api/box/diagnostics",
    summary="Gather what somebody who helps needs to see; no secrets, no visitors",
    body=obj({}),
    answer=_MADE,
)
def diagnostics(body: dict[str, Any]) -> Any:
    """Have it gathered."""
    return _made("diagnostics", _ask("POST", "/diagnostics", body))


@route(
    blueprint,
    "GET",
    "/api/box/diagnostics/file",
    summary="The diagnostics that were gathered, once",
    answer=_FILE,
    media="application/gzip",
    refusals=(404,),
    role="admin",
)
def diagnostics_file() -> Response:
    """Send them."""
    return _send("diagnostics")


_names: dict[str, str] = {}


def _made(what: str, said: dict[str, Any]) -> dict[str, Any]:
    _names[what] = "".join(c if c.isalnum() or c in "-." else "-" for c in said["name"])
    return said


def _send(what: str) -> Response:
    """Stream a file out of the controller, a part at a time."""
    first = _ask("GET", f"/{what}/part?offset=0")
    data = base64.b64decode(first["data"])
    size = first["bytes"]
    ask = control()

    def parts() -> Iterator[bytes]:
        part, sent = data, 0
        while part:
            yield part
            sent += len(part)
            if sent >= size:
                return
            said = ask.get(f"/v1/box/{what}/part", timeout_s=_LONG_S, offset=sent)
            part = base64.b64decode(said["data"])

    answer = Response(parts(), mimetype="application/gzip")
    answer.headers["Content-Length"] = str(size)
    called = _names.get(what, f"naproxy-{what}.tar.gz")
    answer.headers["Content-Disposition"] = f'attachment; filename="{called}"'
    return answer


@route(
    blueprint,
    "PUT",
    "/api/box/restore/part",
    summary="Send a backup in parts, the first at offset 0",
    query={"offset": integer(minimum=0)},
    needed=("offset",),
    body=string(maxLength=PART_BYTES),
    body_media="application/octet-stream",
    answer=obj({"bytes": integer()}),
    refusals=(409, 413, 507),
    scope="session",
)
def part(query: dict[str, Any], body: bytes) -> Any:
    """Pass a part on."""
    if len(body) > PART_BYTES:
        words = f"a part is at most {PART_BYTES} bytes"
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
    return _ask("PUT", f"/restore/part?offset={query['offset']}", body)


@route(
    blueprint,
    "POST",
    "/api/box/restore/check",
    summary="What is in the backup that was sent; nothing changes",
    body=obj({}),
    refusals=(409, 422),
    scope="session",
)
def check(body: dict[str, Any]) -> Any:
    """Check it."""
    return _ask("POST", "/restore/check", body)


@route(
    blueprint,
    "POST",
    "/api/box/restore",
    summary="Restore the backup that was sent: the controller begins anew",
    body=obj({"history": boolean(), "secrets": boolean()}),
    answer=obj({"users": integer(description="How many were restored")}),
    status=HTTPStatus.ACCEPTED,
    refusals=(409, 422),
    scope="session",
)
def restore(body: dict[str, Any]) -> Any:
    """Restore it; the users too if it has some and they are wanted."""
    said = _ask("POST", "/restore", body)
    count = user_backup.restore(guard.keys(), said["users"]) if body["secrets"] else 0
    forget_office()
    equipment(fresh=True)
    return {"users": count}
