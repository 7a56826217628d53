"""What the virtual server draws, as a meter at its plug would say: into a file.

The powers of the thesis' table 4.2, over what the mainboard did: awake and falling asleep it
draws P_on, asleep P_off, and while it resumes what is left of E_switch.
"""

import contextlib
import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from naproxy.config.document import Power

from tests.simulator.office.mainboard import OFF, RESUMING, Mainboard

MEAN_S = 0.1
"""The meter says the mean over so long."""

EVERY_S = 0.02


class Plug:
    """Writes the watts into `file`, over and over, with noise."""

    def __init__(self, board: Mainboard, file: Path, *, noise_w: float = 0.0, seed: int = 1):
        self.file = file
        self._board = board
        self._noise_w = noise_w
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.file.parent.mkdir(exist_ok=True)
        self._write(Power().on_w)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def configuration(self, name: str = "plug") -> dict[str, Any]:
        """Return the box's meter that reads the file."""
        return {
            "id": name,
            "of": "web",
            "driver": "simulated",
            "file": str(self.file),
            "interval_s": MEAN_S,
        }

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            with contextlib.suppress(OSError, ValueError):
                self._write(self._power_w())

    def _power_w(self) -> float:
        report = self._board.report()
        now_s = time.monotonic()
        mean_w = energy_j(report, now_s - MEAN_S, now_s) / MEAN_S
        return mean_w + self._chance.gauss(0, self._noise_w)

    def _write(self, power_w: float) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{max(0.0, power_w):.3f}\n")
        new.replace(self.file)


def energy_j(report: Mapping[str, Any], start_s: float, end_s: float) -> float:
    """Return what the board drew between two times, from its report (seconds, monotonic)."""
    fall_s, rise_s = report["settings"]["sleep_s"], report["settings"]["wake_s"]
    powers = {OFF: Power().off_w, RESUMING: _surge_w(fall_s, rise_s)}
    transitions: Sequence[Mapping[str, Any]] = report["transitions"]
    total_j = 0.0
    for now, after in pairwise([*transitions, {"t_s": math.inf}]):
        inside_s = min(after["t_s"], end_s) - max(now["t_s"], start_s)
        total_j += max(0.0, inside_s) * powers.get(now["state"], Power().on_w)
    return total_j


def _surge_w(fall_s: float, rise_s: float) -> float:
    """What it draws while it resumes, so that E_switch is that of table 4.2.

    Equation 4.1 counts the fall as asleep: what it draws more then is part of E_switch.
    """
    power = Power()
    left_j = power.switch_j - fall_s * (power.on_w - power.off_w)
    return power.on_w + max(0.0, left_j) / max(rise_s, 1e-3)
