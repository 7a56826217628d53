"""Looks whether visitors bypass the box, whenever the server is awake; keeps the result.

`look` has the requests, `server/sight` the judgement, this module the times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any, Final, Protocol

from naproxy.config.document import Server
from naproxy.controller.look import Looker
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.history.write.journal import Journal
from naproxy.server import sight
from naproxy.server.sight import Look

AGAIN_S: Final = 3600.0
"""How long a look holds while the server is awake."""
SOON_S: Final = 60.0
"""When it is tried again if not all was seen."""
_LOG: Final = logging.getLogger(__name__)


class Seeable(Protocol):
    """The part of a server's runner that is used here."""

    @property
    def server(self) -> Server:
        """Its configuration."""

    def state(self) -> State:
        """Return what it does now."""

    def stranger(self) -> Reason | None:
        """Say that another machine is at its address."""

    def sighted(self) -> None:
        """Hear that the judgement may be another one."""


class Sighting:
    """The last look at a server, and the one under way."""

    def __init__(
        self,
        journal: Journal,
        name: str,
        runner: Seeable,
        look: Looker,
        served: Callable[[], Collection[str]],
        *,
        wall: Callable[[], float],
    ) -> None:
        """Restore the journal's result: a sleeping server need not be looked at again.

        `served` returns the names that the box serves over HTTPS now.
        """
        self._journal = journal
        self._served = served
        self._key = f"look.{name}"
        self._runner = runner
        self._looker = look
        self._wall = wall
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        saved = journal.saved(self._key)
        self._about = saved.get("about")
        self._last = sight.load(saved.get("look"))

    @property
    def look(self) -> Look | None:
        """The last look, if it was at the server as it is configured now."""
        return self._last if self._about == self._subject() else None

    @property
    def blind(self) -> Reason | None:
        """Why visitors may come past the box; None if none do."""
        server = self._runner.server
        return sight.blind(self.look, server.https.mode, server.hosts, self._served())

    def _subject(self) -> list[Any]:
        server = self._runner.server
        way = [asdict(server.https)] if server.by_https else []
        return [server.address, server.web_port, *way, *server.hosts]

    def awake(self) -> None:
        """Hear that the server is awake, or reconfigured: look if the last look is old."""
        self._cancel_timer()
        if self._runner.state() is not State.AWAKE:
            return
        left_s = self._holds_s()
        if left_s <= 0:
            self._begin()
        else:
            self._timer = asyncio.get_running_loop().call_later(left_s, self.awake)

    def _holds_s(self) -> float:
        look = self.look
        if look is None:
            return 0.0
        holds_s = AGAIN_S if look.whole and look.port != "unknown" else SOON_S
        # The clock may have been set back meanwhile.
        return min(holds_s, look.t_s + holds_s - self._wall())

    async def now(self) -> None:
        """Look at once if it is awake; wait until that is done."""
        if self._runner.state() is State.AWAKE:
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._see())
        return self._task

    async def _see(self) -> None:
        server, about = self._runner.server, self._subject()
        before = self.blind
        try:
            look = await self._looker(server)
        except Exception:
            _LOG.exception("%s: could not be looked at", server.id)
            look = Look(self._wall(), "unknown", whole=False)
        awake = self._runner.state() is State.AWAKE
        if awake and about == self._subject() and not self._runner.stranger():
            self._about, self._last = about, look
            self._journal.save(self._key, {"about": about, "look": look.dump()})
            if self.blind != before:
                _LOG.info("%s: %s", server.id, self.blind or "no visitors come past the box")
            self._runner.sighted()
        self._cancel_timer()
        if awake:
            # Also what was thrown away is tried again, but not at once.
            wait_s = max(SOON_S, self._holds_s())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self.awake)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Let go of the server."""
        self._cancel_timer()
        if self._task:
            self._task.cancel()

    def status(self) -> dict[str, Any]:
        """Return what belongs into the server's status."""
        blind = self.blind
        return {"mode": self._runner.server.https.mode, "sight": blind.plain() if blind else None}

    def told(self) -> dict[str, Any]:
        """Return the last look with its judgement, as JSON types."""
        return {**self.status(), "look": self.look.dump() if self.look else None}
