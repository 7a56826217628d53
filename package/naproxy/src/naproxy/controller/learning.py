"""Tells the VMOD which clients have behaved like robots.

The live side of `naproxy.core.classify.Behaviour`: events come from the VMOD's ring, learned
clients go into the page's table, where the VMOD finds them at their next request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from naproxy.core import page_h
from naproxy.core.classify import Behaviour, Kind, Seen
from naproxy.core.state import Klass
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page

LET_IN: Final = 16
"""Networks of search engines that the VMOD is told of at once."""

_GET, _HEAD = 0, 1  # naproxy_event.method
_LOADED: Final = frozenset((200, 206, 304))


def path_hash(host: str, url: str) -> int:
    """Return `naproxy_event.path` of an address, as classify.c has it."""
    return page.fnv(host.encode() + b"\0" + url.encode()) or 1


class Learner:
    """Watches all servers' requests; learned clients are in the page and survive a restart."""

    def __init__(self, shared: Page) -> None:
        """Begin with the clients that the page knows."""
        self._page = shared
        self._behaviour = Behaviour(slots=page_h.LEARNED - LET_IN)
        self._let_in: dict[int, int] = {}
        self._robots_txt: frozenset[int] = frozenset()
        for slot in shared.layout.learned:
            if slot.client and slot.wakes:
                self._let_in[slot.client] = slot.wakes
            elif slot.client and slot.klass < len(Klass):
                self._behaviour.remember(slot.client, Klass(slot.klass))

    def serve(self, hosts: Iterable[str]) -> None:
        """Take the names of the sites, to know their robots.txt."""
        self._robots_txt = frozenset(path_hash(host, "/robots.txt") for host in hosts)

    def heard(self, events: Iterable[Event]) -> None:
        """Learn from requests that ended, and tell the VMOD what is new."""
        before = dict(self._behaviour.known)
        for event in events:
            if event.klass >= len(Klass) or event.flags & page_h.E_RULE:
                continue
            if event.flags & page_h.E_LEARNED:
                self._behaviour.remember(event.client, Klass(event.klass))
            else:
                self._behaviour.see(self._seen(event))
        if self._behaviour.known != before:
            self._write()

    def _seen(self, event: Event) -> Seen:
        return Seen(
            t_s=event.t_us / 1e6,
            client=event.client,
            path=event.path,
            klass=Klass(event.klass),
            kind=self._kind(event),
            status=event.status,
            safe=event.method in (_GET, _HEAD),
        )

    def _kind(self, event: Event) -> Kind:
        if event.path in self._robots_txt:
            return Kind.ROBOTS_TXT
        if event.page_load:
            return Kind.PAGE if event.status in _LOADED else Kind.OTHER
        return Kind.ASSET if event.method == _GET else Kind.OTHER

    def let_in(self, networks: Mapping[int, int]) -> None:
        """Tell the VMOD of networks whose search engines may wake servers (1 << index of each).

        The latest are the last.
        """
        latest = dict(list(networks.items())[-LET_IN:])
        if latest != self._let_in:
            self._let_in = latest
            self._write()

    def _write(self) -> None:
        rows: list[tuple[int, int, int]]
        rows = [(network, Klass.CRAWLER, wakes) for network, wakes in self._let_in.items()]
        rows += [(client, klass, 0) for client, klass in self._behaviour.known.items()]
        rows += [(0, 0, 0)] * (page_h.LEARNED - len(rows))
        with self._page.configure(None) as layout:
            for slot, row in zip(layout.learned, rows, strict=True):
                slot.client, slot.klass, slot.wakes = row
