"""Whether visitors come past the box, judged by a look at the server. Pure.

Who comes past the box is not seen by it: the server would be put to sleep under them. So what is
not known counts as if they did, and the server stays awake.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Final

from naproxy.core.reason import Reason

HTTPS_PORT: Final = 443
NOT_LOOKED: Final = Reason("server.not_looked")
PORTS: Final = ("open", "refused", "silent", "unknown")


@dataclass(frozen=True, slots=True)
class Shown:
    """The certificate that the server shows for one of its names; empty: asked without a name."""

    name: str
    names: tuple[str, ...] = ()
    """For which names it is."""
    not_after_s: float | None = None
    trusted: bool = False
    """Would a browser trust it, with this name?"""


@dataclass(frozen=True, slots=True)
class Led:
    """Where the server sends the visitors of one of its names, away from the box's port."""

    name: str
    to: str
    """As `https://name` or `http://name:8080`."""
    host: str
    https: bool
    own_name: bool
    """It is one of the server's names, or its address."""
    through_proxy: bool
    """It was told that the visitor had come by HTTPS, as a proxy in front would say."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a server: its port 443, and where its port for HTTP sends visitors."""

    t_s: float
    port: str
    """443: `open`, `refused`, `silent`, or `unknown`."""
    shown: tuple[Shown, ...] = ()
    led: tuple[Led, ...] = ()
    whole: bool = True
    """Each question was answered."""

    def dump(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


def load(saved: Any) -> Look | None:
    """Take up what `dump` returned; None if it does not fit: then nobody has looked."""
    try:
        look = Look(
            float(saved["t_s"]),
            str(saved["port"]),
            tuple(Shown(**{**each, "names": tuple(each["names"])}) for each in saved["shown"]),
            tuple(Led(**each) for each in saved["led"]),
            saved["whole"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return look if look.port in PORTS and _typed(look) else None


def _typed(look: Look) -> bool:
    texts = [text for led in look.led for text in (led.name, led.to, led.host)]
    flags = [flag for led in look.led for flag in (led.https, led.own_name, led.through_proxy)]
    return all(isinstance(t, str) for t in texts) and all(isinstance(f, bool) for f in flags)


def blind(look: Look | None, mode: str, served: Collection[str]) -> Reason | None:
    """Return why visitors may come past the box; None if none do.

    `mode` is `server.https.mode`, `served` the names of the server that come to the box.
    """
    if look is None:
        return NOT_LOOKED
    if led := next(filter(None, (_leads(led, mode, served) for led in look.led)), None):
        return led
    if mode == "none" and look.port == "open":
        return Reason("server.https_around", port=HTTPS_PORT)
    if not look.whole or (mode == "none" and look.port == "unknown"):
        return Reason("server.not_seen")
    return None


def _leads(led: Led, mode: str, served: Collection[str]) -> Reason | None:
    """Return what is wrong with where visitors are sent."""
    if mode != "box" or not led.https:
        # Another port of its own; or HTTPS, which the box does not serve.
        past = led.https or led.own_name
        return Reason("server.leads_around", name=led.name, to=led.to) if past else None
    if not led.own_name and led.host not in served:
        return Reason("server.leads_elsewhere", name=led.name, to=led.to)
    if led.through_proxy:
        return Reason("server.leads_in_a_circle", name=led.name)
    return None
