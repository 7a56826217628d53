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
from typing import Any, TypeVar

from flask import Blueprint, Response, request

from naproxy_webui.http.access import Access
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.shapes import ANY_OBJECT, Shape, ShapeError, check, from_text

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
    body_media: str
    answer: Shape
    media: str | tuple[str, ...]
    status: int
    refusals: tuple[int, ...]
    access: Access


def route(
    blueprint: Blueprint,
    method: str,
    path: str,
    *,
    summary: str,
    query: Mapping[str, Shape] | None = None,
    needed: tuple[str, ...] = (),
    body: Shape | None = None,
    body_media: str = "application/json",
    answer: Shape = ANY_OBJECT,
    media: str | tuple[str, ...] = "application/json",
    status: int = HTTPStatus.OK,
    refusals: tuple[int, ...] = (),
    open: bool = False,
    role: str | None = None,
    scope: str | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a route of the API.

    `needed`: which of `query` must be there. `body_media` and `media`: types of body and answer
    (of which there may be several); a body that is not JSON is given to the function as bytes,
    an answer that is not JSON is a Response. `status`: of its answer when all is well;
    `refusals`: statuses it may refuse with, beside those that every route has. `open`: also
    without login; `role`: who may use it, by default viewers may read and administrators
    change; `scope`: which tokens may, by default `read` or `change`, and `session` for none.
    """
    declared = Route(
        method=method,
        path=path,
        summary=summary,
        query=query or {},
        needed=needed,
        body=body,
        body_media=body_media,
        answer=answer,
        media=media,
        status=status,
        refusals=refusals,
        access=Access(open, role, scope),
    )

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def view(**variables: Any) -> Response:
            read = _query(declared)
            if query is not None:
                variables["query"] = read
            if body is not None:
                variables["body"] = _body(declared)
            return _answer(handler(**variables), status)

        view.naproxy_route = declared  # type: ignore[attr-defined]
        view.naproxy_access = declared.access  # type: ignore[attr-defined]
        blueprint.add_url_rule(path, view_func=view, methods=[method])
        return handler

    return decorate


def _query(declared: Route) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, texts in request.args.to_dict(flat=False).items():
        if name not in declared.query:
            raise ShapeError(name[:100], "config.unknown")
        if len(texts) > 1:
            raise ShapeError(name, "config.there_twice")
        read[name] = from_text(texts[0], declared.query[name], name)
    for name in declared.needed:
        if name not in read:
            raise ShapeError(name, "config.empty")
    return read


def _body(declared: Route) -> Any:
    """Return the body: JSON that was checked, or bytes as they came for another type."""
    assert declared.body is not None
    if declared.body_media != "application/json":
        return request.get_data()
    if request.mimetype != "application/json":
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "must be application/json", "Content-Type"
        )
    try:
        value = json.loads(request.get_data(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    check(value, declared.body)
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
    # Half a character of somebody's JSON, in an error that names it, is no reason to fail.
    raw = text.encode("utf-8", "replace")
    return Response(raw, status, mimetype="application/json", headers={"Cache-Control": "no-store"})
