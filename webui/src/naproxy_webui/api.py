"""`route`: a JSON route of the API, declared, checked and described in one place.

    @route(blueprint, "GET", "/api/history/power", summary="Power in a range",
           query={"meter": string(), "from_s": number(minimum=0)}, needed=("meter",),
           answer=obj({"points": array(number())}))
    def power(query: dict[str, Any]) -> Any:
        return {"points": [...]}

The function gets the path's variables by name, `query` and `body` if they are declared, both
checked, and returns an object, or `(object, status)`. To refuse it raises ApiError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Any, Final, TypeVar

from flask import Blueprint, Response, request

from naproxy_webui.errors import ApiError
from naproxy_webui.shapes import ANY_OBJECT, Shape, ShapeError, check, from_text

READS: Final = ("GET", "HEAD")
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What is declared of a route: the description of the API is made from it."""

    method: str
    path: str
    """As Flask has it: `/api/servers/<name>/wake`."""
    summary: str
    query: Mapping[str, Shape]
    needed: tuple[str, ...]
    body: Shape | None
    answer: Shape
    status: int
    refusals: tuple[int, ...]
    open: bool
    scope: str


def route(
    blueprint: Blueprint,
    method: str,
    path: str,
    *,
    summary: str,
    query: Mapping[str, Shape] | None = None,
    needed: tuple[str, ...] = (),
    body: Shape | None = None,
    answer: Shape = ANY_OBJECT,
    status: int = HTTPStatus.OK,
    refusals: tuple[int, ...] = (),
    open: bool = False,
    scope: str | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a route of the API.

    `needed`: which of `query` must be there; `status`: of its answer when all is well;
    `refusals`: statuses it may refuse with, beside those that every route has;
    `open`: without login; `scope`: which tokens may use it, by default `read` or `change`.
    """
    declared = Route(
        method=method,
        path=path,
        summary=summary,
        query=query or {},
        needed=needed,
        body=body,
        answer=answer,
        status=status,
        refusals=refusals,
        open=open,
        scope=scope or ("read" if method in READS else "change"),
    )

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def view(**variables: Any) -> Response:
            if query is not None:
                variables["query"] = _query(declared)
            if body is not None:
                variables["body"] = _body(body)
            return _answer(handler(**variables), status)

        view.naproxy_route = declared  # type: ignore[attr-defined]
        blueprint.add_url_rule(path, view_func=view, methods=[method])
        return handler

    return decorate


def _query(declared: Route) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, texts in request.args.to_dict(flat=False).items():
        if name not in declared.query:
            raise ShapeError(name[:100], "is not known")
        if len(texts) > 1:
            raise ShapeError(name, "is there twice")
        read[name] = from_text(texts[0], declared.query[name], name)
    for name in declared.needed:
        if name not in read:
            raise ShapeError(name, "is missing")
    return read


def _body(shape: Shape) -> Any:
    try:
        value = json.loads(request.get_data(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    check(value, shape)
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _answer(made: Any, status: int) -> Response:
    if isinstance(made, Response):
        return made
    if isinstance(made, tuple):
        made, status = made
    return json_response(made, status)


def json_response(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Return JSON that no cache keeps."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(
        text, status, mimetype="application/json", headers={"Cache-Control": "no-store"}
    )
