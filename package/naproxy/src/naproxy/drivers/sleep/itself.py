"""The server puts itself to sleep: the box wakes it, answers from its cache, and measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.drivers.sleep import SleepDriver, SleepResult, SleepSettings
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(SleepSettings):
    """Nothing to set."""

    never: ClassVar[bool] = True
    itself: ClassVar[bool] = True

    driver: str = option(
        "itself: the server falls asleep by itself, as with autosuspend; the box wakes it",
        "itself",
    )


class Driver(SleepDriver[Settings]):
    """Refuses."""

    async def order(self) -> SleepResult:
        """Say why not."""
        return SleepResult(Answer.REFUSED, Reason("sleep.itself"))
