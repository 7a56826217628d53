import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
from naproxy.controller.ping import Pinger, checksum
from naproxy.server.seeing import Pinged

Seen = list[Pinged]


def allowed(kind: socket.SocketKind) -> bool:
    try:
        socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).close()
    except OSError:
        return False
    return True


needs_ping = pytest.mark.skipif(
    not (allowed(socket.SOCK_DGRAM) or allowed(socket.SOCK_RAW)), reason="no pings here"
)


def play(address: str, what: Callable[[Pinger, Seen], Awaitable[None]]) -> Seen:
    seen: Seen = []

    async def inside() -> None:
        pinger = Pinger(address, seen.append)
        try:
            await what(pinger, seen)
        finally:
            pinger.stop()

    asyncio.run(inside())
    return seen


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


async def three(pinger: Pinger, seen: Seen) -> None:
    pinger.every(0.01)
    await until(lambda: len(seen) >= 3)


@needs_ping
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_machine_that_is_on_answers(address: str) -> None:
    seen = play(address, three)
    assert all(ping.answered for ping in seen)
    assert [p.begun_s for p in seen] == sorted(p.begun_s for p in seen)


@needs_ping
def test_a_raw_socket_does_where_datagrams_are_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not allowed(socket.SOCK_RAW):
        pytest.skip("no raw sockets here")
    real = socket.socket

    def only_raw(family: int, kind: int, protocol: int) -> socket.socket:
        if kind & 0xF == socket.SOCK_DGRAM:
            raise PermissionError
        return real(family, kind, protocol)

    async def raw(pinger: Pinger, seen: Seen) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", only_raw)
            pinger.every(0.01)
        await until(lambda: len(seen) >= 3)

    assert all(ping.answered for ping in play("127.0.0.1", raw))


@needs_ping
def test_answers_of_another_machine_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cheated(pinger: Pinger, seen: Seen) -> None:
        pinger._address = "127.0.0.2"
        pinger.every(0.01)
        pinger._address = "127.0.0.3"
        pinger.every(0)
        await until(lambda: len(seen) == 1)

    assert [ping.answered for ping in play("127.0.0.2", cheated)] == [False]


def test_where_no_ping_is_allowed_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> socket.socket:
        raise PermissionError

    async def in_vain(pinger: Pinger, _: Seen) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", forbidden)
            pinger.every(0.01)
        await asyncio.sleep(0.05)

    assert play("127.0.0.1", in_vain) == []


@needs_ping
def test_stopped_it_sees_nothing_any_more() -> None:
    async def stopped(pinger: Pinger, seen: Seen) -> None:
        await three(pinger, seen)
        pinger.stop()
        seen.clear()
        await asyncio.sleep(0.05)

    assert play("127.0.0.1", stopped) == []


def test_the_checksum_is_that_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
