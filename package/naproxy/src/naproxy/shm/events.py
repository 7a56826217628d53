"""Reads the ring of events that the VMOD writes: one record for each request that ended."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.shm import page
from naproxy.shm.page import EVENTS, EVENTS_MAGIC, EVENTS_SIZE, EventsHead, map_file, read_u64

_HEAD: Final = ctypes.sizeof(EventsHead)
_RECORD: Final = struct.Struct("=QQQQIIBBBBHHQQ")
_SEQ: Final = struct.Struct("=Q")

HOLE_S: Final = 1.0
"""A record that is begun and not complete for this long will never be: its writer died."""


@dataclass(frozen=True, slots=True)
class Event:
    """One request that ended; the fields are those of `struct naproxy_event`."""

    seq: int
    t_us: int
    client: int
    path: int
    delay_ms: int
    agent: int
    server: int
    klass: int
    outcome: int
    flags: int
    status: int
    method: int
    address: int = 0
    """Hashes of its address and network, 0: not known. Never for a disk."""
    network: int = 0

    @property
    def needed(self) -> bool:
        """Did it need the server?"""
        return bool(self.flags & page.E_NEEDED)

    @property
    def work(self) -> bool:
        """Does its path mean work?"""
        return bool(self.flags & page.E_WORK)

    @property
    def own(self) -> bool:
        """Was it the office's own client, whom no share limits?"""
        return bool(self.flags & page.E_OWN)

    @property
    def spent(self) -> bool:
        """Was its client's share used up already?"""
        return bool(self.flags & page.E_SPENT)

    @property
    def page_load(self) -> bool:
        """Was it a person's navigation?"""
        return bool(self.flags & page.E_PAGE_LOAD)


class Events:
    """The ring, from the oldest record it still has; `lost` counts those that were not read."""

    def __init__(
        self,
        run_dir: Path,
        group: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Map `run_dir`/events, made anew where it is missing or malformed."""
        head = struct.pack("=IIII", EVENTS_MAGIC, page.PAGE_VERSION, EVENTS_SIZE, EVENTS)
        self._map = map_file(run_dir / "events", EVENTS_SIZE, head, group=group)
        self._head = EventsHead.from_buffer(self._map)
        self._clock = clock
        self._hole_s: float | None = None
        self.lost = 0
        self._next = max(1, self._head_now() - EVENTS + 1)

    def _head_now(self) -> int:
        return read_u64(lambda: int(self._head.head))

    def read(self) -> Iterator[Event]:
        """Yield the records completed since the last call, in order."""
        head = self._head_now()
        if head < self._next - 1:  # the ring was wiped by somebody else
            self._next = head + 1
        oldest = head - EVENTS + 1
        if self._next < oldest:
            self.lost += oldest - self._next
            self._next = oldest
        while self._next <= head:
            event = self._record(self._next)
            if event is None and not self._give_up():
                return
            self._next += 1
            self._hole_s = None
            if event is not None:
                yield event

    def _record(self, number: int) -> Event | None:
        """Return record `number`, None where it is not complete or already written over."""
        at = _HEAD + (number - 1) % EVENTS * _RECORD.size
        event = Event(*_RECORD.unpack_from(self._map, at))
        again = _SEQ.unpack_from(self._map, at)[0]
        return event if event.seq == number == again else None

    def _give_up(self) -> bool:
        """Is the record at hand lost? One overwritten is, one begun gets a while to complete."""
        now_s = self._clock()
        at = _HEAD + (self._next - 1) % EVENTS * _RECORD.size
        written_over = _SEQ.unpack_from(self._map, at)[0] > self._next
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
