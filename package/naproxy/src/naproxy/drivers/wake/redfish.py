"""Powering a server on through its BMC, by Redfish."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers import Target
from naproxy.drivers.redfish import Redfish, RedfishSettings
from naproxy.drivers.wake import SlowDriver, SlowRungSettings


@dataclass(frozen=True, kw_only=True)
class Settings(RedfishSettings, SlowRungSettings):
    """Which BMC."""

    driver: str = option("redfish: power on through the BMC, by HTTPS", "redfish")


class Driver(SlowDriver):
    """Asks for power on; a machine that the BMC calls on already is left to the next rung."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Talk to the settings' BMC."""
        self._settings = settings
        self._redfish = Redfish(settings)

    async def call(self) -> None:
        """Ask once."""
        await self._redfish.reset("On", unless="On", timeout_s=self._settings.timeout_s)
