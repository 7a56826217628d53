"""Decompressing what a file says: a history may come from a backup that somebody made up."""

from __future__ import annotations

import zlib


def inflate(data: bytes, most: int) -> bytes:
    """Return what was compressed, of at most `most` bytes; ValueError if it is not that."""
    opened = zlib.decompressobj()
    try:
        made = opened.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"a damaged block: {error}") from None
    if len(made) > most:
        raise ValueError("a damaged block: it is too long")
    if not opened.eof:
        raise ValueError("a damaged block: it is cut off")
    return made
