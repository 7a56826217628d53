"""Joules of a transfer by meters: those of the server, of this machine, or of both ends.

A meter with `driver = "model"` is a fitted power model, by the processor only or by processor,
memory, disk and network (the paper's two); any other is measured. Their joules are added up.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.api.command import CommandError
from naproxy.core.reading import PowerSample
from naproxy.lab.source import meters_of

FIRST_S: Final = 15.0
"""So long a meter may take to say something."""


@dataclass(slots=True)
class _Meter:
    """One meter's readings since `begun_s`: joules until `until_s`, and its last power."""

    until_s: float
    joules: float = 0.0
    last_w: float | None = None

    def add(self, second: PowerSample) -> None:
        """Take a second; those that are missing before it drew what the last one did."""
        end_s = second.t_s + 1.0
        now_w = second.mean_mw / 1e3
        if end_s > self.until_s:
            begin_s = max(float(second.t_s), self.until_s)
            before_w = now_w if self.last_w is None else self.last_w
            self.joules += before_w * (begin_s - self.until_s) + now_w * (end_s - begin_s)
            self.until_s = end_s
        self.last_w = now_w


class Joules:
    """A counter of several meters' joules. Pure: the time is an argument."""

    def __init__(self, names: Sequence[str], begun_s: float) -> None:
        """`begun_s` is on the clock that the seconds have."""
        self._meters = {name: _Meter(begun_s) for name in names}
        self._most = 0.0

    def add(self, name: str, second: PowerSample) -> None:
        """Take a second of a meter; others than those named are left out."""
        if name in self._meters:
            self._meters[name].add(second)

    @property
    def silent(self) -> list[str]:
        """The meters that have not said anything yet."""
        return [name for name, each in self._meters.items() if each.last_w is None]

    def until(self, now_s: float) -> float:
        """Return the joules until now; missing readings continue with the meter's last second."""
        found = sum(
            each.joules + (each.last_w or 0.0) * max(0.0, now_s - each.until_s)
            for each in self._meters.values()
        )
        # A late second may correct the assumption, but a counter must never go back.
        self._most = max(self._most, found)
        return self._most


@contextmanager
def counter(names: Sequence[str], socket: str, config: Path) -> Iterator[Callable[[], float]]:
    """Yield a counter of the joules of these meters; CommandError if one is not there, or silent.

    The meters are read in a thread of their own.
    """
    heard = _Heard(names, socket, config)
    thread = threading.Thread(target=heard.run, daemon=True)
    thread.start()
    try:
        if not heard.ready.wait(FIRST_S) or heard.problem is not None:
            if heard.problem is not None:
                raise heard.problem
            raise CommandError(f"no reading in {FIRST_S:g} s of {', '.join(heard.silent())}")
        yield heard.joules
    finally:
        heard.stop()
        thread.join(FIRST_S)


class _Heard:
    """The thread's side."""

    def __init__(self, names: Sequence[str], socket: str, config: Path) -> None:
        self._names = names
        self._args = argparse.Namespace(socket=socket, config=config, meter=None)
        self._lock = threading.Lock()
        self._counted: Joules | None = None
        self._now: Callable[[], float] = lambda: 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.ready = threading.Event()
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._listen())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.problem = error
            self.ready.set()

    async def _listen(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with meters_of(self._args) as (meters, heard):
            known = [str(status["id"]) for status in meters.status()]
            if unknown := [name for name in self._names if name not in known]:
                raise CommandError(f"there is no meter {unknown[0]}, only {', '.join(known)}")
            self._counted, self._now = Joules(self._names, meters.house_s()), meters.house_s
            async with aclosing(heard):
                async for name, second in heard:
                    with self._lock:
                        self._counted.add(name, second)
                        if not self._counted.silent:
                            self.ready.set()

    def joules(self) -> float:
        with self._lock:
            return self._counted.until(self._now()) if self._counted else 0.0

    def silent(self) -> list[str]:
        with self._lock:
            return self._counted.silent if self._counted else list(self._names)

    def stop(self) -> None:
        if self._loop and self._task and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
