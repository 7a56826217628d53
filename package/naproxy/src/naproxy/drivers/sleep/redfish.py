"""Powering a server off through its BMC, by Redfish: the BMC presses the power button.

The server's system shuts down as it is set up to; it cannot say no, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers import Target
from naproxy.drivers.redfish import Redfish, RedfishError, RedfishSettings
from naproxy.drivers.sleep import OffSettings, SleepResult
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(RedfishSettings, OffSettings):
    """Which BMC."""

    driver: str = option("redfish: power off through the BMC, by HTTPS", "redfish")


class Driver:
    """Asks for a graceful shutdown, never for a forced one."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Talk to the settings' BMC."""
        self._settings = settings
        self._redfish = Redfish(settings)

    async def sleep(self) -> SleepResult:
        """Have the button pressed."""
        try:
            said = await self._redfish.reset(
                "GracefulShutdown", unless="Off", timeout_s=self._settings.timeout_s
            )
        except RedfishError as error:
            return SleepResult(Answer.FAILED, error.reason)
        return SleepResult(Answer.ACCEPTED, said)
