"""The INA219, asked for its two raw registers and nothing else.

Source: Texas Instruments, INA219 data sheet SBOS448. Its current, power and
calibration registers round; host and accumulator multiply instead.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Bus(Protocol):
        """What is used of MicroPython's `machine.I2C`."""

        def readfrom_mem(self, addr: int, memaddr: int, nbytes: int) -> bytes:
            """Read `nbytes` from a register, OSError when nobody answers."""

        def writeto_mem(self, addr: int, memaddr: int, buf: bytes) -> object:
            """Write a register, OSError when nobody answers."""


ADDRESS = 0x40
REGISTER_CONFIGURATION = 0
REGISTER_SHUNT = 1
REGISTER_BUS = 2

# 32 V range, +-320 mV, bus 12 bit (0.532 ms), shunt averaged 32 times
# (17.02 ms), continuous: a fresh value for each reading at 50 Hz. It differs
# from the value after power on (0x399F), so a brown-out shows.
CONFIGURATION = 0x39EF

SHUNT_LIMIT = 32000  # 320 mV in units of 10 uV: the converter's end
BUS_READY = 0x0002  # set once a conversion has finished since the last configuration

# Failing readings in a row, one second of them, before the bus is opened anew.
FAILURES_BEFORE_REOPEN = 50


class ChipReset(Exception):  # noqa: N818  # it is an event, not a mistake
    """The chip had lost its configuration; it has it again."""


class NotReady(Exception):  # noqa: N818
    """No conversion has finished since the chip was configured."""


class INA219:
    """One chip on one bus.

    `open_bus()` gives an object with `readfrom_mem` and `writeto_mem`; it is
    called again when the chip has not answered for a second, because a
    brown-out in mid-transfer may leave the data line held low.
    """

    def __init__(self, open_bus: "Callable[[], Bus]", address: int = ADDRESS) -> None:
        self._open_bus = open_bus
        self._address = address
        self._bus = open_bus()
        self._failures = 0

    def read(self) -> "tuple[int, int]":
        """(shunt in 10 uV, signed; bus in 4 mV).

        Raises ChipReset, NotReady, or OSError when the chip does not answer.
        A chip never configured reads as one that was reset.
        """
        try:
            values = self._read()
        except OSError:
            self._failures += 1
            if self._failures == FAILURES_BEFORE_REOPEN:
                self._failures = 0
                self._bus = self._open_bus()
            raise
        self._failures = 0
        return values

    def _read(self) -> "tuple[int, int]":
        shunt = self._register(REGISTER_SHUNT)
        bus = self._register(REGISTER_BUS)
        # Last, so that a reset before or between the two values is seen.
        if self._register(REGISTER_CONFIGURATION) != CONFIGURATION:
            self._bus.writeto_mem(
                self._address,
                REGISTER_CONFIGURATION,
                bytes((CONFIGURATION >> 8, CONFIGURATION & 0xFF)),
            )
            raise ChipReset
        if not bus & BUS_READY:
            raise NotReady
        return (shunt - 0x10000 if shunt & 0x8000 else shunt), bus >> 3

    def _register(self, number: int) -> int:
        high, low = self._bus.readfrom_mem(self._address, number, 2)
        return high << 8 | low
