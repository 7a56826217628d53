"""The control API's part below /v1/update (docs/update.md)."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy.api.calls import Answer, ApiError, Call, only
from naproxy.core.reason import Reason
from naproxy.update.updates import Updates

_SLOTS: Final = ("other", "booted")


async def answer(updates: Updates, call: Call) -> Answer:
    """Answer one request; ApiError for those that cannot be."""
    status = HTTPStatus.OK
    match call.method, call.path[2:]:
        case "GET", ():
            pass
        case "DELETE", ():
            updates.forget()
        case "POST", ("check",):
            body = call.json()
            only(body, "file")
            await updates.check(_file(body.get("file")))
            status = HTTPStatus.ACCEPTED
        case "POST", ("install",):
            body = call.json()
            only(body, "older")
            await updates.install(older=_flag(body, "older"))
            status = HTTPStatus.ACCEPTED
        case "POST", ("activate",):
            body = call.json()
            only(body, "slot")
            which: Any = body.get("slot")
            if which not in _SLOTS:
                wrong = Reason("config.one_of", names=_SLOTS)
                raise ApiError(HTTPStatus.BAD_REQUEST, wrong, "slot")
            await updates.activate(which)
        case "POST", ("confirm",):
            only(call.json())
            await updates.confirm()
        case _:
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("update.nothing_here"))
    return status, await updates.status()


def _file(value: object) -> Path:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise ApiError(HTTPStatus.BAD_REQUEST, Reason("config.absolute"), "file")
    return Path(value)


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise ApiError(HTTPStatus.BAD_REQUEST, Reason("config.boolean"), name)
    return value
