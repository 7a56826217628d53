"""Reading some pages of a server's website, politely and with limits.

Requests go only to the server itself, whatever its pages link to, and only as GET. Forms and paths
that its robots.txt disallows are left out. Addresses, bytes and seconds are limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from protego import Protego

from naproxy import __version__
from naproxy.config.document import Server, target_of
from naproxy.core.names import ascii_site, in_url
from naproxy.core.wire import Web, head_of, reach, unchunked
from naproxy.setup.site import Answer, Site, is_file, redirect_of

AGENT: Final = "naproxy"
_STEP_S: Final = 5.0
_ROBOTS_TXT: Final = "/robots.txt"
_REDIRECTS: Final = 5
_ROBOTS_BYTES: Final = 500 << 10
"""Of robots.txt at least so much is to be read (RFC 9309, 2.5), and so many redirects followed."""

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


_NOTHING: Final = "User-agent: *\nDisallow: /"
_GROUP: Final = re.compile(r"^([ \t]*user[- ]?agent[ \t]*:)(.*)$", re.IGNORECASE | re.MULTILINE)
_WHOLE_ADDRESS: Final = re.compile(
    r"^([ \t]*disallow[ \t]*:[ \t]*)https?://[^/\s#]*/?", re.I | re.M
)


def _rules(answer: Answer | None) -> str:
    """Return the rules in it, or the default rules if it is missing or unreadable."""
    if answer is None or answer.status >= 500:
        return _NOTHING
    if answer.status >= 300:
        return ""
    wide = answer.body[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = answer.body.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    text = "\n".join(text.splitlines())
    # A rule with a whole address means its path.
    return _GROUP.sub(_group, _WHOLE_ADDRESS.sub(r"\1/", text))


def _group(line: re.Match[str]) -> str:
    """Name a group as we are called, if it is ours (RFC 9309, 2.2.1); protego takes parts."""
    found = re.match(r"\*(?!\S)|[a-z_-]+", line[2].strip(), re.IGNORECASE)
    name = found[0].lower() if found else ""
    return f"{line[1]} {name if name in ('*', AGENT) else 'another'}"


class Robots:
    """The paths that robots.txt allows (RFC 9309)."""

    def __init__(self, answer: Answer | None) -> None:
        """Read it."""
        self._rules = Protego.parse(_rules(answer))
        self.delay_s = float(self._rules.crawl_delay(AGENT) or 0)

    def allow(self, path: str) -> bool:
        """May it be asked for?"""
        try:
            return self._rules.can_fetch(path, AGENT)
        except ValueError:
            return False


async def _robots(get: Get, site: Site) -> Robots:
    """Return the rules; where redirects lead to none on this website, there are none."""
    path = _ROBOTS_TXT
    for _ in range(1 + _REDIRECTS):
        answer = await get(path)
        if answer is None or not 300 <= answer.status < 400:
            return Robots(answer)
        path = redirect_of(answer, site.hosts)
        if not path:
            break
    return Robots(Answer(_ROBOTS_TXT, 404, ()))


async def crawl(
    get: Get,
    site: Site,
    bounds: Bounds,
    now: Callable[[], float],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Ask until there is nothing new or a bound is reached; NotAllowedError."""
    end_s = now() + bounds.whole_s
    robots = await _robots(get, site)
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
        """Request a path; read only a little if it is not a page or text."""
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
        if answer is None or not (answer.is_html or answer.is_plain):
            return answer
        most = self._bounds.body_bytes if answer.is_html else _ROBOTS_BYTES
        body = bytearray()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_S / 2):
                while len(body) < most:
                    piece = await reader.read(most - len(body))
                    if not piece:
                        break
                    body += piece
        chunked = "chunked" in answer.said("transfer-encoding").lower()
        text = unchunked(bytes(body))[0] if chunked else bytes(body)
        return Answer(path, answer.status, answer.headers, text)
