"""What is declared of a route: dispatch, checks, clients and descriptions are made of it.

The controller's routes are in `table.py`; those of the web interface are beside their functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from naproxy.api.shapes import ANY_OBJECT, Shape, from_json, from_query, obj

READS: Final = ("GET", "HEAD", "OPTIONS")
JSON: Final = "application/json"
TIMEOUT_S: Final = 10.0
_NOTHING: Final = obj({})


@dataclass(frozen=True, slots=True)
class Access:
    """What a view of the web interface asks of who uses it."""

    open: bool = False
    """Also without login."""
    role: str | None = None
    """`viewer` or `admin`; None: viewers may read, administrators may change."""
    scope: str | None = None
    """Tokens that may: `metrics`, `read`, `change`; `session`: none, people only."""

    def needs_admin(self, method: str) -> bool:
        """Return whether a viewer may not."""
        return (self.role or ("viewer" if method in READS else "admin")) == "admin"

    def needs_scope(self, method: str) -> str:
        """Return the scope that a token needs."""
        return self.scope or ("read" if method in READS else "change")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    """With variables, as `/v1/servers/<server>/wake`."""
    summary: str = field(kw_only=True)
    query: Mapping[str, Shape] = field(default_factory=dict, kw_only=True)
    needed: tuple[str, ...] = field(default=(), kw_only=True)
    """Which of `query` must be there."""
    body: Shape | None = field(default=None, kw_only=True)
    body_media: str = field(default=JSON, kw_only=True)
    """The body's type: one that is not JSON comes as bytes, unchecked."""
    answer: Shape = field(default_factory=lambda: ANY_OBJECT, kw_only=True)
    media: str | tuple[str, ...] = field(default=JSON, kw_only=True)
    """The answer's type, of which there may be several."""
    status: int = field(default=HTTPStatus.OK, kw_only=True)
    """That of its answer when all is well."""
    refusals: tuple[int, ...] = field(default=(), kw_only=True)
    """Statuses it may refuse with, beside those that every route has."""
    access: Access = field(default=Access(), kw_only=True)
    """Who may use it in the web interface; the controller's socket asks for the group only."""
    timeout_s: float = field(default=TIMEOUT_S, kw_only=True)
    """How long who asks waits for the answer."""
    own: bool = field(default=False, kw_only=True)
    """Only for programs of the controller's own user: not for its group."""
    secret: bool = field(default=False, kw_only=True)
    """Only for the controller's own user and the web interface's: it may give or take keys."""
    reader: bool = field(default=False, kw_only=True)
    """Also on the socket that is only for reading."""

    def target(self, **values: object) -> str:
        """Return path and query; a value that is no variable of the path is of the query.

        What is None is left out.
        """
        path = self.path
        query = {}
        for name, value in values.items():
            if f"<{name}>" in path:
                path = path.replace(f"<{name}>", quote(str(value), safe=""))
            elif value is not None:
                query[name] = str(value).lower() if isinstance(value, bool) else value
        return f"{path}?{urlencode(query)}" if query else path

    def asked(self, texts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return what the query says, checked; ShapeError."""
        return from_query(texts, self.query, self.needed)

    def given(self, raw: bytes) -> Any:
        """Return the body, checked: bytes if it is not JSON. ShapeError."""
        if self.body_media != JSON:
            return raw
        return from_json(raw, _NOTHING if self.body is None else self.body)
