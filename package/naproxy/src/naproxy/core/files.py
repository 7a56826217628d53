"""Files that are whole after a power failure."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def write(path: Path, data: str | bytes, mode: int = 0o644) -> None:
    """Put a small file in place: after a power failure it is the old one or the new one.

    Once this has returned it is the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data if isinstance(data, bytes) else data.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make the disk keep a file, or the entries of a folder."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class NotAFileError(OSError):
    """The path does not lead to an ordinary file."""


def peek(path: Path | str, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the beginning of an ordinary file, and its status; OSError.

    A pipe without a writer, a device or a socket cannot block the caller: it is refused.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without its hardware: open(2)
            raise NotAFileError(errno.EINVAL, "not an ordinary file", str(path)) from None
        raise
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise NotAFileError(errno.EINVAL, "not an ordinary file", str(path))
        return os.read(opened, most_bytes), about
    finally:
        os.close(opened)
