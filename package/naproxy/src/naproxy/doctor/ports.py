"""A server's other services: the ports that answer the box, and the choices they need."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterable, Iterator
from typing import Final

from naproxy.config.document import office_of
from naproxy.core.findings import NotSeen, Problem
from naproxy.core.reason import Reason, own_words, together
from naproxy.doctor.readings import Seen
from naproxy.server import services
from naproxy.server.services import NEVER, USED, Listener, Listening, Service

_TCP: Final = (
    *(21, 25, 53, 88, 139, 143, 389, 445, 465, 515, 548, 554, 587, 631, 636, 873, 993, 1194),
    *(1433, 1723, 1883, 2049, 3260, 3306, 3389, 3493, 5060, 5222, 5432, 5900, 8006, 8007, 8096),
    *(8123, 8200, 8883, 9100, 32400),
)
"""Asked whether they take a connection, which is ended at once."""
_DNS: Final = 53
"""The one service by UDP that answers a harmless question, and that somebody would miss."""
_AT_ONCE: Final = 12
_WAIT_S: Final = 1.0
_SHOWN: Final = 20


async def meet(address: str) -> tuple[Listener, ...]:
    """Return which of a few well-known ports answer from the network."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def taken(port: int) -> bool:
        async with turns:
            return await _takes(address, port)

    asked = (*map(taken, _TCP), _answers_dns(address))
    *open_, dns = await asyncio.gather(*asked)
    found = [Listener(port, "tcp") for port, there in zip(_TCP, open_, strict=True) if there]
    return tuple(sorted([*found, *([Listener(_DNS, "udp")] if dns else [])]))


async def _takes(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_WAIT_S):
            _, writer = await asyncio.open_connection(address, port)
    except (TimeoutError, OSError):
        return False
    writer.close()
    return True


async def _answers_dns(address: str) -> bool:
    """Ask for the root's name servers, without recursion (RFC 1035, 4.1)."""
    number = secrets.token_bytes(2)
    question = number + bytes.fromhex("0000 0001 0000 0000 0000 00 0002 0001")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    loop = asyncio.get_running_loop()
    with socket.socket(family, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.setblocking(False)
        # Connected: datagrams from elsewhere do not come in, and a closed port says so.
        sock.connect((address, _DNS))
        async with asyncio.timeout(_WAIT_S):
            await loop.sock_sendall(sock, question)
            answer = await loop.sock_recv(sock, 512)
        return len(answer) >= len(question) and answer[:2] == number and answer[2] & 0x80 != 0
    return False


def other_services(seen: Seen) -> Problem | None:
    """Look whether the office knows what else the server does."""
    office = office_of(seen.server)
    listening = _listening(seen)
    found = office.services(listening.listeners)
    said = [*_unanswered(seen, found), *_untracked(found, listening)]
    if not said:
        return None
    note = not any(each.code in _HARMFUL for each in said)
    left = [each for each in found if each.unanswered]
    choices = ", ".join(f'"{each.key} {each.proposal}"' for each in left[:_SHOWN])
    mend = Reason("doctor.do_choose", server=seen.server.id, choices=choices)
    if not left:
        mend = Reason("doctor.do_track")
    return Problem(together(*said[:_SHOWN]), mend, note=note)


_HARMFUL: Final = ("doctor.serves_never", "doctor.serves_untracked")


def _unanswered(seen: Seen, found: Iterable[Service]) -> Iterator[Reason]:
    looks = seen.server.sleep.looks
    for each in found:
        if not each.unanswered:
            continue
        ports = [one.key for one in each.listeners]
        if each.proposal == NEVER:
            yield Reason("doctor.serves_never", service=each.name, ports=ports)
        elif looks:
            yield Reason("doctor.serves_used", service=each.name, ports=ports)
        else:
            yield Reason("doctor.serves_unseen", service=each.name, ports=ports)


def _untracked(found: Iterable[Service], listening: Listening) -> Iterator[Reason]:
    for each in found:
        by_udp = [key for key in each.watched if key.endswith("/udp")]
        if each.choice == USED and by_udp and not listening.flows:
            yield Reason("doctor.serves_untracked", service=each.name, ports=by_udp)


def _listening(seen: Seen) -> Listening:
    """Return the ports that are known: as the server told them, or it answered from there."""
    known = seen.known.status.get("services") if seen.known else None
    status = known or {"told": False, "listens": ""}
    listens = status["listens"] if seen.listens is None else seen.listens
    try:
        told = services.parse(listens)
    except services.UnreadableError as error:
        raise NotSeen("doctor.ports_unreadable", why=own_words(str(error))) from None
    if seen.met is None and not status["told"] and seen.listens is None:
        raise NotSeen("doctor.ports_unseen")
    return services.joined(told, seen.met or ())


CHECKS: Final = (other_services,)
