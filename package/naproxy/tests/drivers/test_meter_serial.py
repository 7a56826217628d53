"""Meters on a serial line, here a pseudo-terminal."""

import asyncio
import os
import subprocess
import sys
import termios
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meters import Item, fault, heard, line, read
from naproxy.core.reason import Reason
from naproxy.drivers.meter import Fault, Reading, currentcost, energino, ina219
from naproxy.drivers.meter_io import Pieces, serial
from naproxy_meter import host
from serial import Serial

METER = Path(__file__).parents[3] / "naproxy-meter"
# The form is that of the comments in R. Riggio's sketches; 12.1 V times 1.234 A.
ENERGINO = b"#Energino,0,12.100,1.234,14.93,0,2000,101,4,26\r\n"
# http://www.currentcost.com/cc128/xml.htm (v0.11), its real-time example and its history
ENVIR = (
    b"<msg><src>CC128-v0.11</src><dsb>00089</dsb><time>13:02:39</time><tmpr>18.7</tmpr>"
    b"<sensor>1</sensor><id>01234</id><type>1</type><ch1><watts>00345</watts></ch1>"
    b"<ch2><watts>02151</watts></ch2><ch3><watts>00000</watts></ch3></msg>\r\n"
)
# http://blog.technicaone.net/post/2010/03/29/CurrentCost-Sample-Data.aspx
CLAMP = (
    b"<msg><src>CC128-v0.11</src><dsb>00160</dsb><time>11:52:58</time><tmpr>28.9</tmpr>"
    b"<sensor>0</sensor><id>03583</id><type>1</type><ch1><watts>01352</watts></ch1></msg>\r\n"
)
HISTORY = (
    b"<msg><src>CC128-v0.11</src><dsb>00160</dsb><time>12:13:05</time><hist><dsw>00160</dsw>"
    b"<type>1</type><units>kwhr</units><data><sensor>0</sensor><h020>7.453</h020>"
    b"<h018>7.909</h018></data></hist></msg>\r\n"
)


def kinds(items: list[Item]) -> list[str | float]:
    """Powers of readings and kinds of faults."""
    return [item.kind if isinstance(item, Fault) else item.power_w for item in items]


# Energino


def test_energino() -> None:
    assert heard("energino", ENERGINO) == [Reading(14.93)]
    assert heard("energino", b"#Energino,0,12.0,0.000,0.00,0,2000,101\n") == [Reading(0.0)]


def test_a_bad_line_of_energino_is_told_and_the_next_is_read() -> None:
    for said, kind in (
        (b"#Energino,0,12.1,1.2\n", "cut"),
        (b"rgino,0,12.100,1.234,14.93,0,2000,101,4,26\n", "format"),
        (ENERGINO.strip() + ENERGINO, "doubled"),
        (ENERGINO.replace(b"14.93", b"nan"), "not_a_number"),
        (ENERGINO.replace(b"14.93", b""), "not_a_number"),
        (ENERGINO.replace(b"14.93", b"1e400"), "not_a_number"),
        (ENERGINO.replace(b"14.93", b"94.93"), "checksum"),
        (ENERGINO.replace(b"12.100", b"1.2100"), "checksum"),
        (b"\x00\xff\x80\x07" * 20 + b"\n", "noise"),
        (b"x" * 1000 + b"\n", "huge"),
    ):
        assert kinds(heard("energino", said + ENERGINO, 2)) == [kind, 14.93], said


# Current Cost


def test_currentcost_history_and_other_sensors_are_skipped() -> None:
    assert heard("currentcost", HISTORY + CLAMP) == [Reading(1352.0)]
    said = HISTORY + CLAMP + ENVIR
    assert heard("currentcost", said, channel=1) == [Reading(345.0 + 2151.0)]


def test_a_bad_message_is_told_and_the_next_is_read() -> None:
    for said, kind in (
        (CLAMP[40:], "cut"),
        (CLAMP[:60] + CLAMP, "doubled"),
        (CLAMP.replace(b"<watts>", b""), "cut"),
        (CLAMP.replace(b"01352", b"nan"), "not_a_number"),
        (CLAMP.replace(b"01352", b"0x548"), "not_a_number"),
        (CLAMP.replace(b"<sensor>0</sensor>", b"<sensor>-0</sensor>"), "format"),
        (CLAMP.replace(b"<sensor>0</sensor>", b""), "format"),
        (CLAMP.replace(b"<type>1", b"<type>2"), "format"),
        (CLAMP.replace(b"<ch1><watts>01352</watts></ch1>", b""), "format"),
        (b'<msg><!DOCTYPE a [<!ENTITY b "c">]>' + CLAMP[5:], "format"),
        (b"\x00\xfe\xff" * 30 + b"</msg>", "noise"),
        (b"<msg>" + b"x" * 10000 + b"</msg>", "huge"),
    ):
        assert kinds(heard("currentcost", said + CLAMP, 2)) == [kind, 1352.0], said


@given(st.binary(max_size=300))
def test_noise_is_a_fault_or_nothing(said: bytes) -> None:
    for parse in (energino.parse, lambda text: currentcost.parse(text, 0)):
        try:
            found = parse(said)
        except Fault:
            continue
        assert found is None or isinstance(found, Reading)


# The port itself


def test_a_port_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    assert "is the meter plugged in?" in str(fault("energino", device="/dev/ttyNONE"))
    (tmp_path / "file").touch()
    assert "is not a serial port" in str(fault("energino", device=str(tmp_path / "file")))
    with line() as device, Serial(device.path, exclusive=True):
        said = fault("energino", device=device.path)
    assert said.reason == Reason("meter.port_in_use", file=device.path)


def test_an_unplugged_port_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = termios.tcflush
    with line() as device:

        def unplugged(descriptor: int, queue: int) -> None:
            flush(descriptor, queue)
            device.unplug()

        monkeypatch.setattr(termios, "tcflush", unplugged)
        said = fault("energino", device=device.path)
    assert (said.kind, said.reason.code) == ("lost", "meter.unplugged")


def test_a_port_that_says_nothing_is_told() -> None:
    async def listen(path: str) -> None:
        async with serial(path, 57600) as port:
            await port.read(0.05)

    with line() as device, pytest.raises(Fault, match="it sent nothing for"):
        asyncio.run(listen(device.path))


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_pieces_come_out_whole_however_they_arrive(lines: list[bytes], step: int) -> None:
    lines = [text.replace(b"\n", b"") for text in lines]
    data = b"".join(text + b"\n" for text in lines)
    pieces, found = Pieces(b"\n", 100), []
    for start in range(0, len(data), step):
        found += pieces.feed(data[start : start + step])
    assert found == lines


def test_a_line_without_end_takes_no_memory() -> None:
    pieces = Pieces(b"\n", 100)
    found = [item for _ in range(1000) for item in pieces.feed(b"x" * 1000)]
    assert len(found) == 1
    assert pieces.feed(b"y\nz\n") == [b"z"]


# INA219: the real firmware's loop


def test_the_pico_by_usb(tmp_path: Path) -> None:
    fakes = METER / "tests" / "fakes"
    with line() as device:
        # 1 A at 12 V by its fake chip.
        firmware = subprocess.Popen(
            [sys.executable, fakes / "serve.py"],
            stdin=device.ours,
            stdout=device.ours,
            cwd=tmp_path,
            env={"PYTHONPATH": f"{METER / 'src'}:{fakes}"},
        )
        try:
            items = read("ina219", 30, device=device.path)
        finally:
            firmware.kill()
            firmware.wait()
    found = [item for item in items if isinstance(item, Reading)]
    assert len(found) > 20
    for item in found:
        assert item.power_w == pytest.approx(12.0)
        assert item.energy_j == pytest.approx(12.0 * (item.covered_s or 0))
        assert (item.covered_s or 0) <= (item.elapsed_s or 0)


def test_noise_from_the_pico_is_told_and_it_is_not_lost_before_its_time() -> None:
    items = heard("ina219", b"\xff\x00noise\n#cut\nF 1 2 3*00000000\n", 3)
    assert kinds(items) == ["noise", "cut", "checksum"]


def test_a_pico_without_a_good_frame_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "Tracker", partial(host.Tracker, silence_s=0.5))
    with line() as device:
        stop = threading.Event()

        def chatter() -> None:
            while not stop.wait(0.05):
                device.say(b"noise\n")

        thread = threading.Thread(target=chatter)
        thread.start()
        try:
            last = read("ina219", 1000, device=device.path)[-1]
        finally:
            stop.set()
            thread.join()
    assert isinstance(last, Fault)
    assert "no frame for" in str(last)


SMBUS2 = '''
import os
from chip import Chip
from naproxy_meter import box

class SMBus:
    """A bus with a chip on it that sees 2 A at 12 V, with 0.1 ohm."""

    def __init__(self, bus=None, force=False):
        self.chip = Chip(box.uptime())
        self.chip.shunt, self.chip.bus = 20000, 3000

    def open(self, bus):
        if bus != 7:
            raise FileNotFoundError(2, "no such bus")

    def close(self):
        pass

    def read_i2c_block_data(self, address, register, length):
        return list(self.chip.readfrom_mem(address, register, length))

    def write_i2c_block_data(self, address, register, data):
        self.chip.writeto_mem(address, register, bytes(data))
'''


@pytest.fixture
def i2c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module smbus2 whose bus 7 has a chip; returns where settings may be kept."""
    (tmp_path / "smbus2.py").write_text(SMBUS2)
    fakes = METER / "tests" / "fakes"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{METER / 'src'}:{fakes}")
    return str(tmp_path / "meter.settings")


def test_the_chip_on_this_machines_bus_or_that_there_is_no_such_bus(i2c: str) -> None:
    items = read("ina219", 10, device="/dev/i2c-7", settings_file=i2c)
    found = [item.power_w for item in items if isinstance(item, Reading)]
    assert found == [pytest.approx(24.0)] * len(found)
    assert len(found) >= 5
    said = fault("ina219", device="/dev/i2c-8", settings_file=i2c)
    assert "cannot open /dev/i2c-8" in str(said)


# hwmon: files as drivers/hwmon/ina2xx.c has them


@pytest.fixture
def hwmon(tmp_path: Path) -> Path:
    for name, value in (("name", "ina219"), ("shunt_resistor", 100000), ("power1_input", 12340000)):
        (tmp_path / name).write_text(f"{value}\n")
    return tmp_path


def test_the_kernels_shunt_is_set_right_before_anything_is_believed(hwmon: Path) -> None:
    assert read("ina219", device=str(hwmon)) == [Reading(12.34)]
    (hwmon / "shunt_resistor").write_text("10000\n")
    said = fault("ina219", device=str(hwmon))
    assert str(said) == "the kernel assumed another shunt; Naproxy has set the right one"
    assert (hwmon / "shunt_resistor").read_text() == "100000\n"
    assert read("ina219", device=str(hwmon)) == [Reading(12.34)]


def test_what_the_kernel_cannot_have_said_is_refused(hwmon: Path) -> None:
    power = hwmon / "power1_input"
    for text, kind in ((b"", "not_a_number"), (b"nan\n", "not_a_number"), (b"\xff\xfe", "noise")):
        power.write_bytes(text)
        assert fault("ina219", device=str(hwmon)).kind == kind, text
    power.unlink()
    assert fault("ina219", device=str(hwmon)).kind == "lost", "unbound"


def test_an_energy_counter_of_the_kernel_is_used_by_its_differences(hwmon: Path) -> None:
    chip, found = ina219.Hwmon(hwmon, 100000), []
    for counter_uj in (5000000, 7000000, 1000, 2001000):
        (hwmon / "energy1_input").write_text(f"{counter_uj}\n")
        found.append(chip.read().energy_j)
    assert found == [None, pytest.approx(2.0), None, pytest.approx(2.0)]


def test_a_shunt_that_may_not_be_set_is_told(hwmon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hwmon / "shunt_resistor").write_text("10000\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert "in the device tree" in str(fault("ina219", device=str(hwmon)))


# simulated


def test_simulated_by_a_file_whose_nonsense_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "w"
    file.write_text("17.5\n")
    assert read("simulated", file=str(file)) == [Reading(17.5)]
    for text, kind in (
        (b"", "not_a_number"),
        (b"NaN", "not_a_number"),
        (b"1" * 100, "huge"),
        (b"\xff", "not_a_number"),
    ):
        file.write_bytes(text)
        assert fault("simulated", file=str(file)).kind == kind, text
    file.unlink()
    os.mkfifo(file)
    assert fault("simulated", file=str(file)).kind == "lost", "a pipe holds nothing up"


def test_the_rate_is_kept() -> None:
    begun_s = time.monotonic()
    read("simulated", 6, interval_s=0.1)
    assert time.monotonic() - begun_s >= 0.5
