"""What a loop does again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """When each work is done next; `stop` calls all of it off."""

    def __init__(self) -> None:
        self._next: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def again(self, after_s: float, work: Callable[[], None]) -> None:
        """Do it after so long, and not when it was to be done before.

        One that does it again sets its next time before it begins.
        """
        if work in self._next:
            self._next[work].cancel()
        self._next[work] = asyncio.get_running_loop().call_later(after_s, work)

    def stop(self) -> None:
        """Do nothing of it any more."""
        for timer in self._next.values():
            timer.cancel()
