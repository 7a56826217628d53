"""A simulated meter: power by the server's state, or from a file, for trials.

Power by the state is an estimate like that of `model`, and shown as one. With a file, the meter is
the program that writes it: a simulation, or a user's script for an unsupported meter.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core import files
from naproxy.core.schema import option
from naproxy.core.state import State
from naproxy.drivers import meter

MOST_BYTES: Final = 64
FILE: Final = "what a file says"


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """The source of its readings."""

    driver: str = option("simulated: invented figures, to try things out", "simulated")
    on_w: float = option("What it shows while the server is not asleep", 43.3, low=0, high=1000)
    off_w: float = option("What it shows while it is asleep", 1.6, low=0, high=1000)
    file: str = option(
        "File with the power in watts as text, read again each time; empty: the power follows the"
        " server's state",
        "",
        check=meter.is_file_or_empty,
    )


class Driver(meter.PolledDriver[Settings]):
    """Makes a reading up."""

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Follow the file, or else the state of the site."""
        super().__init__(settings, site)
        self.estimated = not settings.file
        self.measures = FILE if settings.file else meter.NOTHING
        self.accuracy = "as whatever writes the file" if settings.file else "none: invented"

    async def ask(self) -> meter.Reading:
        """Ask once."""
        settings = self._settings
        if settings.file:
            return meter.Reading(read(Path(settings.file)))
        asleep = self._site.state() is State.ASLEEP
        return meter.Reading(settings.off_w if asleep else settings.on_w)


def read(file: Path) -> float:
    """Return the watts in a file."""
    try:
        text, _ = files.peek(file, MOST_BYTES + 1)
    except files.NotAFileError:
        raise meter.Fault("lost", "driver.no_file", file=str(file)) from None
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise meter.Fault("lost", "driver.unreadable", file=str(file), why=why) from None
    if len(text) > MOST_BYTES:
        raise meter.Fault("huge", "meter.long_file", file=str(file), high=MOST_BYTES)
    return meter.number(text.decode(errors="replace"), str(file))
