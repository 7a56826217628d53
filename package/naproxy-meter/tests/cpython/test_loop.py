"""The real loop in a process of its own, at the far end of a pseudo-terminal."""

import fcntl
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
import tty
from array import array
from pathlib import Path

import pytest
from serial import Serial

from naproxy_meter.accumulator import LATE
from naproxy_meter.console import ask
from naproxy_meter.frame import LONGEST_LINE
from naproxy_meter.host import Frame, Hello, Reading, Tracker, parse

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"
UNIX_PORT = os.environ.get("MICROPYTHON") or shutil.which("micropython")

needs_unix_port = pytest.mark.skipif(not UNIX_PORT, reason="no unix port of MicroPython here")


def interpreter(name):
    if name == "cpython":
        return [sys.executable]
    return [UNIX_PORT, "-X", "heapsize=192k"]  # an RP2040 has 264 KB of memory in all


def start(name, stdin, stdout):
    path = f"{SOURCE}:{TESTS / 'fakes'}"
    return subprocess.Popen(
        [*interpreter(name), str(TESTS / "fakes" / "serve.py")],
        stdin=stdin,
        stdout=stdout,
        start_new_session=True,
        env={"PYTHONPATH": path, "MICROPYPATH": f"{path}:.frozen"},
    )


def stop(process):
    assert process.poll() is None, "the meter stopped by itself"
    process.send_signal(signal.SIGKILL)
    process.wait()


both = pytest.mark.parametrize(
    "name", ["cpython", pytest.param("micropython", marks=needs_unix_port)]
)


@pytest.fixture
def port(name):
    """Our end of the line to a running meter."""
    meters, ours = pty.openpty()
    tty.setraw(ours)
    process = start(name, meters, meters)
    os.close(meters)
    with Serial(os.ttyname(ours)) as opened:
        os.close(ours)
        yield opened
    stop(process)


def items_until(port, wanted, limit_s=60.0):
    """What the host makes of the line until `wanted(items)`."""
    tracker, items = Tracker(0.0), []
    end_s = time.monotonic() + limit_s
    while not wanted(items):
        left_s = end_s - time.monotonic()
        assert left_s > 0, f"not within {limit_s} s: {items[-3:]}"
        if select.select([port], [], [], left_s)[0]:
            items.extend(tracker.feed(port.read(port.in_waiting), 0.0))
    return items


def readings(items):
    return [item for item in items if isinstance(item, Reading)]


@both
def test_a_frame_a_reading_and_twelve_watts(port):
    items = items_until(port, lambda items: len(readings(items)) >= 60)
    assert isinstance(items[0], Hello)
    assert readings(items)[-1].power_w == pytest.approx(12.0)
    assert readings(items)[-1].voltage_v == pytest.approx(12.0)
    assert readings(items)[-1].current_a == pytest.approx(1.0)


@both
def test_control_c_and_noise_do_not_stop_it(port):
    items_until(port, lambda items: len(readings(items)) >= 2)
    port.write(b"\x03\x03\r\n" + bytes(range(256)) + b"\n")
    assert ask(port, "hello").accepted


def wait_until_full(pipe):
    """Until a pipe of 4096 bytes has no room for another frame."""
    end_s = time.monotonic() + 60
    waiting = array("i", [0])
    while waiting[0] < 4096 - LONGEST_LINE:
        assert time.monotonic() < end_s, "it does not start"
        time.sleep(0.02)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)


def frames_of_a_host_that_stops_reading(name):
    commands, stdin = os.pipe()
    reading, stdout = os.pipe()
    fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, 4096)  # full within a second
    process = start(name, commands, stdout)
    os.close(stdout)
    wait_until_full(reading)
    time.sleep(0.6)  # real time is what is tested: nobody reads
    seen = b""
    while seen.count(b"\nF ") < 100:
        seen += os.read(reading, 4096)
    stop(process)
    for fd in (commands, stdin, reading):
        os.close(fd)
    return [
        frame for line in seen.split(b"\n")[:-1] if line and isinstance(frame := parse(line), Frame)
    ]


@both
def test_a_host_that_stops_reading_loses_frames_and_no_energy(name):
    # A machine that stalls makes a meter late: that says nothing of one that is late each time.
    for _ in range(5):
        frames = frames_of_a_host_that_stops_reading(name)
        last = frames[-1]
        # 30 million raw units a microsecond: every one that was covered is in the sum.
        assert last.energy == 30000000 * last.covered_us
        lost, covered = last.sequence - len(frames), last.covered_us / last.uptime_us
        if (lost > 20 and covered > 0.9) or not any(frame.flags & LATE for frame in frames):
            break
    assert lost > 20
    assert covered > 0.9


def console(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "naproxy_meter.console", *arguments],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@both
def test_console_gives_a_command_and_says_what_became_of_it(port):
    done = console(port.name, "set", "shunt_uohm", "2000")
    assert (done.returncode, done.stdout) == (0, "set shunt_uohm 2000\n")
    with Serial(port.name, exclusive=True):
        assert "exclusively lock" in console(port.name, "hello").stderr
    done = console(port.name, "set", "shunt_uohm", "7")
    assert done.returncode == 1
    assert done.stdout == "refused: shunt_uohm must be from 100 to 10000000\n"


def test_console_says_in_words_that_a_port_is_missing_or_silent():
    done = console("/dev/no-such-port")
    assert "No such file" in done.stderr
    ours, theirs = pty.openpty()
    with (
        Serial(os.ttyname(theirs)) as port,
        pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"),
    ):
        ask(port, "hello", 0.1)
    os.close(ours)
    os.close(theirs)
