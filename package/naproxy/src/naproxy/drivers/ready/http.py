"""Ready when an HTTP request gets a status below 500. Redirects are not followed.

Over HTTPS if the box connects so. This probe does not verify the certificate; haproxy does, for
each request.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

from naproxy import __version__
from naproxy.core.reason import Reason
from naproxy.core.schema import is_host, is_url_path, option, or_empty
from naproxy.core.wire import exchange, reach, status_of
from naproxy.drivers import Target
from naproxy.drivers.ready import Observation, ReadySettings
from naproxy.server.seeing import Sign


@dataclass(frozen=True, kw_only=True)
class Settings(ReadySettings):
    """What to ask for."""

    kind: str = option("http: ready when a request gets a good status", "http")
    path: str = option(
        "Path to request: something cheap to answer", "/", high=255, check=is_url_path
    )
    host: str = option(
        "Host name of the request; empty: the first of the server's `hosts`, else its address",
        "",
        check=or_empty(is_host),
    )


class Driver:
    """Sends a GET and reads the status line."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Probe the server's address and port."""
        self._settings = settings
        self._web = replace(target.web, name=settings.host.rstrip(".") or target.name)
        # A site that sends visitors on to HTTPS would answer without asking its programs.
        scheme = "X-Forwarded-Proto: https\r\n" if target.visited_by_https else ""
        self._request = (
            f"GET {settings.path} HTTP/1.1\r\nHost: {settings.host or target.web.host_header}\r\n"
            f"User-Agent: naproxy/{__version__} (readiness)\r\nAccept: */*\r\n{scheme}"
            "Connection: close\r\n\r\n"
        ).encode()

    async def probe(self, connected: Callable[[], None] = lambda: None) -> Observation:
        """Ask once."""
        try:
            streams = await reach(self._web, connected=connected)
        except ssl.SSLError:
            return Observation(Sign.UNFIT, Reason("ready.not_https"))
        return self._judge(await exchange(streams, self._request, b"\n"))

    def _judge(self, answer: bytes) -> Observation:
        if not answer:
            return Observation(Sign.REFUSING, Reason("ready.closed"))
        status = status_of(answer)
        if status is None:
            return Observation(Sign.UNFIT, Reason("ready.not_http"))
        # Which other statuses are proper is learned.
        sign = Sign.READY if status < HTTPStatus.INTERNAL_SERVER_ERROR else Sign.UNFIT
        return Observation(sign, Reason("ready.status", status=status), status)
