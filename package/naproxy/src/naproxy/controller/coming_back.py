"""Tells the VMOD when robots that are refused should come back: `server.windows` live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Any, Final

from naproxy.core.state import State
from naproxy.server.inhibitors import CLOCK_SET_S
from naproxy.server.windows import Usual, retry_at_s
from naproxy.shm import page
from naproxy.shm.page import Page

_EVERY_S: Final = 30.0
_ALIKE_US: Final = 5_000_000
"""The clock that the page has drifts against the one on the wall."""


class ComingBack:
    """One server's, in the page."""

    def __init__(self, shared: Page, index: int, where: Callable[[], tzinfo]) -> None:
        """Nothing is known of it. `where`: the office's zone."""
        self._page = shared
        self._index = index
        self._usual = Usual(where)
        self._last_s = -_EVERY_S

    def kept(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {"usual": self._usual.dump()}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Restore kept values."""
        usual = saved.get("usual")
        if isinstance(usual, Mapping):
            self._usual.load(usual)

    def look(self, now_s: float, wall_s: float, state: State, office_s: float | None) -> None:
        """Learn what the server does, twice a minute; `office_s`: when its hours begin next."""
        if now_s - self._last_s < _EVERY_S or wall_s < CLOCK_SET_S:
            return
        self._last_s = now_s
        self._usual.seen(wall_s, awake=state is State.AWAKE)
        at_s = retry_at_s(wall_s, office_s, self._usual.next_s(wall_s))
        at_us = 0 if at_s is None else page.monotonic_us() + round((at_s - wall_s) * 1e6)
        told_us = int(self._page.server(self._index).retry_at_us)
        if bool(at_us) != bool(told_us) or abs(at_us - told_us) > _ALIKE_US:
            with self._page.configure(self._index) as record:
                record.retry_at_us = at_us
