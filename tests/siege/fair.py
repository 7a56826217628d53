"""`python -m tests.siege.fair`: a fair visitor, who asks at a steady rate until told to stop.

Each request is on a connection of its own and goes out when it is due, however long the ones
before it take. When it has ended it is a line of JSON on standard output, see `Visit`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.simulator.office.box import ADDRESS, HOST

HIT: Final = "/css/base.css"
"""In the cache."""

STATUS: Final = "/.naproxy/status"
RATES: Final = {"hit": 40.0, "status": 40.0, "post": 5.0}
"""Of each kind so many a second."""

TIMEOUT_S: Final = {"hit": 5.0, "status": 5.0, "post": 60.0, "h1": 5.0, "h2": 5.0}
"""The last two are those of bench/probe.py."""
ADDRESSES: Final = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """One request and what became of it; times are CLOCK_MONOTONIC."""

    kind: str
    id: str
    due_s: float
    took_s: float
    status: int
    """0: no answer."""
    retry_after: bool
    words: bool
    """The answer has a body that says something."""
    right: bool
    """It is what was asked for."""
    error: str = ""

    @property
    def served(self) -> bool:
        """Whether it got what it asked for."""
        return self.status == 200 and self.right

    @property
    def refused(self) -> bool:
        """Whether it was told in words that it is not served now, and when to come again."""
        return self.status in (429, 503) and self.retry_after and self.words


def request(kind: str, number: int) -> tuple[str, bytes, bytes]:
    """Return id, head with body, and what a right answer's body has in it."""
    identity = f"fair-{kind}-{number}"
    lines = [f"Host: {HOST}", "User-Agent: Mozilla/5.0 Firefox/128.0", "Accept: */*"]
    lines += ["Connection: close", f"X-Request-Id: {identity}"]
    body, expected = b"", b"margin:" if kind == "hit" else b'"state"'
    method, path = "GET", HIT if kind == "hit" else STATUS
    if kind == "post":
        method, path, body = "POST", "/app/echo", f"number={number}".encode()
        lines.append(f"Content-Length: {len(body)}")
        expected = body
    first = f"{method} {path} HTTP/1.1"
    return identity, "\r\n".join([first, *lines, "", ""]).encode() + body, expected


def judged(kind: str, identity: str, due_s: float, took_s: float, data: bytes) -> Visit:
    """Say what an answer, as it came off the wire, is worth; an empty one is none."""
    expected = request(kind, int(identity.rpartition("-")[2]))[2]
    top, _, body = data.partition(b"\r\n\r\n")
    status = int(top[9:12]) if top[:5] == b"HTTP/" and top[9:12].isdigit() else 0
    return Visit(
        kind=kind,
        id=identity,
        due_s=due_s,
        took_s=took_s,
        status=status,
        retry_after=b"\r\nretry-after:" in top.lower(),
        words=len(body.strip()) > 0,
        right=expected in body and _whole(top, body),
        error="" if status else "hung up without an answer",
    )


def _whole(top: bytes, body: bytes) -> bool:
    fields = (line.partition(b":") for line in top.split(b"\r\n"))
    lengths = [value for name, _, value in fields if name.lower() == b"content-length"]
    return all(int(length) == len(body) for length in lengths)


async def _ask(kind: str, number: int, due_s: float) -> Visit:
    identity, said, _ = request(kind, number)
    loop = asyncio.get_running_loop()
    data = b""
    with socket.socket() as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(TIMEOUT_S[kind]):
                sock.bind((f"198.18.0.{number % ADDRESSES + 1}", 0))
                await loop.sock_connect(sock, (ADDRESS, 80))
                await loop.sock_sendall(sock, said)
                while part := await loop.sock_recv(sock, 1 << 16):
                    data += part
        except (OSError, TimeoutError) as error:
            visit = judged(kind, identity, due_s, time.monotonic() - due_s, b"")
            return dataclasses.replace(visit, error=type(error).__name__)
    return judged(kind, identity, due_s, time.monotonic() - due_s, data)


async def visit_steadily(
    ask: Callable[[str, int, float], Awaitable[Visit]], rates: Mapping[str, float]
) -> None:
    """Ask for each kind so often a second, and print each visit, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    underway: set[asyncio.Task[None]] = set()

    async def one(kind: str, number: int, due_s: float) -> None:
        visit = await ask(kind, number, due_s)
        sys.stdout.write(json.dumps(dataclasses.asdict(visit)) + "\n")

    async def steadily(kind: str, rate: float) -> None:
        begun_s = time.monotonic()
        for number in itertools.count():
            due_s = begun_s + number / rate
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            task = asyncio.ensure_future(one(kind, number, due_s))
            underway.add(task)
            task.add_done_callback(underway.discard)

    asking = [asyncio.ensure_future(steadily(*each)) for each in rates.items()]
    await stop.wait()
    for task in asking:
        task.cancel()
    # Whatever was sent is waited for: a POST that ends late is not lost.
    while underway:
        await asyncio.wait(underway)


if __name__ == "__main__":
    asyncio.run(visit_steadily(_ask, RATES))
