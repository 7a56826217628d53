"""The visitors' machine: requests sent from within its network namespace, in a thread."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.replay.replay import replay
from naproxy.lab.replay.replay_slice import Planned
from naproxy.lab.replay.replay_visit import Target, Visit, visit

from tests.simulator.office import Namespace

Heard = tuple[float, Visit]
"""Monotonic time and the visit as it stood: a waiting page is heard of twice."""
Ask = Callable[[int, Entry], Awaitable[Visit]]
Means = Callable[[int, Entry, Callable[[Visit], None]], Awaitable[Visit]]
"""Another way to send a request than ours; told whom to tell of a waiting page."""
Play = Callable[[Ask, asyncio.Event], Coroutine[Any, Any, None]]


async def nothing_else(_ask: Ask, _stop: asyncio.Event) -> None:
    """Be the play of those who only replay."""


class Visitors:
    """Replays in the background, beside a play of scripted visitors."""

    def __init__(
        self,
        client: Namespace,
        target: Target,
        planned: Sequence[Planned],
        play: Play = nothing_else,
        means: Mapping[str, Means] | None = None,
    ) -> None:
        self.heard: SimpleQueue[Heard] = SimpleQueue()
        self.visits: list[Visit] = []
        """Complete once they have left."""
        self._client = client
        self._target = target
        self._planned = planned
        self._play = play
        self._means = means or {}
        self._at_work: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="visitors", daemon=True)

    def start(self) -> None:
        """Begin; the replay's clock runs from now."""
        self._thread.start()
        self._ready.wait()

    def leave(self) -> None:
        """Send nothing more; what is under way may still end."""
        if self._at_work:
            loop, stop = self._at_work
            loop.call_soon_threadsafe(stop.set)

    def left(self, timeout_s: float) -> bool:
        """Wait for them to end, and return whether they have; raises what went wrong with them."""
        self._thread.join(timeout_s)
        if self._error:
            raise self._error
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._client.entered():
                asyncio.run(self._visit())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _visit(self) -> None:
        stop = asyncio.Event()
        self._at_work = (asyncio.get_running_loop(), stop)
        self._ready.set()

        async def ask(number: int, entry: Entry) -> Visit:
            if means := self._means.get(entry.host):
                ended = await means(number, entry, self._hear)
            else:
                ended = await visit(self._target, number, entry, shown=self._hear)
            self._end(ended)
            return ended

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                replay(self._planned, self._target, stop=stop, shown=self._hear, done=self._end)
            )
            tasks.create_task(self._play(ask, stop))

    def _hear(self, seen: Visit) -> None:
        self.heard.put((time.monotonic(), seen))

    def _end(self, ended: Visit) -> None:
        self.visits.append(ended)
        self._hear(ended)
