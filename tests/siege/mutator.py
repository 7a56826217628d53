"""Hostile bytes from a seed: what was right once, spoilt. The same seed spoils it the same way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.siege.attacks import BIG, SLEEPERS, head
from tests.simulator.office.box import HOST

MOST: Final = 100_000
"""Nothing becomes longer than so many bytes."""

REQUESTS: Final[tuple[bytes, ...]] = (
    head("/css/base.css"),
    head("/css/base.css?miss"),
    head("/.naproxy/status"),
    head("/", more="Cookie: a=b; naproxy=1; _ga=2\r\nCookie: c=d\r\n"),
    head("/", more="Sec-Fetch-Mode: navigate\r\nAccept-Language: de-CH, en;q=0.5\r\n"),
    head(BIG, more="Range: bytes=0-99, 200-\r\n"),
    head("/app/reply", more="Authorization: Negotiate YWJj\r\n"),
    head("/app/reply", more="Content-Length: 5\r\n") + b"hello",
    head("/app/echo", method="POST", more="Content-Length: 11\r\n") + b"hello=world",
    head("/app/echo", method="PUT", more="Transfer-Encoding: chunked\r\n")
    + b"5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\nA: b\r\n\r\n",
    head("/app/echo", method="POST", more="Expect: 100-continue\r\nContent-Length: 2\r\n") + b"ab",
    head(
        "/app/ws", more="Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: YQ==\r\n"
    ),
    head("/", host=SLEEPERS[0], more="Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n"),
    head("/form", host=SLEEPERS[1], method="POST", more="Content-Length: 3\r\n") + b"a=b",
    head("/robots.txt", host=SLEEPERS[2]).replace(b"Mozilla/5.0", b"Googlebot/2.1"),
    head("/", more="X-Forwarded-For: 192.0.2.9, 2001:db8::9\r\nX-Forwarded-Proto: https\r\n"),
    f"GET http://{HOST}/ HTTP/1.0\r\n\r\n".encode(),
    b"OPTIONS * HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
)

DATAGRAMS: Final[tuple[bytes, ...]] = (
    b"naproxy-wake 1\nserver=web\nreason=page\nmethod=GET\nclass=person\nclient=192.0.2.17\n"
    b"agent=Mozilla/5.0\nhost=www.example.org\npath=/news?id=3\n",
    b"naproxy-wake 1\nserver=sleeper1\nreason=pass\nmethod=POST\nclass=api\nclient=2001:db8::1\n",
)

CALLS: Final[tuple[bytes, ...]] = (
    b"GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/transitions?server=web&since_s=0&limit=3 HTTP/1.1\r\n\r\n",
    b"GET /v1/config/keys HTTP/1.1\r\n\r\n",
    b"POST /v1/servers/web/mode HTTP/1.1\r\nContent-Length: 32\r\n\r\n"
    b'{"mode":"awake","until_s": null}',
    b"PATCH /v1/config HTTP/1.1\r\nContent-Length: 46\r\n\r\n"
    b'{"changes": [{"op": "set", "where": "nobody"}]}',
    b"POST /v1/servers/sleeper1/wake HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
)

_TOKENS: Final[tuple[bytes, ...]] = (
    *(b"\r\n", b"\n", b"\0", b"\r\n\r\n", b" ", b"\t", b":", b";", b",", b"%00", b"%", b"\xff"),
    *(b"-1", b"0", b"4294967296", b"18446744073709551616", b"9" * 40, b"0x10", b"1e9"),
    *(b"A" * 300, b"A" * 9000, b"../" * 40, b"%n%s", b"[", b"]", b"::", b"\xc3\x28", b"\xf0\x9f"),
    *(b"Host: a\r\n", b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Range: bytes=-1\r\n", b"Connection: close\r\n", b"X-Naproxy: held\r\n", b"Expect: x\r\n"),
)

_Change = Callable[[random.Random, bytes], bytes]


def _flip(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _cut(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.randint(1, 40) :]


def _end(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randint(1, len(data))]


def _put(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.choice(_TOKENS) + data[at:]


def _noise(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.randbytes(dice.randint(1, 60)) + data[at:]


def _repeat(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data))
    piece = data[at : at + dice.randint(1, 80)]
    return data[:at] + piece * dice.choice((2, 3, 10, 100)) + data[at:]


def _line(dice: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    lines.insert(dice.randrange(len(lines)), dice.choice(lines))
    return b"\r\n".join(lines)


_CHANGES: Final[tuple[_Change, ...]] = (_flip, _cut, _end, _put, _put, _noise, _repeat, _line)


def spoil(dice: random.Random, data: bytes, most: int = MOST) -> bytes:
    """Change `data` in one place, or in up to six."""
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 6))):
        if data:
            data = dice.choice(_CHANGES)(dice, data)
    return data[:most]


def spoilt(seed: int, sound: Sequence[bytes], most: int = MOST) -> Iterator[bytes]:
    """Give what was sound, spoilt, without end; some of it is two, one behind the other."""
    dice = random.Random(seed)
    while True:
        data = spoil(dice, dice.choice(sound), most)
        if dice.random() < 0.2:
            data = (data + spoil(dice, dice.choice(sound), most))[:most]
        yield data


def scratches(seed: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Give places in a file of `size` bytes, and what to write there, without end."""
    dice = random.Random(seed)
    while True:
        at = dice.randrange(size)
        wild = (dice.randbytes(dice.randint(1, 64)), b"\xff" * 8, bytes(8), b"A" * 64)
        yield at, dice.choice(wild)[: size - at]
