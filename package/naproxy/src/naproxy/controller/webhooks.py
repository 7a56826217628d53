"""Where programs bring a server news: paths that took POSTs from outside, at different times.

Such an address gets other requests, too: a sender of webhooks first checks it with a GET, under
any User-Agent. So the VMOD refuses no client there.

Anybody may post, and look at a page. So neither a burst of POSTs nor a single visitor changes
the known paths, and one network has at most half of the places: its own give way to its next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from naproxy.core import page_h
from naproxy.core.state import Klass
from naproxy.shm.events import Event
from naproxy.shm.page import Page, monotonic_us

_POST: Final = 2  # naproxy_event.method
_SENDERS: Final = frozenset((Klass.API, Klass.CRAWLER, Klass.FEED))
"""Not people, whose forms are at the addresses of pages, nor who says he scans or monitors."""

AGAIN_S: Final = 3600.0
"""A path is known when it takes a second POST at least so long after the first."""

OLD_S: Final = 30 * 86400.0
"""Only one without news for so long gives its place to another."""

PEOPLE: Final = 3
"""A path that people of so many networks load as a page is not a webhook."""

CANDIDATES: Final = 256
"""Paths that took one POST, the last ones."""

_SHARE: Final = 2
"""One network has at most one in so many places."""


class Webhooks:
    """One server's, in the page."""

    def __init__(self, shared: Page, index: int) -> None:
        """None is known."""
        self._page = shared
        self._index = index
        self._known: dict[int, float] = {}  # hashes of paths, and when they last had news
        self._from: dict[int, int] = {}  # and from which networks they came, since the start
        self._candidates: dict[int, tuple[float, int]] = {}  # first POSTs, and their networks
        self._loaded: dict[int, set[int]] = {}  # and the networks of people who loaded them

    def kept(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {"webhook_paths": list(self._known)}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values; ignore invalid ones."""
        paths = saved.get("webhook_paths")
        if isinstance(paths, list):
            good = [each for each in paths if isinstance(each, int) and 0 < each < 1 << 64]
            self._known = dict.fromkeys(good[-page_h.WEBHOOKS :], monotonic_us() / 1e6)
        self._write()

    def heard(self, events: Iterable[Event]) -> None:
        """Learn of requests that ended."""
        before = set(self._known)
        for event in events:
            if event.page_load and event.status < 400:
                self._load(event)
            elif self._news(event):
                self._post(event.path, event.t_us / 1e6, event.network)
        if set(self._known) != before:
            self._write()

    def _load(self, event: Event) -> None:
        if event.path not in self._known:
            return
        networks = self._loaded.setdefault(event.path, set())
        networks.add(event.network)
        if len(networks) >= PEOPLE:
            self._forget(event.path)

    def _post(self, path: int, t_s: float, network: int) -> None:
        if path in self._known:
            self._known[path] = t_s
        elif path not in self._candidates:
            self._consider(path, t_s, network)
        elif t_s - self._candidates[path][0] >= AGAIN_S:
            self._know(path, t_s, network)

    def _consider(self, path: int, t_s: float, network: int) -> None:
        own = [each for each, (_, of) in self._candidates.items() if network and of == network]
        if len(own) >= CANDIDATES // _SHARE:
            del self._candidates[own[0]]
        elif len(self._candidates) >= CANDIDATES:
            del self._candidates[next(iter(self._candidates))]
        self._candidates[path] = (t_s, network)

    def _know(self, path: int, t_s: float, network: int) -> None:
        own = sum(of == network for of in self._from.values() if network)
        if own >= page_h.WEBHOOKS // _SHARE:
            return
        if len(self._known) >= page_h.WEBHOOKS:
            oldest = min(self._known, key=self._known.__getitem__)
            if t_s - self._known[oldest] < OLD_S:
                return
            self._forget(oldest)
        self._known[path] = t_s
        self._from[path] = network
        del self._candidates[path]

    def _forget(self, path: int) -> None:
        del self._known[path]
        self._from.pop(path, None)
        self._loaded.pop(path, None)

    @staticmethod
    def _news(event: Event) -> bool:
        return (
            event.method == _POST
            and 200 <= event.status < 300
            and event.klass in _SENDERS
            and event.path != 0
            and not event.own
        )

    def _write(self) -> None:
        with self._page.configure(self._index) as record:
            record.webhook[:] = [*self._known, *[0] * (page_h.WEBHOOKS - len(self._known))]
