"""Who is at the other end: address and scheme, as the local lighttpd says them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LOCAL: Final = ("", "127.0.0.1", "::1", "localhost")
"""What waitress calls a peer on a unix socket or on loopback."""


class BehindProxy:
    """Middleware for a server that only lighttpd can reach.

    lighttpd appends the client's address to X-Forwarded-For, so only the last one is its own
    word; X-Forwarded-Proto it sets. From any other peer both are ignored.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Believe lighttpd."""
        if environ.get("REMOTE_ADDR", "") in _LOCAL:
            addresses = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
            environ["REMOTE_ADDR"] = addresses[-1].strip()[:64] or "unknown"
            protocol = environ.get("HTTP_X_FORWARDED_PROTO", "")
            environ["wsgi.url_scheme"] = "https" if protocol == "https" else "http"
        return self._app(environ, start)
