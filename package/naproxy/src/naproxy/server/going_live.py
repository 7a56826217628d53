"""Whether a server's visitors come through the box: one was seen, or a person says so. Pure.

Until then router and DNS may still send them straight to the server, which they would find asleep.
A request proves it only if it asks for the server by its name (`visited_us` in naproxy_page.h).
If no visitor has come for `QUIET_S`, that may be so again: a router was replaced, or DNS changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from naproxy.core.names import shortly
from naproxy.core.reason import Reason

FRESH_S: Final = 7 * 86400.0
"""A new test counts visitors of that long ago: after a longer time the router may be another."""
QUIET_S: Final = 3 * 86400.0
"""After so long without a visitor the server stays on. Over a long weekend a website that people
use has some; a later visitor, or a person, puts it right."""
_SAVE_S: Final = 86400.0


@dataclass(slots=True)
class GoingLive:
    """The known facts of one server. Times are epoch seconds."""

    server: str
    hosts: Sequence[str] = ()
    over_https: bool = False
    """Its visitors use HTTPS, and the server answers that too: one over HTTP proves nothing."""
    first_s: float | None = None
    """When the first visitor came who proves it."""
    http_s: float | None = None
    """When the last visitor came over HTTP, and over HTTPS."""
    https_s: float | None = None
    confirmed_s: float | None = None
    """When a person confirmed that visitors come through the box."""
    expects_none: bool = False
    """A person confirmed a silence: it lasts until the next visitor."""
    now_s: float | None = None
    """When it was looked at last; None: silence is not judged yet."""
    assumed: bool = False
    """An earlier version, which did not wait for a visitor, let the server sleep by itself."""
    _saved_s: float = field(default=0.0, compare=False)

    def configure(self, hosts: Sequence[str], mode: str, port: str | None) -> None:
        """Take the server's names, `server.https.mode`, and its port 443 as `sight.Look` has it."""
        self.hosts = hosts
        self.over_https = mode == "through" or (mode == "box" and port == "open")

    def visited(
        self, http_s: float | None, https_s: float | None, now_s: float | None = None
    ) -> bool:
        """Take when visitors came last; return whether that is worth keeping."""
        self.now_s = now_s
        had = self.seen_s
        self.http_s = _later(self.http_s, http_s)
        self.https_s = _later(self.https_s, https_s)
        seen_s = self.seen_s
        if seen_s is None:
            return False
        if self.first_s is None:
            self.first_s = seen_s
        if had != seen_s and self.expects_none:
            self.expects_none, self._saved_s = False, 0.0
        if had is not None and 0 <= seen_s - self._saved_s < _SAVE_S:
            return False
        self._saved_s = seen_s
        return True

    @property
    def seen_s(self) -> float | None:
        """When the last visitor came who proves it; None: none did."""
        return self.https_s if self.over_https else _later(self.http_s, self.https_s)

    @property
    def waits(self) -> Reason | None:
        """The condition that the box waits for; None: visitors come through it."""
        if self.seen_s is not None or self.confirmed_s is not None or self.assumed:
            return self.silent
        return self.unseen

    @property
    def silent(self) -> Reason | None:
        """Say that visitors came once, or were said to, and none has come for long."""
        last_s = _later(self.seen_s, self.confirmed_s)
        if last_s is None or self.now_s is None or self.expects_none:
            return None
        if self.now_s - last_s < QUIET_S:
            return None
        days = int((self.now_s - last_s) / 86400.0)
        return Reason("server.no_visitor_lately", name=self._name, days=days, server=self.server)

    @property
    def _name(self) -> str | Reason:
        return shortly(self.hosts) if self.hosts else Reason("server.its_website")

    @property
    def unseen(self) -> Reason | None:
        """Say that no visitor was seen, even if a person confirmed it; None: one was."""
        if self.seen_s is not None:
            return None
        code = "server.no_https_visitor_yet" if self.over_https else "server.no_visitor_yet"
        return Reason(code, name=self._name, server=self.server)

    def confirm(self, now_s: float) -> None:
        """Take a person's word: visitors come through the box, or none are expected."""
        self.expects_none = self.silent is not None
        self.confirmed_s = now_s

    def proved(self, now_s: float) -> None:
        """Hear that the server passed its test: visitors of long ago do not count for it."""
        if self.seen_s is not None and now_s - self.seen_s > FRESH_S:
            self.first_s = self.http_s = self.https_s = None

    def status(self) -> dict[str, Any]:
        """Return what belongs into the server's status."""
        waits = self.waits
        return {
            "first_s": self.first_s,
            "last_s": self.seen_s,
            "confirmed_s": self.confirmed_s,
            "waits": waits.plain() if waits else None,
            "silent": self.silent is not None,
        }

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        names = ("first_s", "http_s", "https_s", "confirmed_s", "expects_none", "assumed")
        return {name: getattr(self, name) for name in names}

    def load(self, saved: Any) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        known = saved if isinstance(saved, Mapping) else {}
        for name in ("first_s", "http_s", "https_s", "confirmed_s"):
            value = known.get(name)
            setattr(self, name, float(value) if isinstance(value, int | float) else None)
        self.expects_none = known.get("expects_none") is True
        self.assumed = known.get("assumed") is True


def _later(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)
