"""Looking at some pages of a server's website, as a polite stranger: bounded in every way.

Only the server itself is asked, whatever its pages link to; only by GET; no forms, nothing that
its robots.txt keeps from robots; a few addresses, bytes and seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.robotparser import RobotFileParser

from naproxy import __version__
from naproxy.config.document import Server, target_of
from naproxy.core.names import ascii_site, in_url
from naproxy.core.wire import Web, head_of, reach, unchunked
from naproxy.setup.site import Answer, Site, is_file

AGENT: Final = "naproxy"
_STEP_S: Final = 5.0

Get = Callable[[str], Awaitable[Answer | None]]
"""Asks for a path; None: no answer."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much at most. A page is asked for twice: is it the same for the next stranger?"""

    pages: int = 20
    files: int = 20
    body_bytes: int = 1 << 18
    whole_s: float = 20.0


class NotAllowedError(Exception):
    """The website wants no robots at all."""


_NOTHING: Final = ("User-agent: *", "Disallow: /")


def _lines(answer: Answer | None) -> Sequence[str]:
    """Return the rules in it; of a server that has none, or cannot say, what holds instead."""
    if answer is None or answer.status >= 500:
        return _NOTHING
    text = answer.body.decode(errors="replace") if answer.status < 300 else ""
    return text.splitlines()[:2000]


class Robots:
    """What robots.txt lets us ask for (RFC 9309)."""

    def __init__(self, answer: Answer | None) -> None:
        """Read it."""
        self._rules = RobotFileParser()
        try:
            self._rules.parse(_lines(answer))
        except ValueError:
            # An address that cannot be one: who knows what it was to keep from us.
            self._rules.parse(_NOTHING)
        self.delay_s = float(self._rules.crawl_delay(AGENT) or 0)

    def allow(self, path: str) -> bool:
        """May it be asked for?"""
        try:
            return self._rules.can_fetch(AGENT, path)
        except ValueError:
            return False


async def crawl(
    get: Get,
    site: Site,
    bounds: Bounds,
    now: Callable[[], float],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Ask until there is nothing new or a bound is reached; NotAllowedError."""
    end_s = now() + bounds.whole_s
    robots = Robots(await get("/robots.txt"))
    if not robots.allow("/"):
        raise NotAllowedError
    left = {False: bounds.pages, True: bounds.files}
    waiting = {False: deque(["/"]), True: deque[str]()}
    seen = {"/"}
    file = True
    while any(waiting.values()) and now() < end_s:
        # By turns: a slow server's pages must not take all the time.
        file = bool(waiting[True]) and (not file or not waiting[False])
        path = waiting[file].popleft()
        if not left[file] or not robots.allow(path):
            continue
        left[file] -= 1
        # A page's second answer comes before anything else, so that only strangers may differ.
        for _ in range(1 if file else 2):
            await pause(min(robots.delay_s, max(0.0, end_s - now())))
            if now() >= end_s or (answer := await get(path)) is None:
                break
            new = [link for link in site.take(answer) if link not in seen]
            seen.update(new)
            for link in new:
                waiting[is_file(link)].append(link)
            if answer.status != 200:
                break


class Browser:
    """Asks the server itself, at the address and port of the configuration, by its name."""

    def __init__(self, server: Server, bounds: Bounds) -> None:
        """Nothing is asked yet."""
        names = [ascii_site(host) for host in server.hosts]
        self.names = tuple(name for name in names if "*" not in name)
        target = target_of(server, "")
        host = next(iter(self.names), in_url(server.address))
        self._web: Web = target.web
        self._bounds = bounds
        self._head = (
            f"Host: {host}\r\nUser-Agent: {AGENT}/{__version__}\r\nAccept: */*\r\n"
            # As Varnish asks: many send visitors on to HTTPS who do not come by it.
            f"X-Forwarded-Proto: {'https' if server.https.mode == 'box' else 'http'}\r\n"
            "Connection: close\r\n\r\n"
        )

    async def get(self, path: str) -> Answer | None:
        """Ask for a path; of what is no page or text little is read."""
        request = f"GET {path} HTTP/1.1\r\n{self._head}".encode("ascii")
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, ValueError):
            async with asyncio.timeout(_STEP_S):
                reader, writer = await reach(self._web)
                try:
                    writer.write(request)
                    return await self._read(path, reader)
                finally:
                    writer.transport.abort()
        return None

    async def _read(self, path: str, reader: asyncio.StreamReader) -> Answer | None:
        # The reader's own limit bounds the head.
        head = await reader.readuntil(b"\r\n\r\n")
        found = head_of(head)
        answer = Answer(path, *found) if found else None
        if answer is None or not (answer.is_html or path == "/robots.txt"):
            return answer
        body = bytearray()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_S / 2):
                while len(body) < self._bounds.body_bytes:
                    piece = await reader.read(self._bounds.body_bytes - len(body))
                    if not piece:
                        break
                    body += piece
        chunked = "chunked" in answer.said("transfer-encoding").lower()
        text = unchunked(bytes(body))[0] if chunked else bytes(body)
        return Answer(path, answer.status, answer.headers, text)
