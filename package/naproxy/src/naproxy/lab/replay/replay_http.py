"""A small HTTP/1.1 client for the replay: one request a connection, many at once.

It exists because the source address, the exact bytes of the request and every way in which
an answer can fail to come must be known. Servers are not trusted: their answers are bounded.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_MAX = 65536  # bytes of status line and headers
BODY_KEPT = 4096  # bytes of a body that are kept, the rest is read and counted
_READ = 65536
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?")
_NO_BODY = (204, 304)


class Lost(Exception):  # noqa: N818 what happened to the request, not a fault of ours
    """No whole answer came; the text says why, in words that can be counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came whole."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # its first BODY_KEPT bytes
    size: int  # bytes of the body


async def ask(
    address: str,
    port: int,
    request: bytes,
    *,
    source: str | None = None,
    head: bool = False,
    tls: ssl.SSLContext | None = None,
    name: str | None = None,
) -> Answer:
    """Send `request`, which must ask for `Connection: close`, and read the answer to its end.

    `address` and `source` are IP addresses; `head` says that the method is HEAD; with `tls` it
    goes over HTTPS, to a server with a certificate for `name`. Raises Lost.
    """
    local = (source, 0) if source else None
    try:
        reader, writer = await asyncio.open_connection(
            *(address, port),
            local_addr=local,
            limit=HEAD_MAX,
            ssl=tls,
            server_hostname=name if tls else None,
        )
    except OSError as error:
        raise Lost(f"no connection: {_words(error)}") from error
    try:
        writer.write(request)
        return await _answer(reader, head)
    except asyncio.LimitOverrunError as error:
        raise Lost(f"the answer's head is longer than {HEAD_MAX} bytes") from error
    except asyncio.IncompleteReadError as error:
        raise Lost("the answer was cut") from error
    except OSError as error:
        raise Lost(f"the connection broke: {_words(error)}") from error
    finally:
        # Not closed with care: the answer is whole, or there will be none.
        writer.transport.abort()


async def _answer(reader: asyncio.StreamReader, head: bool) -> Answer:
    status = 100
    while status < 200:  # interim answers come before the real one
        try:
            block = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            raise Lost("the answer was cut" if error.partial else "no answer") from error
        status, headers = _head(block)
        if status == 101:
            raise Lost("the server switched protocols unasked")
    body = _Body(reader)
    if not head and status not in _NO_BODY:
        if "transfer-encoding" in headers:
            await body.chunked(headers["transfer-encoding"])
        elif "content-length" in headers:
            await body.counted(headers["content-length"])
        else:
            await body.rest()
    return Answer(status, headers, bytes(body.kept), body.size)


def _head(block: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = block[:-4].decode("latin-1").split("\r\n")
    match = _STATUS.fullmatch(first)
    if not match:
        raise Lost("the answer is not HTTP/1.1")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise Lost("the answer has a line among its headers that is none")
        headers[name.lower()] = value.strip()
    return int(match[1]), headers


class _Body:
    """A body as it is read."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.kept = bytearray()
        self.size = 0

    async def rest(self) -> None:
        """Read to the end of the connection."""
        while part := await self._reader.read(_READ):
            self._take(part)

    async def counted(self, length: str) -> None:
        """Read a body with this Content-Length."""
        if not length.isascii() or not length.isdecimal() or len(length) > 18:
            raise Lost("the answer's Content-Length is not a number")
        await self._exactly(int(length))

    async def chunked(self, coding: str) -> None:
        """Read a body in chunks (RFC 9112, 7.1)."""
        if coding.lower() != "chunked":
            raise Lost("the answer's Transfer-Encoding is not known")
        while size := _chunk_size(await self._reader.readuntil(b"\r\n")):
            await self._exactly(size)
            if await self._reader.readexactly(2) != b"\r\n":
                raise Lost("the answer's chunks are broken")
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers

    async def _exactly(self, count: int) -> None:
        while count:
            part = await self._reader.read(min(count, _READ))
            if not part:
                raise Lost("the answer was cut")
            self._take(part)
            count -= len(part)

    def _take(self, part: bytes) -> None:
        self.size += len(part)
        self.kept += part[: BODY_KEPT - len(self.kept)]


_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r\n", re.DOTALL)


def _chunk_size(line: bytes) -> int:
    match = _CHUNK_SIZE.fullmatch(line)
    if not match:
        raise Lost("the answer's chunks are broken")
    return int(match[1], 16)


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason).replace("_", " ").lower()
    return (os.strerror(error.errno) if error.errno else type(error).__name__).lower()
