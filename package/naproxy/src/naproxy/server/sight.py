"""Whether visitors come past the box, judged by a look at the server. Pure.

The box does not see visitors who bypass it, and would put the server to sleep under them. So an
unknown result counts as a bypass, and the server stays awake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from naproxy.core.names import ascii_site, is_one, shortly
from naproxy.core.reason import Reason

HTTPS_PORT: Final = 443
NOT_LOOKED: Final = Reason("server.not_looked")
NOT_SEEN: Final = Reason("server.not_seen")
_BY_BOX: Final = ("box", "through")
"""Modes in which visitors over HTTPS come to the box."""
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
    """The request said, as a proxy in front would, that the visitor came over HTTPS."""
    port: int | None = None
    """None: the usual one."""


@dataclass(frozen=True, slots=True)
class Look:
    """Observations of a server: its port 443, and redirects from its port for HTTP."""

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
    ports = all(led.port is None or isinstance(led.port, int) for led in look.led)
    return (
        ports
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(flag, bool) for flag in flags)
    )


def blind(
    look: Look | None, mode: str, hosts: Collection[str], served: Collection[str]
) -> Reason | None:
    """Return why visitors may come past the box; None if none do.

    `mode` is `server.https.mode`, `hosts` the server's names, `served` those that visitors get
    from the box over HTTPS now, in the form of `ascii_site`: with a certificate, or passed through.
    """
    if look is None:
        return NOT_LOOKED
    sites = {ascii_site(host): host for host in hosts}
    for led in look.led:
        if past := _leads(led, mode, sites, served):
            return past
    around = None if mode == "unused" else _around(mode, sites, served)
    if around and look.port == "open":
        return around
    if not look.whole or (around and look.port == "unknown"):
        return NOT_SEEN
    return None


def _around(mode: str, sites: Mapping[str, str], served: Collection[str]) -> Reason | None:
    """Return the problem if there are answers over HTTPS."""
    missing = [host for site, host in sites.items() if not is_one(site, served)]
    if mode == "through":
        # It has names, which are served as soon as naproxy-through is seen to run.
        return NOT_SEEN if missing else None
    if mode != "box" or not (sites or served):
        return Reason("server.https_around", port=HTTPS_PORT)
    return Reason("server.https_unserved", name=shortly(missing)) if missing else None


def _leads(led: Led, mode: str, sites: Collection[str], served: Collection[str]) -> Reason | None:
    """Return the problem with the redirect of visitors."""
    if mode not in _BY_BOX or not led.https or led.port not in (None, HTTPS_PORT):
        # Another port of its own; or HTTPS, which the box does not serve.
        past = led.https or led.own_name
        return Reason("server.leads_around", name=led.name, to=led.to) if past else None
    if (sites and not is_one(led.host, sites)) or not is_one(led.host, served):
        return Reason("server.leads_elsewhere", name=led.name, to=led.to)
    # With HTTPS passed through, its visitors do not come to that port.
    if led.through_proxy and mode == "box":
        return Reason("server.leads_in_a_circle", name=led.name)
    return None
