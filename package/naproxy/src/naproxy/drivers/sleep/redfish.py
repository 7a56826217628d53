"""Powering a server off through its BMC, by Redfish: the BMC presses the power button.

The server's system shuts down as it is set up to; it cannot say no, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers.redfish import RedfishSettings, reset
from naproxy.drivers.sleep import OffSettings, SleepDriver, SleepResult
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(RedfishSettings, OffSettings):
    """Which BMC."""

    driver: str = option("redfish: power off through the BMC, by HTTPS", "redfish")


class Driver(SleepDriver[Settings]):
    """Asks for a graceful shutdown, never for a forced one."""

    async def order(self) -> SleepResult:
        """Have the button pressed."""
        settings = self._settings
        said = await reset(settings, "GracefulShutdown", "Off", settings.timeout_s)
        return SleepResult(Answer.ACCEPTED, said)
