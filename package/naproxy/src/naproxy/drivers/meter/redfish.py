"""A server's management controller by Redfish: HTTPS and JSON.

DMTF DSP2046: `Power` of a chassis (PowerControl, PowerConsumedWatts), or its newer
`EnvironmentMetrics` (PowerWatts, EnergykWh). Which of the two is seen by the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import is_url_path, option
from naproxy.drivers.meter import (
    ITS_COUNTER,
    ITS_POWER,
    SUPPLY,
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
from naproxy.drivers.meter_io import Web, basic
from naproxy.drivers.pinned import is_fingerprint

JOULES_A_KWH: Final = 3.6e6


def _is_fingerprint(text: str) -> Reason | None:
    return is_fingerprint(text) if text else None


@dataclass(frozen=True, kw_only=True)
class Settings(PolledSettings):
    """Which BMC, who asks it and how it is known."""

    driver: str = option("redfish: the server's BMC by Redfish", "redfish")
    interval_s: float = option("Time between readings", 5.0, low=0.5, high=60)
    timeout_s: float = option("Longest wait for an answer", 10.0, low=0.1, high=60)
    host: str = option("Address of the BMC", check=is_host_or_address)
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
        check=_is_fingerprint,
    )
    user: str = option("User who may read; empty: it needs none", "", high=64)
    password_file: str = option("File with the password", "", check=is_file_or_empty)


class Driver:
    """Asks once a reading."""

    def __init__(self, settings: Settings, site: Site) -> None:
        """Log in with each request: no session is left open at the BMC."""
        self._settings = settings
        self.about = About(SUPPLY, settings.interval_s, "as its maker says, often 5 %")

    def readings(self) -> Readings:
        """Yield a reading an interval."""
        return polled(self._settings.interval_s, self._ask)

    async def _ask(self) -> Reading:
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
        return parse(json_object(await web.get(settings.path)))


def parse(said: Mapping[str, Any]) -> Reading:
    """Return the reading in a Power or an EnvironmentMetrics resource."""
    control = said.get("PowerControl")
    if isinstance(control, list) and control and isinstance(control[0], Mapping):
        # The first is the whole chassis, by the specification; others are parts of it.
        return Reading(_power(control[0].get("PowerConsumedWatts")))
    power = said.get("PowerWatts")
    if isinstance(power, Mapping):
        energy = said.get("EnergykWh")
        total = energy.get("Reading") if isinstance(energy, Mapping) else None
        counter_j = None if total is None else number(total, ITS_COUNTER) * JOULES_A_KWH
        return Reading(_power(power.get("Reading")), counter_j=counter_j)
    raise Fault("format", "meter.redfish_no_power")


def _power(value: object) -> float:
    if value is None:
        raise Fault("format", "meter.null_power")
    return number(value, ITS_POWER)
