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


@contextlib.contextmanager
def line(
    program: Path, near: Namespace, far: Namespace, *, rtt_s: float, bytes_s: float
) -> Iterator[float]:
    """Lay it; yields the round trip in seconds, as ping finds it: the median of ten.

    Its queue holds what is on its way when it is full, and a quarter of a megabyte at least.
    """
    ends = _tap(near, NEAR), _tap(far, FAR)
    queue = max(256 << 10, int(rtt_s * bytes_s))
    numbers = (*ends, int(rtt_s / 2 * 1e6), int(bytes_s), queue)
    process = subprocess.Popen([program, *map(str, numbers)], pass_fds=ends)
    try:
        said = near.run(["ping", "-n", "-q", "-c", "2", "-i", "0.3", FAR], timeout_s=30)
        said = near.run(["ping", "-n", "-c", "10", "-i", "0.2", FAR], timeout_s=30)
        found = sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", said.stdout))
        yield found[len(found) // 2] / 1e3
    finally:
        process.kill()
        process.wait()
        for fd in ends:
            os.close(fd)
