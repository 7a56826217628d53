"""Raspberry Pi Picos on the box's USB, as the kernel shows them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAKER: Final = "2e8a"
_KINDS: Final = {"0003": "boot", "0005": "serial", "000f": "boot2350"}
"""Raspberry Pi's products: the RP2040's boot ROM, MicroPython, the RP2350's boot ROM."""


@dataclass(frozen=True, slots=True)
class Pico:
    """One of them.

    `place` is the socket, by the kernel's name, and stays when the Pico restarts; `number` is
    another after each restart. `kind`: boot shows the drive, serial a port, boot2350 is a Pico 2.
    """

    place: str
    number: str
    kind: str
    node: str
    """Its drive or its port, empty as long as there is none."""


class Usb:
    """The kernel's devices; tests have others."""

    def __init__(
        self,
        devices: Path = Path("/sys/bus/usb/devices"),
        nodes: Path = Path("/dev"),
        names: Path = Path("/dev/serial/by-id"),
    ) -> None:
        """`names` are links to ports, which stay the same in another socket."""
        self._devices = devices
        self._nodes = nodes
        self._names = names

    def picos(self) -> list[Pico]:
        """Return those that are plugged in, by their places."""
        with contextlib.suppress(OSError):
            return list(self._picos())
        return []

    def _picos(self) -> Iterator[Pico]:
        for place in sorted(self._devices.iterdir()):
            if _fact(place, "idVendor") == _MAKER:
                kind = _KINDS.get(_fact(place, "idProduct"), "")
                if kind:
                    yield Pico(place.name, _fact(place, "devnum"), kind, self._node(place, kind))

    def _node(self, place: Path, kind: str) -> str:
        pattern = "*/tty/tty*" if kind == "serial" else "*/host*/target*/*/block/sd*"
        # Interfaces are named after the device; a hub has its devices in it.
        found = sorted(each.name for each in place.glob(f"{place.name}:{pattern}"))
        return str(self._nodes / found[0]) if found else ""

    def name(self, port: str) -> str:
        """Return the name of a port that stays the same, or itself."""
        real = os.path.realpath(port)
        with contextlib.suppress(OSError):
            for each in sorted(self._names.iterdir()):
                if os.path.realpath(each) == real:
                    return str(each)
        return port


def _fact(place: Path, name: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (place / name).read_text().strip()
    return ""
