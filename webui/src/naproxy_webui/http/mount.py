"""`mount`: a route of the controller as a route of the web interface, which only passes it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from flask import Blueprint
from naproxy.api.routes import Route
from naproxy.api.shapes import Shape, string
from naproxy.api.table import ROUTES

from naproxy_webui.http.api import serve
from naproxy_webui.http.control import control

SERVER: Final[dict[str, Any]] = {
    "server": string(maxLength=31, description="Its id; without it the guide's")
}


def mount(
    blueprint: Blueprint,
    name: str,
    path: str,
    *,
    answer: Shape | None = None,
    then: Callable[[Any], Any] | None = None,
    server: Callable[[str | None], str] | None = None,
) -> None:
    """Mount the controller's route of this name at a path; all else is as the table declares it.

    `answer`: only these of its keys are passed on. `then` gets the answer and returns what
    becomes of it. `server`: the path names no server; the request may, and this says which it is.
    """
    route = ROUTES[name]
    declared = replace(route, path=path, answer=answer or route.answer)
    if server is not None:
        declared = _with_server(declared)

    def forward(query: dict[str, Any] | None = None, body: Any = None, **variables: str) -> Any:
        asked = query or {}
        if server is not None:
            named = asked if route.body is None else body
            variables["server"] = server(named.pop("server", None))
        said = control().call(name, body, **variables, **asked)
        if answer is not None:
            said = {key: said[key] for key in answer["properties"]}
        return then(said) if then else said

    forward.__name__ = name.replace(".", "_")
    serve(blueprint, declared)(forward)


def _with_server(route: Route) -> Route:
    """Return the route with a server that the request may name."""
    if route.body is None:
        return replace(route, query={**route.query, **SERVER})
    properties = {**SERVER, **route.body["properties"]}
    return replace(route, body={**route.body, "properties": properties})
