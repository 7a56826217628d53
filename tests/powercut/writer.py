"""A history that is written as the controller does it, in a time that runs fast.

What is written at a time follows from the time alone, so whoever finds the file can tell
what should be in it. `python -m tests.powercut.writer DATA_DIR PROGRESS` writes until killed.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

from naproxy.core.reading import PowerSample
from naproxy.core.reason import own_words
from naproxy.core.state import State
from naproxy.history.write.journal import Journal
from naproxy.history.write.writer import LATE_S, History

from tests.heard import Heard

START_S = 1_700_000_000 // 3600 * 3600
METERS = ("web", "box")
PAUSE_S = 5
"""Between two runs."""

TRANSITION_S = 97
"""A server changes its state so often."""

_PROGRESS = struct.Struct("=qqq")


class Progress:
    """What the writer has come to, in memory that outlives it: each a time in seconds."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_PROGRESS.pack(START_S, START_S, START_S))
        with path.open("r+b") as file:
            # Each is written at once: struct writes zeros first, and a kill might leave them.
            self._times = memoryview(mmap.mmap(file.fileno(), _PROGRESS.size)).cast("q")

    def _set(self, index: int, t_s: int) -> None:
        self._times[index] = t_s

    def _get(self, index: int) -> int:
        return self._times[index]

    begun_s = property(lambda self: self._get(0), lambda self, t: self._set(0, t))
    """The newest second is this one, or is about to be."""

    synced_s = property(lambda self: self._get(1), lambda self, t: self._set(1, t))
    """The disk was made to keep all before."""

    changed_s = property(lambda self: self._get(2), lambda self, t: self._set(2, t))
    """The latest transition was written at this time."""


def second(meter: str, t_s: int) -> PowerSample:
    """What a meter measured: noise that follows from the time."""
    noise = (t_s * 2654435761 + METERS.index(meter) * 40503) % 1009
    mean_mw = (43_000, 5_000)[METERS.index(meter)] + noise - 500
    return PowerSample(t_s, 50, mean_mw, mean_mw - 300 - noise % 97, mean_mw + 350, mean_mw, 1000)


class Run:
    """One run of the controller's history from `start_s` on."""

    def __init__(self, data_dir: Path, start_s: int) -> None:
        self.now_s = start_s
        self.said: list[str] = []
        Heard(self.said.append)
        self.journal = Journal(data_dir, lambda: float(self.now_s))
        self.history = History(
            self.journal,
            0.0,
            monotonic=lambda: float(self.now_s),
            wall=lambda: float(self.now_s),
            synchronised=lambda: True,
            boot="the only one",
        )
        self.history.watch(["web"])
        self._tick_s = self.now_s + self.history.next_s

    def step(self) -> bool:
        """One second passes; returns whether a batch was written."""
        for meter in METERS:
            self.history.add_second(meter, second(meter, self.now_s))
        self.now_s += 1
        if self.now_s < self._tick_s:
            return False
        self.history.tick()
        self._tick_s = self.now_s + self.history.next_s
        return True

    def transition(self) -> None:
        """Write a change of state, now."""
        self.journal.transition("web", State.AWAKE, State.ASLEEP, own_words(str(self.now_s)))


def write_on(data_dir: Path, progress: Progress, *, pause_s: float = 0.0) -> None:
    """Write until killed, from PAUSE_S after where the last run was."""
    run = Run(data_dir, progress.begun_s + PAUSE_S)
    while True:
        progress.begun_s = run.now_s
        if run.now_s % TRANSITION_S == 0:
            at_s = run.now_s
            run.transition()
            progress.changed_s = at_s
        if run.step():
            written_s = run.now_s - int(LATE_S)
            if run.history.sync_due:
                run.history.sync()
                progress.synced_s = written_s
            time.sleep(pause_s)


if __name__ == "__main__":
    write_on(Path(sys.argv[1]), Progress(Path(sys.argv[2])), pause_s=float(sys.argv[3]))
