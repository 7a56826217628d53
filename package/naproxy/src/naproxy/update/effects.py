"""Effects of updates on the machine: run programs, copy a file. Tests replace them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from naproxy.core.processes import Printed, as_others, printed
from naproxy.core.reason import WrongError

_ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8"}
_MOST_BYTES: Final = 1 << 18
_PIECE_BYTES: Final = 1 << 20
_LEAVE_FREE_BYTES: Final = 32 << 20
_MOST_LINE_BYTES: Final = 1 << 16

Progress = Callable[[int], None]


class CopyError(WrongError):
    """Why a file was not copied."""


class Machine:
    """Programs and files."""

    async def run(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Run a program; OSError if it cannot be started."""
        return await printed(argv, timeout_s, _ENVIRONMENT, _MOST_BYTES)

    async def follow(self, argv: Sequence[str], line: Callable[[str], None]) -> int:
        """Run a program and hear each line that it says; returns its exit status."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
            limit=_MOST_LINE_BYTES,
            # It ends when it is done, also if we are stopped: half an image is of no use.
            start_new_session=True,
        )
        as_others(process.pid)
        assert process.stdout
        while said := await _line(process.stdout):
            line(said.decode(errors="replace").rstrip("\n"))
        return await process.wait()

    def copy(self, source: Path, goal: Path, progress: Progress) -> None:
        """Copy a plain file; `progress` is told percents. CopyError, OSError.

        A copy, so that its sender, which is not root, cannot change it after the check.
        """
        file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise CopyError("update.not_plain", file=str(source))
            goal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            goal.unlink(missing_ok=True)
            missing = about.st_size + _LEAVE_FREE_BYTES - shutil.disk_usage(goal.parent).free
            if missing > 0:
                raise CopyError("update.no_space", mb=(missing >> 20) + 1)
            _copy(opened, goal, about.st_size, progress)


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end; drop a line that does not end in time."""
    while True:
        with contextlib.suppress(ValueError):
            return await stream.readline()


def _copy(source: BinaryIO, goal: Path, size: int, progress: Progress) -> None:
    out = os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(out, "wb") as written:
            _pour(source, written, size, progress)
            written.flush()
            os.fsync(out)
    except (CopyError, OSError):
        goal.unlink(missing_ok=True)
        raise


def _pour(source: BinaryIO, out: BinaryIO, size: int, progress: Progress) -> None:
    done = 0
    while data := source.read(_PIECE_BYTES):
        done += len(data)
        if done > size:  # an endless file would fill the disk
            raise CopyError("update.grew")
        out.write(data)
        progress(min(100, 100 * done // max(size, 1)))
