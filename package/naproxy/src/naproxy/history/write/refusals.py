"""The effect of each rule of the office: refused requests, and the number of sleeps with any.

A rule decides the class of a request. A class that may not wake the server is refused while it
sleeps. Without the rule, the first refused request of a sleep might have ended that sleep. So a
rule prevented at most one wake per sleep in which it refused a request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from naproxy.config.document import Rule
from naproxy.core.page_h import Outcome
from naproxy.history.tables import rule_key
from naproxy.shm.events import Event


@dataclass(slots=True)
class Did:
    """Refusals that are not written yet; `last_s` by the history's clock."""

    refused: int = 0
    sleeps: int = 0
    last_s: float = 0.0


class Refusals:
    """Counts in memory, and adds what it counted to the table in a batch."""

    def __init__(self, sleeps: Callable[[str], int]) -> None:
        """`sleeps` tells how often a server has fallen asleep since the controller began."""
        self._sleeps = sleeps
        self._rules: list[str] = []
        self._waiting: dict[tuple[int, str], Did] = {}
        self._counted: dict[tuple[str, str], int] = {}

    def use(self, db: sqlite3.Connection, rules: Sequence[Rule], now_s: float) -> None:
        """From now on these are the office's rules; one that is new begins with nothing."""
        self._rules = [rule_key(r.kind, r.text, r.treat_as, r.server) for r in rules]
        for (gone,) in db.execute("SELECT rule FROM rules").fetchall():
            if gone not in self._rules:
                db.execute("DELETE FROM rules WHERE rule = ?", (gone,))
        for rule in self._rules:
            db.execute("INSERT OR IGNORE INTO rules (rule, since_s) VALUES (?, ?)", (rule, now_s))

    def add(self, server: str, t_s: float, event: Event) -> None:
        """Count one request that ended at `t_s`, if a rule had it refused."""
        if event.outcome != Outcome.REFUSED or not 0 < event.rule <= len(self._rules):
            return
        rule = self._rules[event.rule - 1]
        did = self._waiting.setdefault((int(t_s // 60) * 60, rule), Did())
        did.refused += 1
        did.last_s = max(did.last_s, t_s)
        if self._counted.get((rule, server)) != self._sleeps(server):
            self._counted[rule, server] = self._sleeps(server)
            did.sleeps += 1

    def write(self, db: sqlite3.Connection, before_s: float) -> None:
        """Add what was counted in minutes before `before_s`; `forget` once that is committed."""
        for (t_s, rule), did in self._waiting.items():
            if t_s + 60 <= before_s:
                db.execute(
                    "UPDATE rules SET refused = refused + ?, sleeps = sleeps + ?,"
                    " last_s = max(coalesce(last_s, 0), ?) WHERE rule = ?",
                    (did.refused, did.sleeps, did.last_s, rule),
                )

    def forget(self, before_s: float) -> None:
        """Forget what was written."""
        self._waiting = {k: did for k, did in self._waiting.items() if k[0] + 60 > before_s}


def shift(db: sqlite3.Connection, since_s: float, by_s: int) -> None:
    """Move all times from `since_s` on."""
    for column in ("since_s", "last_s"):
        db.execute(f"UPDATE rules SET {column} = {column} + ? WHERE {column} >= ?", (by_s, since_s))
