"""Plugs with the Tasmota firmware, over HTTP: `Status 8`.

https://tasmota.github.io/docs/Commands/ and .../JSON-Status-Responses/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from naproxy.core.schema import option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Web, password
from naproxy.drivers.secret import PASSWORD

JOULES_A_KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Where it is."""

    driver: str = option("tasmota: a plug with the Tasmota firmware", "tasmota")
    host: str = option("Its address or host name", check=meter.is_host_or_address)
    port: int = option("Its port for HTTP", 80, low=1, high=65535)
    channel: int = option("Its channel, from 0, if it measures several", 0, low=0, high=7)
    user: str = option("User of its web page; empty: it needs none", "", high=64)
    password_file: str = option(
        "File with the password", "", check=meter.is_file_or_empty, holds=PASSWORD
    )


class Driver(meter.PolledDriver[Settings]):
    """Asks the plug itself."""

    measures = meter.MAINS
    accuracy = "2 % once calibrated; steps of 1 W unless WattRes is set"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        asked = {"cmnd": "Status 8"}
        if settings.user:
            login = {"user": settings.user, "password": password(settings.password_file)}
            asked = {**login, **asked}
        web = Web(settings.host, settings.port, settings.timeout_s)
        return parse(meter.json_object(await web.get(f"/cm?{urlencode(asked)}")), settings.channel)


def parse(said: Mapping[str, Any], channel: int) -> meter.Reading:
    """Return the reading in the answer to `Status 8`."""
    if "WARNING" in said:
        raise meter.Fault("refused", "meter.refuses", words=f"{said['WARNING']!r:.100}")
    sensors = said.get("StatusSNS")
    energy = sensors.get("ENERGY") if isinstance(sensors, Mapping) else None
    if not isinstance(energy, Mapping):
        raise meter.Fault("format", "meter.no_energy")
    # A Total that is one number is for all channels together.
    several, total = isinstance(energy.get("Power"), list), energy.get("Total")
    if several != isinstance(total, list):
        total = None
    elif several:
        total = _one(total, channel)
    counter_j = None if total is None else meter.number(total, meter.ITS_COUNTER) * JOULES_A_KWH
    return meter.Reading(
        meter.number(_one(energy.get("Power"), channel), meter.ITS_POWER), counter_j=counter_j
    )


def _one(values: object, channel: int) -> object:
    if not isinstance(values, list):
        values = [values]
    if channel >= len(values):
        raise meter.Fault("format", "meter.no_channel", number=len(values), channel=channel)
    return values[channel]
