"""Tells the VMOD which search engines may wake a server, and when: `server.engines` live."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from naproxy.controller.context import BoxContext
from naproxy.controller.verifying import engine_of
from naproxy.core.page_h import SERVED, Outcome
from naproxy.core.reason import Reason
from naproxy.core.request import Refusal
from naproxy.core.state import State
from naproxy.server import engines
from naproxy.shm.events import Event

NETWORKS: Final = 64
"""Networks of search engines at one server that are remembered, by their hashes."""


class SearchEngines:
    """One server's."""

    def __init__(self, box: BoxContext, index: int, limit_s: float) -> None:
        """Nobody was refused."""
        self._box = box
        self._index = index
        self._engines = engines.Engines(limit_s)
        self._networks: OrderedDict[int, str] = OrderedDict()

    def configure(self, limit_s: float) -> None:
        """Take another limit."""
        self._engines.limit_s = limit_s

    def kept(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON: nobody's address."""
        return {"engines": self._engines.dump()}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values."""
        kept = saved.get("engines")
        if isinstance(kept, Mapping):
            self._engines.load(kept, self._t_s())

    def told(self, refusal: Refusal, state: State) -> None:
        """The VMOD refused one that says it is a search engine."""
        if state is not State.AWAKE:
            t_s = self._t_s()
            self._box.verifier.ask(refusal, lambda: self._refused(refusal, t_s))

    def _refused(self, refusal: Refusal, t_s: float) -> None:
        self._networks[refusal.network] = refusal.engine
        self._networks.move_to_end(refusal.network)
        if len(self._networks) > NETWORKS:
            self._networks.popitem(last=False)
        self._engines.refused(refusal.engine, t_s)

    def heard(self, events: Iterable[Event]) -> None:
        """Learn what became of their requests."""
        for event in events:
            name = self._networks.get(event.network)
            if name and event.outcome in SERVED and engine_of(event.agent) == name:
                self._engines.served(name, self._t_s(), held=event.outcome == Outcome.HELD)

    def let_in(self) -> list[int]:
        """Return the networks whose engines may wake the server, the latest last."""
        t_s = self._t_s()
        return [network for network, name in self._networks.items() if self._engines.due(name, t_s)]

    def look(self) -> None:
        """Tell the VMOD to let crawlers in one by one while one crawls, and no longer."""
        pace_ms = round(1000 * engines.PACE_S) if self._engines.crawls(self._t_s()) else 0
        if int(self._box.page.server(self._index).crawl_ms) != pace_ms:
            with self._box.page.configure(self._index) as record:
                record.crawl_ms = pace_ms

    def inhibitor(self) -> Reason | None:
        """Say for whom the server stays awake."""
        crawl = self._engines.crawls(self._t_s())
        return Reason("server.engine_crawls", engine=crawl[0]) if crawl else None

    def status(self) -> list[dict[str, Any]]:
        """Return what the control API says of them, times in epoch seconds."""
        crawl = self._engines.crawls(self._t_s())
        return [
            {"name": name, "crawls": bool(crawl and crawl[0] == name), **kept}
            for name, kept in sorted(self._engines.dump().items())
        ]

    def _t_s(self) -> float:
        return self._box.epoch_s + time.monotonic()
