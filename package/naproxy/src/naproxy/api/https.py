"""How HTTPS of a server is, out of the controller's status, and what there is to do next. Pure.

The web interface and the command tell the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from naproxy.core.names import shortly
from naproxy.core.reason import Reason, stored_reason, together

_PASSING: Final = ("server.not_looked", "server.not_seen")
"""What ends by itself: the box looks again."""
_UNSERVED: Final = ("server.https_around", "server.https_unserved")
"""What ends when the box serves HTTPS, with a certificate for each name."""
_BY_BOX: Final = ("box", "through")
"""Modes in which visitors by HTTPS come to the box."""
STARTING: Final = "https.starting"
"""The code of a problem of the box's HTTPS that ends by itself."""
_SEND: Final = Reason("https.do_send")
_GOOD: Final = {
    "box": Reason("https.good_box"),
    "through": Reason("https.good_through"),
    "unused": Reason("https.good_unused"),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """How it is: `kind` is `good`, `info`, `warn` or `bad`."""

    kind: str
    what: Reason
    next: Reason | None = None
    """What somebody should do."""


def sight_of(status: Mapping[str, Any]) -> tuple[Reason | None, bool]:
    """Return why visitors may come past the box, and whether that is more than a moment's doubt."""
    sight = (status.get("https") or {}).get("sight")
    return (stored_reason(sight), sight["code"] not in _PASSING) if sight else (None, False)


def around(status: Mapping[str, Any]) -> int:
    """Return how many visits today did not come through the box, as far as it is known."""
    return ((status.get("https") or {}).get("around") or {}).get("today") or 0


def seen(
    mode: str,
    hosts: Collection[str],
    status: Mapping[str, Any],
    edge: Mapping[str, Any],
    *,
    redirect: bool = False,
) -> Seen:
    """Return how HTTPS of a server is: of its settings, its status, and that of the box's HTTPS."""
    told = _seen(mode, hosts, status, edge)
    if mode == "box" and redirect and (told.kind == "bad" or told.next == _SEND):
        return replace(told, what=together(told.what, Reason("https.not_sent_on")))
    return told


def _seen(
    mode: str, hosts: Collection[str], status: Mapping[str, Any], edge: Mapping[str, Any]
) -> Seen:
    sight, certain = sight_of(status)
    bare = [name for name in hosts if name in edge["uncovered"]]
    serves = mode in _BY_BOX
    by_server = sight is not None and certain and not (serves and sight.code in _UNSERVED)
    if serves and edge["problem"] and not bare and not by_server:
        problem = stored_reason(edge["problem"])
        return Seen("info" if problem.code == STARTING else "bad", problem)
    if not by_server and (ended := _ended([e for e in edge["ended"] if e["name"] in hosts])):
        return Seen("bad", ended, Reason("https.do_replace"))
    if sight and certain:
        return Seen("warn", sight, _mend(sight, serves=serves, bare=bool(bare)))
    if bare:
        return Seen("warn", bare_of(bare), _SEND)
    if sight:
        return Seen("info", sight)
    return _good(mode, status, edge)


def _good(mode: str, status: Mapping[str, Any], edge: Mapping[str, Any]) -> Seen:
    good = _GOOD.get(mode, Reason("https.good_none"))
    if mode in _BY_BOX and not _visited(mode, status, edge):
        return Seen("info", together(good, Reason("https.nobody_yet")), Reason("https.do_router"))
    return Seen("good", good)


def _visited(mode: str, status: Mapping[str, Any], edge: Mapping[str, Any]) -> bool:
    """Has somebody come by HTTPS? Of whom is passed on only the server's status knows."""
    if mode == "box":
        return bool(edge["visited"])
    through = (status.get("https") or {}).get("through")
    return through is None or through["accepted"] > 0


def bare_of(names: list[str]) -> Reason:
    """Return that there is no certificate for these names."""
    return Reason("https.bare", names=shortly(names))


def _ended(found: list[Mapping[str, str]]) -> Reason | None:
    """Return that the certificate for these names has ended; of several days, the first."""
    days = sorted({each["day"] for each in found})
    names = [each["name"] for each in found if each["day"] == days[0]]
    return Reason("https.ended", names=shortly(names), day=days[0]) if found else None


def _mend(sight: Reason, *, serves: bool, bare: bool) -> Reason:
    if not serves:
        return Reason("https.do_serve")
    return _SEND if bare or sight.code in _UNSERVED else Reason("https.do_server")
