"""A long line between two of the office's machines: a delay and a bandwidth, by `link.c`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.simulator.office.namespace import Namespace, ip

NEAR, FAR = "198.51.100.1", "198.51.100.2"
_SOURCE: Final = Path(__file__).with_name("link.c")
_NAME: Final = "line0"
_TUNSETIFF: Final = 0x400454CA
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000


def compiled(directory: Path) -> Path:
    """Compile the program."""
    program = directory / "link"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", program, _SOURCE], check=True)
    return program


def _tap(machine: Namespace, address: str) -> int:
    with machine.entered():
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH22x", _NAME.encode(), _IFF_TAP | _IFF_NO_PI)
        fcntl.ioctl(fd, _TUNSETIFF, request)
    ip("-n", machine.name, "addr", "add", f"{address}/24", "dev", _NAME)
    ip("-n", machine.name, "link", "set", _NAME, "up")
    return fd


class Line:
    """A line between two machines, whose delay, rate, jitter and loss can change."""

    def __init__(self, program: Path, near: Namespace, far: Namespace) -> None:
        """Put a device into each machine; nothing passes before `set`."""
        self._program = program
        self._near = near
        self._ends = _tap(near, NEAR), _tap(far, FAR)
        self._process: subprocess.Popen[bytes] | None = None

    def set(
        self, *, rtt_s: float, bytes_s: float, jitter_s: float = 0.0, loss: float = 0.0
    ) -> None:
        """Change the line. `loss` is the share of frames lost, each way.

        The queue holds a round trip's bytes at the full rate, at least a quarter of a megabyte.
        """
        self._stop()
        queue = max(256 << 10, int(rtt_s * bytes_s))
        numbers = (*self._ends, int(rtt_s / 2 * 1e6), int(bytes_s), queue)
        more = (int(jitter_s * 1e6), int(loss * 1e6))
        arguments = [str(number) for number in (*numbers, *more)]
        self._process = subprocess.Popen([self._program, *arguments], pass_fds=self._ends)
        # Other programs must not make the line slower than it is.
        os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(10))

    def ping(self, count: int = 10, every_s: float = 0.2) -> tuple[list[float], float]:
        """Return the sorted round trips in seconds, as ping finds them, and the share lost."""
        # The first one waits for ARP.
        self._near.run(["ping", "-n", "-q", "-c", "2", "-i", "0.3", FAR], check=False)
        words = ["ping", "-n", "-c", str(count), "-i", str(every_s), FAR]
        said = self._near.run(words, check=False, timeout_s=60 + 2 * count * every_s)
        found = sorted(float(ms) / 1e3 for ms in re.findall(r"time=([\d.]+) ms", said.stdout))
        return found, 1 - len(found) / count

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Take the line away."""
        self._stop()
        for fd in self._ends:
            os.close(fd)


@contextlib.contextmanager
def line(
    program: Path, near: Namespace, far: Namespace, *, rtt_s: float, bytes_s: float
) -> Iterator[float]:
    """Lay it; yields the round trip in seconds: the median of ten pings."""
    laid = Line(program, near, far)
    try:
        laid.set(rtt_s=rtt_s, bytes_s=bytes_s)
        found, _ = laid.ping()
        yield found[len(found) // 2]
    finally:
        laid.close()
