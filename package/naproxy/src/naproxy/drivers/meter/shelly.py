"""Shelly plugs and relays with a meter, over HTTP in the local network.

Gen1: `/meter/N`, https://shelly-api-docs.shelly.cloud/gen1/#shelly-plug-plugs. Gen2 and
later: `/rpc/Switch.GetStatus`, or `/rpc/PM1.GetStatus` for those without a relay; for energy
meters, `/rpc/EM1.GetStatus` for one of several clamps and `/rpc/EM.GetStatus` for three phases.
Passwords: https://shelly-api-docs.shelly.cloud/gen2/General/Authentication/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from naproxy.core.schema import option
from naproxy.drivers import meter
from naproxy.drivers.digest import Digest
from naproxy.drivers.meter_io import Web, basic, password
from naproxy.drivers.secret import PASSWORD

_FIRST = ("meter", "emeter")
"""Components of the first generation."""
JOULES_A_WATT_MINUTE = 60.0
JOULES_A_WATT_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Where it is."""

    driver: str = option("shelly: a Shelly plug or relay, first or later generation", "shelly")
    host: str = option("Its address or host name", check=meter.is_host_or_address)
    port: int = option("Its port for HTTP", 80, low=1, high=65535)
    channel: int = option(
        "Its channel, from 0; with em 0 is all three phases, 1 to 3 is one of them",
        0,
        low=0,
        high=7,
    )
    kind: str = option(
        "Which part of it measures; the first generation has meter and emeter, energy meters of"
        " later ones em1 or em",
        "switch",
        choices=("meter", "emeter", "switch", "pm1", "em1", "em"),
    )
    user: str = option(
        "User; empty: none, or admin with the later generations, which know no other user",
        "",
        high=64,
    )
    password_file: str = option(
        "File with the password", "", check=meter.is_file_or_empty, holds=PASSWORD
    )


_PATHS = {
    "meter": "/meter/{}",
    "emeter": "/emeter/{}",
    "switch": "/rpc/Switch.GetStatus?id={}",
    "pm1": "/rpc/PM1.GetStatus?id={}",
    "em1": "/rpc/EM1.GetStatus?id={}",
    "em": "/rpc/EM.GetStatus?id=0",
}
_PHASES = "abc"
_BROKEN = "power_meter_failure"


class Driver(meter.PolledDriver[Settings]):
    """Asks the device itself, not Shelly's cloud."""

    measures = meter.MAINS
    accuracy = "1 to 2 %; less below 5 W"
    _login: Digest | None = None

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        web = Web(settings.host, settings.port, settings.timeout_s)
        if settings.kind in _FIRST:
            web = replace(web, headers=basic(settings.user, settings.password_file))
        elif settings.password_file:
            # Kept: with a challenge that it still takes, one request is enough.
            self._login = self._login or Digest(
                settings.user or "admin", password(settings.password_file)
            )
            web = replace(web, login=self._login)
        path = _PATHS[settings.kind].format(settings.channel)
        return parse(meter.json_object(await web.get(path)), settings.channel)


def parse(said: Mapping[str, Any], channel: int = 0) -> meter.Reading:
    """Return the reading in an answer of either generation; `channel` counts in three phases."""
    if "total_act_power" in said:
        return _phases(said, channel)
    _check(said.get("errors"))
    if "act_power" in said:
        return _reading(said["act_power"], None, JOULES_A_WATT_HOUR)
    if "apower" in said:
        energy = said.get("aenergy")
        counter = energy.get("total") if isinstance(energy, Mapping) else None
        return _reading(said["apower"], counter, JOULES_A_WATT_HOUR)
    if "power" in said:
        if said.get("is_valid") is False:
            raise meter.Fault("format", "meter.not_valid")
        # An emeter has a voltage and counts watt-hours, a meter watt-minutes.
        unit_j = JOULES_A_WATT_HOUR if "voltage" in said else JOULES_A_WATT_MINUTE
        return _reading(said["power"], said.get("total"), unit_j)
    raise meter.Fault("format", "meter.no_power")


def _phases(said: Mapping[str, Any], channel: int) -> meter.Reading:
    if channel > len(_PHASES):
        raise meter.Fault("format", "meter.no_channel", number=len(_PHASES), channel=channel)
    for phase in _PHASES if channel == 0 else _PHASES[channel - 1]:
        _check(said.get(f"{phase}_errors"))
    name = "total_act_power" if channel == 0 else f"{_PHASES[channel - 1]}_act_power"
    return _reading(said.get(name), None, JOULES_A_WATT_HOUR)


def _check(errors: object) -> None:
    if isinstance(errors, list) and _BROKEN in errors:
        raise meter.Fault("format", "meter.not_valid")


def _reading(power: object, counter: object, unit_j: float) -> meter.Reading:
    counter_j = None if counter is None else meter.number(counter, meter.ITS_COUNTER) * unit_j
    return meter.Reading(meter.number(power, meter.ITS_POWER), counter_j=counter_j)
