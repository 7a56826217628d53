"""What is put on a Pico: the modules that it runs, and what starts them. For the host.

The modules lie in one of two folders of the Pico, and `main.py` says in which. An installation
writes the other folder and then replaces `main.py`, so the meter that was there works until the
new one is whole.
"""

from __future__ import annotations

from pathlib import Path

from .meter import VERSION as VERSION  # noqa: PLC0414 - of the firmware that is here

MICROPYTHON = (1, 27)
"""The oldest release of MicroPython that it is known to run on."""

MODULES = ("__init__", "accumulator", "frame", "ina219", "meter", "outbox", "pico", "settings")
FOLDERS = ("meter_a", "meter_b")
MAIN = """# Starts the meter. Written by Naproxy.
import sys

sys.path.insert(0, "/{folder}")
from naproxy_meter import pico

pico.main()
"""

_SHARED = Path("/usr/share/naproxy/meter")
"""Where our image has them: its Python modules are there only compiled, for another Python."""


def modules(shared: Path = _SHARED) -> dict[str, bytes]:
    """Return each module's path in its folder, and its source; OSError if one is missing."""
    place = shared if shared.is_dir() else Path(__file__).parent
    return {f"naproxy_meter/{name}.py": (place / f"{name}.py").read_bytes() for name in MODULES}


def main(folder: str) -> bytes:
    """Return the `main.py` that starts the meter of a folder."""
    return MAIN.format(folder=folder).encode()
