"""How a server is put to sleep, woken, asked whether it answers, and metered.

Each folder is a kind of driver, each module in it a driver: the file is the plugin. A
module has `Settings`, the keys of its section of the configuration, and `Driver`. A way to
sleep may have `CHECKS` for `naproxy doctor`, see `naproxy.doctor.box` and `.server`, and `see`,
which takes the readings they look at.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from naproxy.core.schema import Alternative
from naproxy.core.wire import Web
from naproxy.server.services import Office

Kind = Literal["sleep", "wake", "ready", "meter"]

_SELECTORS: Final[dict[Kind, str]] = {
    "sleep": "driver",
    "wake": "driver",
    "ready": "kind",
    "meter": "driver",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The facts that a driver needs about its server; `interface`: the box's port towards it."""

    id: str
    address: str
    port: int
    """Of its web server, as the box asks it."""
    mac: str
    interface: str
    tls: bool = False
    """The box connects to it over HTTPS."""
    name: str = ""
    """By this name; empty: none."""
    proxied: bool = False
    """It expects the PROXY protocol there."""
    host: str = ""
    """The name of a site that it serves; empty: not known."""
    visited_by_https: bool = False
    """Visitors connect over HTTPS, and the box tells the server so."""
    office: Office = field(default_factory=Office)
    """The office's choices for the server's other services."""

    @property
    def web(self) -> Web:
        """How its web server is spoken to."""
        return Web(self.address, self.port, self.tls, self.name, self.proxied, self.host)


def names(kind: Kind) -> list[str]:
    """Return the names of the drivers of a kind, in alphabetical order."""
    package = importlib.import_module(f"{__name__}.{kind}")
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__))


def module(kind: Kind, name: str) -> Any:
    """Return the module of a driver."""
    return importlib.import_module(f"{__name__}.{kind}.{name}")


def settings(kind: Kind, name: str) -> type:
    """Return the dataclass of a driver's keys."""
    cls: type = module(kind, name).Settings
    return cls


def driver(kind: Kind, options: Any, target: Any) -> Any:
    """Make the driver whose settings are `options`; its type is that of the kind's protocol.

    `target` is the server: a `Target`, or for meters a `drivers.meter.Site`.
    """
    name = getattr(options, _SELECTORS[kind])
    return module(kind, name).Driver(options, target)


def choice(kind: Kind, default: str) -> Alternative:
    """Declare a section of the configuration that belongs to a driver of this kind."""
    return Alternative(
        selector=_SELECTORS[kind],
        default=default,
        names=lambda: names(kind),
        settings=partial(settings, kind),
    )
