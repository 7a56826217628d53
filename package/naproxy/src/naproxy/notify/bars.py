"""A small picture for the monthly report: energy by day, as PNG (ISO/IEC 15948)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 620
HEIGHT: Final = 200
_PAPER, _LINE, _ALWAYS, _USED = range(4)
_PALETTE: Final = bytes.fromhex("ffffff b9c1da dfe4f0 4a55c8")


def png(days: Sequence[tuple[float, float]]) -> bytes:
    """Return bars of `(used_j, always_j)` per day, the energy of always on pale behind."""
    rows = [bytearray(WIDTH) for _ in range(HEIGHT)]
    rows[-1][:] = bytes([_LINE]) * WIDTH
    most = max((max(day) for day in days), default=0.0)
    step = WIDTH / max(1, len(days))
    for number, (used_j, always_j) in enumerate(days if most > 0 else ()):
        left, right = (
            int(number * step) + 1,
            max(int((number + 1) * step) - 1, int(number * step) + 2),
        )
        for value, colour in ((always_j, _ALWAYS), (used_j, _USED)):
            height = int(max(0.0, value) / most * (HEIGHT - 2))
            for row in rows[HEIGHT - 1 - height : HEIGHT - 1]:
                row[left:right] = bytes([colour]) * (right - left)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", _PALETTE), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    checked = kind + body
    return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))
