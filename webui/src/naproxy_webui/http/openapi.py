"""The API's description, OpenAPI 3.1, made from the declarations of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from flask import Flask
from naproxy import __version__
from naproxy.api.routes import READS, Route

_ERROR: Final = {
    "type": "object",
    "required": ["error", "where"],
    "properties": {
        "error": {"type": "string", "description": "What is wrong, in words"},
        "where": {"type": ["string", "null"], "description": "The field that it is about"},
        "problems": {
            "type": "array",
            "description": "All that is wrong, where more is known than the first",
            "items": {
                "type": "object",
                "required": ["error", "where"],
                "properties": {
                    "error": {"type": "string"},
                    "where": {"type": ["string", "null"]},
                },
            },
        },
    },
}
_REFUSALS: Final = {
    400: "Something in the request is not as described here",
    401: "Nobody is logged in, and there is no token",
    403: "Not for this person or token, or not asked by a page of this box",
    404: "There is no such thing",
    409: "Not now: the words say what speaks against it",
    413: "The body is too large",
    415: "The body is of another type",
    421: "The name in Host is not the box's",
    422: "A value is not taken",
    429: "Too often; Retry-After says when again",
    500: "A fault, or the controller's",
    503: "The controller does not answer",
    504: "The controller has not answered, and may still do it",
    507: "The disk is full",
}
_ALWAYS: Final = (400, 401, 403, 413, 421, 429, 500, 503, 504)
MOST_NUMBER: Final = 2**31 - 1
"""The largest number in a path: `<int(max=2147483647):number>`."""
_VARIABLE: Final = re.compile(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>")


def routes(app: Flask) -> Iterator[tuple[Route, str]]:
    """Yield each declared route and its name."""
    for endpoint, view in app.view_functions.items():
        declared = getattr(view, "naproxy_route", None)
        if isinstance(declared, Route):
            yield declared, endpoint


def describe(app: Flask) -> dict[str, Any]:
    """Return the description."""
    paths: dict[str, dict[str, Any]] = {}
    for declared, name in sorted(routes(app), key=lambda each: (each[0].path, each[0].method)):
        path = _VARIABLE.sub(r"{\2}", declared.path)
        paths.setdefault(path, {})[declared.method.lower()] = _operation(declared, name)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Naproxy",
            "version": __version__,
            "description": (
                "What the pages of the web interface use. Programs send a token of"
                " /account as `Authorization: Bearer`; its scope is metrics, read or change."
            ),
        },
        "paths": paths,
        "security": [{"token": []}, {"session": []}],
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-naproxy"},
            },
        },
    }


def _operation(declared: Route, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": name.replace(".", "_"),
        "summary": declared.summary,
        "tags": [name.partition(".")[0]],
        "parameters": [*_variables(declared), *_query(declared)],
        "responses": _responses(declared),
    }
    if declared.access.open:
        made["security"] = []
    else:
        needed = declared.access.needs_scope(declared.method)
        who = "administrators" if declared.access.needs_admin(declared.method) else "everybody"
        made["description"] = f"For {who}. Token: " + (
            "none, only people who are logged in." if needed == "session" else f"scope {needed}."
        )
        if needed == "session":
            made["security"] = [{"session": []}]
    if declared.body is not None:
        made["responses"]["415"] = _refusal(415)
        content = {declared.body_media: {"schema": declared.body}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _variables(declared: Route) -> Iterator[dict[str, Any]]:
    for kind, name in _VARIABLE.findall(declared.path):
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if kind == "int":
            schema = {"type": "integer", "minimum": 0, "maximum": MOST_NUMBER}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query(declared: Route) -> Iterator[dict[str, Any]]:
    for name, shape in declared.query.items():
        yield {
            "name": name,
            "in": "query",
            "required": name in declared.needed,
            "schema": shape,
        }


def _responses(declared: Route) -> dict[str, Any]:
    kinds = (declared.media,) if isinstance(declared.media, str) else declared.media
    content = {
        kind: {"schema": declared.answer if kind == "application/json" else {"type": "string"}}
        for kind in kinds
    }
    good = {"description": "Done", "content": content}
    refusals = {*_ALWAYS, *declared.refusals}
    if "<" in declared.path or declared.query:
        refusals.add(404)
    if declared.method not in READS:
        refusals |= {409, 422}
    return {
        str(int(declared.status)): good,
        **{str(int(status)): _refusal(status) for status in sorted(refusals)},
    }


def _refusal(status: int) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": _REFUSALS.get(status, "Refused"), "content": error}
