"""The same meter on the box itself: an INA219 on a Linux I2C bus, lines on standard output.

    python3 -m naproxy_meter.box --bus 1 --settings /var/lib/naproxy/meter.settings

Commands come on standard input; when that ends, so does the process. Whoever
starts it reads the same lines as from the Pico.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import sys
import time
from collections.abc import Callable
from typing import Any

from .ina219 import ADDRESS, INA219
from .meter import Meter, run

READ_AT_ONCE = 4096


class LinuxBus:
    """`machine.I2C`'s two calls over an object like smbus2.SMBus. Raises OSError as that does."""

    def __init__(self, smbus: Any) -> None:
        self._smbus = smbus

    def readfrom_mem(self, addr: int, memaddr: int, nbytes: int) -> bytes:
        """Read `nbytes` from a register."""
        return bytes(self._smbus.read_i2c_block_data(addr, memaddr, nbytes))

    def writeto_mem(self, addr: int, memaddr: int, buf: bytes) -> None:
        """Write a register."""
        self._smbus.write_i2c_block_data(addr, memaddr, list(buf))


class Pipe:
    """Two file descriptors as a meter.Port. `open` turns false when the other end has gone."""

    def __init__(self, reading: int, writing: int) -> None:
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self.open = True
        self._reading = reading
        self._writing = writing

    def wait(self, timeout_us: int, writing: bool) -> None:
        """See meter.Port."""
        out = [self._writing] if writing else []
        select.select([self._reading], out, [], timeout_us / 1e6)

    def read(self) -> bytes:
        """See meter.Port."""
        try:
            data = os.read(self._reading, READ_AT_ONCE)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.open = False
        return data

    def write(self, data: bytes) -> int:
        """See meter.Port."""
        try:
            return os.write(self._writing, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.open = False
            return len(data)


def uptime() -> Callable[[], int]:
    """A clock in microseconds since now."""
    start_ns = time.monotonic_ns()
    return lambda: (time.monotonic_ns() - start_ns) // 1000


def measure(chip: INA219, settings_path: str, device: str, port: Pipe) -> None:
    """Run the meter until the other end of `port` goes."""
    clock = uptime()
    boot = f"{random.getrandbits(16):04x}"
    run(Meter(chip, clock, settings_path, device=device, boot=boot), clock, port, lambda: port.open)


def smbus_of_this_machine() -> Any:
    """Return a closed bus: smbus2's, or that of i2c-tools, which is on the image.

    Their calls are the same. i2c-tools' never takes a chip from the kernel's own driver.
    """
    try:
        import smbus2  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        import smbus  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

        return smbus.SMBus()
    return smbus2.SMBus(force=False)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="INA219 on this machine's I2C bus, as a meter")
    parser.add_argument("--bus", type=int, default=1, help="N of /dev/i2c-N")
    parser.add_argument("--address", type=lambda text: int(text, 0), default=ADDRESS)
    parser.add_argument("--settings", required=True, help="file that keeps the calibration")
    arguments = parser.parse_args()

    smbus = smbus_of_this_machine()

    def open_bus() -> LinuxBus:
        smbus.close()
        smbus.open(arguments.bus)
        return LinuxBus(smbus)

    try:
        chip = INA219(open_bus, arguments.address)
    except OSError as error:
        sys.exit(f"naproxy-meter: cannot open /dev/i2c-{arguments.bus}: {error}")
    device = f"i2c{arguments.bus}-{arguments.address:02x}"
    measure(chip, arguments.settings, device, Pipe(0, 1))


if __name__ == "__main__":
    main()
