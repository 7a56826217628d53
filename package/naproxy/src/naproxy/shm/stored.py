"""Reads the ring of cached responses: for each one, the request that fetches it again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core import page_h
from naproxy.core.page_h import STORES, STORES_MAGIC
from naproxy.shm.ring import Ring

_RECORD: Final = struct.Struct("=QQQQIHBB32s120s320s")


@dataclass(frozen=True, slots=True)
class Stored:
    """One answer that the cache keeps; the fields are those of `struct naproxy_stored`."""

    seq: int
    t_us: int
    path: int
    bytes: int
    ttl_s: int
    status: int
    server: int
    flags: int
    accept: str
    host: str
    url: str

    @property
    def freezes(self) -> bool:
        """Does it stay valid while the server sleeps?"""
        return bool(self.flags & page_h.S_FREEZES)

    @property
    def https(self) -> bool:
        """Whether it is for clients over HTTPS."""
        return bool(self.flags & page_h.S_HTTPS)

    @property
    def said(self) -> bool:
        """Did the server say how long it is fresh?"""
        return bool(self.flags & page_h.S_SAID)

    @property
    def same(self) -> bool:
        """Had it not changed since it was fetched?"""
        return bool(self.flags & page_h.S_SAME)

    @property
    def varies(self) -> bool:
        """Are there other variants of it?"""
        return bool(self.flags & page_h.S_VARIES)


class Stores:
    """The ring, from the oldest record it still has."""

    def __init__(self, run_dir: Path, group: str = "") -> None:
        """Map `run_dir`/stored; create it if it is missing or malformed."""
        self._ring = Ring(run_dir / "stored", STORES_MAGIC, STORES, _RECORD, group=group)

    def read(self) -> Iterator[Stored]:
        """Yield the records completed since the last call, in order."""
        for *numbers, accept, host, url in self._ring.records():
            yield Stored(*numbers, *map(_text, (accept, host, url)))

    def close(self) -> None:
        """Let go of the mapping."""
        self._ring.close()


def _text(field: bytes) -> str:
    """Return it as it was sent: a byte is a character (RFC 9110, 5.5)."""
    return field.split(b"\0", 1)[0].decode("latin-1")
