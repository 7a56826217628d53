"""The firmware on MicroPython's real rp2 port, on an emulated RP2040: see emulate.mjs.

Runs with `make check-rp2040`, which says what it needs; takes two minutes.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from naproxy_meter.accumulator import CHIP_RESET, NO_ANSWER, WATCHDOG
from naproxy_meter.frame import seal
from naproxy_meter.host import Frame, Hello, MeterFault, Reply, parse

NODE = str(Path(sys.executable).with_name("node"))
NEEDED = ["RP2040JS", "FIRMWARE", "BOOTROM", "PICO_FILES"]

SCENARIO = [
    {"at_s": 1.5, "do": "brown out"},
    {"at_s": 1.8, "do": "unplug"},
    {"at_s": 2.0, "do": "plug"},
    {"at_s": 2.2, "do": "send", "text": "\x03\x03\x00\xff\r\n"},
    {"at_s": 2.3, "do": "send", "text": seal("C 1 set shunt_uohm 2000").decode()},
    {"at_s": 2.6, "do": "stop listening"},
    {"at_s": 3.6, "do": "listen"},
    {"at_s": 3.8, "do": "hang", "seconds": 2.5},
    {"at_s": 7.5, "do": "send", "text": seal("C 2 repl").decode()},
    {"at_s": 9.0, "do": "send", "text": "\r\nprint(6 * 7)\r\n"},
    {"at_s": 9.2, "do": "end"},
]


@pytest.fixture(scope="module")
def serial():
    """What came over the serial line, with a mark after each step."""
    arguments = [os.environ.get(name) for name in NEEDED]
    if not all(arguments):
        pytest.skip(f"needs {' '.join(NEEDED)} in the environment")
    return subprocess.run(
        [NODE, str(Path(__file__).with_name("emulate.mjs")), *arguments],
        input=json.dumps(SCENARIO).encode(),
        stdout=subprocess.PIPE,
        timeout=900,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def parts(serial):
    """Items by the step they followed; a step that comes again has a number."""
    parts = {}
    for section in (b"\n# start\n" + serial).split(b"\n# ")[1:]:
        name, _, lines = section.partition(b"\n")
        key = name.decode()
        count = sum(known.startswith(key) for known in parts)
        # Marks cut lines in two.
        found = [item(line) for line in lines.replace(b"\r", b"").split(b"\n")]
        parts[f"{key} {count + 1}" if count else key] = found
    return parts


def item(line):
    try:
        return parse(line)
    except MeterFault as fault:
        return fault


def frames(items):
    return [item for item in items if isinstance(item, Frame)]


def test_it_starts_with_a_hello_and_fifty_frames_a_second(parts):
    assert isinstance(parts["start"][0], Hello)
    first, *_, last = frames(parts["start"])
    assert last.sequence - first.sequence == pytest.approx(
        (last.uptime_us - first.uptime_us) / 20000, abs=0.2
    )
    assert last.sequence > 40


def test_every_line_before_the_watchdog_is_whole(serial):
    whole = re.sub(rb"\n# [a-z ]+\n", b"", serial[: serial.index(b"# hang")].rpartition(b"\n#")[0])
    *lines, _ = whole.replace(b"\r", b"").split(b"\n")
    assert len(lines) > 100
    assert not [line for line in lines if line and isinstance(item(line), MeterFault)]


def test_energy_is_thirty_million_units_a_microsecond(parts):
    first, *_, last = frames(parts["start"])
    covered_us = last.covered_us - first.covered_us
    assert last.energy - first.energy == 10000 * 3000 * covered_us
    assert covered_us > 800000


def test_first_start_was_not_the_watchdogs(parts):
    assert not frames(parts["start"])[0].flags & WATCHDOG


def test_brown_out_is_flagged_and_measuring_goes_on(parts):
    during = frames(parts["brown out"])
    assert any(frame.flags & CHIP_RESET for frame in during)
    assert during[-1].flags == 0
    assert during[-1].energy == 30000000 * during[-1].covered_us


def test_absent_chip_is_flagged_and_frames_go_on(parts):
    assert frames(parts["unplug"])[-1].flags == NO_ANSWER
    assert frames(parts["plug"])[-1].flags == 0


def test_control_c_is_refused_like_any_noise(parts):
    assert [entry.accepted for entry in parts["send"] if isinstance(entry, Reply)] == [False]
    assert len(frames(parts["send"])) >= 4


def test_setting_is_acknowledged_and_written_to_flash(parts):
    assert Reply("1", True, "set shunt_uohm 2000") in parts["send 2"]
    hellos = [entry for entry in parts["send 2"] if isinstance(entry, Hello)]
    assert (hellos[-1].shunt_uohm, hellos[-1].settings) == (2000, "stored")


def test_host_that_does_not_read_for_a_second_costs_no_energy(parts):
    before, after = frames(parts["send 2"])[-1], frames(parts["listen"])[-1]
    assert after.readings - before.readings == pytest.approx(
        (after.uptime_us - before.uptime_us) / 20000, abs=2
    )
    assert after.energy == 30000000 * after.covered_us
    assert len(frames(parts["listen"])) < after.sequence - before.sequence


def test_hang_is_ended_by_the_watchdog_and_the_setting_has_survived(parts):
    hello = next(entry for entry in parts["hang"] if isinstance(entry, Hello))
    assert (hello.shunt_uohm, hello.settings) == (2000, "stored")
    assert frames(parts["hang"])[0].flags & WATCHDOG


def test_repl_is_there_when_asked_for(parts, serial):
    assert Reply("2", True, "repl") in parts["send 3"]
    assert b"print(6 * 7)\r\n42\r\n>>> " in serial
