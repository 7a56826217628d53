"""A server's own management controller (BMC): DCMI power reading, through `ipmitool`.

DCMI 1.5, section 6.6.1. The BMC answers while the server sleeps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, fixed, option, or_empty
from naproxy.drivers import ipmi, meter
from naproxy.drivers.meter_io import tool
from naproxy.drivers.needs import Needs

_POWER: Final = re.compile(r"^\s*Instantaneous power reading\s*:\s*(\S+)\s+Watts\s*$", re.M)
_NOT_AVAILABLE: Final = 0xFFFF
"""Sixteen bits, all set: BMCs that cannot measure at present."""
_STATE: Final = re.compile(r"^\s*Power reading state is\s*:\s*(.*?)\s*$", re.M)


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """A BMC's address, and our login there."""

    needs: ClassVar[Needs] = Needs(programs={"ipmitool": "ipmitool"})
    timeout_s: ClassVar[float] = 10.0

    driver: str = option("ipmi: DCMI power reading of the server's BMC", "ipmi")
    interval_s: float = option("Time between readings", 5.0, low=0.5, high=60)
    interface: str = fixed("lanplus")
    """IPMI 2.0 over the network."""
    host: str = option(
        "Address of the BMC; empty: the server's, or for the box its own BMC",
        "",
        check=or_empty(meter.is_host_or_address),
    )
    port: int = option("Its port", 623, low=1, high=65535)
    user: str = option(
        "User who may read", "", high=16, check=fits("(?!-).*", Reason("config.user"))
    )
    password_file: str = option(
        "File with the password", "", check=meter.is_file_or_empty, holds=ipmi.PASSWORD
    )


class Driver(meter.PolledDriver[Settings]):
    """Runs ipmitool once a reading."""

    measures = meter.SUPPLY
    accuracy = "as its maker says, often 5 %; steps of 1 W"

    async def ask(self) -> meter.Reading:
        """Ask once; without a host the BMC is at the server's own address."""
        settings = self._settings
        argv = command(settings, settings.host or self._site.address)
        return parse(await tool(argv, settings.timeout_s))


def command(settings: Settings, host: str) -> list[str]:
    """Return the command line; the password stays in its file. Without a host: this machine."""
    where = ["-I", settings.interface if host else "open"]
    if host:
        where += ["-H", host, "-p", str(settings.port), "-U", settings.user]
        where += ["-f", settings.password_file] if settings.password_file else ["-P", ""]
    return ["ipmitool", *where, "dcmi", "power", "reading"]


def parse(text: str) -> meter.Reading:
    """Return the reading in ipmitool's output."""
    state, powers = _STATE.findall(text), _POWER.findall(text)
    if len(powers) > 1:
        raise meter.Fault("doubled", "meter.two_readings")
    if not powers:
        raise meter.Fault(
            "format", "meter.tells_no_power", program="ipmitool", shown=meter.shown(text)
        )
    if len(state) != 1:
        raise meter.Fault("cut", "meter.part_of_answer", program="ipmitool")
    power_w = meter.number(powers[0], meter.ITS_POWER)
    if power_w == _NOT_AVAILABLE:
        raise meter.Fault("format", "meter.not_available")
    # OpenBMC says deactivated of readings that are good (its issue 3257): only 0 is doubted.
    if state != ["activated"] and power_w == 0:
        raise meter.Fault("format", "meter.deactivated", state=state[0])
    return meter.Reading(power_w)
