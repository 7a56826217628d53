"""Identifying a machine by its port 80: one GET, few bytes, no redirects, nothing trusted.

The response is untrusted. It is cut to one line, and only a hint.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from naproxy import __version__
from naproxy.core.bounded import json_value
from naproxy.core.names import in_url

CONNECT_S: Final = 1.0
ANSWER_S: Final = 2.0
MOST_BYTES: Final = 16384
MOST_CHARACTERS: Final = 80

_TITLE: Final = re.compile(r"<title[^>]{0,200}>(.{0,1000}?)</title", re.IGNORECASE | re.DOTALL)
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([1-5][0-9]{2})(?: |$)")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[str, int], Awaitable[Streams]]


@dataclass(frozen=True, slots=True)
class Hint:
    """A port's result: `open`, `refused` or `silent`, and its name for itself."""

    port: int
    state: str
    status: int | None = None
    server: str = ""
    title: str = ""
    meter: str = ""
    """The driver of the meter that it seems to be; empty: none that is known."""

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a stranger's text as one line that can be shown: no control or direction marks."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


async def connect(address: str, port: int) -> Streams:
    """Open a connection with a buffer no larger than the bytes read of a response."""
    return await asyncio.open_connection(address, port, limit=MOST_BYTES)


async def knock(address: str, port: int, opened: Connect = connect) -> str:
    """Return `open`, `refused` or `silent`; nothing is sent."""
    state, streams = await _open(address, port, opened)
    if streams:
        streams[1].close()
    return state


async def _open(address: str, port: int, opened: Connect) -> tuple[str, Streams | None]:
    try:
        async with asyncio.timeout(CONNECT_S):
            return "open", await opened(address, port)
    except ConnectionRefusedError:
        return "refused", None
    except (OSError, TimeoutError):
        return "silent", None


async def look(address: str, port: int = 80, opened: Connect = connect) -> Hint:
    """Request / over HTTP; a machine with another protocol is only `open`."""
    state, answer = await _get(address, port, "/", opened)
    if state != "open":
        return Hint(port, state)
    return read(port, answer)


async def look_for_shelly(address: str, opened: Connect = connect) -> dict[str, Any] | None:
    """Return a Shelly's own description at /shelly; None if it is not a Shelly.

    https://shelly-api-docs.shelly.cloud/gen1/#shelly and .../gen2/ComponentsAndServices/Shelly.
    """
    _, answer = await _get(address, 80, "/shelly", opened)
    _, _, body = answer.partition(b"\r\n\r\n")
    try:
        said = json_value(body)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    if isinstance(said.get("gen"), int) and isinstance(said.get("app"), str):
        return {
            "gen": said["gen"],
            "model": one_line(said["app"]),
            "auth": bool(said.get("auth_en")),
        }
    if isinstance(said.get("type"), str) and "mac" in said:
        return {"gen": 1, "model": one_line(said["type"]), "auth": bool(said.get("auth"))}
    return None


async def _get(address: str, port: int, path: str, opened: Connect) -> tuple[str, bytes]:
    state, streams = await _open(address, port, opened)
    if streams is None:
        return state, b""
    reader, writer = streams
    writer.write(
        f"GET {path} HTTP/1.0\r\nHost: {in_url(address)}\r\nUser-Agent: naproxy/{__version__}\r\n"
        "Accept: text/html, application/json\r\nConnection: close\r\n\r\n".encode()
    )
    answer = b""
    # The part received until then is enough for a hint.
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            while len(answer) < MOST_BYTES:
                piece = await reader.read(MOST_BYTES - len(answer))
                if not piece:
                    break
                answer += piece
    writer.transport.abort()
    return state, answer


def read(port: int, answer: bytes) -> Hint:
    """Return the hints in the beginning of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = _STATUS.match(first)
    if not status:
        return Hint(port, "open")
    server = ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "server":
            server = one_line(value)
    found = _TITLE.search(body.decode(errors="replace"))
    title = one_line(html.unescape(found[1])) if found else ""
    return Hint(port, "open", int(status[1]), server, title, _meter(server, title))


def _meter(server: str, title: str) -> str:
    if server.lower().startswith("tasmota"):
        return "tasmota"
    # The first generation's server is Mongoose's, which others use too.
    if "shelly" in f"{server} {title}".lower() or server.lower().startswith("mongoose"):
        return "shelly"
    return ""
