"""Pings at a cadence: whether the machine, or its firmware, answers ICMP echo requests.

A datagram socket where the kernel allows it (net.ipv4.ping_group_range), else a raw one.
Where neither is allowed nothing is sent and nothing is seen.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from naproxy.server.seeing import Pinged

TIMEOUT_S: Final = 1.0
_HEAD: Final = struct.Struct("!BBHHH")
_REQUEST: Final = {socket.AF_INET: 8, socket.AF_INET6: 128}
_REPLY: Final = {socket.AF_INET: 0, socket.AF_INET6: 129}
_PROTOCOL: Final = {
    socket.AF_INET: socket.IPPROTO_ICMP,
    socket.AF_INET6: socket.IPPROTO_ICMPV6,
}
_MOST_BYTES: Final = 512


class Pinger:
    """Pings one address; `seen` is told of each ping, in the order in which they ended."""

    def __init__(self, address: str, seen: Callable[[Pinged], None]) -> None:
        """Start with `every`."""
        self._address = address
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._seen = seen
        self._every_s = 0.0
        self._sock: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sequence = 0
        # Tells our replies from those to others on a raw socket, and old from new.
        self._token = os.urandom(8)
        self._waiting: dict[int, tuple[float, asyncio.TimerHandle]] = {}

    def every(self, every_s: float) -> None:
        """Ping so often from now on; 0: not at all."""
        if every_s == self._every_s:
            return
        self._every_s = every_s
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if every_s and self._open():
            self._send()

    def stop(self) -> None:
        """Send and see nothing any more."""
        self.every(0)
        for _, timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        if self._sock:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()
            self._sock = None

    def _open(self) -> bool:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW) if self._sock is None else ():
            try:
                self._sock = socket.socket(
                    self._family, kind | socket.SOCK_NONBLOCK, _PROTOCOL[self._family]
                )
            except OSError:
                continue
            asyncio.get_running_loop().add_reader(self._sock, self._hear)
            break
        return self._sock is not None

    def _send(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every_s, self._send)
        self._sequence = (self._sequence + 1) & 0xFFFF
        begun_s = time.monotonic()
        if self._sequence not in self._waiting:
            timer = loop.call_later(TIMEOUT_S, self._ended, self._sequence, False)
            self._waiting[self._sequence] = (begun_s, timer)
        try:
            assert self._sock
            self._sock.sendto(self._request(), (self._address, 0))
        except OSError:
            pass  # an unreachable machine is one that does not answer

    def _request(self) -> bytes:
        number = int.from_bytes(self._token[:2], "big")
        kind = _REQUEST[self._family]
        head = _HEAD.pack(kind, 0, 0, number, self._sequence)
        if self._family == socket.AF_INET6:
            return head + self._token  # the kernel makes the checksum
        return _HEAD.pack(kind, 0, checksum(head + self._token), number, self._sequence) + (
            self._token
        )

    def _hear(self) -> None:
        assert self._sock
        while True:
            try:
                data, (address, *_) = self._sock.recvfrom(_MOST_BYTES)
            except OSError:
                return
            raw = self._sock.type == socket.SOCK_RAW and self._family == socket.AF_INET
            reply = data[4 * (data[0] & 0x0F) :] if raw and data else data
            if len(reply) < _HEAD.size or reply[_HEAD.size :] != self._token:
                continue
            kind, _, _, _, sequence = _HEAD.unpack_from(reply)
            if kind == _REPLY[self._family] and address == self._address:
                self._ended(sequence, True)

    def _ended(self, sequence: int, answered: bool) -> None:
        waited = self._waiting.pop(sequence, None)
        if waited:
            waited[1].cancel()
            self._seen(Pinged(answered, waited[0]))


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
