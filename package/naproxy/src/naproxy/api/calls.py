"""What a request to the control API is, and what answers it: `control.py` has the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from naproxy.core.reason import Reason

Answer = tuple[HTTPStatus, dict[str, Any]]


class ApiError(Exception):
    """An answer that is an error: why, and the field it is about."""

    def __init__(self, status: HTTPStatus, why: Reason | str, where: str | None = None) -> None:
        """`where` is the path of a key or the name of a parameter; `why` a reason, or words."""
        super().__init__(str(why))
        self.status = status
        said = told(why) if isinstance(why, Reason) else {"error": why}
        self.body: dict[str, Any] = {**said, "where": where}


def told(reason: Reason) -> dict[str, Any]:
    """Return a reason as an answer has it: with English words for who has no catalogue."""
    return {"error": str(reason), **reason.plain()}


@dataclass(frozen=True, slots=True)
class Call:
    """One request: path and query decoded, the body as it came."""

    method: str
    path: tuple[str, ...]
    query: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object or nothing."""
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(value, dict):
            raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number from the query, not negative."""
        text = self.query.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e12:
            raise ApiError(HTTPStatus.BAD_REQUEST, "must be a number, 0 or more", name)
        return value


def only(body: dict[str, Any], *known: str) -> None:
    """Refuse what has a key that is not known."""
    for key in body:
        if key not in known:
            raise ApiError(HTTPStatus.BAD_REQUEST, "is not known", key[:100])
