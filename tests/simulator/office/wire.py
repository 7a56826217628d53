"""What crossed the wire: a capture by tcpdump, read back with its times."""

import dataclasses
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, OfficeError


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One Ethernet frame; `t_s` is CLOCK_REALTIME, stamped by the kernel."""

    t_s: float
    data: bytes


class Capture:
    """A running capture of one machine's interface."""

    def __init__(self, namespace: Namespace, expression: str, interface: str = "eth0"):
        file = tempfile.NamedTemporaryFile(suffix=".pcap", delete=False)  # noqa: SIM115 - outlives this
        file.close()
        self._file = Path(file.name)
        self._tcpdump = namespace.popen(
            [
                *("tcpdump", "-i", interface, "-w", self._file, "-U", "--immediate-mode"),
                *("--time-stamp-precision=nano", "-B", "8192", "-Z", "root", expression),
            ],
            stdout=subprocess.DEVNULL,
            log=f"tcpdump-{namespace.name}",
        )
        # The file's header is written once it listens.
        wait_for(lambda: self._file.stat().st_size or self._tcpdump.poll() is not None, "tcpdump")
        if self._tcpdump.poll() is not None:
            raise OfficeError(f"tcpdump does not take {expression!r}")

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *_: object) -> None:
        if self._tcpdump.poll() is None:
            self._tcpdump.send_signal(signal.SIGINT)
            self._tcpdump.wait(timeout=10)
        self._file.unlink(missing_ok=True)

    def frames(self) -> list[Frame]:
        """What was seen so far; only whole records count."""
        return read_pcap(self._file.read_bytes())

    def wait(self, count: int, timeout_s: float = 10.0) -> list[Frame]:
        """Wait for so many frames."""
        return wait_for(
            lambda: seen if len(seen := self.frames()) >= count else [],
            f"{count} frames on the wire",
            timeout_s,
        )


def read_pcap(data: bytes) -> list[Frame]:
    """Parse the classic pcap format (draft-ietf-opsawg-pcap), this machine's byte order."""
    if len(data) < 24:
        return []
    (number,) = struct.unpack_from("=I", data)
    unit = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}.get(number)
    if unit is None:
        raise OfficeError(f"not a pcap file: {number:#x}")
    frames = []
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, length, _ = struct.unpack_from("=IIII", data, at)
        at += 16
        if at + length > len(data):
            break
        frames.append(Frame(seconds + fraction * unit, data[at : at + length]))
        at += length
    return frames


def to_realtime(monotonic_s: float) -> float:
    """Convert a CLOCK_MONOTONIC time of late into CLOCK_REALTIME."""
    return monotonic_s + time.time() - time.monotonic()
