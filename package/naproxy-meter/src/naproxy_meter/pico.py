"""The meter on a Raspberry Pi Pico: rp2 port of MicroPython, USB serial, I2C0.

Wiring in docs/meter.md: GP4 is SDA, GP5 is SCL.
"""

# mypy: ignore-errors
# There are no types here: CPython has none of these modules.

import binascii
import os
import random
import select
import sys
import time

import machine
import micropython

from .accumulator import WATCHDOG
from .ina219 import INA219
from .meter import Meter, run

PIN_SDA = 4
PIN_SCL = 5
BUS_HZ = 400000
BUS_TIMEOUT_US = 5000
WATCHDOG_MS = 2000  # a set-up writes flash, which takes under half a second

SETTINGS_PATH = "meter.settings"
MAINTENANCE_PATH = "meter.repl"  # while it exists the next start ends in the REPL

# RP2040 data sheet, 4.7.6: bit 0 says that the timer ran out. `machine.reset_cause()`
# calls a restart by command a watchdog's, too.
REASON_REGISTER = 0x40058008
REASON_TIMER = 1

READ_AT_ONCE = 64
WRITE_AT_ONCE = 16


class Uptime:
    """Microseconds since power on, from a counter that wraps every 18 minutes."""

    def __init__(self):
        self._last = time.ticks_us()
        self._us = 0

    def __call__(self):
        """To be called at least every 8 minutes; every turn does."""
        now = time.ticks_us()
        self._us += time.ticks_diff(now, self._last)
        self._last = now
        return self._us


class Usb:
    """The USB serial port, which is also the REPL's standard input and output.

    A write to it waits up to half a second when the port is open and nobody
    reads, and all that `poll` promises is room for one byte. One byte at a time
    costs 9 ms a frame, so all writes are 16 bytes: that divides the port's
    buffer (256) and USB's packets (64), so where there is room there is room
    for 16. A line's last piece is filled up with ends of line, which nobody minds.
    """

    def __init__(self):
        self._read = sys.stdin.buffer.read
        self._write = sys.stdout.buffer.write
        self._readable = select.poll()
        self._readable.register(sys.stdin, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(sys.stdout, select.POLLOUT)
        self._either = select.poll()
        self._either.register(sys.stdin, select.POLLIN)
        self._either.register(sys.stdout, select.POLLOUT)

    def wait(self, timeout_us, writing):
        """See meter.Port."""
        (self._either if writing else self._readable).poll(timeout_us // 1000)

    def read(self):
        """See meter.Port."""
        data = b""
        while len(data) < READ_AT_ONCE and self._readable.poll(0):
            data += self._read(1)
        return data

    def write(self, data):
        """See meter.Port."""
        for sent in range(0, len(data), WRITE_AT_ONCE):
            if not self._writable.poll(0):
                return sent
            piece = data[sent : sent + WRITE_AT_ONCE]
            self._write(piece + b"\n" * (WRITE_AT_ONCE - len(piece)))
        return len(data)


def open_bus():
    """I2C0, after nine clocks that free a chip stopped in the middle of a byte."""
    scl = machine.Pin(PIN_SCL, machine.Pin.OPEN_DRAIN, value=1)
    machine.Pin(PIN_SDA, machine.Pin.IN, machine.Pin.PULL_UP)
    for _ in range(9):
        scl.value(0)
        time.sleep_us(5)
        scl.value(1)
        time.sleep_us(5)
    return machine.I2C(
        0,
        scl=machine.Pin(PIN_SCL),
        sda=machine.Pin(PIN_SDA),
        freq=BUS_HZ,
        timeout=BUS_TIMEOUT_US,
    )


def ask_for_repl():
    """Make the next start end in the REPL, and restart. The watchdog cannot be stopped."""
    with open(MAINTENANCE_PATH, "w"):
        pass
    time.sleep_ms(100)  # the acknowledgement leaves
    machine.reset()


def wanted_for_repl():
    """Whether this start is to end in the REPL; true once for each request."""
    try:
        os.remove(MAINTENANCE_PATH)
    except OSError:
        return False
    return True


def main(going=None):
    """Measure for ever, or while `going()` says so."""
    if wanted_for_repl():
        return
    # A host may send any byte: 3 must not stop the meter.
    micropython.kbd_intr(-1)
    flags = WATCHDOG if machine.mem32[REASON_REGISTER] & REASON_TIMER else 0
    uptime = Uptime()
    meter = Meter(
        INA219(open_bus),
        uptime,
        SETTINGS_PATH,
        device=binascii.hexlify(machine.unique_id()).decode(),
        boot=f"{random.getrandbits(16):04x}",
        flags=flags,
        maintain=ask_for_repl,
    )
    watchdog = machine.WDT(timeout=WATCHDOG_MS)

    def fed():
        watchdog.feed()
        return going is None or going()

    run(meter, uptime, Usb(), fed)
