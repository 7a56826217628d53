"""The power that goes through a UPS, as Network UPS Tools knows it, by `upsc`.

`ups.realpower`, else `output.realpower`, else the load in percent of the nominal power.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import tool

_is_ups: Final = fits(
    r"[A-Za-z0-9_.][A-Za-z0-9_.-]*(@[A-Za-z0-9_.:\[\]-]+)?",
    Reason("config.ups", name="ups@localhost"),
)
_NAME: Final = "[a-z0-9.]*"


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Which UPS."""

    driver: str = option("nut: a UPS, through Network UPS Tools", "nut")
    interval_s: float = option("Time between readings", 2.0, low=0.5, high=60)
    ups: str = option("Its name, as upsc expects it", "ups@localhost", check=_is_ups)
    variable: str = option(
        "Variable with the power in watts, such as outlet.1.realpower; empty: the UPS' whole"
        " output",
        "",
        check=fits(_NAME, Reason("config.nut", name="ups.realpower")),
    )


class Driver(meter.PolledDriver[Settings]):
    """Runs upsc once a reading. upsd asks the UPS at its own rate, usually every 2 s."""

    measures = meter.BEHIND
    accuracy = "5 % or worse; of the load in percent, 1 % of its nominal"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        said = await tool(["upsc", settings.ups], settings.timeout_s)
        return parse(variables(said), settings.variable)


def variables(text: str) -> dict[str, str]:
    """Return the variables that upsc prints, one a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if not colon or not re.fullmatch(_NAME, name) or not value.isprintable():
            raise meter.Fault("noise", "meter.not_upsc", shown=meter.shown(line))
        if name in found:
            raise meter.Fault("doubled", "meter.twice", name=name)
        found[name] = value
    return found


def parse(found: Mapping[str, str], variable: str = "") -> meter.Reading:
    """Return the reading in a UPS' variables."""
    if variable:
        if variable not in found:
            raise meter.Fault("format", "meter.lacks_variable", name=variable)
        return meter.Reading(meter.number(found[variable], variable))
    for name in ("ups.realpower", "output.realpower"):
        if name in found:
            return meter.Reading(meter.number(found[name], name))
    load, nominal = found.get("ups.load"), found.get("ups.realpower.nominal")
    if load is None or nominal is None:
        raise meter.Fault("format", "meter.ups_no_power")
    return meter.Reading(
        meter.number(load, "ups.load") / 100 * meter.number(nominal, "ups.realpower.nominal")
    )
