"""A server's management controller by Redfish: HTTPS and JSON.

DMTF DSP2046: `Power` of a chassis (PowerControl, PowerConsumedWatts), or its newer
`EnvironmentMetrics` (PowerWatts, EnergykWh). Which of the two is seen by the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from naproxy.core.schema import is_url_path, option, or_empty
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Web, basic
from naproxy.drivers.pinned import is_fingerprint
from naproxy.drivers.secret import PASSWORD

JOULES_A_KWH: Final = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Which BMC, who asks it and how it is known."""

    timeout_s: ClassVar[float] = 10.0

    driver: str = option("redfish: the server's BMC by Redfish", "redfish")
    interval_s: float = option("Time between readings", 5.0, low=0.5, high=60)
    host: str = option("Address of the BMC", check=meter.is_host_or_address)
    port: int = option("Its port", 443, low=1, high=65535)
    path: str = option(
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
        return parse(meter.json_object(await web.get(settings.path)))


def parse(said: Mapping[str, Any]) -> meter.Reading:
    """Return the reading in a Power or an EnvironmentMetrics resource."""
    control = said.get("PowerControl")
    if isinstance(control, list) and control and isinstance(control[0], Mapping):
        # The first is the whole chassis, by the specification; others are parts of it.
        return meter.Reading(_power(control[0].get("PowerConsumedWatts")))
    power = said.get("PowerWatts")
    if isinstance(power, Mapping):
        energy = said.get("EnergykWh")
        total = energy.get("Reading") if isinstance(energy, Mapping) else None
        counter_j = None if total is None else meter.number(total, meter.ITS_COUNTER) * JOULES_A_KWH
        return meter.Reading(_power(power.get("Reading")), counter_j=counter_j)
    raise meter.Fault("format", "meter.redfish_no_power")


def _power(value: object) -> float:
    if value is None:
        raise meter.Fault("format", "meter.null_power")
    return meter.number(value, meter.ITS_POWER)
