"""What went wrong, in words: one exception for every refusal, JSON or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any


class ApiError(Exception):
    """A refusal: a status, words for people, and the field they are about."""

    def __init__(
        self,
        status: int,
        words: str,
        where: str | None = None,
        problems: Sequence[dict[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`problems` is all that is wrong, each `{"where": .., "error": ..}`, if more is known."""
        super().__init__(words)
        self.status = HTTPStatus(status)
        self.words = words
        self.where = where
        self.problems = list(problems)
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        body: dict[str, Any] = {"error": self.words, "where": self.where}
        if self.problems:
            body["problems"] = self.problems
        return body
