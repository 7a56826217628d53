"""Asks a server for a page directly, as visitors who have nothing in common.

The answers are untrusted: their size is bounded, and `policy.sameness` judges them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from naproxy import __version__
from naproxy.config.document import Server, target_of
from naproxy.core.wire import exchange, head_of, reach, unchunked
from naproxy.policy.sameness import Answer

MOST_BYTES: Final = 1 << 20
"""Of one page, with its head."""
_ANSWER_S: Final = 10.0
_TROUBLE: Final = (408, 425, 429)
_COUNT: Final = re.compile("[0-9]{1,15}")


class Stranger(NamedTuple):
    """A visitor: the properties for which a server may return another page."""

    agent: str
    accept: str
    language: str
    network: str
    """The begin of his address: of networks that are nobody's (RFC 5737)."""
    more: str = ""


DESKTOP: Final = Stranger(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/131.0.0.0 Safari/537.36",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "de-DE,de;q=0.9",
    "192.0.2.",
)
PHONE: Final = Stranger(
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "en-US,en;q=0.9",
    "203.0.113.",
    "Referer: https://search.example/\r\nSave-Data: on\r\nDNT: 1\r\n",
)


class Strangers:
    """Asks one server."""

    def __init__(self, server: Server, now_s: Callable[[], float] = time.time) -> None:
        """`now_s`: the time that answers are dated with."""
        self._server = server
        self._now_s = now_s

    def configure(self, server: Server) -> None:
        """Take a new configuration."""
        self._server = server

    async def ask(self, host: str, url: str, who: Stranger, *, https: bool) -> Answer | None:
        """Return what he gets; None: no answer, half a one, or one that says to come later."""
        web, how = target_of(self._server, "").web, self._server.https
        if web.tls and not how.to_server_name and how.to_server_check != "pin":
            web = replace(web, name=host)
        address = who.network + str(random.randint(1, 254))  # noqa: S311 - the address need not be secret, only different
        proto = "https" if https else "http"
        request = (
            f"GET {url} HTTP/1.1\r\nHost: {host}\r\n"
            f"User-Agent: {who.agent} naproxy/{__version__}\r\nAccept: {who.accept}\r\n"
            f"Accept-Language: {who.language}\r\nAccept-Encoding: identity\r\n{who.more}"
            f"X-Forwarded-For: {address}\r\nX-Forwarded-Proto: {proto}\r\n"
            f'Forwarded: for={address};proto={proto};host="{host}"\r\nConnection: close\r\n\r\n'
        ).encode("ascii")
        with contextlib.suppress(OSError, ValueError):
            async with asyncio.timeout(_ANSWER_S):
                streams = await reach(web)
                came = await exchange(streams, request, most_bytes=MOST_BYTES)
                return parsed(came, self._now_s())
        return None


def parsed(came: bytes, t_s: float) -> Answer | None:
    """Return an answer over HTTP/1, up to the end of its connection, or so many bytes."""
    head, _, body = came.partition(b"\r\n\r\n")
    found = head_of(head)
    if found is None:
        return None
    status, headers = found
    answer = Answer(t_s, status, headers)
    if status >= 500 or status in _TROUBLE:
        return None
    if answer.said("content-encoding").lower() not in ("", "identity"):
        return None
    cut = len(came) >= MOST_BYTES
    length = answer.said("content-length")
    if "chunked" in answer.said("transfer-encoding").lower():
        body, ended = unchunked(body)
        if not (ended or cut):
            return None
    elif _COUNT.fullmatch(length) and len(body) != int(length) and not cut:
        return None
    return Answer(t_s, status, headers, body, whole=not cut)
