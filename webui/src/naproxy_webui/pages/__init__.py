"""The pages of the web interface: a folder each, found by looking."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator

from flask import Blueprint


def discover() -> Iterator[Blueprint]:
    """Yield each page and each part of one, the pages in the order of the navigation.

    One that cannot be loaded is logged and left out: the others are still of use.
    """
    found = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        try:
            page = importlib.import_module(module.name)
            if hasattr(page, "blueprint"):
                found.append(page.blueprint)
        except Exception:
            logging.getLogger(__name__).exception("the page %s cannot be loaded", module.name)
    yield from sorted(found, key=lambda each: (getattr(each, "place", None) or 1000, each.name))
