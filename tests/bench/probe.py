"""`python -m tests.bench.probe`: a visitor by HTTPS, ten times a second, until told to stop.

Each request has a connection and a handshake of its own, in turn by HTTP/1.1 and HTTP/2, and goes
out when it is due. When it has ended it is a line of JSON on standard output: `siege.fair.Visit`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import ssl
import time
from collections import Counter
from typing import Final

from tests.bench import h2
from tests.bench.floods import PORT
from tests.bench.tls_line import TlsLine, context
from tests.siege.fair import HIT, TIMEOUT_S, Visit, judged, request, visit_steadily
from tests.simulator.office.box import ADDRESS, HOST

RATES: Final = {"in turn": 10.0}
"""By HTTP/1.1 and HTTP/2."""
NICE: Final = -10
"""In reality its processor is its own."""

_SPEAKS: Final = {"h1": context("http/1.1"), "h2": context("h2", "http/1.1")}


async def _by_h1(line: TlsLine, number: int) -> bytes:
    await line.say(request("hit", number)[1])
    data = b""
    while part := await line.hear():
        data += part
    return data


async def _by_h2(line: TlsLine) -> bytes:
    """Return the answer as HTTP/1.1 would have it, so far as it is judged."""
    await line.say(h2.PREFACE + h2.settings() + h2.get(1, h2.block(HOST, HIT)))
    frames, status, body = h2.Frames(), 0, b""
    while part := await line.hear():
        for kind, flags, stream, payload in frames.feed(part):
            if kind == h2.SETTINGS and not flags & h2.ACK:
                await line.say(h2.frame(h2.SETTINGS, h2.ACK, 0))
            if stream != 1:
                continue
            if kind == h2.HEADERS:
                status = h2.status(payload)
            if kind == h2.DATA:
                body += payload
            if kind in (h2.HEADERS, h2.DATA) and flags & h2.END_STREAM:
                return b"HTTP/1.1 %d \r\n\r\n" % status + body
            if kind == h2.RST_STREAM:
                return b""
    return b""


async def ask(_: str, number: int, due_s: float) -> Visit:
    """Ask once, on a new connection, each second time by HTTP/2."""
    kind = ("h1", "h2")[number % 2]
    loop, data, error = asyncio.get_running_loop(), b"", ""
    with socket.socket() as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(TIMEOUT_S[kind]):
                await loop.sock_connect(sock, (ADDRESS, PORT))
                line = TlsLine(sock, number, Counter(), 0, speaks=_SPEAKS[kind])
                await line.begin()
                data = await (_by_h1(line, number) if kind == "h1" else _by_h2(line))
        except (OSError, TimeoutError, ssl.SSLError) as problem:
            error = type(problem).__name__
    took_s = time.monotonic() - due_s
    visit = judged("hit", f"fair-hit-{number}", due_s, took_s, b"" if error else data)
    return dataclasses.replace(visit, kind=kind, error=error or visit.error)


if __name__ == "__main__":
    os.nice(NICE)
    asyncio.run(visit_steadily(ask, RATES))
