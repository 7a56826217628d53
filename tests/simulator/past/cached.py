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
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import naproxy

from tests.simulator.office.namespace import ROOT

CACHE = ROOT / "build/past"
YOUNG_S = 1800.0
USUAL_DAYS = 15
"""So many the demonstration and the tests ask for, and share; each kind of mishap is in them."""
_LOOK_S = 0.1
_CODE = (Path(naproxy.__file__).parent / "history", Path(__file__).parent)


class Making:
    """A past under way in a process of its own, unless there is one that will do.

    While somebody else makes one it is waited for: three at once take three times as long each.
    """

    def __init__(self, days: float, log: Path | None = None, *, young_s: float = YOUNG_S) -> None:
        """Begin; one that ended less than `young_s` ago will do."""
        self._days, self._log, self._young_s = days, log, young_s
        self._place = CACHE / f"{days:g}d-{_version(log)}"
        self._fresh = CACHE / f"{self._place.name}.{os.getpid()}"
        self._made: BinaryIO | None = None
        """Open, so that it may be forgotten before it is copied."""
        self._process: subprocess.Popen[str] | None = None
        self._alone = contextlib.ExitStack()
        self._begin()

    @property
    def ready(self) -> bool:
        """Whether `into` need not wait."""
        if self._made is None and self._process is None:
            self._begin()
        return self._made is not None or (
            self._process is not None and self._process.poll() is not None
        )

    def into(self, data_dir: Path) -> None:
        """Wait for it and copy it to `data_dir`; RuntimeError if it could not be made."""
        while not self.ready:
            time.sleep(_LOOK_S)
        if self._process:
            said, _ = self._process.communicate()
            if self._process.returncode:
                raise RuntimeError(f"the past could not be made: {said}")
            self._fresh.rename(self._place)
            self._made = (self._place / "history.db").open("rb")
        assert self._made
        data_dir.mkdir(parents=True, exist_ok=True)
        with (data_dir / "history.db").open("wb") as copy:
            shutil.copyfileobj(self._made, copy)
        self.stop()

    def stop(self) -> None:
        """Leave nothing half made."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        if self._made:
            self._made.close()
        shutil.rmtree(self._fresh, ignore_errors=True)
        self._alone.close()

    def _begin(self) -> None:
        """Take what is there or begin to make it, unless somebody else is at it."""
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(_alone()):
                return
            _forget_the_old(self._place, self._young_s)
            with contextlib.suppress(FileNotFoundError):
                self._made = (self._place / "history.db").open("rb")
                return
            named = ["--log", str(self._log)] if self._log else []
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.simulator.past"),
                    *(str(self._fresh), "--days", str(self._days), *named),
                ],
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for whoever waits for it, who then stops it.
                start_new_session=True,
            )
            self._alone = stack.pop_all()


def fill(data_dir: Path, days: float, *, young_s: float = YOUNG_S) -> None:
    """Put a past into `data_dir`."""
    making = Making(days, young_s=young_s)
    try:
        making.into(data_dir)
    finally:
        making.stop()


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """Whether nobody else makes a past; nobody else does then."""
    CACHE.mkdir(parents=True, exist_ok=True)
    # Only opened, not written to: it may be root's, whom the tests were run by.
    lock = os.open(CACHE.parent / "past.lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(lock):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _version(log: Path | None) -> str:
    known = hashlib.sha256(str(log.resolve() if log else "").encode())
    for directory in _CODE:
        for file in sorted(directory.rglob("*.py")):
            known.update(f"{file} {file.stat().st_mtime_ns}".encode())
    return known.hexdigest()[:12]


def _forget_the_old(place: Path, young_s: float) -> None:
    for old in CACHE.glob("*"):
        left_behind = "." in old.name.rpartition("-")[2]
        most_s = 0.0 if left_behind else young_s if old == place else YOUNG_S
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > most_s:
                shutil.rmtree(old, ignore_errors=True)
