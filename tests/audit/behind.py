"""`python -m tests.audit.behind SOCKET`: what stands behind a terminator that is tried alone.

It takes a PROXY header, then HTTP/1.1 requests, and answers each with a few bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

BODY = b"Nothing but this.\n" * 8
"""Longer than a flow control window that h2spec sets."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(BODY)


async def _body(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read what comes after a head, and forget it."""
    fields = dict(line.lower().partition(b":")[::2] for line in head.splitlines()[1:])
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        while size := int((await reader.readline()).partition(b";")[0], 16):
            await reader.readexactly(size + 2)
        while (await reader.readline()).strip():
            pass
        return
    await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, ValueError):
        told = await reader.readexactly(16)
        if told[:12] != _SIGNATURE:
            return
        await reader.readexactly(int.from_bytes(told[14:], "big"))
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await _body(reader, head)
            writer.write(_ANSWER + (b"" if head.startswith(b"HEAD ") else BODY))
            await writer.drain()


async def _main(socket: Path) -> None:
    server = await asyncio.start_unix_server(serve, socket)
    socket.chmod(0o666)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
