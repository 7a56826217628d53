"""The office's clock: the one zone in which this process shows times.

Decisions by hours get their zone as an argument. This is for the edges: words, logs, the names of
days. A box belongs to one office, so a process has one zone, and may change it.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from naproxy.core.hours import zone

_followed: list[tzinfo] = []


def follow(name: str) -> tzinfo:
    """Tell times in this zone from now on and return it; empty: the machine's. WrongError."""
    _followed[:] = [zone(name)]
    return _followed[0]


def where() -> tzinfo:
    """Return the zone that is followed; before that is said, the machine's."""
    return _followed[0] if _followed else zone("")


def local(t_s: float, zone_: tzinfo | None = None) -> datetime:
    """Return epoch seconds as the office's clocks show them; OverflowError, ValueError, OSError."""
    return datetime.fromtimestamp(t_s, UTC).astimezone(zone_ or where())


def shown(t_s: float, form: str, zone_: tzinfo | None = None) -> str:
    """Return a moment in a form of strftime; the bare number if no calendar has it.

    A time that clocks show twice has its zone behind it.
    """
    try:
        then = local(t_s, zone_)
        return then.strftime(form) + (which_of_two(then) if "%H" in form else "")
    except (OverflowError, ValueError, OSError):
        return str(t_s)


def day(t_s: float) -> str:
    """Return the date."""
    return shown(t_s, "%Y-%m-%d")


def stamp(t_s: float) -> str:
    """Return date and time, with seconds."""
    return shown(t_s, "%Y-%m-%d %H:%M:%S")


def told(t_s: float, now_s: float, zone_: tzinfo | None = None) -> str:
    """Return a moment to the minute, with its date if that is another day."""
    form = "%Y-%m-%d"
    same = shown(t_s, form, zone_) == shown(now_s, form, zone_)
    return shown(t_s, "%H:%M" if same else f"{form} %H:%M", zone_)


def which_of_two(then: datetime) -> str:
    """Return the zone's name, as " CEST", for a time that clocks show twice; else nothing."""
    other = then.replace(fold=1 - then.fold)
    return "" if other.utcoffset() == then.utcoffset() else f" {then:%Z}"


def instant_s(shown: datetime) -> float:
    """Return when the office's clocks show that: epoch seconds, the first of two (PEP 495)."""
    return shown.replace(tzinfo=where()).timestamp()
