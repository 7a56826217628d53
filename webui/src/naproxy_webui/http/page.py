"""What a page of the web interface is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page; its title in the navigation is the text `nav.NAME`."""

    name: str
    path: str
    place: int | None = None
    """Order in the navigation; None: it is not there."""
