"""Whether a server may be put to sleep automatically: only if it was shown to wake.

A commissioning in which it woke every time arms it. A later failed wake trips a breaker,
which only a person or another commissioning resets. Pure; the runner keeps it in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Arming:
    """What is known of one server's waking."""

    server: str
    trusted: bool = False
    """The configuration says `armed = true`: somebody else's proof."""
    subject: str = ""
    """What a proof is about: the card, and the ways to sleep and wake."""
    proven: str = ""
    """The subject that was commissioned, empty if none was."""
    tripped: str = ""
    """Why the breaker tripped, empty if it did not."""

    @property
    def why_not(self) -> str:
        """Say why the server may not be put to sleep automatically; empty if it may."""
        if self.tripped:
            return (
                f"stays awake since it did not wake: {self.tripped};"
                f" mend that, then run naproxy arm {self.server}"
            )
        if self.trusted or (self.proven and self.proven == self.subject):
            return ""
        if self.proven:
            return (
                "commissioned with another network card or other ways to sleep and wake:"
                f" run naproxy commission {self.server} again"
            )
        return f"not commissioned: run naproxy commission {self.server}"

    def prove(self) -> None:
        """Take that it woke every time."""
        self.proven = self.subject
        self.tripped = ""

    def trip(self, why: str) -> None:
        """Take that it did not wake; the first reason is kept."""
        self.tripped = self.tripped or why

    def reset(self) -> str:
        """Close the breaker, by hand; return why the server still is not armed."""
        self.tripped = ""
        return self.why_not

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {"proven": self.proven, "tripped": self.tripped}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take up what `dump` returned; what is no text counts as nothing known."""
        proven, tripped = saved.get("proven"), saved.get("tripped")
        self.proven = proven if isinstance(proven, str) else ""
        self.tripped = tripped if isinstance(tripped, str) else ""
