"""Powering a server on through its BMC, by Redfish."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers.redfish import RedfishSettings, reset
from naproxy.drivers.wake import SlowDriver, SlowRungSettings


@dataclass(frozen=True, kw_only=True)
class Settings(RedfishSettings, SlowRungSettings):
    """Which BMC."""

    driver: str = option("redfish: power on through the BMC, by HTTPS", "redfish")


class Driver(SlowDriver[Settings]):
    """Asks for power on; a machine that the BMC calls on already is left to the next rung."""

    async def call(self) -> None:
        """Ask once."""
        await reset(self._settings, "On", "On", self._settings.timeout_s)
