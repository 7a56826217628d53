"""Keeps checking which pages of a server are the same for everybody, and tells Varnish of them.

`policy.verified` defines "the same". This module asks the server, directly and only while it is
awake anyway: a few pages a minute, and after a wake the pages answered in the sleep. It never wakes
the server, and a check under way is cancelled when the server is to sleep.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from naproxy.config.document import Server
from naproxy.controller.strangers import DESKTOP, MOST_BYTES, PHONE, Strangers, parsed
from naproxy.controller.varnish import CHANNELS, Job, Varnish, askable
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass, State
from naproxy.policy.sameness import Copy, copy_of
from naproxy.policy.verified import Address, Key, Verified
from naproxy.shm.events import Event
from naproxy.shm.page import Page
from naproxy.shm.stored import Stored

_LOG: Final = logging.getLogger(__name__)
EVERY_S: Final = 6.0
"""Between two checks: ten pages a minute, of two answers each."""
AFTER_WAKE_S: Final = 2.0
"""After a wake those who waited come first."""
COMPARE_S: Final = 60.0
"""Pages not compared by then are not answered before their next check."""
COPY_S: Final = 5.0
_AT_ONCE: Final = 2
_NOT_RUNNING: Final = (State.FALLING_ASLEEP, State.ASLEEP, State.WAKING)
_FROM_CACHE: Final = (Outcome.HIT, Outcome.STALE)
_LOADED: Final = (*_FROM_CACHE, Outcome.FETCH, Outcome.HELD)
_READS: Final = (0, 1, 5)  # GET, HEAD and OPTIONS, see naproxy_event.method


def _may_change(event: Event) -> bool:
    """May a person have changed the server? Programs send something at each wake."""
    return event.method not in _READS and event.status < 400 and event.klass == Klass.PERSON


class PageChecker:
    """One server's."""

    def __init__(
        self,
        server: Server,
        index: int,
        page: Page,
        varnish: Varnish,
        *,
        epoch_s: float,
        allow: Callable[[Iterable[Job]], None],
    ) -> None:
        """`allow`: hears which pages stay valid in a sleep."""
        self._server = server
        self._index = index
        self._page = page
        self._varnish = varnish
        self._epoch_s = epoch_s
        self._allow = allow
        self._strangers = Strangers(server, self._now_s)
        self._pages = Verified()
        self._state = State.UNKNOWN
        self._copied: Sequence[int] | None = None
        """Hashes of pages that may be answered in this sleep; None: the server is awake."""
        self._slept_s, self._woke_s = math.inf, 0.0
        self._sent = False
        self._next_s = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        """Are pages checked?"""
        return self._server.cache.verifies

    def configure(self, server: Server) -> None:
        """Take a new configuration."""
        self._server = server
        self._strangers.configure(server)
        if not self.on:
            self.stop()
        self._write()

    def _now_s(self) -> float:
        return self._epoch_s + time.monotonic()

    # Kept over a restart of the controller

    def kept(self) -> dict[str, Any]:
        """Return what `take_up` takes."""
        return {"pages": self._pages.dump()}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values. The list of answered pages is the previous controller's."""
        self._pages.load(saved.get("pages"), self._now_s())
        if self._page.server(self._index).state in _NOT_RUNNING:
            known = set(self._pages.copied_table(()))
            self._copied = [
                each for each in self._page.layout.verified[self._index] if each in known
            ]
        self._write()

    # Events

    def stored(self, record: Stored) -> None:
        """Hear of an answer that the cache keeps."""
        key = Key(record.path, record.https)
        # Files, and pages that a rule keeps, need no check.
        if not self.on or (record.freezes and key not in self._pages):
            return
        if askable(record.host, record.url):
            address = Address(record.host, record.url)
            self._pages.stored(self._epoch_s + record.t_us / 1e6, key, address)

    def heard(self, events: Iterable[Event]) -> None:
        """Learn from requests that ended."""
        if not self.on:
            return
        for event in events:
            t_s = self._epoch_s + event.t_us / 1e6
            if event.page_load and event.status == 200 and event.outcome in _LOADED:
                self._pages.loaded(t_s, event.path, event.network)
            if event.outcome in _FROM_CACHE and self._asleep(t_s):
                self._pages.answered(event.path)
            if _may_change(event) and t_s >= self._slept_s:
                # One that came while it slept was carried out after the wake.
                self._sent = True

    def _asleep(self, t_s: float) -> bool:
        return self._slept_s <= t_s and (self._woke_s <= self._slept_s or t_s < self._woke_s)

    def observed(self, state: State, monotonic_s: float) -> None:
        """Hear of a state that the server was seen to enter."""
        before, self._state = self._state, state
        t_s = self._epoch_s + monotonic_s
        if state is State.FALLING_ASLEEP:
            self._slept_s, self._sent = t_s, False
        if state in (State.FALLING_ASLEEP, State.ASLEEP):
            self._pages.slept(t_s)
        elif state in (State.WAKING, State.AWAKE) and self._woke_s <= self._slept_s:
            # A controller that was away does not know what was sent meanwhile.
            self._sent |= before is State.UNKNOWN
            self._woke_s = t_s
            self._pages.woke(t_s)
        if state not in _NOT_RUNNING:
            self._copied = None
            self._write()
        if state is not State.FALLING_ASLEEP:
            self.stop()
        if state is State.AWAKE and self.on:
            self._task = asyncio.ensure_future(self._compare())

    # Checks

    def look(self) -> None:
        """Check another page, if one is due, the server is awake and nothing else is under way."""
        busy = self._task is not None and not self._task.done()
        now_s = self._now_s()
        if not self.on or self._state is not State.AWAKE or busy or now_s < self._next_s:
            return
        for key, address in self._pages.due(now_s)[:1]:
            self._next_s = now_s + EVERY_S
            self._task = asyncio.ensure_future(self._check(key, address))

    async def _check(self, key: Key, address: Address) -> None:
        got = await self._ask(key, address)
        if got is None:
            self._pages.failed(self._now_s(), key)
        else:
            self._pages.checked(self._now_s(), key, *got)
        self._write()

    async def _ask(self, key: Key, address: Address) -> tuple[Copy, Copy] | None:
        """Return what two strangers get; None if one of them gets nothing."""
        copies = []
        for who in (DESKTOP, PHONE):
            answer = await self._strangers.ask(*address, who, https=key.https)
            if answer is None:
                return None
            copies.append(copy_of(answer))
        return copies[0], copies[1]

    async def _compare(self) -> None:
        """Compare the answers given in the sleep with the server's current ones."""
        await asyncio.sleep(AFTER_WAKE_S)
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(key: Key, address: Address) -> None:
            async with free:
                got = await self._ask(key, address)
                if got is None:
                    self._pages.failed(self._now_s(), key)
                else:
                    self._pages.compared(self._now_s(), key, *got, sent=self._sent)

        before = self._pages.counts.differed
        try:
            async with asyncio.timeout(COMPARE_S):
                await asyncio.gather(*(one(*each) for each in self._pages.compare()))
        except TimeoutError:
            _LOG.info("%s: not all that was answered asleep was compared in time", self._server.id)
        self._pages.end_compare(self._now_s())
        self._write()
        if differed := self._pages.counts.differed - before:
            _LOG.warning("%s: %d pages answered asleep had changed", self._server.id, differed)

    async def before_sleep(self, fetched: Sequence[Job]) -> None:
        """Remember the cached copies that visitors will get, just after the fetch."""
        self.stop()
        self._pages.begin_copies(self._now_s())
        good = self._pages.answerable() if self.on else {}
        free = asyncio.Semaphore(CHANNELS)

        async def copy(key: Key, job: Job) -> None:
            async with free:
                answer = parsed(await self._varnish.read(job, MOST_BYTES), self._now_s())
            if answer is not None:
                self._pages.copied(self._now_s(), key, copy_of(answer))

        jobs = {Key(job.path, job.https): job for job in fetched}
        try:
            async with asyncio.timeout(COPY_S):
                await asyncio.gather(*(copy(key, jobs[key]) for key in jobs if key in good))
        except TimeoutError:
            _LOG.info("%s: not all pages could be copied in time", self._server.id)
        self._copied = self._pages.copied_table(jobs)
        self._write()

    def _write(self) -> None:
        """Tell Varnish and the warmer which pages stay valid while the server sleeps."""
        if self._copied is not None:
            self._page.verify(self._index, self._copied if self.on else ())
            return
        pages = self._pages.answerable() if self.on else {}
        self._allow(Job(key.path, *address, https=key.https) for key, address in pages.items())
        self._page.verify(self._index, sorted({key.path for key in pages}))

    def stop(self) -> None:
        """Call off what is under way."""
        if self._task:
            self._task.cancel()
            self._task = None

    def status(self) -> dict[str, Any]:
        """Return what the control API says of it."""
        return {"on": self.on, **self._pages.status()}
