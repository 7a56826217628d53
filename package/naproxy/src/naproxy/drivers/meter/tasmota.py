"""Plugs with the Tasmota firmware, by HTTP: `Status 8`.

https://tasmota.github.io/docs/Commands/ and .../JSON-Status-Responses/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from naproxy.core.schema import option
from naproxy.drivers.meter import (
    ITS_COUNTER,
    ITS_POWER,
    MAINS,
    About,
    Fault,
    PolledSettings,
    Reading,
    Readings,
    Site,
    is_file_or_empty,
    is_host_or_address,
    json_object,
    number,
    polled,
)
from naproxy.drivers.meter_io import Web, password

JOULES_A_KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Settings(PolledSettings):
    """Where it is."""

    driver: str = option("tasmota: a plug with the Tasmota firmware", "tasmota")
    host: str = option("Its address or host name", check=is_host_or_address)
    port: int = option("Its port for HTTP", 80, low=1, high=65535)
    channel: int = option("Its channel, from 0, if it measures several", 0, low=0, high=7)
    user: str = option("User of its web page; empty: it needs none", "", high=64)
    password_file: str = option("File with the password", "", check=is_file_or_empty)


class Driver:
    """Asks once a reading."""

    def __init__(self, settings: Settings, site: Site) -> None:
        """Ask the plug itself."""
        self._settings = settings
        self.about = About(
            MAINS, settings.interval_s, "2 % once calibrated; steps of 1 W unless WattRes is set"
        )

    def readings(self) -> Readings:
        """Yield a reading an interval."""
        return polled(self._settings.interval_s, self._ask)

    async def _ask(self) -> Reading:
        settings = self._settings
        login = (
            {"user": settings.user, "password": password(settings.password_file)}
            if settings.user
            else {}
        )
        web = Web(settings.host, settings.port, settings.timeout_s)
        query = urlencode({**login, "cmnd": "Status 8"})
        return parse(json_object(await web.get(f"/cm?{query}")), settings.channel)


def parse(said: Mapping[str, Any], channel: int) -> Reading:
    """Return the reading in the answer to `Status 8`."""
    if "WARNING" in said:
        raise Fault("refused", "meter.refuses", words=f"{said['WARNING']!r:.100}")
    sensors = said.get("StatusSNS")
    energy = sensors.get("ENERGY") if isinstance(sensors, Mapping) else None
    if not isinstance(energy, Mapping):
        raise Fault("format", "meter.no_energy")
    # Total is for all channels together; of several it tells nothing of one.
    several = isinstance(energy.get("Power"), list)
    total = None if several else energy.get("Total")
    counter_j = None if total is None else number(total, ITS_COUNTER) * JOULES_A_KWH
    return Reading(number(_one(energy.get("Power"), channel), ITS_POWER), counter_j=counter_j)


def _one(values: object, channel: int) -> object:
    if not isinstance(values, list):
        return values
    if channel >= len(values):
        raise Fault("format", "meter.no_channel", number=len(values), channel=channel)
    return values[channel]
