"""`route`: a JSON route of the API, declared, checked and described in one place.

    @route(blueprint, "GET", "/api/history/power",
           query={"meter": string(), "from_s": number(minimum=0)}, needed=("meter",),
           answer=obj(points=array(number())))
    def power(query: dict[str, Any]) -> Any:
        ...

The first line of the function's docstring is the summary in the API's description. The function
gets the path's variables by name, `query` and `body` if they are declared, both checked, and
returns an object, or `(object, status)`. To refuse it raises ApiError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar

from flask import Blueprint, Response, request
from naproxy.api.routes import JSON, Access, Route

from naproxy_webui.http.errors import ApiError

Handler = TypeVar("Handler", bound=Callable[..., Any])


def route(
    blueprint: Blueprint,
    method: str,
    path: str,
    *,
    open: bool = False,
    role: str | None = None,
    scope: str | None = None,
    **declared: Any,
) -> Callable[[Handler], Handler]:
    """Declare a route of the API; `declared` goes to `Route`.

    The function gets a body that is not JSON as bytes, and returns a Response for an answer that
    is not JSON. `open`: no login needed. `role`: by default viewers may read, and administrators
    may change. `scope`: the scope that a token needs, by default `read` or `change`; `session`
    excludes tokens.
    """

    def decorate(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").partition("\n")[0].rstrip(".")
        access = Access(open, role, scope)
        made = Route(method, path, summary=summary, access=access, **declared)
        return serve(blueprint, made)(handler)

    return decorate


def serve(blueprint: Blueprint, declared: Route) -> Callable[[Handler], Handler]:
    """Let a function answer a route; its arguments are validated."""

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def view(**variables: Any) -> Response:
            read = declared.asked(request.args.to_dict(flat=False))
            if declared.query:
                variables["query"] = read
            if declared.body is not None:
                variables["body"] = _body(declared)
            return _answer(handler(**variables), declared.status)

        view.naproxy_route = declared  # type: ignore[attr-defined]
        view.naproxy_access = declared.access  # type: ignore[attr-defined]
        blueprint.add_url_rule(declared.path, view_func=view, methods=[declared.method])
        return handler

    return decorate


def _body(declared: Route) -> Any:
    """Return the body: JSON that was checked, or bytes as they came for another type."""
    if declared.body_media == JSON and request.mimetype != JSON:
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"must be {JSON}", "Content-Type")
    return declared.given(request.get_data())


def _answer(made: Any, status: int) -> Response:
    if isinstance(made, Response):
        return made
    if isinstance(made, tuple):
        made, status = made
    return json_response(made, status)


def json_response(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Return JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # An error may quote a lone surrogate from a client's JSON, which UTF-8 cannot encode.
    raw = text.encode("utf-8", "replace")
    return Response(raw, status, mimetype=JSON)


def attachment(
    content: bytes | str | Iterable[bytes] | Iterable[str], media: str, name: str
) -> Response:
    """Return a file to keep: a browser never shows it as a page of ours."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, mimetype=media, headers=headers)
