"""The office's API for carbon dioxide, asked now and then by a process, `intensity_reader`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from naproxy.config.document import Office
from naproxy.core.processes import printed, why
from naproxy.core.reason import Reason, WrongError, reason_of
from naproxy.drivers import secret

JOB: Final = "NAPROXY_INTENSITY"
EVERY_S: Final = 900.0
SOON_S: Final = 300.0
"""When it is asked again after it failed."""
_TAKES_S: Final = 60.0
"""More than the other process takes by itself."""
_MOST_BYTES: Final = 1 << 14
_LOG: Final = logging.getLogger(__name__)


class Intensity:
    """Asks, and hands over what it hears."""

    def __init__(self, heard: Callable[[float], None]) -> None:
        """`heard` takes the grams a kilowatt-hour of now."""
        self._heard = heard
        self._office = Office()
        self._asking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._forget()

    def _forget(self) -> None:
        self._co2_g: float | None = None
        self._read_s: float | None = None
        self._problem: Reason | None = None
        self._failed_s: float | None = None

    def configure(self, office: Office) -> None:
        """Take settings that were checked; another API is asked at once."""
        before, self._office = self._office, office
        if _asked(before) != _asked(office):
            self.stop()
            self._forget()
            if office.co2_url:
                self._task = asyncio.ensure_future(self._go_on())

    def stop(self) -> None:
        """Ask no more."""
        if self._task:
            self._task.cancel()
            self._task = None

    async def _go_on(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(SOON_S if self._problem else EVERY_S)

    async def look(self) -> None:
        """Ask once."""
        async with self._asking:
            office = self._office
            try:
                answer = await _answer(office)
            except WrongError as error:
                answer = error.reason
            except Exception as error:
                answer = Reason("co2.unreachable", why=why(error))
            if _asked(office) == _asked(self._office):  # else that was another API's
                self._take(answer)

    def _take(self, answer: float | Reason) -> None:
        before = self._problem
        if isinstance(answer, Reason):
            self._problem = answer
            self._failed_s = self._failed_s or time.time()
        else:
            self._problem = self._failed_s = None
            self._co2_g, self._read_s = answer, time.time()
            self._heard(answer)
        if self._problem != before:
            _LOG.info("carbon dioxide: %s", self._problem or "read again")

    def status(self) -> dict[str, Any] | None:
        """Return what the control API says of it; None: there is none."""
        if not self._office.co2_url:
            return None
        return {
            "co2_g_per_kwh": self._co2_g,
            "read_s": self._read_s,
            "problem": self._problem.plain() if self._problem else None,
            "failed_since_s": self._failed_s,
        }


def _asked(office: Office) -> tuple[str, ...]:
    return office.co2_url, office.co2_value, office.co2_header, office.co2_key_file


async def _answer(office: Office) -> float | Reason:
    file, key = office.co2_key_file, ""
    if file:
        # In a thread: the loop must not wait for the disk.
        key = await asyncio.to_thread(secret.read, file, Reason("co2.key"))
    job = {
        "url": office.co2_url,
        "value": office.co2_value,
        "header": office.co2_header,
        "key": key,
    }
    argv = (sys.executable, "-m", "naproxy.controller.intensity_reader")
    done = await printed(argv, _TAKES_S, {JOB: json.dumps(job)}, _MOST_BYTES)
    if done.code != 0:
        return Reason("co2.unreachable", why=done.why)
    said = json.loads(done.output)
    return reason_of(said["problem"]) if said["problem"] else float(said["co2_g"])
