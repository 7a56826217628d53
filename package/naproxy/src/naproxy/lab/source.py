"""Where the laboratory has the meters' seconds from: the controller, or the meters themselves.

It asks the controller. Where none runs it opens the meters: a serial port has but one reader.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from naproxy.api.command import CommandError, call
from naproxy.config import document as config
from naproxy.controller.meters import Meters
from naproxy.core.reading import PowerSample

_POLL_S: Final = 0.5
_AFTER_ALL: Final = 1e11

Heard = AsyncGenerator[tuple[str, PowerSample], None]
"""Seconds as they come, each with its meter's name."""


class Asked:
    """The controller's meters; `status` and `house_s` are as those of `Meters`."""

    def __init__(self, socket: str) -> None:
        """Ask it once; CommandError if it does not answer."""
        self._socket = socket
        self.ask(_AFTER_ALL)
        # Once: a clock that follows each answer would step by as much as answers are late.
        self._epoch_s: float = self._said["house_s"] - time.monotonic()

    def ask(self, since_s: float) -> Sequence[dict[str, Any]]:
        """Return the seconds after `since_s`."""
        self._said = call(self._socket, "meters", since_s=since_s)
        return self._said["seconds"]  # type: ignore[no-any-return]

    def status(self) -> Sequence[Mapping[str, Any]]:
        """Return what it said of its meters last."""
        return self._said["meters"]  # type: ignore[no-any-return]

    def house_s(self) -> float:
        """Return the time by the clock that the seconds have."""
        return self._epoch_s + time.monotonic()


@asynccontextmanager
async def meters_of(args: argparse.Namespace) -> AsyncIterator[tuple[Asked | Meters, Heard]]:
    """Yield the meters and their readings; CommandError without the wanted one, or without any."""
    if Path(args.socket).exists():
        asked = await asyncio.to_thread(Asked, args.socket)
        _check(args.meter, [status["id"] for status in asked.status()])
        yield asked, _polled(asked)
        return
    loaded = config.read(args.config)
    _check(args.meter, [meter.id for meter in loaded.meter])
    queue: asyncio.Queue[tuple[str, PowerSample]] = asyncio.Queue()
    meters = Meters(time.time() - time.monotonic())
    meters.sinks.append(lambda name, second: queue.put_nowait((name, second)))
    meters.use([m for m in loaded.meter if args.meter in (None, m.id)], loaded.server)
    try:
        yield meters, _taken(queue)
    finally:
        meters.stop()


async def _polled(asked: Asked) -> Heard:
    since_s = asked.house_s()
    while True:
        for row in await asyncio.to_thread(asked.ask, since_s):
            since_s = max(since_s, row["t_s"])
            yield row.pop("meter"), PowerSample(**row)
        await asyncio.sleep(_POLL_S)


async def _taken(queue: asyncio.Queue[tuple[str, PowerSample]]) -> Heard:
    while True:
        yield await queue.get()


def _check(wanted: str | None, known: Sequence[str]) -> None:
    if not known:
        raise CommandError("no meter is configured: see [[meter]] in docs/configuration.md")
    if wanted is not None and wanted not in known:
        raise CommandError(f"there is no meter {wanted}, only {', '.join(known)}")
