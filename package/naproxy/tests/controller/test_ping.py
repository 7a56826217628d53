import asyncio
import socket
from collections.abc import Callable

import pytest
from naproxy.controller.ping import Pinger, checksum
from naproxy.server.seeing import Pinged


def allowed(kind: socket.SocketKind) -> bool:
    try:
        socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).close()
    except OSError:
        return False
    return True


needs_ping = pytest.mark.skipif(
    not (allowed(socket.SOCK_DGRAM) or allowed(socket.SOCK_RAW)), reason="no pings here"
)


class Pinging:
    """Pings one address, and what was seen of that."""

    def __init__(self, address: str) -> None:
        self.seen: list[Pinged] = []
        self.pinger = Pinger(address, self.seen.append)

    async def three_are_answered(self) -> None:
        async with asyncio.timeout(30):
            while len(self.seen) < 3:
                await asyncio.sleep(0.005)
        assert all(ping.answered for ping in self.seen)
        assert [p.begun_s for p in self.seen] == sorted(p.begun_s for p in self.seen)


@needs_ping
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_machine_that_is_on_answers(address: str) -> None:
    here = Pinging(address)
    here.pinger.every(0.01)
    await here.three_are_answered()


def only(*kinds: int) -> Callable[..., socket.socket]:
    """Return what makes a socket, where only these kinds are allowed."""
    real = socket.socket

    def made(family: int, kind: int, protocol: int) -> socket.socket:
        if kind & 0xF not in kinds:
            raise PermissionError
        return real(family, kind, protocol)

    return made


@pytest.mark.skipif(not allowed(socket.SOCK_RAW), reason="no raw sockets here")
async def test_without_datagrams_a_raw_socket_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Pinging("127.0.0.1")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", only(socket.SOCK_RAW))
        here.pinger.every(0.01)
    await here.three_are_answered()


@needs_ping
async def test_answers_of_another_machine_are_not_taken(leaping: None) -> None:
    here = Pinging("127.0.0.2")
    here.pinger.every(0.01)
    here.pinger._address = "127.0.0.3"
    here.pinger.every(0)
    await asyncio.sleep(60)
    assert [ping.answered for ping in here.seen] == [False]


async def test_without_permission_no_ping_is_seen(
    leaping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Pinging("127.0.0.1")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", only())
        here.pinger.every(0.01)
    await asyncio.sleep(60)
    assert here.seen == []


@needs_ping
async def test_stopped_it_sees_nothing_any_more(leaping: None) -> None:
    here = Pinging("127.0.0.1")
    here.pinger.every(0.01)
    here.pinger.stop()
    await asyncio.sleep(60)
    assert here.seen == []


def test_the_checksum_is_that_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
