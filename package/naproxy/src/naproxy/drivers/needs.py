"""A driver's needs on its own machine, besides the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Needs:
    """Stands in a driver's settings, as `needs`. An image that lacks one of these is incomplete."""

    programs: Mapping[str, str] = field(default_factory=dict)
    """The programs it runs on the box, and the Debian package of each."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Python modules that only it imports, and Debian's packages."""
    kernel: tuple[str, ...] = ()
    """Options of the kernel, without CONFIG_, built in or as modules."""
    devices: tuple[str, ...] = ()
    """Patterns of device nodes, of which one is to be there once the hardware is."""


SERIAL: Final = Needs(
    kernel=(
        *("USB_ACM", "USB_SERIAL_CH341", "USB_SERIAL_CP210X", "USB_SERIAL_FTDI_SIO"),
        "USB_SERIAL_PL2303",
    ),
    devices=("/dev/serial/by-id/*", "/dev/ttyACM*", "/dev/ttyUSB*"),
)
"""A serial port over USB, with any chip."""
