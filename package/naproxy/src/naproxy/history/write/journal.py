"""The journal: events and their reasons. Part of the history, beside the figures.

Times are epoch seconds by the history's clock. They are for people to read; no decision uses them.
Transitions and wakes are written at once, because a restart needs them.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from naproxy.core.reason import Reason, stored_reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import STATES, Klass, State
from naproxy.history.tables import WITH_TIME, dicts
from naproxy.history.write.store import Store
from naproxy.server import stages as stages_
from naproxy.server.stages import Stage

MOST_ROWS: Final = 1000
DECISIONS_DAYS: Final = 30
_SAVE: Final = (
    "INSERT INTO saved (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_BY_TIME: Final = ("transitions", "wakes")
"""Tables that have an index by time and are kept for longer."""

_Decision = tuple[float, bool, Reason]
_Gist = tuple[bool | str, ...]


class Journal:
    """Writes the journal. A disk that fails is said, and stops nothing else."""

    def __init__(
        self,
        data_dir: Path,
        clock: Callable[[], float] = time.time,
        group: str = "",
    ) -> None:
        """Open `data_dir`/history.db; a file that is not one is set aside, and that is said.

        Where nothing can be written the history is kept in memory until the end.
        """
        self.store = Store(data_dir, clock, group)
        self.clock = clock
        self.at: Callable[[float], float] = float
        self._deciding: dict[str, _Decision] = {}
        self._decided: dict[str, _Gist] = {}
        self._slept: Counter[str] = Counter()
        self._vital: dict[str, str] = {}
        """Rows that must be kept and could not be written yet."""

    @property
    def error(self) -> str | None:
        """The fault of the disk, in words."""
        return self.store.error

    def transition(self, server: str, before: State, state: State, reason: Reason) -> None:
        """Write one change of state."""
        self._slept[server] += state is State.ASLEEP
        self.store.execute(
            'INSERT INTO transitions (t_s, server, "from", "to", reason) VALUES (?, ?, ?, ?, ?)',
            *(self.clock(), server, STATES[before], STATES[state], reason.text()),
        )

    def sleeps(self, server: str) -> int:
        """Return how often a server has fallen asleep since this journal was opened."""
        return self._slept[server]

    def wake_opened(self, server: str, wake_request: WakeRequest) -> int | None:
        """Write the start of a wake; returns its row for `wake_closed`."""
        reason = wake_request.reason
        done = self.store.execute(
            "INSERT INTO wakes (t_s, server, who, host, path, method, agent, class, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.clock(), server, wake_request.who, wake_request.host, wake_request.path),
            *(wake_request.method, wake_request.agent, wake_request.klass),
            reason.text() if isinstance(reason, Reason) else reason,
        )
        return done.lastrowid if done else None

    def wake_closed(
        self,
        row: int,
        outcome: str,
        waited_s: float,
        packets: int,
        stages: Sequence[Stage] = (),
    ) -> None:
        """Complete a wake: seconds from the asking until the server was up, and their stages."""
        self.store.execute(
            "UPDATE wakes SET outcome = ?, waited_s = ?, packets = ?, stages = ? WHERE id = ?",
            *(outcome, round(waited_s, 6), packets),
            json.dumps(stages_.plain(stages)),
            row,
        )

    def last_stages(self, server: str) -> tuple[float, tuple[Stage, ...]] | None:
        """Return when a server's last wake of known stages began, and these."""
        done = self.store.execute(
            "SELECT t_s, stages FROM wakes WHERE server = ? AND stages <> '[]'"
            " ORDER BY t_s DESC, id DESC LIMIT 1",
            server,
        )
        row = done.fetchone() if done else None
        return (row[0], stages_.load(row[1])) if row else None

    def close_forgotten(self) -> None:
        """Mark the wakes that a controller left open when it ended."""
        self.store.execute(
            "UPDATE wakes SET outcome = 'controller ended' WHERE outcome = 'waiting'"
        )

    def decision(self, server: str, t_s: float, sleep: bool, reason: Reason) -> None:
        """Note a decision at `t_s` by the house's clock: whether the server may sleep, and why.

        May be called as often as wanted: at most one a minute is written, and only when
        `sleep` or the reason (not the figures in it) is another one than before.
        """
        self._deciding[server] = (self.at(t_s), sleep, reason)

    def write(self, db: sqlite3.Connection) -> None:
        """Write the decisions that are others than those before; then call `written`."""
        for server, (t_s, sleep, reason) in self._deciding.items():
            if self._decided.get(server) != _gist(sleep, reason):
                db.execute(
                    "INSERT INTO decisions (t_s, server, sleep, reason) VALUES (?, ?, ?, ?)",
                    (t_s, server, sleep, reason.text()),
                )

    def written(self) -> None:
        """Forget what was written."""
        for server, (_, sleep, reason) in self._deciding.items():
            self._decided[server] = _gist(sleep, reason)
        self._deciding = {}

    def last_known(self, server: str) -> State:
        """Return the last state of a server that was known; UNKNOWN if there is none."""
        done = self.store.execute(
            'SELECT "to" FROM transitions WHERE server = ? AND "to" <> ? ORDER BY id DESC LIMIT 1',
            *(server, STATES[State.UNKNOWN]),
        )
        row = done.fetchone() if done else None
        return State[row[0].upper()] if row and row[0].upper() in State.__members__ else State(0)

    def save(self, key: str, value: Any, *, vital: bool = False) -> None:
        """Keep a JSON value over restarts; a `vital` one even if the disk is full."""
        text = json.dumps(value)
        self._vital.pop(key, None)
        if vital:
            self._vital[key] = text
        else:
            self.store.execute(_SAVE, key, text)
        # One that could not be kept is tried again with each of the others.
        for each, kept in list(self._vital.items()):
            if self.store.execute_at_last(_SAVE, each, kept):
                del self._vital[each]

    def saved(self, key: str) -> dict[str, Any]:
        """Return the object that `save` kept; an empty one if it is missing or not an object."""
        done = self.store.execute("SELECT value FROM saved WHERE key = ?", key)
        row = done.fetchone() if done else None
        try:
            value = json.loads(row[0]) if row else {}
        except ValueError:
            value = {}
        return value if isinstance(value, dict) else {}

    def people(self, server: str, since_s: float) -> int:
        """Return how many requests of people and programs came since a time, to the hour."""
        done = self.store.execute(
            "SELECT coalesce(sum(requests), 0) FROM traffic_hours JOIN servers ON id = server"
            " WHERE name = ? AND t_s >= ? AND class IN (?, ?)",
            *(server, since_s // 3600 * 3600, Klass.PERSON, Klass.API),
        )
        row = done.fetchone() if done else None
        return int(row[0]) if row else 0

    def prune(self, keep_days: int) -> None:
        """Delete what is older than `keep_days`; the last transition of each server stays."""
        now_s = self.clock()
        oldest_s = now_s - 86400 * keep_days
        self.store.execute("DELETE FROM wakes WHERE t_s < ?", oldest_s)
        self.store.execute(
            "DELETE FROM transitions WHERE t_s < ?"
            " AND id NOT IN (SELECT max(id) FROM transitions GROUP BY server)",
            oldest_s,
        )
        self.store.execute("DELETE FROM decisions WHERE t_s < ?", now_s - 86400 * DECISIONS_DAYS)

    def rows(
        self, table: str, server: str | None, since_s: float, limit: int
    ) -> list[dict[str, Any]]:
        """Return rows of transitions, wakes or decisions, newest first, at most `limit`.

        `reason` is a plain reason; for a wake by a request it is Varnish's cause.
        """
        if table not in WITH_TIME:
            raise ValueError(f"there is no table {table}")
        # A caller that asks for new rows each second must not read all rows: use the index, or
        # the last rows.
        found_by = f"SELECT * FROM {table} WHERE (?2 IS NULL OR server = ?2)"
        if since_s > 0 and table in _BY_TIME:
            select = f"{found_by} AND t_s >= ?1 ORDER BY t_s DESC, id DESC LIMIT ?3"
        else:
            select = f"SELECT * FROM ({found_by} ORDER BY id DESC LIMIT ?3) WHERE t_s >= ?1"
        done = self.store.execute(select, since_s, server, min(limit, MOST_ROWS))
        found = list(dicts(done)) if done else []
        for row in found:
            if table == "wakes":
                row["stages"] = stages_.plain(stages_.load(row["stages"]))
            if not row.get("class"):
                row["reason"] = stored_reason(row["reason"]).plain()
        return found

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def _gist(sleep: bool, reason: Reason) -> _Gist:
    """The parts that make a decision different: not the figures, which change all the time."""
    return sleep, *reason.codes()
