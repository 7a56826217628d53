"""Asks the server, while it is awake, how many visits it saw that did not come through the box."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from naproxy.drivers.sleep import Counted

EVERY_S: Final = 60.0
LATER_S: Final = 600.0
"""When who did not answer is asked again: an agent from before the question never does."""


class Counting:
    """The question under way, and when the next one is due."""

    def __init__(
        self,
        awake: Callable[[], bool],
        ask: Callable[[], Awaitable[Counted | None]],
        hear: Callable[[Counted], None],
    ) -> None:
        """`ask` returns None where nobody tells."""
        self._awake = awake
        self._ask = ask
        self._hear = hear
        self._task: asyncio.Task[None] | None = None

    def awake(self) -> None:
        """Hear that the state, or the configuration, is another one: ask now if it is awake."""
        self.stop()
        if self._awake():
            self._task = asyncio.ensure_future(self._go_on())

    async def _go_on(self) -> None:
        while True:
            counted = await self._ask()
            if counted:
                self._hear(counted)
            await asyncio.sleep(EVERY_S if counted else LATER_S)

    def stop(self) -> None:
        """Ask no more."""
        if self._task:
            self._task.cancel()
            self._task = None
