"""What a request to the control API is, and who answers it: `control.py` has the wire."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.api.routes import JSON, Route
from naproxy.api.shapes import ShapeError
from naproxy.api.table import ROUTES
from naproxy.core.reason import Reason

Answer = tuple[HTTPStatus, dict[str, Any]]
Handler = Callable[..., Any]
"""Gets by name what path, query and body say; returns the answer's body, or what makes it."""
Handlers = Mapping[str, Handler]
"""By the names of their routes."""


class ApiError(Exception):
    """An answer that is an error: why, and the field it is about."""

    def __init__(self, status: HTTPStatus, reason: Reason, where: str | None = None) -> None:
        """`where` is the path of a key or the name of a parameter."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.body: dict[str, Any] = {**told(reason), "where": where}


def told(reason: Reason) -> dict[str, Any]:
    """Return a reason as an answer has it: with English words for who has no catalogue."""
    return {"error": str(reason), **reason.plain()}


def no_server(name: str) -> ApiError:
    """Return the refusal of a server's name that nobody knows."""
    return ApiError(HTTPStatus.NOT_FOUND, Reason("config.no_server", name=name[:40]), "server")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: path and query decoded, the body as it came."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: bytes
    own: bool = False
    """Does it come from our own user?"""
    trusted: bool = False
    """Does it come from our own user, root or the web interface's?"""
    reader: bool = False
    """Did it come over the socket that is only for reading?"""


def joined(*parts: Handlers) -> Handlers:
    """Return the handlers of all routes; ValueError unless each route has exactly one."""
    names = sorted(name for part in parts for name in part)
    if names != sorted(ROUTES):
        raise ValueError(f"not one handler for each route: {set(names) ^ set(ROUTES) or names}")
    return {name: handler for part in parts for name, handler in part.items()}


async def answer(handlers: Handlers, call: Call) -> Answer:
    """Answer one request; ApiError for those that cannot be."""
    name, variables = _found(call)
    route = ROUTES[name]
    if route.own and not call.own:
        raise ApiError(HTTPStatus.FORBIDDEN, Reason("api.not_yours"))
    if call.reader and not route.reader:
        raise ApiError(HTTPStatus.FORBIDDEN, Reason("api.read_only"))
    try:
        asked = route.asked(call.query)
        given = route.given(call.body or (b"{}" if route.body_media == JSON else b""))
    except ShapeError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, error.reason, error.where) from None
    if route.secret and not call.trusted:
        raise ApiError(HTTPStatus.FORBIDDEN, Reason("api.secret"))
    said = {"body": given} if isinstance(given, bytes) else given
    made = handlers[name](**variables, **asked, **said)
    return HTTPStatus(route.status), await made if inspect.isawaitable(made) else made


def _found(call: Call) -> tuple[str, dict[str, str]]:
    """Return a request's route and the variables of its path."""
    others = False
    for name, route in ROUTES.items():
        variables = _variables(_PATHS[name], call.path)
        if variables is not None and route.method == call.method:
            return name, variables
        others = others or variables is not None
    if others:
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED, Reason("api.not_used", method=call.method[:20])
        )
    raise ApiError(HTTPStatus.NOT_FOUND, Reason("api.nothing_here"))


def _parts(route: Route) -> tuple[str, ...]:
    return tuple(route.path.removeprefix("/").split("/"))


_PATHS: Final = {name: _parts(route) for name, route in ROUTES.items()}


def _variables(template: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    """Return what a path has for each variable of a template; None if it is another path."""
    if len(template) != len(path):
        return None
    pairs = list(zip(template, path, strict=True))
    if any(part != there and not part.startswith("<") for part, there in pairs):
        return None
    return {part[1:-1]: there for part, there in pairs if part.startswith("<")}
