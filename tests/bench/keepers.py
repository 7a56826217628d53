"""Connections that are only kept, and what never answers.

    python -m tests.bench.keepers hold SOCKET PORT             takes connections, says nothing
    python -m tests.bench.keepers keep PORT COUNT ALPN WHAT    keeps COUNT, `idle` or `held`

Each says a line when it is ready, and ends by SIGTERM.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections import Counter
from pathlib import Path

from tests.bench import h2
from tests.bench.tls_line import TlsLine, context
from tests.simulator.office.box import ADDRESS, HOST

_AT_ONCE = 50


async def _hold(path: str, port: str) -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass

    servers = [
        await asyncio.start_unix_server(silent, path, backlog=1024),
        await asyncio.start_server(silent, "127.0.0.1", int(port), backlog=1024),
    ]
    Path(path).chmod(0o666)
    await _ready()
    for server in servers:
        await server.serve_forever()


async def _keep(port: str, count: str, alpn: str, what: str) -> None:
    loop, speaks, few = asyncio.get_running_loop(), context(alpn), asyncio.Semaphore(_AT_ONCE)
    head = f"GET /held HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    said = {
        ("http/1.1", "idle"): b"",
        ("http/1.1", "held"): head,
        ("h2", "idle"): h2.PREFACE + h2.settings(),
        ("h2", "held"): h2.PREFACE + h2.settings() + h2.get(1, h2.block(HOST, "/held")),
    }[alpn, what]

    async def one(number: int) -> TlsLine:
        async with few:
            sock = socket.socket()
            sock.setblocking(False)
            await loop.sock_connect(sock, (ADDRESS, int(port)))
            line = TlsLine(sock, number, Counter(), 0, speaks=speaks)
            await line.begin()
            if said:
                await line.say(said)
            return line

    kept = await asyncio.gather(*(one(number) for number in range(int(count))))
    await _ready()
    await asyncio.gather(*(line.until_hung_up() for line in kept))
    await asyncio.Event().wait()


async def _ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    do, *words = sys.argv[1:]
    asyncio.run(_hold(*words) if do == "hold" else _keep(*words))
