"""What an attacker does, connection by connection. Each attack is one small class."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import itertools
import random
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, ClassVar, Final

from tests.simulator.office.box import HOST

SLEEPERS: Final = tuple(f"sleeper{n}.office.example" for n in (1, 2, 3))
"""The servers that are called all the time and never come."""

BIG: Final = "/app/reply?size=3000000&h.Cache-Control=max-age%3D3600"
"""A file of 3 MB that is in the cache."""

SOMETHING: Final = "/css/print.css"
AGENT: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
"""An attacker does not say that it is a robot."""

WAIT_S: Final = 3600.0
"""Longer than any attack."""


class Line:
    """One of the attacker's connections."""

    def __init__(self, sock: socket.socket, number: int, tally: Counter[str], seed: int) -> None:
        """`number` is the connection's own, from 0."""
        self.number = number
        self.tally = tally
        self.seed = seed
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    @property
    def source(self) -> str:
        """Return the address that it comes from."""
        address: str = self._sock.getsockname()[0]
        return address

    async def begin(self) -> None:
        """Do what comes before anything is said: in clear, nothing."""

    async def say(self, data: bytes) -> None:
        """Send all of it."""
        await self._loop.sock_sendall(self._sock, data)

    async def get(
        self, path: str, *, host: str = HOST, method: str = "GET", more: str = ""
    ) -> None:
        """Send a whole head; `more` are further lines, each with its end."""
        await self.say(head(path, host=host, method=method, more=more))

    async def hear(self) -> bytes:
        """Return what comes next; nothing if the box hung up."""
        return await self._loop.sock_recv(self._sock, 1 << 16)

    async def answer(self) -> bool:
        """Read one whole answer; false if the box hung up, or will."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (part := await self.hear()):
                return False
            data += part
        status_and_headers, _, body = data.partition(b"\r\n\r\n")
        self.tally[f"answered {status_and_headers[9:12].decode('latin-1')}"] += 1
        fields = status_and_headers.lower().split(b"\r\n")
        lengths = [field for field in fields if field.startswith(b"content-length:")]
        left = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
        while left > 0 and (part := await self.hear()):
            left -= len(part)
        return left <= 0 and bool(lengths) and b"connection: close" not in fields

    async def until_hung_up(self) -> None:
        """Keep the connection, reading whatever comes, until the box ends it."""
        while data := await self.hear():
            if data.startswith(b"HTTP/1.1 "):
                self.tally[f"answered {data[9:12].decode('latin-1')}"] += 1


@contextlib.asynccontextmanager
async def meanwhile(reading: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Go on reading while something is said; it is done when the box has hung up."""
    task = asyncio.ensure_future(reading)
    try:
        yield task
    finally:
        task.cancel()


LineType = Callable[[socket.socket, int, "Counter[str]", int], Line]


def head(path: str, *, host: str = HOST, method: str = "GET", more: str = "") -> bytes:
    """Return a request's head as a browser's script sends it."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\n"
        f"Accept: */*\r\nSec-Fetch-Mode: cors\r\n{more}\r\n"
    ).encode()


class Attack(ABC):
    """Opens connections at a steady rate, so many at once; `hold` is the life of one."""

    name: ClassVar[str]
    connections: ClassVar[int] = 1000
    """Open at once at most; who is hung up on comes again."""
    per_s: ClassVar[float] = 500
    """New connections a second at most."""
    receive_buffer: ClassVar[int] = 0
    """Bytes the attacker's kernel takes; 0: as usual."""

    @abstractmethod
    async def hold(self, line: Line) -> None:
        """Use one connection; it is closed when this returns."""


class HalfHeads200(Attack):
    """200 connections a second; each sends half a request's head and then nothing."""

    name = "half_heads_200"
    connections = 10_000
    per_s = 200

    async def hold(self, line: Line) -> None:
        await line.say(head(SOMETHING)[:-2])
        await line.until_hung_up()


class HalfHeads500(HalfHeads200):
    """The same, 500 a second."""

    name = "half_heads_500"
    per_s = 500


class SlowHeads(Attack):
    """1000 connections send their head a byte every half second."""

    name = "slow_heads"

    async def hold(self, line: Line) -> None:
        for byte in head(SOMETHING):
            await line.say(bytes([byte]))
            await asyncio.sleep(0.5)


class SlowBodies(Attack):
    """1000 uploads of 100 kB, a byte a second each."""

    name = "slow_bodies"

    async def hold(self, line: Line) -> None:
        await line.get("/app/echo", method="POST", more="Content-Length: 100000\r\n")
        async with meanwhile(line.until_hung_up()) as hung_up:
            while not hung_up.done():
                await line.say(b".")
                await asyncio.sleep(1)


class SilentTunnels(Attack):
    """1000 WebSockets that say nothing once they are open."""

    name = "silent_websockets"

    async def hold(self, line: Line) -> None:
        key = base64.b64encode(random.Random(line.number).randbytes(16)).decode()
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        await line.get("/app/ws", more=f"{upgrade}Sec-WebSocket-Key: {key}\r\n")
        await line.until_hung_up()


class StoppedReaders(Attack):
    """1000 clients ask for a cached file of 3 MB and read nothing of it."""

    name = "stopped_readers"
    receive_buffer = 4096

    async def hold(self, line: Line) -> None:
        await line.get(BIG)
        await asyncio.sleep(WAIT_S)


class ConnectionFlood(Attack):
    """1000 connections a second that never say a word, up to 8000 at once."""

    name = "connection_flood"
    connections = 8000
    per_s = 1000

    async def hold(self, line: Line) -> None:
        await line.until_hung_up()


class MissFlood(Attack):
    """200 connections ask for one address after the other, none of them in the cache."""

    name = "miss_flood"
    connections = 200

    async def hold(self, line: Line) -> None:
        for n in range(1_000_000):
            await line.get(f"{SOMETHING}?{line.seed}-{line.number}-{n}")
            if not await line.answer():
                return


class HeldOnThree(Attack):
    """1000 requests that need one of three sleeping servers, which do not wake; a fourth serves."""

    name = "held_on_three_sleepers"

    async def hold(self, line: Line) -> None:
        host = SLEEPERS[line.number % len(SLEEPERS)]
        await line.get(f"/{line.seed}-{line.number}", host=host)
        await line.until_hung_up()


class CacheBusting(Attack):
    """32 connections fill the cache with answers that nobody will ask for again."""

    name = "cache_busting"
    connections = 32

    async def hold(self, line: Line) -> None:
        for n in range(1_000_000):
            await line.get(f"/bust/{line.seed}-{line.number}-{n}.png")
            if not await line.answer():
                return


_ALL: Final[tuple[type[Attack], ...]] = (
    *(HalfHeads200, HalfHeads500, SlowHeads, SlowBodies, SilentTunnels),
    *(StoppedReaders, ConnectionFlood, MissFlood, HeldOnThree, CacheBusting),
)
ATTACKS: Final = {attack.name: attack for attack in _ALL}

NETWORK: Final = "203.0.113"
"""The attacker's /24."""

NETWORK_V6: Final = "2001:db8:66:1"
"""And its /64."""

MANY: Final = 200


def sources(addresses: int) -> Iterator[str]:
    """Give the address of each connection in turn.

    One address, or with more the first so many of the /24; every fifth connection then comes from
    an address of the /64 that is its own.
    """
    for number in itertools.count():
        if addresses > 1 and number % 5 == 4:
            yield f"{NETWORK_V6}::{number % 0xFFFF + 1:x}"
        else:
            # Four of five.
            yield f"{NETWORK}.{(number - number // 5) % addresses + 1}"


class Attacker:
    """Carries one attack out until it is cancelled; what came of it is in `tally`."""

    def __init__(
        self,
        attack: Attack,
        targets: dict[int, str],
        sources: Iterator[str],
        seed: int,
        *,
        port: int = 80,
        line: LineType = Line,
    ) -> None:
        """`targets`: the box's address of each family; `sources`: each connection's own."""
        self.tally: Counter[str] = Counter()
        self._attack = attack
        self._targets = targets
        self._sources = sources
        self._port = port
        self._line = line
        self._seed = seed
        self._open: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Open connections at the attack's rate."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        number = 0
        while True:
            if len(self._open) < self._attack.connections:
                task = asyncio.ensure_future(self._one(number, next(self._sources)))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
                number += 1
            # Who could not keep up does not make it up: the rate is the most.
            due_s = max(due_s + 1 / self._attack.per_s, loop.time() - 0.1)
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            self.tally["most at once"] = max(self.tally["most at once"], len(self._open))

    async def _one(self, number: int, source: str) -> None:
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        with socket.socket(family) as sock:
            sock.setblocking(False)
            if self._attack.receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._attack.receive_buffer)
            try:
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, _FREEBIND_V6, 1)
                # The port is chosen with the target: each address has them all.
                sock.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
                sock.bind((source, 0))
                loop = asyncio.get_running_loop()
                await loop.sock_connect(sock, (self._targets[family], self._port))
                self.tally["connected"] += 1
                line = self._line(sock, number, self.tally, self._seed)
                await line.begin()
                await self._attack.hold(line)
                self.tally["ended"] += 1
            except OSError as error:
                self.tally[errno.errorcode.get(error.errno or 0, type(error).__name__)] += 1
                # A door that is shut at once is not tried faster than an open one.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.1)


_BIND_ADDRESS_NO_PORT: Final = 24
"""IP_BIND_ADDRESS_NO_PORT of <linux/in.h>, which Python 3.11 does not name."""

_FREEBIND_V6: Final = 78
"""IPV6_FREEBIND of <linux/in6.h>: the /64 is routed here, but no card has its addresses."""
