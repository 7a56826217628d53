"""Powering a server off through its BMC, by IPMI: the BMC presses the power button.

The server's system shuts down as it is set up to; it cannot say no, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.drivers import Target
from naproxy.drivers.ipmi import Ipmi, IpmiError, IpmiSettings
from naproxy.drivers.sleep import OffSettings, SleepResult
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(IpmiSettings, OffSettings):
    """Which BMC."""

    driver: str = option("ipmi: power off through the BMC, by ipmitool", "ipmi")


class Driver:
    """Asks for a soft shutdown, never for a hard one."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Talk to the settings' BMC."""
        self._settings = settings
        self._ipmi = Ipmi(settings)

    async def sleep(self) -> SleepResult:
        """Have the button pressed."""
        try:
            await self._ipmi.power("soft", self._settings.timeout_s)
        except IpmiError as error:
            return SleepResult(Answer.FAILED, error.reason)
        return SleepResult(Answer.ACCEPTED, Reason("sleep.bmc"))
