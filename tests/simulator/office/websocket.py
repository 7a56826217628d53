"""As much of RFC 6455 as an echo needs: text and binary messages, ping, close."""

import base64
import hashlib
import os
import socket
import struct
from typing import Protocol

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Stream(Protocol):
    """Where frames are read from."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, or fewer at the end."""


def accept_key(key: str) -> str:
    """Return Sec-WebSocket-Accept for this Sec-WebSocket-Key (RFC 6455, section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def read(stream: Stream) -> tuple[int, bytes]:
    """Read one frame: (opcode, payload). EOFError when the other side has gone."""
    first, second = _exactly(stream, 2)
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", _exactly(stream, 2))
    elif length == 127:
        (length,) = struct.unpack(">Q", _exactly(stream, 8))
    mask = _exactly(stream, 4) if second & 0x80 else bytes(4)
    return first & 0x0F, _masked(_exactly(stream, length), mask)


def frame(opcode: int, payload: bytes, *, client: bool) -> bytes:
    """Return one frame; clients mask theirs (section 5.3)."""
    bit = 0x80 if client else 0
    head = bytes([0x80 | opcode])
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", len(payload))
    if not client:
        return head + payload
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


class Client:
    """The client's side of one WebSocket over a connected socket."""

    def __init__(self, sock: socket.socket, host: str, path: str, headers: dict[str, str]):
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        self._sock = sock
        self._stream = sock.makefile("rb")
        self.status = int(self._stream.readline().split()[1])
        answer = {}
        while line := self._stream.readline().strip():
            name, _, value = line.decode().partition(":")
            answer[name.lower()] = value.strip()
        self.accepted = self.status == 101 and answer["sec-websocket-accept"] == accept_key(key)

    def echo(self, message: bytes) -> bytes:
        """Send a binary message and return the next one."""
        self._sock.sendall(frame(BINARY, message, client=True))
        return read(self._stream)[1]

    def close(self) -> None:
        """Say goodbye and hang up."""
        self._sock.sendall(frame(CLOSE, b"", client=True))
        self._stream.close()
        self._sock.close()


def _exactly(stream: Stream, n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError("the other side hung up")
    return data


def _masked(data: bytes, mask: bytes) -> bytes:
    if mask == bytes(4):
        return data
    n = len(data)
    stream = (mask * (n // 4 + 1))[:n]
    return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(n)
