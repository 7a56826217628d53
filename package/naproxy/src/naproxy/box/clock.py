"""Is the clock right? The kernel knows, whichever program sets it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from naproxy.core.hours import place_of_zone, zone
from naproxy.server.inhibitors import CLOCK_SET_S

_TIME_ERROR: Final = 5
"""adjtimex(2) returns it as long as nobody disciplines the clock."""
_BUFFER_BYTES: Final = 512
"""More than a struct timex has, on 32 and on 64 bit machines; all zeros change nothing."""


def synchronised() -> bool | None:
    """Say whether the kernel's clock is kept right by somebody; None: it cannot be asked."""
    import ctypes  # noqa: PLC0415 - a megabyte that only whoever asks must pay

    try:
        said = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_BUFFER_BYTES))
    except (OSError, AttributeError):
        return None
    return None if said < 0 else said != _TIME_ERROR


def is_set(now_s: float | None = None) -> bool:
    """Say whether it has been set at all since the box was switched on."""
    return (time.time() if now_s is None else now_s) >= CLOCK_SET_S


def zone_name(etc: Path = Path("/etc")) -> str:
    """Return the machine's time zone, as Europe/Zurich; UTC if it has none with a known name."""
    return next(filter(_is_known, map(place_of_zone, _names(etc))), "UTC")


def _names(etc: Path) -> Iterator[str]:
    if isinstance(named := zone("", etc / "localtime"), ZoneInfo) and named.key:
        yield named.key
    target = os.path.realpath(etc / "localtime")
    yield target.partition("/zoneinfo/")[2]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        yield (etc / "timezone").read_text().strip()


def _is_known(name: str) -> bool:
    """Say whether programs elsewhere, such as browsers, know a zone of this name."""
    # A name without a place is a file for the system's own use: localtime, posixrules, Factory.
    if "/" not in name and name not in ("UTC", "GMT"):
        return False
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return False
    return True
