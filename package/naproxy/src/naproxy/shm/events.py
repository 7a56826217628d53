"""Reads the ring of events that the VMOD writes: one record for each request that ended."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core import page_h
from naproxy.core.page_h import EVENTS, EVENTS_MAGIC
from naproxy.shm.ring import Ring

_RECORD: Final = struct.Struct("=QQQQIIBBBBHBBQQ")


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
    rule: int = 0
    """1 + the index in the page of the rule that chose the class; 0: none did."""

    @property
    def needed(self) -> bool:
        """Did it need the server?"""
        return bool(self.flags & page_h.E_NEEDED)

    @property
    def work(self) -> bool:
        """Does its path mean work?"""
        return bool(self.flags & page_h.E_WORK)

    @property
    def own(self) -> bool:
        """Was it the office's own client, whom no share limits?"""
        return bool(self.flags & page_h.E_OWN)

    @property
    def spent(self) -> bool:
        """Was its client's share used up already?"""
        return bool(self.flags & page_h.E_SPENT)

    @property
    def page_load(self) -> bool:
        """Was it a person's navigation?"""
        return bool(self.flags & page_h.E_PAGE_LOAD)


class Events:
    """The ring, from the oldest record it still has; `lost` counts those that were not read."""

    def __init__(
        self,
        run_dir: Path,
        group: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Map `run_dir`/events; create it if it is missing or malformed."""
        self._ring = Ring(
            run_dir / "events", EVENTS_MAGIC, EVENTS, _RECORD, group=group, clock=clock
        )

    @property
    def lost(self) -> int:
        """How many records were written over, or never completed, before they were read."""
        return self._ring.lost

    def read(self) -> Iterator[Event]:
        """Yield the records completed since the last call, in order."""
        for record in self._ring.records():
            # The record has the rule before the hashes.
            *fields, rule, address, network = record
            yield Event(*fields, **{"address": address, "network": network, "rule": rule})

    def close(self) -> None:
        """Let go of the mapping."""
        self._ring.close()
