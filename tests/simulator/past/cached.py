"""A past that is made once and used again while it is young and the code is the same."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import naproxy

from tests.simulator.office.namespace import ROOT

CACHE = ROOT / "build/past"
YOUNG_S = 1800.0
LONGEST_S = 7200.0
"""What takes longer to make was left behind."""
_CODE = (Path(naproxy.__file__).parent / "history", Path(__file__).parent)


class Making:
    """A past under way in a process of its own, unless there is one that will do."""

    def __init__(self, days: float, log: Path | None = None, *, young_s: float = YOUNG_S) -> None:
        """Begin; one that ended less than `young_s` ago will do."""
        self._place = CACHE / f"{days:g}d-{_version(log)}"
        _forget_the_old(self._place, young_s)
        self._fresh = CACHE / f"{self._place.name}.{os.getpid()}"
        self._process: subprocess.Popen[str] | None = None
        if (self._place / "history.db").exists():
            return
        named = ["--log", str(log)] if log else []
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.simulator.past"),
                *(str(self._fresh), "--days", str(days), *named),
            ],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for whoever waits for it, who then stops it.
            start_new_session=True,
        )

    @property
    def ready(self) -> bool:
        """Whether `into` need not wait."""
        return self._process is None or self._process.poll() is not None

    def into(self, data_dir: Path) -> None:
        """Wait for it and copy it to `data_dir`; RuntimeError if it could not be made."""
        data_dir.mkdir(parents=True, exist_ok=True)
        if self._process is None:
            shutil.copy(self._place / "history.db", data_dir)
            return
        said, _ = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"the past could not be made: {said}")
        shutil.copy(self._fresh / "history.db", data_dir)
        with contextlib.suppress(OSError):  # somebody else made the same one meanwhile
            self._fresh.rename(self._place)
        self.stop()

    def stop(self) -> None:
        """Leave nothing half made."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        shutil.rmtree(self._fresh, ignore_errors=True)


def fill(data_dir: Path, days: float, *, young_s: float = YOUNG_S) -> None:
    """Put a past into `data_dir`. Who comes while another makes the same waits for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    # Only opened, not written to: it may be root's, whom the tests were run by.
    lock = os.open(CACHE.parent / "past.lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(lock):
        fcntl.flock(lock, fcntl.LOCK_EX)
        making = Making(days, young_s=young_s)
        try:
            making.into(data_dir)
        finally:
            making.stop()


def _version(log: Path | None) -> str:
    known = hashlib.sha256(str(log.resolve() if log else "").encode())
    for directory in _CODE:
        for file in sorted(directory.rglob("*.py")):
            known.update(f"{file} {file.stat().st_mtime_ns}".encode())
    return known.hexdigest()[:12]


def _forget_the_old(place: Path, young_s: float) -> None:
    for old in CACHE.glob("*"):
        # What is under way belongs to somebody else.
        at_work = "." in old.name.rpartition("-")[2]
        most_s = young_s if old == place else LONGEST_S if at_work else YOUNG_S
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > most_s:
                shutil.rmtree(old, ignore_errors=True)
