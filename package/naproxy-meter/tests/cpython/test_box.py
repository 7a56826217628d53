"""The box's own part: a Linux I2C bus through the real smbus2, and pipes."""

import os
import subprocess
import sys

import pytest
from chip import Chip

from naproxy_meter import box
from naproxy_meter.ina219 import CONFIGURATION, INA219, ChipReset

smbus2 = pytest.importorskip("smbus2", reason="make check installs it")
i2c = sys.modules["smbus2.smbus2"]


class Kernel:
    """Stands where /dev/i2c-1 would: answers the ioctl of an SMBus block transfer from a chip."""

    def __init__(self, chip):
        self.chip = chip
        self.slave = None

    def ioctl(self, _fd, request, argument):
        if request == i2c.I2C_FUNCS:
            argument.value = i2c.I2cFunc.SMBUS_READ_I2C_BLOCK | i2c.I2cFunc.SMBUS_WRITE_I2C_BLOCK
        elif request in (i2c.I2C_SLAVE, i2c.I2C_SLAVE_FORCE):
            self.slave = argument
        elif request == i2c.I2C_SMBUS:
            self.transfer(argument)
        else:
            raise AssertionError(f"ioctl {request:#x}")

    def transfer(self, message):
        assert message.size == i2c.I2C_SMBUS_I2C_BLOCK_DATA
        block = message.data.contents.block
        if message.read_write == i2c.I2C_SMBUS_READ:
            data = self.chip.readfrom_mem(self.slave, message.command, block[0])
            for index, byte in enumerate(data):
                block[1 + index] = byte
        else:
            data = bytes(block[1 : 1 + block[0]])
            self.chip.writeto_mem(self.slave, message.command, data)


@pytest.fixture
def kernel(monkeypatch):
    chip = Chip(lambda: 10**6)
    kernel = Kernel(chip)
    monkeypatch.setattr(i2c, "ioctl", kernel.ioctl)
    return kernel


@pytest.fixture
def bus(kernel):
    smbus = smbus2.SMBus()
    smbus.open(os.devnull)
    yield box.LinuxBus(smbus)
    smbus.close()


def test_registers_cross_a_linux_bus_in_the_right_byte_order(kernel, bus):
    driver = INA219(lambda: bus)
    with pytest.raises(ChipReset):
        driver.read()
    assert kernel.chip.configuration == CONFIGURATION
    kernel.chip.clock = lambda: 2 * 10**6
    kernel.chip.shunt, kernel.chip.bus = -1234, 3000
    assert driver.read() == (-1234, 3000)
    kernel.chip.plugged = False
    with pytest.raises(OSError, match="5"):
        driver.read()


def test_missing_bus_is_said_in_words():
    done = subprocess.run(
        [sys.executable, "-m", "naproxy_meter.box", "--bus", "99", "--settings", "s"],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot open /dev/i2c-99" in done.stderr
    assert "Traceback" not in done.stderr


def test_full_pipe_takes_what_it_can_and_does_not_wait():
    reading, writing = os.pipe()
    pipe = box.Pipe(reading, writing)
    sent = 0
    while taken := pipe.write(b"x" * 4096):
        sent += taken
    assert sent > 0
    assert pipe.open
    assert len(pipe.read()) == 4096


def test_end_of_the_commands_or_of_the_reader_ends_the_meter():
    reading, writing = os.pipe()
    pipe = box.Pipe(reading, os.open(os.devnull, os.O_WRONLY))
    os.close(writing)
    assert pipe.read() == b""
    assert not pipe.open
    reading, writing = os.pipe()
    pipe = box.Pipe(os.open(os.devnull, os.O_RDONLY), writing)
    os.close(reading)
    assert pipe.write(b"F\n") == 2
    assert not pipe.open


def test_uptime_starts_at_nothing_and_grows():
    clock = box.uptime()
    first = clock()
    assert 0 <= first <= clock() < 10**6
