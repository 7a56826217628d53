"""What the box's operations do to the machine, in one place: tests give others."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from naproxy.drivers.program import Printed, printed

_MOST_BYTES: Final = 1 << 20


class Effects(Protocol):
    """Programs, and what the machine is called."""

    async def run(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Run a program; OSError if it cannot be started."""

    def host_name(self) -> str:
        """Return the machine's name."""


class Machine:
    """The real ones."""

    async def run(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Run a program; OSError if it cannot be started."""
        return await printed(argv, timeout_s, {"LC_ALL": "C.UTF-8"}, _MOST_BYTES)

    def host_name(self) -> str:
        """Return the machine's name."""
        return socket.gethostname()


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
    """Make the disk keep a file, or what a folder names."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
