"""The power that goes through a UPS, as the upsd of Network UPS Tools knows it (RFC 9271).

`ups.realpower`, else `output.realpower`, else the sum of three phases, else the load in percent
of the nominal power. A power that the UPS' other variables contradict is a fault: some drivers
report a constant 0, the nominal power, or a tenth.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason
from naproxy.core.schema import fits, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import MOST_BYTES

PORT: Final = 3493
_UPS: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_.][A-Za-z0-9_.-]*)"
    r"(?:@(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?)?"
)
_is_ups: Final = fits(_UPS.pattern, Reason("config.ups", name="ups@localhost"))
_NAME: Final = "[A-Za-z0-9._-]*"
_LINE: Final = re.compile(r'VAR [^ ]+ ([^ "]+) "((?:[^"\\]|\\.)*)"')
_WHOLE: Final = ("ups.realpower", "output.realpower")
_PHASES: Final = tuple(
    tuple(f"{of}.L{phase}.realpower" for phase in (1, 2, 3)) for of in ("output", "ups")
)
_READ: Final = frozenset(
    {
        *_WHOLE,
        *(name for names in _PHASES for name in names),
        *("ups.load", "ups.realpower.nominal", "output.realpower.nominal"),
        *("ups.power", "ups.power.nominal", "output.voltage", "output.current"),
    }
)
_MOST_LOAD: Final = 200.0
"""Percent; an overload of more than that ends a UPS."""
_LEAST_LOAD: Final = 1.0
"""Percent; with less, 0 W is a rounded reading."""
_VOLTAGES: Final = (80.0, 300.0)
"""Of the mains, from Japan's to 277 V: other values are a driver's mistake."""
_LEAST_VA: Final = 50.0
"""Less than that is too coarse to compare with."""
_FACTORS: Final = (0.2, 2.0)
"""Real over apparent power: at most 1, and power supplies have more than 0.3, but currents are
rounded."""
_LEAST_NOMINAL: Final = 0.4
"""Nominal watts over volt-amperes: UPSes have 0.5 to 1."""


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Which UPS."""

    driver: str = option("nut: a UPS, through Network UPS Tools", "nut")
    interval_s: float = option("Time between readings", 2.0, low=0.5, high=60)
    host: str = option(
        "Its name, and where its upsd is: NAME@HOST or NAME@HOST:PORT",
        "ups@localhost",
        check=_is_ups,
    )
    source: str = option(
        "Variable with the power in watts, such as outlet.1.realpower; empty: the UPS' whole"
        " output",
        "",
        check=fits(_NAME, Reason("config.nut", name="ups.realpower")),
    )


class Driver(meter.PolledDriver[Settings]):
    """Asks upsd for all variables each time; upsd asks the UPS at its own rate, usually 2 s."""

    measures = meter.BEHIND
    accuracy = "5 % or worse; of the load in percent, 1 % of its nominal"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        try:
            async with asyncio.timeout(settings.timeout_s):
                said = await listed(settings.host)
        except TimeoutError:
            limit_s = settings.timeout_s
            raise meter.Fault("silence", "meter.no_answer", who="upsd", limit_s=limit_s) from None
        except OSError as error:
            raise meter.Fault("lost", "meter.upsd", why=program.why(error)) from None
        return parse(variables(said, settings.source), settings.source)


async def listed(ups: str) -> str:
    """Return what upsd says of a UPS, a line for each variable; OSError or Fault."""
    found = _UPS.fullmatch(ups)
    assert found
    host = found["ipv6"] or found["host"] or "localhost"
    reader, writer = await asyncio.open_connection(host, int(found["port"] or PORT))
    with closing(writer):
        writer.write(f"LIST VAR {found['name']}\n".encode())
        said: list[str] = []
        left = MOST_BYTES
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                # Longer than the stream takes.
                left = -1
                break
            left -= len(line)
            if not line or left < 0:
                break
            text = line.decode(errors="replace").rstrip("\r\n")
            if text.startswith("ERR "):
                words = text.removeprefix("ERR ")
                raise meter.Fault("refused", "driver.program", program="upsd", words=words)
            if text == f"END LIST VAR {found['name']}":
                return "".join(said)
            if text != f"BEGIN LIST VAR {found['name']}":
                said.append(text + "\n")
    if left < 0:
        raise meter.Fault("huge", "meter.printed_much", high=MOST_BYTES)
    raise meter.Fault("cut", "meter.upsd_cut")


def variables(text: str, variable: str = "") -> dict[str, str]:
    """Return the variables that upsd tells, one a line; `variable` is needed besides the usual.

    A line that no reading needs may be odd: drivers report what is in the UPS' memory.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        told = _LINE.fullmatch(line)
        if not told:
            continue
        name, value = told[1], re.sub(r"\\(.)", r"\1", told[2])
        if name in found and name in _READ | {variable}:
            raise meter.Fault("doubled", "meter.twice", name=name)
        found[name] = value
    if text and not found:
        raise meter.Fault("noise", "meter.not_upsd", shown=meter.shown(text))
    return found


def parse(found: Mapping[str, str], variable: str = "") -> meter.Reading:
    """Return the reading in a UPS' variables."""
    if variable:
        if variable not in found:
            raise meter.Fault("format", "meter.lacks_variable", name=variable)
        power_w = meter.number(found[variable], variable)
        if variable in _WHOLE:
            _check_zero(found, variable, power_w)
        return meter.Reading(power_w)
    for name in _WHOLE:
        if name in found:
            power_w = meter.number(found[name], name)
            _check_zero(found, name, power_w)
            _check_apparent(found, name, power_w)
            return meter.Reading(power_w)
    for names in _PHASES:
        # Some drivers report three phases of 0 W for any UPS.
        if all(name in found for name in names) and (power_w := _sum(found, names)):
            return meter.Reading(power_w)
    return meter.Reading(_by_load(found))


def _by_load(found: Mapping[str, str]) -> float:
    names = ("ups.realpower.nominal", "output.realpower.nominal")
    name = next((name for name in names if name in found), None)
    if name is None or "ups.load" not in found:
        raise meter.Fault("format", "meter.ups_no_power")
    load, nominal_w = meter.number(found["ups.load"], "ups.load"), meter.number(found[name], name)
    if not 0 <= load <= _MOST_LOAD:
        raise meter.Fault("format", "meter.ups_load", load=f"{load:g}", high=int(_MOST_LOAD))
    nominal_va = _nominal_va(found)
    if nominal_w <= 0 or (nominal_va and nominal_w < _LEAST_NOMINAL * nominal_va):
        raise meter.Fault("format", "meter.ups_nominal", name=name, nominal_w=nominal_w)
    return load / 100 * nominal_w


def _nominal_va(found: Mapping[str, str]) -> float | None:
    if nominal_va := _optional(found, "ups.power.nominal"):
        return nominal_va
    # NUT's driver for CyberPower reads some nominal powers 512 or 1024 W too low. These models
    # are called by their volt-amperes.
    model = re.search(r"[0-9]{3,5}", found.get("ups.model", ""))
    cyber = found.get("driver.version.data", "").startswith("CyberPower")
    return float(model[0]) if model and cyber else None


def _check_zero(found: Mapping[str, str], name: str, power_w: float) -> None:
    load = _optional(found, "ups.load") or 0
    if power_w == 0 and load >= _LEAST_LOAD:
        raise meter.Fault("format", "meter.ups_zero", name=name, load=f"{load:g}")


def _check_apparent(found: Mapping[str, str], name: str, power_w: float) -> None:
    """Compare with the volt-amperes, unless these are of one phase of three."""
    if any(".L2" in each for each in found):
        return
    low, high = _VOLTAGES
    voltage, current = _optional(found, "output.voltage"), _optional(found, "output.current")
    product = voltage * current if voltage and current and low <= voltage <= high else None
    for what, apparent_va in (
        ("ups.power", _optional(found, "ups.power")),
        ("output.voltage * output.current", product),
    ):
        # Drivers report 0 if they do not know the value.
        if not apparent_va or apparent_va <= 0:
            continue
        least, most = (factor * apparent_va for factor in _FACTORS)
        if power_w > most + _LEAST_VA or (apparent_va > _LEAST_VA and power_w < least):
            raise meter.Fault(
                "format",
                "meter.ups_contradicts",
                name=name,
                power_w=power_w,
                what=what,
                apparent_va=f"{apparent_va:.4g}",
            )


def _sum(found: Mapping[str, str], names: Sequence[str]) -> float:
    return sum(meter.number(found[name], name) for name in names)


def _optional(found: Mapping[str, str], name: str) -> float | None:
    """Return the value of a variable that only confirms others; None if not a number."""
    try:
        return meter.number(found[name], name)
    except (KeyError, meter.Fault):
        return None
