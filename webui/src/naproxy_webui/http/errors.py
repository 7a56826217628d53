"""One exception for every refusal, shown as JSON or as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from naproxy.core.reason import Reason
from naproxy.core.words import words

from naproxy_webui.i18n.texts import language


class ApiError(Exception):
    """A refusal: a status, why, and the field it is about."""

    def __init__(
        self,
        status: int,
        why: str | Reason,
        where: str | None = None,
        problems: Sequence[dict[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`why` is in words for people, or a reason.

        `problems` is all that is wrong, each `{"where": .., "error": ..}`, if more is known.
        """
        super().__init__(why)
        self.status = HTTPStatus(status)
        self._why = why
        self.where = where
        self.problems = list(problems)
        self.headers = dict(headers or {})

    @property
    def words(self) -> str:
        """Why, in the user's language: which that is, a silent controller need not say."""
        return words(self._why, language()) if isinstance(self._why, Reason) else self._why

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        body: dict[str, Any] = {"error": self.words, "where": self.where}
        if self.problems:
            body["problems"] = self.problems
        return body
