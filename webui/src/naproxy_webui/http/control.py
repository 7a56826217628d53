"""The client of the controller, which makes all changes.

`control().get("/v1/status")` returns its JSON. A refusal is raised as ApiError with the
controller's status and text. A controller that does not answer raises 503, or 504 if it may still
carry out the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from flask import current_app
from naproxy.api.client import NoAnswerError, ask
from naproxy.api.routes import READS, TIMEOUT_S
from naproxy.api.table import ROUTES
from naproxy.core.reason import Reason, reason_of
from naproxy.core.words import words

from naproxy_webui.http import problems as problems_
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import language

_PLAIN: Final = {
    "api.no_socket": "api.controller_stopped",
    "api.nobody_listens": "api.controller_stopped",
    "api.not_allowed": "api.controller_closed",
    "api.silent": "api.controller_silent",
}


@dataclass(frozen=True, slots=True)
class Control:
    """Client of the controller's socket."""

    socket: str

    def get(self, path: str, timeout_s: float = TIMEOUT_S, **query: object) -> Any:
        """GET; query values of None are left out."""
        known = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", f"{path}?{urlencode(known)}" if known else path, None, timeout_s)

    def call(self, name: str, body: object = None, /, **asked: object) -> Any:
        """Ask a route by its name; `asked` are the variables of its path, and its query."""
        route = ROUTES[name]
        return self.ask(route.method, route.target(**asked), body, route.timeout_s)

    def ask(
        self, method: str, target: str, body: object = None, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Return the controller's answer; ApiError if it refuses or there is none."""
        try:
            answer = ask(self.socket, method, target, body, timeout_s=timeout_s)
        except NoAnswerError as error:
            # Nobody who reads a page knows what a socket is.
            code, status = error.reason.code, HTTPStatus.SERVICE_UNAVAILABLE
            if code == "api.silent" and method not in READS:
                # It was sent: a controller that hangs may do it later.
                code, status = "api.unsure", HTTPStatus.GATEWAY_TIMEOUT
            plain = Reason(_PLAIN.get(code, code), **error.reason.params)
            raise ApiError(status, plain) from None
        said = answer.body
        if not isinstance(said, dict):
            strange = "the controller answers something else than it should"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, strange)
        if answer.good:
            return said
        problems = [
            {"where": each["where"], "error": problems_.in_words(each)}
            for each in said.get("problems", ())
        ]
        why = problems[0]["error"] if problems else reason_of(said)
        raise ApiError(answer.status, why, said.get("where"), problems)


def _words(said: dict[str, Any]) -> str:
    """Return a refusal in the user's language."""
    return words(reason_of(said), language())


def job_in_words(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with its error in the user's language."""
    error = job["error"]
    return {**job, "error": error and {**error, "error": _words(error)}}


def in_words(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return an answer with these texts in the user's language, by the reasons beside them."""
    reasons = {name: said[f"{name}_reason"] for name in names}
    told = {n: words(reason_of(each), language()) for n, each in reasons.items() if each}
    return {**said, **told}


def control() -> Control:
    """Return the client of this box's controller."""
    client: Control = current_app.extensions["naproxy_control"]
    return client
