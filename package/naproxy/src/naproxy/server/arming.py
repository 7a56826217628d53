"""Whether a server may be put to sleep automatically.

It must have woken every time in a commissioning, and visitors must come through the box
(`going_live`). A later failed wake trips a breaker, which only a person or another commissioning
resets. Visitors who bypass the box keep it awake, even after such a proof. Pure; the runner
keeps it in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from naproxy.core.reason import Reason, stored_reason
from naproxy.server.going_live import GoingLive
from naproxy.server.sight import NOT_LOOKED


@dataclass(slots=True)
class Arming:
    """The known facts of one server's waking."""

    server: str
    trusted: bool = False
    """The configuration says `armed = true`: somebody else vouches for all of it."""
    subject: str = ""
    """The subject of a proof: the card, and the ways to sleep and wake."""
    proven: str = ""
    """The subject that was commissioned, empty if none was."""
    tripped: Reason | None = None
    """Why the breaker tripped; None if it did not."""
    sight: Reason | None = NOT_LOOKED
    """Why visitors may come past the box; None if none do. It costs no proof."""
    live: GoingLive = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is known of its visitors."""
        self.live = GoingLive(self.server)

    @property
    def why_not(self) -> Reason | None:
        """Return why the server may not be put to sleep automatically; None if it may."""
        if self.tripped:
            return Reason("server.tripped", why=self.tripped, server=self.server)
        if self.sight:
            return self.sight
        if not self.shown:
            code = "server.commissioned_otherwise" if self.proven else "server.not_commissioned"
            return Reason(code, server=self.server)
        return None if self.trusted else self.live.waits

    @property
    def shown(self) -> bool:
        """Was it shown that the server wakes every time, or did somebody make sure of it?"""
        return self.trusted or (self.proven != "" and self.proven == self.subject)

    def prove(self) -> None:
        """Take that it woke every time."""
        self.proven = self.subject
        self.tripped = None

    def trip(self, why: Reason) -> None:
        """Take that it did not wake; the first reason is kept."""
        self.tripped = self.tripped or why

    def reset(self) -> Reason | None:
        """Close the breaker, by hand; return why the server still is not armed."""
        self.tripped = None
        return self.why_not

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        tripped = self.tripped.text() if self.tripped else ""
        return {"proven": self.proven, "tripped": tripped, "live": self.live.dump()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        proven, tripped = saved.get("proven"), saved.get("tripped")
        self.proven = proven if isinstance(proven, str) else ""
        self.tripped = stored_reason(tripped) if tripped and isinstance(tripped, str) else None
        # Without the key an earlier version kept it: the server sleeps already.
        self.live.load(saved.get("live", {"assumed": self.proven != ""}))
