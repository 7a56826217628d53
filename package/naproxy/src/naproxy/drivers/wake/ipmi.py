"""Powering a server on through its BMC, by IPMI."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers import Target
from naproxy.drivers.ipmi import Ipmi, IpmiSettings
from naproxy.drivers.wake import SlowDriver, SlowRungSettings


@dataclass(frozen=True, kw_only=True)
class Settings(IpmiSettings, SlowRungSettings):
    """Which BMC."""

    driver: str = option("ipmi: power on through the BMC, by ipmitool", "ipmi")


class Driver(SlowDriver):
    """Asks for power on; to a machine that is on it does nothing."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Talk to the settings' BMC."""
        self._settings = settings
        self._ipmi = Ipmi(settings)

    async def call(self) -> None:
        """Ask once."""
        await self._ipmi.power("on", self._settings.timeout_s)
