"""No meter: a power by the server's state, or out of a file, to try things out.

By the state it is as much an estimate as `model` and shown as one. What writes the file is
the meter: a simulation, or somebody's own script for a meter that we do not know.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core.schema import option
from naproxy.core.state import State
from naproxy.drivers.meter import (
    NOTHING,
    About,
    Fault,
    PolledSettings,
    Reading,
    Readings,
    Site,
    is_file_or_empty,
    number,
    polled,
)

MOST_BYTES: Final = 64
FILE: Final = "what a file says"


@dataclass(frozen=True, kw_only=True)
class Settings(PolledSettings):
    """What it shows."""

    driver: str = option("simulated: invented figures, to try things out", "simulated")
    on_w: float = option("What it shows while the server is not asleep", 43.3, low=0, high=1000)
    off_w: float = option("What it shows while it is asleep", 1.6, low=0, high=1000)
    file: str = option(
        "File with the power in watts as text, read again each time; empty: the power follows the"
        " server's state",
        "",
        check=is_file_or_empty,
    )


class Driver:
    """Makes a reading up."""

    def __init__(self, settings: Settings, site: Site) -> None:
        """Follow the state of the site."""
        self._settings = settings
        self._site = site
        if settings.file:
            self.about = About(FILE, settings.interval_s, "as whatever writes the file")
        else:
            self.about = About(NOTHING, settings.interval_s, "none: invented", estimated=True)

    def readings(self) -> Readings:
        """Yield a reading an interval."""
        return polled(self._settings.interval_s, self._ask)

    async def _ask(self) -> Reading:
        settings = self._settings
        if settings.file:
            return Reading(read(Path(settings.file)))
        asleep = self._site.state() is State.ASLEEP
        return Reading(settings.off_w if asleep else settings.on_w)


def read(file: Path) -> float:
    """Return the watts in a file."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise Fault("lost", "driver.unreadable", file=str(file), why=why) from None
    if len(text) > MOST_BYTES:
        raise Fault("huge", "meter.long_file", file=str(file), high=MOST_BYTES)
    return number(text.decode(errors="replace"), str(file))
