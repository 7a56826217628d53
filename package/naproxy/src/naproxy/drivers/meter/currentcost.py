"""Current Cost EnviR (CC128), the thesis' mains meter: XML by USB serial at 57600 baud.

Form of the messages: Current Cost, "CC128 XML output description" v0.11 and Envi v0.15. A
sensor is heard every 6 s; every two hours the display tells its history, which is skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.schema import is_absolute, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Pieces, listen, serial
from naproxy.drivers.needs import SERIAL, Needs

BAUD: Final = 57600
PERIOD_S: Final = 6.0
LONGEST_MESSAGE: Final = 8192
SILENCE_S: Final = 60.0
_CHANNELS: Final = ("ch1", "ch2", "ch3")


@dataclass(frozen=True, kw_only=True)
class Settings(meter.MeterSettings):
    """Where it is plugged in, and which sensor is the one."""

    needs: ClassVar[Needs] = SERIAL

    driver: str = option("currentcost: EnviR display, by USB", "currentcost")
    device: str = option("Its serial port", "/dev/ttyUSB0", check=is_absolute)
    channel: int = option("Number of the sensor on the display; 0: the clamp", 0, low=0, high=9)


class Driver:
    """Listens; the display speaks by itself."""

    about = meter.About(meter.MAINS, PERIOD_S, "about 3 % above 50 W; apparent power, steps of 1 W")

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Open the port when readings are wanted."""
        self._settings = settings

    def readings(self) -> meter.Readings:
        """Yield a reading each time the sensor is heard."""
        settings = self._settings
        pieces = Pieces(b"</msg>", LONGEST_MESSAGE)
        port = serial(settings.device, BAUD)
        return listen(port, pieces, SILENCE_S, lambda message: parse(message, settings.channel))


def parse(message: bytes, sensor: int) -> meter.Reading | None:
    """Return the reading in a message without its `</msg>`; None if it is about something else.

    The power of a three-phase sensor is the sum of its channels.
    """
    text = message.strip()
    if any(byte >= 127 or (byte < 32 and byte not in b"\r\n\t") for byte in text):
        raise meter.Fault("noise", "meter.not_ascii", baud=BAUD)
    if text.count(b"<msg>") > 1:
        raise meter.Fault("doubled", "meter.message_in_message")
    if not text.startswith(b"<msg>"):
        raise meter.Fault("cut", "meter.no_start", shown=meter.shown(text[-60:]))
    if b"<!" in text or b"<?" in text:
        raise meter.Fault("format", "meter.not_current_cost")
    try:
        root = ET.fromstring(text + b"</msg>")  # noqa: S314 - no DTD gets here
    except ET.ParseError:
        raise meter.Fault("cut", "meter.damaged", shown=meter.shown(text)) from None
    if root.find("hist") is not None:
        return None
    heard = root.findtext("sensor")
    if heard is None or not heard.strip().isdigit():
        raise meter.Fault("format", "meter.no_sensor", shown=meter.shown(text))
    if int(heard) != sensor:
        return None
    if (root.findtext("type") or "").strip() != "1":
        raise meter.Fault("format", "meter.pulses", sensor=sensor)
    found = [root.findtext(f"{channel}/watts") for channel in _CHANNELS]
    powers = [meter.number(watts, meter.ITS_POWER) for watts in found if watts is not None]
    if not powers:
        raise meter.Fault("format", "meter.sensor_no_power", sensor=sensor)
    return meter.Reading(sum(powers))
