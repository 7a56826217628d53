"""A management controller that speaks enough IPMI 1.5 over LAN for `ipmitool dcmi power reading`.

OpenIPMI's simulator has no DCMI. IPMI 1.5, sections 12 and 18; DCMI 1.5, section 6.6.1.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RMCP = bytes((0x06, 0x00, 0xFF, 0x07))
_SESSION = 0x12345678
_APP, _GROUP = 0x06, 0x2C
_CAPABILITIES, _CHALLENGE, _ACTIVATE, _PRIVILEGE, _CLOSE = 0x38, 0x39, 0x3A, 0x3B, 0x3C
_POWER_READING = 0x02


def _checksum(data: bytes) -> int:
    return -sum(data) & 0xFF


def _answer(function: int, command: int, reading: bytes) -> bytes:
    if function == _GROUP:
        return reading if command == _POWER_READING else b"\xc1\xdc"
    session = struct.pack("<I", _SESSION)
    return {
        _CAPABILITIES: b"\x00\x01\x01\x01" + bytes(5),
        _CHALLENGE: b"\x00" + session + bytes(16),
        _ACTIVATE: b"\x00\x00" + session + struct.pack("<I", 1) + b"\x02",
        _PRIVILEGE: b"\x00\x02",
        _CLOSE: b"\x00",
    }.get(command, b"\xc1")


def _respond(packet: bytes, reading: bytes) -> bytes | None:
    if packet[:4] != _RMCP or len(packet) < 20:
        return None
    sequence, session, message = packet[5:9], packet[9:13], packet[14:]
    function, command = message[1] >> 2, message[5]
    head = bytes((message[3], (function | 1) << 2))
    body = bytes((message[0], message[4], command)) + _answer(function, command, reading)
    reply = head + bytes((_checksum(head),)) + body + bytes((_checksum(body),))
    return _RMCP + b"\x00" + sequence + session + bytes((len(reply),)) + reply


def reading(power_w: int, *, active: bool = True) -> bytes:
    """A power reading: now, least, most, mean, time, period, state."""
    powers = struct.pack("<HHHHII", power_w, 166, 276, 176, 1487162991, 1131466)
    return b"\x00\xdc" + powers + bytes((0x40 if active else 0,))


@contextmanager
def bmc(said: bytes) -> Iterator[int]:
    """The UDP port of a BMC that says this to the question for its power."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    packet, client = sock.recvfrom(2000)
                except TimeoutError:
                    continue
                reply = _respond(packet, said)
                if reply:
                    sock.sendto(reply, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            stop.set()
            thread.join()
