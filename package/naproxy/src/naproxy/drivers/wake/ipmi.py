"""Powering a server on through its BMC, by IPMI."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers.ipmi import IpmiSettings, power
from naproxy.drivers.wake import SlowDriver, SlowRungSettings


@dataclass(frozen=True, kw_only=True)
class Settings(IpmiSettings, SlowRungSettings):
    """Which BMC."""

    driver: str = option("ipmi: power on through the BMC, by ipmitool", "ipmi")


class Driver(SlowDriver[Settings]):
    """Asks for power on; to a machine that is on it does nothing."""

    async def call(self) -> None:
        """Ask once."""
        await power(self._settings, "on", self._settings.timeout_s)
