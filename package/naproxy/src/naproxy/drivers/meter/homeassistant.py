"""A sensor of Home Assistant: any plug or meter that it knows, by its REST API.

`GET /api/states/ENTITY`, https://developers.home-assistant.io/docs/api/rest/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import Held, fits, is_absolute, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Web, password
from naproxy.drivers.secret import is_line

_TOKEN: Final = Held("token", is_line)
_IN_W: Final = {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6}
"""Home Assistant's units of power that a server may have (`UnitOfPower`)."""
_is_entity: Final = fits(r"[a-z0-9_]{1,60}\.[a-z0-9_]{1,180}", Reason("config.entity"))


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Where it is."""

    driver: str = option("homeassistant: a sensor of power in Home Assistant", "homeassistant")
    host: str = option("Home Assistant's address or host name", check=meter.is_host_or_address)
    port: int = option("Its port", 8123, low=1, high=65535)
    tls: bool = option(
        "Use HTTPS to reach Home Assistant; the box must trust its certificate", False
    )
    source: str = option("The sensor's entity ID, such as sensor.server_power", check=_is_entity)
    password_file: str = option(
        "File with a long-lived access token", check=is_absolute, holds=_TOKEN
    )


class Driver(meter.PolledDriver[Settings]):
    """Asks Home Assistant, which knows as much as its device told it last."""

    measures = meter.MAINS
    accuracy = "as its device measures"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        headers = {"Authorization": f"Bearer {password(settings.password_file)}"}
        web = Web(settings.host, settings.port, settings.timeout_s, settings.tls, headers=headers)
        return parse(meter.json_object(await web.get(f"/api/states/{settings.source}")))


def parse(said: Mapping[str, Any]) -> meter.Reading:
    """Return the reading in a state."""
    state, about = said.get("state"), said.get("attributes")
    if state in ("unavailable", "unknown"):
        raise meter.Fault("silence", "meter.entity_unavailable", state=state)
    unit = about.get("unit_of_measurement") if isinstance(about, Mapping) else None
    if not isinstance(unit, str) or unit not in _IN_W:
        raise meter.Fault("format", "meter.entity_unit", unit=f"{unit!s:.20}")
    return meter.Reading(meter.number(state, meter.ITS_POWER) * _IN_W[unit])
