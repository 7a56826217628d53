"""Visitors of the stage: writes the entries that Varnish would write into ring and page.

No Varnish runs on the stage; `make demo` has one. The requests are invented, and get their
outcomes like those of the past (tests/simulator/past/front.py).
"""

import asyncio
import contextlib
import ctypes
import random
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from naproxy.config import document as config
from naproxy.core import page_h
from naproxy.core.page_h import Event as Record
from naproxy.core.state import Klass, State
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page, RingHead

from tests.simulator.demo import generated
from tests.simulator.past.front import Front
from tests.simulator.past.log import Timed, timed

_EVERY_S = 0.05


class _Front(Front):
    """Nobody comes while `away` is set."""

    away = False

    def ask(self, timed: Timed) -> None:
        if not self.away:
            super().ask(timed)


class Traffic:
    """Begins on entering, ends on leaving."""

    def __init__(
        self, run_dir: Path, server: config.Server, busy_s: defaultdict[int, float]
    ) -> None:
        """`busy_s` is told when requests are at the server, for its meter."""
        self._run_dir = run_dir
        self._server = server
        self._busy_s = busy_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._begun = threading.Event()

    def __enter__(self) -> Self:
        self._page = Page(self._run_dir)
        size = ctypes.sizeof(page_h.Events)
        self._ring = page.map_file(
            self._run_dir / "events",
            size,
            struct.pack("=IIII", page_h.EVENTS_MAGIC, page_h.PAGE_VERSION, size, page_h.EVENTS),
            group="",
        )
        self._head = RingHead.from_buffer(self._ring)
        self._thread.start()
        self._begun.wait(timeout=20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._playing.cancel)
        self._thread.join(timeout=5)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Nobody comes meanwhile."""
        self._front.away = True
        try:
            yield
        finally:
            self._front.away = False

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._front = _Front(
            self._page,
            self._server,
            time.time,
            ended=self._ended,
            wake=self._wake,
            dice=random.Random(3),
        )
        self._front.busy_s = self._busy_s
        self._playing = self._loop.create_task(self._play())
        self._begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._playing)

    async def _play(self) -> None:
        now_s = time.time()
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._front.play(timed(list(generated.day()), now_s, now_s + 86400))
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Poll the state; threads that wait for it in Varnish are woken by a futex instead."""
        known: State | None = None
        while True:
            state = State(self._page.server(0).state)
            if state is not known:
                known = state
                self._front.state(state)
            await asyncio.sleep(_EVERY_S)

    def _wake(self, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(data, str(self._run_dir / "wake.sock"))

    def _ended(self, event: Event) -> None:
        """Count it, and put it into the ring: record.c does the same."""
        record = self._page.server(0)
        record.requests[event.klass][event.outcome] += 1
        if not Klass(event.klass).robot:
            record.delayed += bool(event.flags & page_h.E_DELAYED)
            bucket = min(event.delay_ms.bit_length(), page_h.DELAYS - 1)
            record.delays[bucket] += bucket > 0
        self._head.head = number = self._head.head + 1
        place = ctypes.sizeof(RingHead) + (number - 1) % page_h.EVENTS * ctypes.sizeof(Record)
        slot = Record.from_buffer(self._ring, place)
        slot.seq = 0
        for name in ("t_us", "client", "path", "delay_ms", "agent", "klass", "outcome", "flags"):
            setattr(slot, name, getattr(event, name))
        slot.server, slot.status, slot.method = 0, event.status, event.method
        slot.seq = number
