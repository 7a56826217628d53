"""INA219: our own meter on a Raspberry Pi Pico, or the chip on this machine's I2C bus.

`usb`: the Pico's lines by USB serial. `i2c`: the same sampler as a process of this machine,
which needs smbus, of i2c-tools, or smbus2. `hwmon`: the kernel's driver, for boards whose device
tree has the chip. docs/meter.md has the wiring.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from naproxy_meter import host

from naproxy.core import files
from naproxy.core.schema import fixed, is_absolute, option
from naproxy.drivers import meter
from naproxy.drivers.meter_io import Port, serial, speaker
from naproxy.drivers.metering import Counter
from naproxy.drivers.needs import SERIAL, Needs

BAUD: Final = 115200
PERIOD_S: Final = 0.02
ACCURACY: Final = "0.5 to 1 % once calibrated; steps of 0.1 mA with 0.1 ohm"
_HELLO_EVERY_S: Final = 2.0
_HWMON_PERIOD_S: Final = 0.2
_MOST_BYTES: Final = 64


@dataclass(frozen=True, kw_only=True)
class Settings(meter.MeterSettings):
    """Where the chip is."""

    needs: ClassVar[Needs] = Needs(
        modules={"smbus": "python3-smbus"},
        # USB_STORAGE: a Pico takes MicroPython as a drive.
        kernel=(*SERIAL.kernel, "I2C_CHARDEV", "SENSORS_INA2XX", "USB_STORAGE", "BLK_DEV_SD"),
        devices=(*SERIAL.devices, "/dev/i2c-*"),
    )

    driver: str = option("ina219: our USB meter, or the chip itself", "ina219")
    device: str = option(
        "The Pico's serial port; /dev/i2c-N: the chip on this machine's bus; or the chip's folder"
        " in /sys/class/hwmon, for the kernel's driver",
        "/dev/ttyACM0",
        check=is_absolute,
    )
    i2c_address: int = fixed(0x40)
    """The chip's on the bus, as boards have it; two chips need the kernel's driver."""
    settings_file: str = fixed("/var/lib/naproxy/meter.settings")
    """It keeps the calibration of the chip on the bus."""
    shunt_uohm: int = option(
        "The shunt in micro-ohms, for the kernel's driver; the others keep their own",
        100000,
        low=100,
        high=10**7,
    )

    @property
    def via(self) -> str:
        """How the chip is read: i2c, hwmon (its folder) or usb."""
        if self.device.startswith("/dev/i2c-"):
            return "i2c"
        return "hwmon" if Path(self.device).is_dir() or self.device.startswith("/sys/") else "usb"


def _look_at(name: str) -> None:
    """Refuse a pipe or a device for the calibration, which its reader would wait for; Fault."""
    try:
        files.peek(name, 1)
    except files.NotAFileError:
        raise meter.Fault("lost", "driver.no_file", file=name) from None
    except OSError:
        return  # There is none yet, or the reader says what is wrong with it.


class Driver:
    """Follows the meter's energy accumulator: lines that are lost cost no energy."""

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Open it when readings are wanted."""
        self._settings = settings
        self.firmware: str | None = None
        """The version that it said last, where there is one."""
        period_s = _HWMON_PERIOD_S if settings.via == "hwmon" else PERIOD_S
        self.about = meter.About(meter.DC_FEED, period_s, ACCURACY)

    def readings(self) -> meter.Readings:
        """Yield a reading a frame."""
        settings = self._settings
        if settings.via == "hwmon":
            chip = Hwmon(Path(settings.device), settings.shunt_uohm)
            return meter.polled(_HWMON_PERIOD_S, lambda: asyncio.to_thread(chip.read))
        return self._frames()

    async def _frames(self) -> meter.Readings:
        settings = self._settings
        if settings.via == "usb":
            opened = serial(settings.device, BAUD)
        else:
            _look_at(settings.settings_file)
            bus = settings.device.removeprefix("/dev/i2c-")
            opened = speaker(
                [
                    *(sys.executable, "-m", "naproxy_meter.box", "--bus", bus),
                    *("--address", str(settings.i2c_address)),
                    *("--settings", settings.settings_file),
                ]
            )
        async with opened as port:
            async for item in follow(port, self._met):
                yield item

    def _met(self, hello: host.Hello) -> None:
        self.firmware = hello.version


async def follow(port: Port, met: Callable[[host.Hello], None] = lambda _: None) -> meter.Readings:
    """Yield what the firmware says on `port`; Fault when no good frame comes for 3 s.

    `met` hears who it says that it is.
    """
    loop = asyncio.get_running_loop()
    tracker = host.Tracker(loop.time())
    asked_s = -_HELLO_EVERY_S
    while True:
        now_s = loop.time()
        if tracker.hello is None and now_s - asked_s >= _HELLO_EVERY_S:
            asked_s = now_s
            port.write(host.command("box", "hello"))
        data = await port.read(host.SILENCE_S)
        for item in tracker.feed(data, loop.time()):
            if isinstance(item, host.MeterFault):
                if item.kind != "no_hello":
                    yield _fault(item)
                elif loop.time() - asked_s >= _HELLO_EVERY_S:
                    # It restarted, so identify it again.
                    tracker.hello = None
            elif isinstance(item, host.Hello):
                met(item)
            elif isinstance(item, host.Reading) and item.power_w is not None:
                yield meter.Reading(
                    item.power_w,
                    energy_j=item.energy_j,
                    covered_s=item.covered_s,
                    elapsed_s=item.elapsed_s,
                    notes=item.flags,
                )
        try:
            tracker.check_silence(loop.time())
        except host.MeterFault as fault:
            raise _fault(fault) from None


def _fault(fault: host.MeterFault) -> meter.Fault:
    return meter.Fault(
        fault.kind, "core.own_words", text=str(fault).removeprefix(f"{fault.kind}: ")
    )


class Hwmon:
    """The kernel's driver of a chip. Its shunt is set before any reading counts.

    It assumes 10 milliohms when it starts, so it reads ten times too high on a board with
    100. The shunt is checked at each reading, because binding the chip again resets it.
    """

    def __init__(self, folder: Path, shunt_uohm: int) -> None:
        """`folder` is the chip's in /sys/class/hwmon."""
        self._folder = folder
        self._shunt_uohm = shunt_uohm
        self._counter = Counter()

    def read(self) -> meter.Reading:
        """Return a reading; its energy is the kernel's own where the chip counts it."""
        folder = self._folder
        try:
            self._set_shunt(folder / "shunt_resistor")
            power_w = _whole(folder / "power1_input") / 1e6
            counter = folder / "energy1_input"
            counter_j = _whole(counter) / 1e6 if counter.exists() else None
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            file = str(error.filename or folder)
            raise meter.Fault("lost", "driver.unreadable", file=file, why=why) from None
        energy_j = None if counter_j is None else self._counter.difference_j(counter_j)
        return meter.Reading(power_w, energy_j=energy_j, counter_j=counter_j)

    def _set_shunt(self, file: Path) -> None:
        if _whole(file) == self._shunt_uohm:
            return
        try:
            file.write_text(f"{self._shunt_uohm}\n")
        except PermissionError:
            uohm = self._shunt_uohm
            raise meter.Fault("refused", "meter.shunt", file=str(file), shunt_uohm=uohm) from None
        # The chip's current measurement still uses the old shunt.
        raise meter.Fault("format", "meter.shunt_set")


def _whole(file: Path) -> float:
    with contextlib.suppress(UnicodeDecodeError):
        return meter.number(files.peek(file, _MOST_BYTES)[0].decode(), file.name)
    raise meter.Fault("noise", "meter.not_text", file=file.name)
