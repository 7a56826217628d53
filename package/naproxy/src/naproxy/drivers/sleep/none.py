"""No way to put the server to sleep: it stays awake, and requests pass."""

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
    looks: ClassVar[bool] = True

    driver: str = option("none: the box never puts the server to sleep", "none")


class Driver(SleepDriver[Settings]):
    """Refuses."""

    async def order(self) -> SleepResult:
        """Say why not."""
        return SleepResult(Answer.REFUSED, Reason("sleep.no_way"))
