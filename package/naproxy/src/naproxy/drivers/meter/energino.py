"""Energino, the thesis' DC meter: an Arduino with a shunt, comma-separated lines by USB serial.

    #Energino,0,VOLTAGE,CURRENT,POWER,RELAY,PERIOD,SAMPLES[,...]

as its sketches have it (R. Riggio, 2012 to 2014; 115200 baud). Lines have no checksum, but
power is voltage times current: a line damaged on its way is found by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import is_absolute, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Pieces, listen, serial
from naproxy.drivers.needs import SERIAL, Needs

BAUD: Final = 115200
LONGEST_LINE: Final = 250
LEAST_FIELDS: Final = 8
_ROUNDING_W: Final = 0.5
_ROUNDING: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Settings(meter.MeterSettings):
    """Where it is plugged in."""

    needs: ClassVar[Needs] = SERIAL

    driver: str = option("energino: Arduino with the Energino shield, by USB", "energino")
    device: str = option("Its serial port", "/dev/ttyACM0", check=is_absolute)
    interval_s: float = option(
        "Time between its lines; Naproxy sets it on the device", 2.0, low=0.02, high=60
    )


class Driver:
    """Listens; the meter speaks by itself."""

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Open the port when readings are wanted."""
        self._settings = settings
        self.about = meter.About(
            meter.DC_FEED, settings.interval_s, "about 5 %: 10-bit ADC, Hall sensor"
        )

    def readings(self) -> meter.Readings:
        """Yield a reading a line."""
        # Opening the port restarts the Arduino, which takes 2 s.
        silence_s = 5 + 3 * self._settings.interval_s
        port = serial(self._settings.device, BAUD)
        return listen(port, Pieces(b"\n", LONGEST_LINE), silence_s, parse)


def parse(line: bytes) -> meter.Reading | None:
    """Return the reading in one line without its end; None if the line is empty; Fault."""
    text = line.rstrip(b"\r")
    if not text:
        return None
    if any(not 32 <= byte < 127 for byte in text):
        raise meter.Fault("noise", "meter.not_ascii", baud=BAUD)
    fields = text.decode().split(",")
    if text.count(b"#") > 1:
        raise meter.Fault("doubled", "meter.two_lines", shown=meter.shown(text))
    if fields[0] != "#Energino":
        raise meter.Fault("format", "meter.not_energino", shown=meter.shown(text))
    if len(fields) < LEAST_FIELDS:
        raise meter.Fault("cut", "meter.few_fields", number=len(fields), shown=meter.shown(text))
    voltage_v = meter.number(fields[2], Reason("meter.voltage"))
    current_a = meter.number(fields[3], Reason("meter.current"))
    power_w = meter.number(fields[4], meter.ITS_POWER)
    if abs(power_w - voltage_v * current_a) > _ROUNDING_W + _ROUNDING * abs(power_w):
        raise meter.Fault(
            "checksum",
            "meter.product",
            power_w=power_w,
            voltage_v=voltage_v,
            current_a=current_a,
        )
    return meter.Reading(power_w)
