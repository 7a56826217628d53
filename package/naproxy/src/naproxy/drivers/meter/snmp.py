"""Metered power strips (PDU) and anything else with a power in SNMP, through net-snmp.

APC's objects are those of PowerNet-MIB: rPDU2DeviceStatusPower (hundredths of kW) and
rPDU2DeviceStatusEnergy (tenths of kWh), rPDU2OutletMeteredStatusPower (W) of one outlet,
rPDUIdentDevicePowerWatts of the first generation. `ups` is RFC 1628's upsOutputPower.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, option, or_empty
from naproxy.drivers import meter
from naproxy.drivers.meter_io import password, tool
from naproxy.drivers.needs import Needs
from naproxy.drivers.secret import COMMUNITY


@dataclass(frozen=True, slots=True)
class Objects:
    """Which object is the power, which the energy counter, and their units."""

    power: str
    power_unit_w: float
    energy: str = ""
    energy_unit_j: float = 1.0


_APC: Final = "1.3.6.1.4.1.318.1.1"
DEVICES: Final = {
    "apc": Objects(f"{_APC}.26.4.3.1.5.1", 10.0, f"{_APC}.26.4.3.1.9.1", 360e3),
    "apc-outlet": Objects(f"{_APC}.26.9.4.3.1.7.{{}}", 1.0, f"{_APC}.26.9.4.3.1.11.{{}}", 360e3),
    "apc-first": Objects(f"{_APC}.12.1.16.0", 1.0),
    "ups": Objects("1.3.6.1.2.1.33.1.4.4.1.4.{}", 1.0),
}
_is_oid: Final = fits(
    r"\.?[0-9]+(\.[0-9]+){3,100}", Reason("config.oid", name="1.3.6.1.4.1.318.1.1.12.1.16.0")
)


def _is_address(text: str) -> Reason | None:
    # net-snmp reads transports such as `unix:` and `dtlsudp:` here.
    return meter.is_host_or_address(text) or (
        Reason("config.transport") if ":" in text and not text.startswith("udp6") else None
    )


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """A device, and the values to read from it."""

    needs: ClassVar[Needs] = Needs(programs={"snmpget": "snmp"})

    driver: str = option("snmp: a metered power strip", "snmp")
    interval_s: float = option("Time between readings", 2.0, low=0.5, high=60)
    host: str = option("Its IPv4 address or host name", check=_is_address)
    port: int = option("Its port", 161, low=1, high=65535)
    password_file: str = option(
        "File with the community for reading; empty: public",
        "",
        check=meter.is_file_or_empty,
        holds=COMMUNITY,
    )
    kind: str = option(
        "Kind of device: APC's second generation, one outlet of it, APC's first generation, a UPS"
        " with RFC 1628, or anything that has the object in `source`",
        "apc",
        choices=("apc", "apc-outlet", "apc-first", "ups", "oid"),
    )
    channel: int = option("The outlet, or the UPS' output, from 1", 1, low=1, high=100)
    source: str = option("The object that holds the power", "", check=or_empty(_is_oid))
    unit_w: float = option("Watts of one step of its value", 1.0, low=0.000001, high=1000)


def objects(settings: Settings) -> Objects:
    """Return what to ask for."""
    if settings.kind == "oid":
        return Objects(settings.source.removeprefix("."), settings.unit_w)
    known = DEVICES[settings.kind]
    return Objects(
        known.power.format(settings.channel),
        known.power_unit_w,
        known.energy.format(settings.channel),
        known.energy_unit_j,
    )


class Driver(meter.PolledDriver[Settings]):
    """Runs snmpget once a reading, by SNMP version 2c."""

    measures = meter.STRIP

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Read the values that the settings name."""
        super().__init__(settings, site)
        self._objects = objects(settings)
        self.accuracy = f"about 2 to 5 %; steps of {self._objects.power_unit_w:g} W"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        wanted = [oid for oid in (self._objects.power, self._objects.energy) if oid]
        if not wanted:
            raise meter.Fault("format", "meter.no_oid")
        community = password(settings.password_file) or "public"
        with tempfile.TemporaryDirectory(prefix="naproxy-snmp-") as folder:
            # On the command line every user of the machine could read it.
            Path(folder, "snmp.conf").write_text(f'defCommunity "{_quotable(community)}"\n')
            said = await tool(
                [
                    *("snmpget", "-v2c", "-Oqvt", "-r1", f"-t{settings.timeout_s / 3:.2f}"),
                    *(f"udp:{settings.host}:{settings.port}", *wanted),
                ],
                settings.timeout_s,
                {"SNMPCONFPATH": folder, "SNMP_PERSISTENT_DIR": folder, "MIBS": ""},
            )
        return parse(said.splitlines(), self._objects)


def _quotable(community: str) -> str:
    if not community.isprintable() or set(community) & set("\"'\\"):
        raise meter.Fault("refused", "meter.community")
    return community


def parse(lines: Sequence[str], asked: Objects) -> meter.Reading:
    """Return the reading in the values that snmpget prints, one a line."""
    if not lines:
        raise meter.Fault("cut", "meter.tells_nothing", program="snmpget")
    if len(lines) > (2 if asked.energy else 1):
        raise meter.Fault("doubled", "meter.many_values")
    power_w = _whole(lines[0], meter.ITS_POWER) * asked.power_unit_w
    if len(lines) < 2 or lines[1].startswith("No Such"):
        return meter.Reading(power_w)
    return meter.Reading(
        power_w, counter_j=_whole(lines[1], meter.ITS_COUNTER) * asked.energy_unit_j
    )


def _whole(text: str, what: Reason) -> float:
    if text.startswith("No Such"):
        raise meter.Fault("format", "meter.no_such_object", shown=meter.shown(text))
    return meter.number(text.strip('"'), what)
