"""A connection by TLS for those who hold thousands: two buffers and no transport of asyncio's."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from tests.siege.attacks import Line
from tests.simulator.office.box import HOST

T = TypeVar("T")


def context(*alpn: str, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Return what a client speaks that looks at no certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.maximum_version = newest
    if alpn:
        made.set_alpn_protocols(list(alpn))
    return made


def first_words(speaks: ssl.SSLContext) -> bytes:
    """Return a ClientHello."""
    out = ssl.MemoryBIO()
    tls = speaks.wrap_bio(ssl.MemoryBIO(), out, server_hostname=HOST)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("nobody has answered")


class TlsLine(Line):
    """One of a client's connections, by TLS."""

    def __init__(
        self,
        sock: socket.socket,
        number: int,
        tally: Counter[str],
        seed: int,
        *,
        speaks: ssl.SSLContext,
    ) -> None:
        """The handshake is yet to come."""
        super().__init__(sock, number, tally, seed)
        self._arrived, self._to_go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = speaks.wrap_bio(self._arrived, self._to_go, server_hostname=HOST)
        self._in_order = asyncio.Lock()

    async def begin(self) -> None:
        """Shake hands."""
        await self._done(self._tls.do_handshake)
        self.tally["handshakes"] += 1

    async def say(self, data: bytes) -> None:
        """Send all of it."""
        self._tls.write(data)
        await self._send()

    async def hear(self) -> bytes:
        """Return what comes next; nothing if the other side hung up."""
        try:
            return await self._done(functools.partial(self._tls.read, 1 << 16))
        except (ssl.SSLZeroReturnError, ConnectionError):
            return b""

    async def _done(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._send()
                data = await self._loop.sock_recv(self._sock, 1 << 16)
                if not data:
                    raise ConnectionResetError from None
                self._arrived.write(data)
            except ssl.SSLZeroReturnError:
                raise
            except ssl.SSLError as error:
                # Its number is none of errno's.
                raise ConnectionError(error.reason) from error
            else:
                await self._send()
                return result

    async def _send(self) -> None:
        async with self._in_order:
            if data := self._to_go.read():
                await self._loop.sock_sendall(self._sock, data)


def lines(speaks: ssl.SSLContext) -> Callable[[socket.socket, int, Counter[str], int], Line]:
    """Return what makes a line of each connection."""
    return functools.partial(TlsLine, speaks=speaks)
