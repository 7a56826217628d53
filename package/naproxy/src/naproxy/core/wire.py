"""Connections to a server's web port: as it expects them, to the server itself and nobody else."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from naproxy.core.names import in_url

MOST_BYTES: Final = 16384
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r\n]")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Web:
    """How a web port is spoken to."""

    address: str
    port: int
    tls: bool = False
    name: str = ""
    """That the server is asked by (SNI); empty: none."""
    proxied: bool = False
    """It expects the PROXY protocol."""
    host: str = ""
    """That requests name; empty: `name`, or its address."""

    @property
    def host_header(self) -> str:
        """Value of `Host` in a request to it."""
        return in_url(self.host or self.name or self.address)


async def connect(address: str, port: int) -> socket.socket:
    """Connect to an address: no proxy of the environment, no name service; OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _introduction(sock: socket.socket) -> bytes:
    """Return the line of the PROXY protocol that says of this connection what is so.

    It may say UNKNOWN instead, but Apache 2.4 does not understand that.
    """
    family = "TCP6" if sock.family == socket.AF_INET6 else "TCP4"
    (own, own_port, *_), (peer, port, *_) = sock.getsockname(), sock.getpeername()
    return f"PROXY {family} {own} {peer} {own_port} {port}\r\n".encode()


def anybody() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def reach(
    web: Web,
    context: ssl.SSLContext | None = None,
    connected: Callable[[], None] = lambda: None,
) -> Streams:
    """Open a connection; OSError. Without `context` no certificate is looked at.

    `connected` hears when the port has taken the connection, before TLS.
    """
    sock = await connect(web.address, web.port)
    connected()
    if web.proxied:
        # Into an empty buffer: it is taken at once.
        sock.send(_introduction(sock))
    if not web.tls:
        return await asyncio.open_connection(sock=sock, limit=MOST_BYTES)
    return await asyncio.open_connection(
        sock=sock, limit=MOST_BYTES, ssl=context or anybody(), server_hostname=web.name
    )


async def exchange(
    streams: Streams, request: bytes, until: bytes | None = None, most_bytes: int = MOST_BYTES
) -> bytes:
    """Send a request and return the answer, up to `until`, its end or so many bytes; OSError.

    More than `until` may be in it. The connection is closed.
    """
    reader, writer = streams
    try:
        writer.write(request)
        answer = b""
        while len(answer) < most_bytes and (until is None or until not in answer):
            more = await reader.read(most_bytes - len(answer))
            if not more:
                break
            answer += more
        return answer
    finally:
        writer.transport.abort()


def head_of(head: bytes) -> tuple[int, tuple[tuple[str, str], ...]] | None:
    """Return the status and the headers of an HTTP/1 response, names in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or words[0] not in ("HTTP/1.1", "HTTP/1.0"):
        return None
    if len(words[1]) != 3 or not words[1].isascii() or not words[1].isdigit():
        return None
    parts = (line.partition(":") for line in lines if ":" in line)
    return int(words[1]), tuple((name.strip().lower(), value.strip()) for name, _, value in parts)


def unchunked(body: bytes) -> tuple[bytes, bool]:
    """Return the text of chunks, as far as they came and are well formed; is it all of it?"""
    text, at = bytearray(), 0
    while (end := body.find(b"\r\n", at, at + 100)) >= 0:
        try:
            size = int(body[at:end].partition(b";")[0], 16)
        except ValueError:
            break
        if size <= 0:
            return bytes(text), size == 0
        text += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    return bytes(text), False


def status_of(answer: bytes) -> int | None:
    """Return the status at the start of an HTTP/1 response; None if it is missing or cut off."""
    found = _STATUS.match(answer)
    return int(found[1]) if found else None
