"""Whether a server's visitors come through the box: one was seen, or a person says so. Pure.

Until then router and DNS may still send them straight to the server, which they would find asleep.
A request proves it only if it asks for the server by its name (`visited_us` in naproxy_page.h).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from naproxy.core.names import shortly
from naproxy.core.reason import Reason

FRESH_S: Final = 7 * 86400.0
"""A new test counts visitors of that long ago: after a longer time the router may be another."""
_SAVE_S: Final = 86400.0


@dataclass(slots=True)
class GoingLive:
    """What is known of one server. Times are epoch seconds."""

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
    assumed: bool = False
    """An earlier version, which did not wait for a visitor, let the server sleep by itself."""
    _saved_s: float = field(default=0.0, compare=False)

    def configure(self, hosts: Sequence[str], mode: str, port: str | None) -> None:
        """Take the server's names, `server.https.mode`, and its port 443 as `sight.Look` has it."""
        self.hosts = hosts
        self.over_https = mode == "through" or (mode == "box" and port == "open")

    def visited(self, http_s: float | None, https_s: float | None) -> bool:
        """Take when visitors came last; return whether that is worth keeping."""
        had = self.seen_s
        self.http_s = _later(self.http_s, http_s)
        self.https_s = _later(self.https_s, https_s)
        seen_s = self.seen_s
        if seen_s is None:
            return False
        if self.first_s is None:
            self.first_s = seen_s
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
        """What the box waits for; None: visitors come through it."""
        if self.seen_s is not None or self.confirmed_s is not None or self.assumed:
            return None
        return self.unseen

    @property
    def unseen(self) -> Reason | None:
        """Say that no visitor was seen, whatever a person says; None: one was."""
        if self.seen_s is not None:
            return None
        code = "server.no_https_visitor_yet" if self.over_https else "server.no_visitor_yet"
        name = shortly(self.hosts) if self.hosts else Reason("server.its_website")
        return Reason(code, name=name, server=self.server)

    def confirm(self, now_s: float) -> None:
        """Take a person's word that visitors come through the box."""
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
        }

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        names = ("first_s", "http_s", "https_s", "confirmed_s", "assumed")
        return {name: getattr(self, name) for name in names}

    def load(self, saved: Any) -> None:
        """Take up what `dump` returned; what does not fit counts as nothing known."""
        known = saved if isinstance(saved, Mapping) else {}
        for name in ("first_s", "http_s", "https_s", "confirmed_s"):
            value = known.get(name)
            setattr(self, name, float(value) if isinstance(value, int | float) else None)
        self.assumed = known.get("assumed") is True


def _later(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)
