"""Reads a ring of records that the VMOD writes: the common part of both rings."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from naproxy.core.page_h import PAGE_VERSION
from naproxy.shm.page import RingHead, map_file, read_u64

_HEAD: Final = ctypes.sizeof(RingHead)
_SEQ: Final = struct.Struct("=Q")

HOLE_S: Final = 1.0
"""A record that is begun and not complete for this long will never be: its writer died."""


class Ring:
    """A ring, from the oldest record it still has; `lost` counts those that were not read."""

    def __init__(
        self,
        path: Path,
        magic: int,
        count: int,
        record: struct.Struct,
        *,
        group: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Map the file at `path`; create it if it is missing or malformed.

        A record begins with its number, see `struct naproxy_event`.
        """
        size = _HEAD + count * record.size
        head = struct.pack("=IIII", magic, PAGE_VERSION, size, count)
        self._map = map_file(path, size, head, group=group)
        self._head = RingHead.from_buffer(self._map)
        self._count = count
        self._struct = record
        self._clock = clock
        self._hole_s: float | None = None
        self.lost = 0
        self._next = max(1, self._head_now() - count + 1)

    def _head_now(self) -> int:
        return read_u64(lambda: int(self._head.head))

    def records(self) -> Iterator[tuple[Any, ...]]:
        """Yield the records completed since the last call, in order."""
        head = self._head_now()
        if head < self._next - 1:  # the ring was wiped by somebody else
            self._next = head + 1
        oldest = head - self._count + 1
        if self._next < oldest:
            self.lost += oldest - self._next
            self._next = oldest
        while self._next <= head:
            record = self._record(self._next)
            if record is None and not self._give_up():
                return
            self._next += 1
            self._hole_s = None
            if record is not None:
                yield record

    def _at(self, number: int) -> int:
        return _HEAD + (number - 1) % self._count * self._struct.size

    def _record(self, number: int) -> tuple[Any, ...] | None:
        """Return record `number`, None where it is not complete or already written over."""
        record = self._struct.unpack_from(self._map, self._at(number))
        again = _SEQ.unpack_from(self._map, self._at(number))[0]
        return record if record[0] == number == again else None

    def _give_up(self) -> bool:
        """Is the record at hand lost? One overwritten is, one begun gets a while to complete."""
        now_s = self._clock()
        written_over = _SEQ.unpack_from(self._map, self._at(self._next))[0] > self._next
        if self._hole_s is None:
            self._hole_s = now_s
        if written_over or now_s - self._hole_s >= HOLE_S:
            self.lost += 1
            return True
        return False

    def close(self) -> None:
        """Let go of the mapping."""
        del self._head
        self._map.close()
