"""A server's calendar: looked at by another process now and then, `calendar_reader`.

The pure part is in `server/inhibitors`; the clock and the disk are here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final

from naproxy.core.hours import Event
from naproxy.core.processes import printed, why
from naproxy.core.reason import Reason, reason_of
from naproxy.server.inhibitors import CLOCK_SET_S, Agenda, Settings

JOB: Final = "NAPROXY_CALENDAR"
EVERY_S: Final = 900.0
SOON_S: Final = 300.0
"""When it is tried again after it failed."""
_TAKES_S: Final = 60.0
"""More than the other process takes by itself."""
_MOST_BYTES: Final = 1 << 20
_SHOWN: Final = 3
_LOG: Final = logging.getLogger(__name__)


class Calendars:
    """That of one server."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        folder: Path,
        changed: Callable[[Agenda], None],
        where: Callable[[], tzinfo],
    ) -> None:
        """`folder`: where the last good copy is kept; `changed` hears what was read.

        `where`: the office's zone, of times in the calendar that name none.
        """
        self._where = where
        self._read_where = where()
        self._name = name
        self._copy = folder / f"{name}.json"
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._settings = settings
        self.agenda = Agenda()

    def configure(self, settings: Settings) -> None:
        """Take settings that were checked; another calendar is read at once."""
        before, self._settings = self._settings, settings
        if (before.calendar, self._read_where) != (settings.calendar, self._where()):
            self.begin()

    def begin(self) -> None:
        """Look at it from now on."""
        self.stop()
        self._read_where = self._where()
        self.agenda = Agenda()
        self._changed(self.agenda)
        if self._settings.calendar:
            self._task = asyncio.ensure_future(self._look_on())
        else:
            with contextlib.suppress(OSError):
                self._copy.unlink()

    def stop(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()
            self._task = None

    async def _look_on(self) -> None:
        while True:
            problem = self.agenda.problem
            try:
                self.agenda = await self._look()
            except Exception as error:
                said = Reason("server.calendar_unreachable", why=why(error))
                self.agenda = self.agenda.failed(said, time.time())
            if self.agenda.problem != problem:
                _LOG.info("%s: calendar: %s", self._name, self.agenda.problem or "read again")
            self._changed(self.agenda)
            await asyncio.sleep(SOON_S if self.agenda.problem else EVERY_S)

    async def _look(self) -> Agenda:
        job = {
            "source": self._settings.calendar,
            "copy": str(self._copy),
            "time_zone": getattr(self._read_where, "key", None) or "",
            "now_s": time.time(),
        }
        argv = (sys.executable, "-m", "naproxy.controller.calendar_reader")
        done = await printed(argv, _TAKES_S, {JOB: json.dumps(job)}, _MOST_BYTES)
        if done.code != 0:
            said = Reason("server.calendar_unreachable", why=done.why)
            return self.agenda.failed(said, time.time())
        return _agenda(json.loads(done.output))

    def status(self) -> dict[str, Any] | None:
        """Return what the control API says of it; None: there is none."""
        if not self._settings.calendar:
            return None
        now_s, agenda = time.time(), self.agenda
        coming = [each for each in agenda.events if each.end_s > now_s][:_SHOWN]
        return {
            "events": [{"t_s": e.begin_s, "end_s": e.end_s, "name": e.name} for e in coming],
            "read_s": agenda.read_s,
            "problem": agenda.problem.plain() if agenda.problem else None,
        }


def _not_understood(left_out: int, doubted: int, first: Reason) -> Reason:
    if not doubted:
        return Reason("server.calendar_left_out", number=left_out, why=first)
    if not left_out:
        return Reason("server.calendar_doubted", number=doubted, why=first)
    return Reason("server.calendar_both", left_out=left_out, doubted=doubted, why=first)


def _agenda(said: dict[str, Any]) -> Agenda:
    events = [Event(begin_s, end_s, name) for begin_s, end_s, name in said["events"] or ()]
    problem = reason_of(said["problem"]) if said["problem"] else None
    if problem is None and said["why"]:
        problem = _not_understood(said["left_out"], said["doubted"], reason_of(said["why"]))
    until_s = said["until_s"] if said["events"] is not None else 0.0
    # A clock that was set since says another time than it did at the first look.
    since_s = said["since_s"] if said["since_s"] > CLOCK_SET_S else time.time()
    return Agenda(tuple(events), since_s, said["read_s"], until_s, problem)
