"""The power that goes through a UPS, as the upsd of Network UPS Tools knows it (RFC 9271).

`ups.realpower`, else `output.realpower`, else the load in percent of the nominal power.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
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
_NAME: Final = "[a-z0-9.]*"
_LINE: Final = re.compile(rf'VAR [^ ]+ ({_NAME}) "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Which UPS."""

    driver: str = option("nut: a UPS, through Network UPS Tools", "nut")
    interval_s: float = option("Time between readings", 2.0, low=0.5, high=60)
    ups: str = option(
        "Its name, and where its upsd is: NAME@HOST or NAME@HOST:PORT",
        "ups@localhost",
        check=_is_ups,
    )
    variable: str = option(
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
                said = await listed(settings.ups)
        except TimeoutError:
            limit_s = settings.timeout_s
            raise meter.Fault("silence", "meter.no_answer", who="upsd", limit_s=limit_s) from None
        except OSError as error:
            raise meter.Fault("lost", "meter.upsd", why=program.why(error)) from None
        return parse(variables(said), settings.variable)


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


def variables(text: str) -> dict[str, str]:
    """Return the variables that upsd tells, one a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        told = _LINE.fullmatch(line)
        if not told or not told[2].isprintable():
            raise meter.Fault("noise", "meter.not_upsd", shown=meter.shown(line))
        name, value = told[1], re.sub(r"\\(.)", r"\1", told[2])
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
