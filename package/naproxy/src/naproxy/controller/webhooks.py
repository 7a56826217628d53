"""Where programs bring a server news: addresses that took a POST from outside.

Such an address is asked for in other ways, too: who sends webhooks first looks whether there is
one, with a GET, and may call himself what he likes. So the VMOD refuses nobody there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from naproxy.core.state import Klass
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page

_POST: Final = 2  # naproxy_event.method
_SENDERS: Final = frozenset((Klass.API, Klass.CRAWLER, Klass.FEED))
"""Not people, whose forms are at the addresses of pages, nor who says he scans or monitors."""


class Webhooks:
    """One server's, in the page; the last ones are kept."""

    def __init__(self, shared: Page, index: int) -> None:
        """None is known."""
        self._page = shared
        self._index = index
        self._paths: dict[int, None] = {}  # hashes, the last at the end

    def kept(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {"webhooks": list(self._paths)}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on with what was kept; what makes no sense is left."""
        paths = saved.get("webhooks")
        if isinstance(paths, list):
            good = [each for each in paths if isinstance(each, int) and 0 < each < 1 << 64]
            self._paths = dict.fromkeys(good[-page.WEBHOOKS :])
        self._write()

    def heard(self, events: Iterable[Event]) -> None:
        """Learn of requests that ended."""
        before = set(self._paths)
        for event in events:
            if event.page_load and event.status < 400:
                self._paths.pop(event.path, None)  # a page, with a form
            elif self._news(event):
                self._paths.pop(event.path, None)
                self._paths[event.path] = None
                if len(self._paths) > page.WEBHOOKS:
                    del self._paths[next(iter(self._paths))]
        if set(self._paths) != before:
            self._write()

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
            record.webhook[:] = [*self._paths, *[0] * (page.WEBHOOKS - len(self._paths))]
