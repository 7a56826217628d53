"""What a page of the web interface is, and how pages are found: one file each in `pages/`."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass

from flask import Blueprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page; its title in the navigation is the text `nav.NAME`."""

    name: str
    path: str
    place: int | None = None
    """Order in the navigation; None: it is not there."""


def discover() -> Iterator[tuple[Page, Blueprint]]:
    """Yield each file of `pages/`, in the order of the navigation.

    One that cannot be loaded is logged and left out: the others are still of use.
    """
    from naproxy_webui import pages  # noqa: PLC0415 - pages import this module

    found = []
    for module in pkgutil.iter_modules(pages.__path__):
        try:
            page = importlib.import_module(f"{pages.__name__}.{module.name}")
            found.append((page.PAGE, page.blueprint))
        except Exception:
            logging.getLogger(__name__).exception("the page %s cannot be loaded", module.name)
    yield from sorted(found, key=lambda each: (each[0].place or 1000, each[0].name))
