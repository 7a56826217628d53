"""A clock that steps, for the box alone.

All programs on the machine share its clock. A preloaded library (clockstep.c) therefore shifts
CLOCK_REALTIME, and no other clock, for the controller and varnishd only, as a real step would.
"""

import struct
import subprocess
from pathlib import Path


class Clock:
    """The wall clock of controller and varnishd."""

    def __init__(self, directory: Path):
        self._file = directory / "clock"
        self._library = directory / "clockstep.so"
        source = Path(__file__).with_name("clockstep.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self._library, source], check=True)
        self._file.write_bytes(bytes(8))
        for path in (self._file, self._library):
            path.chmod(0o755)

    def step(self, offset_s: int) -> None:
        """From now on the clock differs from the true one by so much."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", offset_s))

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCKSTEP": str(self._file)}
