"""Keeps the inputs of each server's savings for the time after its removal."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from naproxy.history.read.cells import Source
from naproxy.history.read.gone import PREFIX, Gone
from naproxy.history.read.powers import powers
from naproxy.history.read.queries import open_history
from naproxy.history.write.journal import Journal

_LOG: Final = logging.getLogger(__name__)


class Reckoned:
    """`keep` is told of all servers that there are, now and then; the others have gone."""

    def __init__(self, journal: Journal) -> None:
        """Write to this journal."""
        self._journal = journal
        self._written: dict[str, str] = {}

    def keep(
        self, servers: Mapping[str, Mapping[str, Any]], *, box_meter: str | None, now_s: float
    ) -> None:
        """Write what changed. Each server's values have:

        `meter`, `power` and `fit` (as `powers` takes them), `proxy_w`, and `about` (as `Gone`).
        """
        for name, values in servers.items():
            text = json.dumps(values, sort_keys=True)
            if self._written.get(name) != text:
                self._journal.save(PREFIX + name, {"configured": values})
                self._written[name] = text
        found = self._journal.store.execute(
            "SELECT key FROM saved WHERE key >= ? AND key < ?", PREFIX, PREFIX[:-1] + "/"
        )
        names = [key.removeprefix(PREFIX) for (key,) in found] if found else []
        for name in names:
            if name not in servers:
                self._settle(name, box_meter, now_s)

    def _settle(self, name: str, box_meter: str | None, now_s: float) -> None:
        """Note the powers of a server that has gone, once: means over its last weeks."""
        kept = self._journal.saved(PREFIX + name)
        self._written.pop(name, None)
        if "gone" in kept:
            return
        try:
            values = kept["configured"]
            with closing(open_history(self._journal.store.path.parent)) as db:
                power, sources = powers(
                    db,
                    Source(name, values["meter"], box_meter),
                    values["power"],
                    values["fit"],
                    proxy_w=values["proxy_w"],
                    now_s=now_s,
                )
            made = Gone(name, values["meter"], power, sources, values["about"])
        except (KeyError, TypeError, ValueError, sqlite3.Error) as error:
            _LOG.warning("%s: its past savings are not known: %r", name, error)
            return
        self._journal.save(PREFIX + name, {"gone": made.plain()})
