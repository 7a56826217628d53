"""Has Varnish fetch what its cache is to have, or forget it, over the listener of the box's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from naproxy.core.wire import exchange, status_of

CHANNELS: Final = 5
"""Requests at a time: a small server has a few processors, and others it serves."""
_ANSWER_S: Final = 5.0
_EXPIRE: Final = "X-Naproxy-Expire: 1\r\n"
_KEPT: Final = (200, 203, 204, 300, 301, 302, 304, 307, 308, 404, 410)


@dataclass(frozen=True, slots=True)
class Job:
    """How to ask Varnish for one variant of an address. `path` is its hash, as in events."""

    path: int
    host: str
    url: str
    accept: str = ""
    https: bool = False
    bytes: int = 0


def askable(host: str, url: str, accept: str = "") -> bool:
    """May this be sent as a request's first line and headers?"""
    plain = all(text.isascii() and text.isprintable() for text in (host, url, accept))
    return plain and url.startswith("/") and " " not in url + host and host != ""


@dataclass(slots=True)
class Fetched:
    """The result of a batch: the share of its time for each address that the cache has now.

    Several are on their way at once, so a share is not the duration of one.
    """

    took_s: dict[int, float] = field(default_factory=dict)
    whole_s: float = 0.0


class Varnish:
    """The listener `box` of Varnish."""

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)

    async def fetch(self, jobs: Sequence[Job], *, most_s: float, expire: bool) -> Fetched:
        """Have the cache ask the server for each of these that it has not fresh.

        Ends when all is done, or `most_s` are over. `expire`: also for those that are fresh.
        """
        begun_s = time.monotonic()
        # Of each that was answered: how long that took, and whether the cache has it now.
        ended: list[tuple[Job, float, bool]] = []
        free = asyncio.Semaphore(CHANNELS)

        async def ask(job: Job) -> None:
            async with free:
                asked_s = time.monotonic()
                kept = await self._ask(job) in _KEPT
                ended.append((job, time.monotonic() - asked_s, kept))

        async def forget(job: Job) -> None:
            async with free:
                await self._ask(job, _EXPIRE)

        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                if expire:
                    await asyncio.gather(*map(forget, jobs))
                await asyncio.gather(*map(ask, jobs))
        done = Fetched(whole_s=time.monotonic() - begun_s)
        asked_s = sum(took_s for _, took_s, _ in ended)
        for job, took_s, kept in ended:
            if kept:
                # Its variants are one address.
                share_s = done.whole_s * took_s / asked_s
                done.took_s[job.path] = done.took_s.get(job.path, 0.0) + share_s
        return done

    async def _ask(self, job: Job, more: str = "") -> int | None:
        """Ask Varnish for one; return the status, None if there is no answer."""
        accept = f"Accept: {job.accept}\r\n" if job.accept else ""
        https = "X-Naproxy-Https: 1\r\n" if job.https else ""
        try:
            return await self._say(f"HEAD {job.url}", job.host, accept + https + more)
        except OSError:
            return None

    async def read(self, job: Job, most_bytes: int) -> bytes:
        """Return the answer that visitors get, or the outcome; empty: none."""
        accept = f"Accept: {job.accept}\r\n" if job.accept else ""
        https = "X-Naproxy-Https: 1\r\n" if job.https else ""
        try:
            return await self._exchange(f"GET {job.url}", job.host, accept + https, most_bytes)
        except OSError:
            return b""

    async def empty(self, *, server: str = "", path: str = "", tag: str = "") -> int:
        """Have nothing used any more of a server, below a path (percent-encoded), with a tag.

        Returns the answer's status: 200, or 404 for a server that Varnish does not know. OSError
        if it does not answer.
        """
        named = {"Server": server, "Path": path, "Tag": tag}
        headers = (f"X-Naproxy-{name}: {value}\r\n" for name, value in named.items() if value)
        async with asyncio.timeout(_ANSWER_S):
            return await self._say("PURGE /", "box", "".join(headers))

    async def _say(self, what: str, host: str, headers: str) -> int:
        """Send a request without a body; return the answer's status, OSError if there is none."""
        status = status_of(await self._exchange(what, host, headers))
        if status is None:
            raise ConnectionError("no answer by HTTP")
        return status

    async def _exchange(
        self, what: str, host: str, headers: str, most_bytes: int | None = None
    ) -> bytes:
        """Send a request without a body; return its first line, or up to so many bytes of all."""
        request = f"{what} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
        streams = await asyncio.open_unix_connection(self._path)
        if most_bytes is None:
            return await exchange(streams, request.encode(), b"\n")
        return await exchange(streams, request.encode(), most_bytes=most_bytes)
