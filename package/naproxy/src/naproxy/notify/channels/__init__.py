"""Ways to tell: each module is one, and its file is the plugin.

A module has `Settings`, its own keys of `[notify]`; `ON`, the key that is empty where nobody is
told so; `SENT`, the key of what is sent along; `TO`, the keys that say where that goes; and
`send(settings, letter)`, which raises WrongError, OSError or HTTPError. It may have
`conflicts(settings)`. What sends is loaded by the process that sends, not by the controller.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from functools import cache
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, or_empty

is_url: Final = or_empty(fits(r"https?://[!-~]{1,500}", Reason("config.url")))


@cache
def names() -> tuple[str, ...]:
    """Return the names of all ways, in alphabetical order."""
    found = (each.name for each in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def module(name: str) -> Any:
    """Return the module of a way."""
    return importlib.import_module(f"{__name__}.{name}")


def keys(name: str) -> tuple[str, ...]:
    """Return the keys of a way, in the order of its file."""
    return tuple(field.name for field in fields(module(name).Settings))


def secrets() -> list[tuple[str, str, tuple[str, ...], str]]:
    """Return of each way its name, `ON`, `TO` and `SENT`."""
    return [(name, way.ON, way.TO, way.SENT) for name in names() for way in (module(name),)]
