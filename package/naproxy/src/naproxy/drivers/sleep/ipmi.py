"""Powering a server off through its BMC, by IPMI: the BMC presses the power button.

The server's system shuts down as it is set up to; it cannot say no, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.drivers.ipmi import IpmiSettings, power
from naproxy.drivers.sleep import OffSettings, SleepDriver, SleepResult
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(IpmiSettings, OffSettings):
    """Which BMC."""

    driver: str = option("ipmi: power off through the BMC, by ipmitool", "ipmi")


class Driver(SleepDriver[Settings]):
    """Asks for a soft shutdown, never for a hard one."""

    async def order(self) -> SleepResult:
        """Have the button pressed."""
        await power(self._settings, "soft", self._settings.timeout_s)
        return SleepResult(Answer.ACCEPTED, Reason("sleep.bmc"))
