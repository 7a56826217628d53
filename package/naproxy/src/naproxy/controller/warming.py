"""Fetches the pages that a sleeping server will probably be asked for, just before its sleep.

`policy.warming` chooses them; this module asks Varnish. Until the command to sleep, a request for
the server cancels the sleep, also while this fetches. After a wake it revalidates the pages served
meanwhile, and fills an emptied cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from naproxy.config.document import Server
from naproxy.controller.learning import path_hash
from naproxy.controller.varnish import Job, Varnish, askable
from naproxy.core.names import ascii_site
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass, State
from naproxy.policy.warming import Bounds, Costs, Warming, wait_j
from naproxy.shm.events import Event
from naproxy.shm.stored import Stored

_LOG: Final = logging.getLogger(__name__)
BEFORE_SLEEP: Final = Bounds(longest_s=10.0, most_bytes=32 << 20, most=500)
"""A quarter of the cache, so that other content is not evicted."""
AFTER_WAKE_S: Final = 3.0
"""After a wake those who waited come first."""
_AFTER_WAKE_MOST_S: Final = 30.0
_REMEMBERED: Final = 4096
_VARIANTS: Final = 4
_KEPT: Final = 500
"""Addresses on the disk: those that were worth it before the last sleep."""
_NOT_RUNNING: Final = (State.FALLING_ASLEEP, State.ASLEEP, State.WAKING)
_FROM_CACHE: Final = (Outcome.HIT, Outcome.STALE)
_CACHEABLE: Final = (
    *_FROM_CACHE,
    Outcome.FETCH,
    Outcome.HELD,
    Outcome.WAITING_PAGE,
    Outcome.GONE,
    Outcome.LIMIT,
)
_GET: Final = (0, 1)  # and HEAD, see naproxy_event.method
_ROBOTS_TXT: Final = "/robots.txt"
_ASKED_ANYWAY: Final = (_ROBOTS_TXT, "/favicon.ico")
"""By robots and browsers, of each site; that there is none is an answer, too."""


class Catalogue:
    """How to ask for content that the cache has, or had; the last stored."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, dict[tuple[str, bool, str], Job]] = OrderedDict()

    def add(self, job: Job) -> None:
        """Remember one variant of an address."""
        variants = self._jobs.setdefault(job.path, {})
        variants[job.host, job.https, job.accept] = job
        self._jobs.move_to_end(job.path)
        while len(variants) > _VARIANTS:
            variants.pop(next(iter(variants)))
        while len(self._jobs) > _REMEMBERED:
            self._jobs.popitem(last=False)

    def of(self, paths: Iterable[int]) -> list[Job]:
        """Return all that is known of these addresses, in their order."""
        return [job for path in paths for job in self._jobs.get(path, {}).values()]

    def dump(self, paths: Iterable[int]) -> list[dict[str, Any]]:
        """Return what is known of some, as JSON."""
        return [asdict(job) for job in self.of(paths)]

    def load(self, saved: Any) -> list[int]:
        """Restore the output of `dump`, and return whose it was; ignore invalid parts."""
        jobs = [_job(each) for each in saved[:_KEPT]] if isinstance(saved, list) else []
        for job in jobs:
            if job:
                self.add(job)
        return list(dict.fromkeys(job.path for job in jobs if job))


_KINDS: Final = {"path": int, "host": str, "url": str, "accept": str, "https": bool, "bytes": int}


def _job(saved: Any) -> Job | None:
    if not isinstance(saved, Mapping) or {k: type(v) for k, v in saved.items()} != _KINDS:
        return None
    job = Job(**saved)
    return job if askable(job.host, job.url, job.accept) else None


class Warmer:
    """One server's."""

    def __init__(
        self,
        server: Server,
        varnish: Varnish,
        *,
        epoch_s: float,
        child_us: Callable[[], int],
        wake_s: Callable[[], float],
        spent: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`child_us`: when Varnish started, its cache empty; `wake_s`: how long waking takes.

        `spent`: the share of the allowed waits that are used up.
        """
        self._server = server
        self._varnish = varnish
        self._epoch_s = epoch_s
        self._child_us = child_us
        self._wake_s = wake_s
        self._spent = spent
        self._filled_us = child_us()
        self._planner = Warming()
        self._catalogue = Catalogue()
        self._worth: list[int] = []
        """Pages worth caching before the last sleep, the best first."""
        self._served: dict[int, None] = {}
        """Pages served from the cache during this sleep."""
        self._state = State.UNKNOWN
        self._task: asyncio.Task[None] | None = None
        self._allowed: set[int] = set()
        self.fetched: list[Job] = []
        """Pages of the last fetch before a sleep, in all variants."""
        self.last_s = 0.0
        """How long the last fetching before a sleep took."""

    @property
    def on(self) -> bool:
        """Is there something to fetch for: would it be served while the server sleeps?"""
        return self._server.cache.warm and self._server.cache.mode != "default"

    def configure(self, server: Server) -> None:
        """Take a new configuration."""
        self._server = server

    def _t_s(self, monotonic_s: float) -> float:
        return self._epoch_s + monotonic_s

    # Kept over a restart of the controller, and of the box with its cache

    def kept(self) -> dict[str, Any]:
        """Return what `take_up` takes."""
        return {
            "warming": self._planner.dump(self._t_s(time.monotonic())),
            "worth": self._catalogue.dump(self._worth),
            "filled_us": self._filled_us,
        }

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values; ignore invalid ones."""
        self._planner.load(saved.get("warming"), self._t_s(time.monotonic()))
        self._worth = self._catalogue.load(saved.get("worth"))
        filled_us = saved.get("filled_us")
        self._filled_us = filled_us if isinstance(filled_us, int) else 0

    # Learning

    def stored(self, record: Stored) -> None:
        """Hear of an answer that the cache keeps."""
        if record.varies or not askable(record.host, record.url, record.accept):
            return
        t_s = self._t_s(record.t_us / 1e6)
        if record.freezes:
            self._catalogue.add(
                Job(
                    record.path,
                    record.host,
                    record.url,
                    record.accept,
                    https=record.https,
                    bytes=record.bytes,
                )
            )
        self._planner.stored(
            t_s,
            record.path,
            record.bytes,
            float(record.ttl_s),
            held=record.freezes,
            validated=record.same,
        )
        if record.freezes and record.url == _ROBOTS_TXT:
            self._planner.expect(t_s, record.path)

    def allow(self, jobs: Iterable[Job]) -> None:
        """Take the pages that stay valid in a sleep besides what Varnish says so of."""
        before, self._allowed = self._allowed, set()
        for job in jobs:
            self._allowed.add(job.path)
            self._planner.hold(job.path, held=True)
            if job.path not in before:
                self._catalogue.add(job)
        for path in before - self._allowed:
            self._planner.hold(path, held=False)

    def spares(self, event: Event) -> bool:
        """Return whether a page load needed the server only because that was awake.

        A person who loads such a page again gets it from the cache while the server sleeps.
        Only pages count: docs/deciding.md says what happens with files.
        """
        t_s = self._t_s(event.t_us / 1e6)
        return self.on and event.page_load and self._planner.would_answer(event.path, t_s)

    def heard(self, events: Iterable[Event]) -> None:
        """Learn from requests that ended, of all who may wake the server."""
        wakes = {Klass[name.upper()] for name in self._server.wake_classes}
        for event in events:
            if event.klass not in wakes:
                continue
            asleep = self._state in _NOT_RUNNING
            cacheable = event.outcome in _CACHEABLE and event.method in _GET
            self._planner.asked(
                self._t_s(event.t_us / 1e6),
                event.path,
                event.client,
                asleep=asleep or event.delay_ms > 0,
                cacheable=cacheable,
            )
            if asleep and event.outcome in _FROM_CACHE:
                self._served[event.path] = None

    def observed(self, state: State, monotonic_s: float) -> None:
        """Hear of a state that the server was seen to enter."""
        self._state = state
        if state is State.ASLEEP:
            self._planner.slept(self._t_s(monotonic_s))
        elif state in (State.WAKING, State.AWAKE):
            self._planner.woke(self._t_s(monotonic_s))
        if state is State.AWAKE:
            self.stop()
            self._task = asyncio.ensure_future(self._after_wake())
        elif state is not State.FALLING_ASLEEP:
            self.stop()

    # Fetching

    async def before_sleep(self) -> None:
        """Fetch the pages that are worth it, until cancelled."""
        self.stop()
        self._served.clear()
        self.fetched = []
        self.last_s = 0.0
        if not self.on:
            return
        begun_s = time.monotonic()
        planned = self._planner.plan(self._t_s(begun_s), self._costs(), BEFORE_SLEEP)
        self._worth = [each.path for each in planned][:_KEPT]
        jobs = self._catalogue.of(self._worth)
        done = await self._varnish.fetch(jobs, most_s=BEFORE_SLEEP.longest_s, expire=True)
        self.fetched = [job for job in jobs if job.path in done.took_s]
        self.last_s = done.whole_s
        for path, took_s in done.took_s.items():
            size = sum(job.bytes for job in self._catalogue.of([path]))
            self._planner.warmed(path, size, took_s)
        if done.took_s:
            _LOG.info(
                "%s: asked after %d answers before it sleeps, in %.1f s",
                self._server.id,
                len(done.took_s),
                done.whole_s,
            )

    async def _after_wake(self) -> None:
        """Ask after what was served meanwhile; have a cache that is empty filled."""
        await asyncio.sleep(AFTER_WAKE_S)
        if self.on:
            # Fresh pages, too: the server has had a moment to change them.
            served = self._catalogue.of(self._served)
            await self._varnish.fetch(served, most_s=_AFTER_WAKE_MOST_S, expire=True)
            child_us = self._child_us()
            # Whether Varnish has started since, with nothing in its cache.
            empty, self._filled_us = child_us != self._filled_us, child_us
            missing = self._catalogue.of(self._worth) if empty else []
            missing += self._asked_anyway(missing=not empty)
            await self._varnish.fetch(missing, most_s=_AFTER_WAKE_MOST_S, expire=False)
        self._served.clear()

    def _asked_anyway(self, *, missing: bool) -> list[Job]:
        """Return how to ask for the pages of each site; `missing`: pages never stored."""
        own = self._server
        schemes = (False, True) if own.https.mode == "box" else (False,)
        return [
            Job(path, host, url, https=https)
            for host in map(ascii_site, own.hosts)
            if "*" not in host
            for url in _ASKED_ANYWAY
            if not (self._planner.has(path := path_hash(host, url)) and missing)
            for https in schemes
        ]

    def stop(self) -> None:
        """Fetch no more after a wake."""
        if self._task:
            self._task.cancel()
            self._task = None

    def _costs(self) -> Costs:
        power = self._server.power
        saved_w = power.on_w - power.off_w
        saves_j = self._planner.sleep_s * saved_w - power.switch_j
        return Costs(
            switch_j=power.switch_j,
            saved_w=saved_w,
            wake_s=self._wake_s(),
            wait_j=wait_j(saves_j, self._spent(), 1.0),
        )

    def status(self) -> dict[str, Any]:
        """Return its status for the control API: its costs and gains so far."""
        gained, costs = self._planner.gained, self._costs()
        return {
            "on": self.on,
            "known": len(self._planner),
            "since_s": gained.since_s,
            "fetches": gained.fetches,
            "bytes": gained.bytes,
            "took_s": round(gained.seconds, 3),
            "took_j": round(gained.seconds * costs.saved_w, 1),
            "wakes_avoided": gained.wakes_avoided,
            "avoided_j": round(gained.wakes_avoided * self._planner.wake_j(costs), 1),
        }
