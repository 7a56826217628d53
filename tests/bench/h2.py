"""HTTP/2 as a client writes it, frame by frame: also such as no library would send (RFC 9113)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
INITIAL_WINDOW_SIZE: Final = 4
CANCEL: Final = struct.pack("!I", 8)
MOST_STREAM: Final = 2**31 - 1

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = struct.Struct("!HBBBI")
_HEAD_SIZE: Final = 9
_STATIC: Final = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one frame; what is in it may be against all rules."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[int, int] | None = None) -> bytes:
    """Return a SETTINGS frame."""
    pairs = (struct.pack("!HI", *each) for each in (values or {}).items())
    return frame(SETTINGS, 0, 0, b"".join(pairs))


def window(stream: int, more: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", more))


def integer(value: int, bits: int, first: int = 0) -> bytes:
    """Return a number in HPACK's form, whose first byte has `bits` of it (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def literal(name: str, value: str, *, index: bool = False) -> bytes:
    """Return a header with its name and value in full; with `index`, to be referred to later."""
    words = (integer(len(word), 7) + word for word in (name.encode(), value.encode()))
    return (b"\x40" if index else b"\x00") + b"".join(words)


def indexed(number: int) -> bytes:
    """Return a header by its number in the table; 62 is the newest that was indexed."""
    return integer(number, 7, 0x80)


def block(
    host: str, path: str, *, method: str = "GET", more: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Return a request's headers."""
    top = {":method": method, ":scheme": "https", ":authority": host, ":path": path}
    return b"".join(literal(*each) for each in (*top.items(), *more))


def get(stream: int, headers: bytes) -> bytes:
    """Return a request without a body."""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, headers)


class Frames:
    """Takes what arrives to pieces."""

    def __init__(self) -> None:
        """Nothing has arrived."""
        self._left = b""

    def feed(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        """Return kind, flags, stream and payload of each frame that is whole by now."""
        self._left += data
        whole = []
        while len(self._left) >= _HEAD_SIZE:
            high, low, kind, flags, stream = _HEAD.unpack_from(self._left)
            end = _HEAD_SIZE + (high << 8 | low)
            if len(self._left) < end:
                break
            whole.append((kind, flags, stream & MOST_STREAM, self._left[_HEAD_SIZE:end]))
            self._left = self._left[end:]
        return whole


def status(headers: bytes) -> int:
    """Return an answer's status, which is its first header; 0 if it is not."""
    if headers[0] in _STATIC:
        return _STATIC[headers[0]]
    number = headers[0] & (0x3F if headers[0] & 0x40 else 0x0F)
    text = headers[2:5]
    return int(text) if 8 <= number <= 14 and headers[1] == 3 and text.isdigit() else 0
