"""Servers that are no longer configured: the inputs of their past savings.

The controller keeps this of each server (`history.write.reckoned`), so that sums over all servers
stay the same when one is removed or gets another name.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from naproxy.core.energy import Power
from naproxy.history.read.cells import Source
from naproxy.history.read.savings import Assumptions

PREFIX: Final = "reckoned."
"""Of the keys in the table `saved`; a server's id follows."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A server that was removed or renamed."""

    id: str
    meter: str | None
    power: Power
    """`proxy_w` included, in watts and joules."""
    sources: Mapping[str, str]
    about: Mapping[str, Any]
    """`fraction` and `delta_s` of its promise, `policy`, `wake_s` and `sleep_s`, as they were."""

    def source(self, box_meter: str | None) -> Source:
        """Return whose cells to read."""
        return Source(self.id, self.meter, box_meter)

    def assumed(self) -> Assumptions:
        """Return the inputs of its savings."""
        return Assumptions(self.power, self.sources)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it; `read` is the way back."""
        return {**asdict(self), "sources": dict(self.sources), "about": dict(self.about)}


def gone(db: sqlite3.Connection, configured: Collection[str]) -> list[Gone]:
    """Return the servers that were removed, by their ids; those of an older release are missing."""
    found = []
    for name, text in db.execute(
        "SELECT key, value FROM saved WHERE key >= ? AND key < ? ORDER BY key",
        (PREFIX, PREFIX[:-1] + "/"),
    ):
        if name.removeprefix(PREFIX) in configured:
            continue
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            kept = json.loads(text)["gone"]
            found.append(Gone(**{**kept, "power": Power(**kept["power"])}))
    return found
