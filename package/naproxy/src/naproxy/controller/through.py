"""Connections that naproxy-through passes through to a server: their counters in the page.

That program cannot write the ring of events, which has one writer. So requests are made of its
counters here: one for each connection that was joined to the server. It counts as a person's, since
robots cannot be told apart. The others are only counted: any stranger can make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from naproxy.core import page_h
from naproxy.core.page_h import Listen, Outcome
from naproxy.core.state import Klass
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page, read_u64

QUIET_US: Final = 60_000_000
"""Connections on which nothing came for so long do not keep a server awake: as Varnish's pipes,
which end by then. naproxy-through ends these when the server falls asleep."""
_MOST_AT_ONCE: Final = 1000
_NO_AGENT: Final = 0xFFFFFFFF
_NO_METHOD: Final = 9
_JOINED: Final = {"passed": Outcome.PIPE, "held": Outcome.HELD}
_NOT_JOINED: Final = ("refused", "limit", "gone", "failed")
_TOLD: Final = ("accepted", *_JOINED, *_NOT_JOINED, "bytes_in", "bytes_out")


class Through:
    """The connections of one server: the service in the page at the server's own place."""

    def __init__(
        self, shared: Page, index: int, now_us: Callable[[], int] = page.monotonic_us
    ) -> None:
        """Earlier counts are past."""
        self._index = index
        self._page = shared
        self._now_us = now_us
        self._known = self._counters()
        self.joined_us = 0
        """When we heard of a connection that was joined; the client named the server (SNI)."""

    @property
    def _record(self) -> page_h.Service:
        record: page_h.Service = self._page.layout.service[self._index]
        return record

    def _counters(self) -> dict[str, int]:
        return {name: self._counter(name) for name in (*_JOINED, "held_ms")}

    def _counter(self, name: str) -> int:
        return read_u64(lambda: int(getattr(self._record, name)))

    @property
    def served(self) -> bool:
        """Is there such a service?"""
        return bool(self._record.listen != Listen.NONE)

    @property
    def held(self) -> int:
        """How many wait for the server."""
        return int(self._record.held_now) if self.served else 0

    @property
    def busy(self) -> int:
        """How many are open, if any of them used the server lately."""
        lately = self._now_us() - self._counter("last_active_us") < QUIET_US
        return int(self._record.open_now) if self.served and lately else 0

    def events(self, delta_ms: float) -> Iterator[Event]:
        """Yield a request for each connection of whose joining we hear now."""
        now, before = self._counters(), self._known
        self._known = now
        # Counters that restart belong to another program, or another service.
        new = {name: max(0, now[name] - before[name]) for name in now}
        if any(new[name] for name in _JOINED):
            self.joined_us = self._now_us()
        for name, outcome in _JOINED.items():
            delay_ms = new["held_ms"] // new["held"] if new["held"] and name == "held" else 0
            delayed = page_h.E_DELAYED if delay_ms > delta_ms else 0
            for _ in range(min(new[name], _MOST_AT_ONCE)):
                yield Event(
                    seq=0,
                    t_us=self._now_us(),
                    client=1,
                    path=1,
                    delay_ms=delay_ms,
                    agent=_NO_AGENT,
                    server=self._index,
                    klass=Klass.PERSON,
                    outcome=outcome,
                    flags=page_h.E_NEEDED | delayed,
                    status=0,
                    method=_NO_METHOD,
                )

    def status(self) -> dict[str, Any] | None:
        """Return what the control API tells of them; None if there is no such service."""
        if not self.served:
            return None
        counters = {name: self._counter(name) for name in _TOLD}
        return {"open": int(self._record.open_now), "waiting": self.held, **counters}
