"""Ways to tell: each module is one, and its file is the plugin.

A module has `Settings`, its own keys of `[notify]`; `ON`, the key that is empty where nobody is
told so; `SENT`, the key of what is sent along; `TO`, the keys that say where that goes; and
`send(settings, letter, send_by)`, which raises WrongError, OSError or HTTPError. It may have
`conflicts(settings)`. Whoever reads the configuration loads all of them, so none imports a library
that sends: the process that sends gives it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import fits, or_empty

is_url: Final = or_empty(fits(r"https?://[!-~]{1,500}", Reason("config.url")))


@dataclass(frozen=True)
class SendBy:
    """How a letter leaves the box."""

    http: Callable[..., None]
    """`http_send.send`."""
    mail: Callable[[Mapping[str, Any], Mapping[str, Any]], None]
    """`smtp_send.send`."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all ways, in alphabetical order."""
    return tuple(sorted(each.name for each in pkgutil.iter_modules(__path__)))


def module(name: str) -> Any:
    """Return the module of a way."""
    return importlib.import_module(f"{__name__}.{name}")


def keys(name: str) -> tuple[str, ...]:
    """Return the keys of a way, in the order of its file."""
    return tuple(field.name for field in fields(module(name).Settings))


def secrets() -> list[tuple[str, str, tuple[str, ...], str]]:
    """Return of each way its name, `ON`, `TO` and `SENT`."""
    return [(name, way.ON, way.TO, way.SENT) for name in names() for way in (module(name),)]
