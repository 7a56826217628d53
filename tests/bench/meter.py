"""What the INA219 meter sustains and how wrong its energy is: `python -m tests.bench.meter OUT`.

The firmware's real loop runs at the far end of a pseudo-terminal, with a fake chip;
under MicroPython's unix port where there is one (on PATH, or named by MICROPYTHON).
Integration is the firmware's own code over simulated time.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import pty
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from naproxy.config import document as config
from naproxy.controller.meters import Meters
from naproxy.core.reading import PowerSample

from tests.bench import result

ROOM = Path(__file__).parents[2] / "package" / "naproxy-meter"
SOURCE, FAKES = ROOM / "src", ROOM / "tests" / "fakes"
sys.path.insert(0, str(SOURCE))

from naproxy_meter.host import Frame, Hello, Reading, Tracker, joules, parse  # noqa: E402
from naproxy_meter.ina219 import BUS_READY, CONFIGURATION, INA219  # noqa: E402
from naproxy_meter.meter import Meter, run  # noqa: E402

LISTEN_S = 20.0
DROPPED = 0.1
CONVERSION_US = 17552  # shunt averaged 32 times and one bus conversion, data sheet, typical
BUS_US = 532
WINDOW_S = 10.0
TRIALS = 40
SHUNT_UOHM = 100000

ONE_METER = """
[[server]]
id = "web"
address = "127.0.0.1"
mac = "02:00:00:00:00:01"
[[meter]]
id = "pico"
of = "web"
driver = "ina219"
device = {port}
"""

Waveform = Callable[[float], float]  # seconds to amperes


# ------------------------------------------------------------------- the line


@contextmanager
def firmware(interpreter: list[str], end: int) -> Iterator[None]:
    """The meter's real loop speaks on a file descriptor, with a fake chip."""
    path = f"{SOURCE}:{FAKES}"
    with tempfile.TemporaryDirectory() as folder:
        meter = subprocess.Popen(
            [*interpreter, str(FAKES / "serve.py")],
            stdin=end,
            stdout=end,
            cwd=folder,
            env={"PYTHONPATH": path, "MICROPYPATH": f"{path}:.frozen"},
        )
        yield
        meter.kill()
        meter.wait()


def listen(interpreter: list[str]) -> tuple[bytes, dict[str, float]]:
    """(what came, figures) of a meter read for LISTEN_S seconds, each frame as it comes."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with firmware(interpreter, theirs):
        os.close(theirs)
        tracker, seen, readings = Tracker(0.0), b"", []
        cpu_s, end_s = time.process_time(), time.monotonic() + LISTEN_S
        while time.monotonic() < end_s:
            if select.select([ours], [], [], 1.0)[0]:
                data = os.read(ours, 4096)
                seen += data
                readings += [item for item in tracker.feed(data, 0.0) if isinstance(item, Reading)]
        cpu_s = time.process_time() - cpu_s
    os.close(ours)
    elapsed_s = sum(reading.elapsed_s for reading in readings)
    return seen, {
        "frames_a_second": len(readings) / elapsed_s,
        "lost_frames": sum(reading.lost_frames for reading in readings),
        "faults": sum(tracker.faults.values()),
        "covered_fraction": sum(reading.covered_s for reading in readings) / elapsed_s,
        "reader_cpu_percent": 100 * cpu_s / LISTEN_S,
        "bytes_a_second": len(seen) / LISTEN_S,
    }


def in_controller(interpreter: list[str]) -> dict[str, float]:
    """What listening costs the controller: driver, seconds and doubts, for LISTEN_S seconds."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    loaded = config.parse(ONE_METER.format(port=json.dumps(os.ttyname(theirs))))
    seconds: list[PowerSample] = []

    async def hear() -> float:
        meters = Meters(time.time() - time.monotonic())
        meters.sinks.append(lambda _, second: seconds.append(second))
        meters.use(loaded.meter, loaded.server)
        await asyncio.sleep(1.0)
        cpu_s = time.process_time()
        await asyncio.sleep(LISTEN_S)
        cpu_s = time.process_time() - cpu_s
        meters.stop()
        return cpu_s

    with firmware(interpreter, ours):
        cpu_s = asyncio.run(hear())
    os.close(ours)
    os.close(theirs)
    inner = seconds[1:-1]
    return {
        "cpu_percent": 100 * cpu_s / LISTEN_S,
        "readings_a_second": sum(second.count for second in inner) / len(inner),
        "covered_fraction": sum(second.covered_ms for second in inner) / len(inner) / 1e3,
    }


def interpreters() -> dict[str, list[str]]:
    """How to run the firmware, by name."""
    found = {"cpython": [sys.executable]}
    if unix_port := os.environ.get("MICROPYTHON") or shutil.which("micropython"):
        found["micropython_unix"] = [unix_port, "-X", "heapsize=192k"]
    else:
        sys.stdout.write("no unix port of MicroPython here: CPython only\n")
    return found


def energy(lines: list[bytes]) -> int:
    """Raw energy that a reader makes of those lines."""
    items = Tracker(0.0).feed(b"\n".join(lines) + b"\n", 0.0)
    return sum(item.energy for item in items if isinstance(item, Reading))


def thinned(lines: list[bytes], seed: int) -> list[bytes]:
    """Without a tenth of the frames between the first and the last; those two bound the sum."""
    dice = random.Random(seed)
    frames = [index for index, line in enumerate(lines) if isinstance(parse(line), Frame)]
    inner = frames[1:-1]
    gone = set(dice.sample(inner, round(len(inner) * DROPPED)))
    return [line for index, line in enumerate(lines) if index not in gone]


def after_drops(seen: bytes) -> dict[str, Any]:
    """Energy with and without a tenth of the frames, 100 times."""
    lines = [line for line in seen.split(b"\n")[:-1] if line]
    lines = lines[next(i for i, line in enumerate(lines) if isinstance(parse(line), Hello)) :]
    whole = energy(lines)
    errors = [abs(energy(thinned(lines, seed)) - whole) for seed in range(100)]
    return {
        "joules": joules(whole, SHUNT_UOHM),
        "largest_error_j": joules(max(errors), SHUNT_UOHM),
        "trials": len(errors),
    }


def reader_ceiling(seen: bytes) -> float:
    """Frames the reader takes for each second of CPU."""
    cpu_s, count = time.process_time(), 0
    while time.process_time() - cpu_s < 1.0:
        count += sum(isinstance(item, Reading) for item in Tracker(0.0).feed(seen, 0.0))
    return count / (time.process_time() - cpu_s)


# ---------------------------------------------------------------- integration


def volts(amperes: float) -> float:
    """A supply that sags: power is not proportional to current."""
    return 12.0 - 0.1 * amperes


class WaveChip:
    """An INA219 that converts freely: shunt averaged, bus sampled at the end, both rounded."""

    def __init__(self, wave: Waveform, clock: Callable[[], int], phase_us: int) -> None:
        self._wave = wave
        self._clock = clock
        self._phase_us = phase_us

    def readfrom_mem(self, _address: int, register: int, _size: int) -> bytes:
        """The register's two bytes."""
        return self.word(register).to_bytes(2, "big")

    def writeto_mem(self, _address: int, _register: int, _data: bytes) -> None:
        """Configured from the start."""

    def word(self, register: int) -> int:
        """What the register holds now: the last conversion that finished."""
        if register == 0:
            return CONFIGURATION
        now_us = self._clock()
        end_us = now_us - (now_us - self._phase_us) % CONVERSION_US
        if register == 2:
            return round(volts(self._wave(end_us / 1e6)) / 4e-3) << 3 | BUS_READY
        start_us = end_us - CONVERSION_US + BUS_US
        samples = range(start_us, end_us, 532)
        mean_a = sum(self._wave(us / 1e6) for us in samples) / len(samples)
        return round(mean_a * SHUNT_UOHM / 1e6 / 10e-6) & 0xFFFF


class Virtual:
    """Simulated time, and a port to nobody."""

    def __init__(self, window_s: float, dice: random.Random) -> None:
        self.now_us = 0
        self._end_us = int(window_s * 1e6)
        self._dice = dice

    def __call__(self) -> int:
        return self.now_us

    def going(self) -> bool:
        """Whether the window is not over; a turn begins up to 1 ms late."""
        self.now_us += self._dice.randrange(1000)
        return self.now_us < self._end_us

    def wait(self, timeout_us: int, _writing: bool) -> None:
        """Time passes."""
        self.now_us += timeout_us

    def read(self) -> bytes:
        """Nobody says anything."""
        return b""

    def write(self, data: bytes) -> int:
        """Nobody minds."""
        return len(data)


def true_energy_j(wave: Waveform, start_s: float, end_s: float) -> float:
    """Sum over steps of 0.1 ms, of which no waveform here has a finer feature."""
    count = round((end_s - start_s) * 1e4)
    step_s = (end_s - start_s) / count
    times = (start_s + (index + 0.5) * step_s for index in range(count))
    return math.fsum(wave(t_s) * volts(wave(t_s)) for t_s in times) * step_s


def at_50_hz(wave: Waveform, dice: random.Random, folder: str) -> float:
    """Relative error of the firmware's sum over the window."""
    clock = Virtual(WINDOW_S, dice)
    chip = WaveChip(wave, clock, dice.randrange(CONVERSION_US))
    meter = Meter(INA219(lambda: chip), clock, f"{folder}/none", device="0", boot="0")
    run(meter, clock, clock, clock.going)
    end_s = clock.now_us / 1e6
    sums = meter.sums
    true_j = true_energy_j(wave, 0.0, end_s)
    # The first reading only starts the clock; its 20 ms are not covered, nor is the tail.
    measured_j = joules(sums.energy, SHUNT_UOHM) * (end_s * 1e6 / sums.covered_us)
    return measured_j / true_j - 1


def at_1_hz(wave: Waveform, dice: random.Random, _folder: str) -> float:
    """Relative error of one reading a second, each held for a second."""
    clock = Virtual(WINDOW_S, dice)
    chip = WaveChip(wave, clock, dice.randrange(CONVERSION_US))
    total_j = 0.0
    for second in range(int(WINDOW_S)):
        clock.now_us = second * 1000000 + 1000000 - dice.randrange(1000)
        total_j += joules(chip.word(1) * (chip.word(2) >> 3) * 1000000, SHUNT_UOHM)
    return total_j / true_energy_j(wave, 0.0, WINDOW_S) - 1


def waveforms(dice: random.Random) -> dict[str, Waveform]:
    """Loads of an Alix-like board: idle 0.4 A, busy 0.8 A, with random phases."""
    at_s = dice.uniform(0.5, WINDOW_S - 1.0)
    phase = dice.uniform(0, 2 * math.pi)
    return {
        "constant": lambda _t: 0.6,
        "step_of_0.2_s": lambda t: 0.8 if at_s <= t < at_s + 0.2 else 0.4,
        "sine_0.3_hz": lambda t: 0.6 + 0.2 * math.sin(2 * math.pi * 0.3 * t + phase),
        "square_2.3_hz": lambda t: 0.8 if (2.3 * t + phase) % 1 < 0.5 else 0.4,
    }


def integration() -> dict[str, dict[str, Any]]:
    """Absolute relative errors in percent, by waveform and rate."""
    dice = random.Random(219)
    errors: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TRIALS):
            for name, wave in waveforms(dice).items():
                kept = errors.setdefault(name, {"50_hz": [], "1_hz": []})
                kept["50_hz"].append(100 * abs(at_50_hz(wave, dice, folder)))
                kept["1_hz"].append(100 * abs(at_1_hz(wave, dice, folder)))
    return {
        name: {f"{rate}_error_percent": result.summary(values) for rate, values in kept.items()}
        for name, kept in errors.items()
    }


def main() -> None:
    """Entry point."""
    path = result.output_path()
    runs: dict[str, dict[str, Any]] = {}
    for name, interpreter in interpreters().items():
        seen, figures = listen(interpreter)
        runs[name] = {
            **figures,
            "reader_frames_per_cpu_second": reader_ceiling(seen),
            "a_tenth_dropped": after_drops(seen),
            "in_controller": in_controller(interpreter),
        }
    errors = integration()
    goals = [
        result.goal(
            f"{name}: energy error after 10 % of frames are dropped, J",
            figures["a_tenth_dropped"]["largest_error_j"],
            0.0,
            "<=",
        )
        for name, figures in runs.items()
    ]
    raw = {
        "line": runs,
        "integration": errors,
        "window_s": WINDOW_S,
        "machine": {"python": sys.version.split()[0], "cpus": os.cpu_count()},
    }
    result.write(path, goals, raw)


if __name__ == "__main__":
    main()
