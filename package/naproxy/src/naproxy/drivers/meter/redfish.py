"""A server's management controller by Redfish: HTTPS and JSON.

DMTF DSP2046: `Power` of a chassis (PowerControl, PowerConsumedWatts), or its newer
`EnvironmentMetrics` (PowerWatts, EnergyJoules, EnergykWh). Which of the two is seen by the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from naproxy.core.schema import is_url_path, option, or_empty
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Web, basic
from naproxy.drivers.pinned import is_fingerprint
from naproxy.drivers.secret import PASSWORD

JOULES_A_KWH: Final = 3.6e6
_WHOLE_CONTEXTS: Final = frozenset({"Chassis", "PowerSubsystem", "PowerSupply", "Rack", "Board"})
_PART: Final = re.compile(
    r"\b(?:cpu|processor|memory|dimm|dram|gpu|accelerator|fans?|disks?|drives?|storage|pcie|nic|hdd)",
    re.IGNORECASE,
)
_SYSTEM: Final = re.compile(r"system|server|chassis|node|total|input", re.IGNORECASE)
_PART_PLACE: Final = re.compile(r"/(?:Processors|Memory|Storage|Fans|Drives|PCIeDevices)(?:/|$)")


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """A BMC's address, our login there, and its pinned certificate."""

    timeout_s: ClassVar[float] = 10.0

    driver: str = option("redfish: the server's BMC by Redfish", "redfish")
    interval_s: float = option("Time between readings", 5.0, low=0.5, high=60)
    host: str = option("Address of the BMC", check=meter.is_host_or_address)
    port: int = option("Its port", 443, low=1, high=65535)
    source: str = option(
        "What to ask for: Power or EnvironmentMetrics of its chassis",
        "/redfish/v1/Chassis/1/Power",
        high=255,
        check=is_url_path,
    )
    tls: bool = option("Use HTTPS; false only inside a machine", True)
    fingerprint: str = option(
        "SHA-256 fingerprint of its certificate, if it made that itself; empty: the system must"
        " trust the certificate",
        "",
        check=or_empty(is_fingerprint),
    )
    user: str = option("User who may read; empty: it needs none", "", high=64)
    password_file: str = option(
        "File with the password", "", check=meter.is_file_or_empty, holds=PASSWORD
    )


class Driver(meter.PolledDriver[Settings]):
    """Logs in with each request: no session is left open at the BMC."""

    measures = meter.SUPPLY
    accuracy = "as its maker says, often 5 %"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        web = Web(
            settings.host,
            settings.port,
            settings.timeout_s,
            tls=settings.tls,
            fingerprint=settings.fingerprint,
            headers={
                "Accept": "application/json",
                "OData-Version": "4.0",
                **basic(settings.user, settings.password_file),
            },
        )
        return parse(meter.json_object(await web.get(settings.source)))


def parse(said: Mapping[str, Any]) -> meter.Reading:
    """Return the reading in a Power or an EnvironmentMetrics resource."""
    controls = said.get("PowerControl")
    if isinstance(controls, list) and controls:
        return meter.Reading(_whole([each for each in controls if isinstance(each, Mapping)]))
    power = said.get("PowerWatts")
    if power is not None:
        return meter.Reading(_power(_reading(power)), counter_j=_counter_j(said))
    raise meter.Fault("format", "meter.redfish_no_power")


def _whole(controls: list[Mapping[str, Any]]) -> float:
    """Return the power of the chassis; Power lists parts of it too, some BMCs before it."""
    whole = [each for each in controls if not _is_part(each)]
    if not whole:
        names = ", ".join(str(each.get("Name")) for each in controls)
        raise meter.Fault("format", "meter.redfish_parts", shown=meter.shown(names))
    found = next((each for each in whole if each.get("PowerConsumedWatts") is not None), whole[0])
    power_w = _power(found.get("PowerConsumedWatts"))
    metrics = found.get("PowerMetrics")
    most = metrics.get("MaxConsumedWatts") if isinstance(metrics, Mapping) else None
    # The BMC itself draws power, so one whose maximum is 0 W does not measure.
    if power_w == 0 and not isinstance(most, bool) and most == 0:
        raise meter.Fault("format", "meter.redfish_unmeasured")
    return power_w


def _is_part(control: Mapping[str, Any]) -> bool:
    context, name = control.get("PhysicalContext"), str(control.get("Name") or "")
    if isinstance(context, str):
        return context not in _WHOLE_CONTEXTS
    if _PART.search(name):
        return True
    # Supermicro's boards relate the whole system's power to a processor.
    related = control.get("RelatedItem")
    places = [
        str(each.get("@odata.id"))
        for each in (related if isinstance(related, list) else [])
        if isinstance(each, Mapping)
    ]
    return (
        bool(places)
        and all(_PART_PLACE.search(each) for each in places)
        and not (_SYSTEM.search(name))
    )


def _counter_j(said: Mapping[str, Any]) -> float | None:
    for key, unit_j in (("EnergyJoules", 1.0), ("EnergykWh", JOULES_A_KWH)):
        total = _reading(said.get(key))
        if total is not None:
            return meter.number(total, meter.ITS_COUNTER) * unit_j
    return None


def _reading(sensor: object) -> object:
    """Return the reading of a sensor's excerpt, or the bare number that some BMCs send."""
    return sensor.get("Reading") if isinstance(sensor, Mapping) else sensor


def _power(value: object) -> float:
    if value is None:
        raise meter.Fault("format", "meter.null_power")
    return meter.number(value, meter.ITS_POWER)
