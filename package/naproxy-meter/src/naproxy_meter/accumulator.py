"""Energy as an integer: the sum of raw shunt x raw bus x microseconds.

One unit is 10 uV x 4 mV x 1 us. With a shunt of R micro-ohms,

    energy in J = sum x 4e-8 / R

Python's integers do not overflow, neither here nor under MicroPython's rp2
port. At the chip's full scale the sum passes 2**79 after 74 years.
"""

from .ina219 import SHUNT_LIMIT

PERIOD_US = 20000  # 50 readings a second, the rate of the Green Miner

# A reading speaks for the 17.6 ms before it. Later than this and part of the
# interval was seen by nobody: it is left out, not filled in.
LONGEST_INTERVAL_US = 2 * PERIOD_US

# Flags: what happened since the last frame that left.
NO_ANSWER = 0x01  # the chip did not answer
CHIP_RESET = 0x02  # the chip had lost its configuration and was set up again
NOT_READY = 0x04  # the chip had nothing converted yet
CLIPPED = 0x08  # the shunt was at +-320 mV: the true value is larger
LATE = 0x10  # readings were too far apart to count the interval
SETTINGS_DAMAGED = 0x20  # the stored settings failed their checksum: defaults in force
WATCHDOG = 0x40  # the watchdog restarted the device


class Accumulator:
    """Sums since power on. All only grow, but for `shunt` and `energy` under reverse current."""

    def __init__(self) -> None:
        self.covered_us = 0  # time the sums speak for; the rest was not measured
        self.readings = 0
        self.shunt = 0  # sum of raw shunt values, 10 uV
        self.bus = 0  # sum of raw bus values, 4 mV
        self.energy = 0  # sum of (shunt - offset) x bus x us
        self.flags = 0
        self._last_us: int | None = None

    def add(self, now_us: int, shunt: int, bus: int, offset: int) -> None:
        """Count a reading for the time since the one before it.

        The chip has averaged over just that time, so the value is taken for
        the interval that ends now (and not the mean of both ends).
        """
        last_us = self._last_us
        self._last_us = now_us
        if last_us is None:
            return
        interval_us = now_us - last_us
        if interval_us > LONGEST_INTERVAL_US:
            self.flags |= LATE
            return
        if abs(shunt) >= SHUNT_LIMIT:
            self.flags |= CLIPPED
        self.covered_us += interval_us
        self.readings += 1
        self.shunt += shunt
        self.bus += bus
        self.energy += (shunt - offset) * bus * interval_us

    def miss(self, flag: int) -> None:
        """There was no reading, for the reason `flag` says: this time is not counted."""
        self.flags |= flag
        self._last_us = None

    def take_flags(self) -> int:
        """Flags since the last call."""
        flags, self.flags = self.flags, 0
        return flags
