"""The controller's writes to the history, and their times.

The controller is the only writer. Frequent data is gathered in memory and written once a minute;
rare data that matters after a crash (transitions, wakes) is written at once.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from naproxy.config.document import Rule
from naproxy.core.reading import PowerSample
from naproxy.history.tables import WITH_TIME
from naproxy.history.write import agents, gaps, power, refusals, requests, state_hours, stream
from naproxy.history.write.agents import AgentTraffic
from naproxy.history.write.carbon import Carbon
from naproxy.history.write.clock import HistoryClock
from naproxy.history.write.journal import Journal
from naproxy.history.write.power import Power
from naproxy.history.write.refusals import Refusals
from naproxy.history.write.requests import Traffic
from naproxy.history.write.stream import Stream
from naproxy.shm.events import Event

_LOG: Final = logging.getLogger(__name__)
BATCH_S: Final = 60.0
LATE_S: Final = 2.0
"""A batch is written so long after a minute's end: the last second has come by then."""

SYNC_EVERY: Final = 10
"""Batches between two times that the disk is made to keep what was written."""

CHECKPOINT_EVERY: Final = 120
"""Batches between two times that the side file is worked off."""

AGENTS_EVERY: Final = 240
"""Batches between two times that requests by name are written: few pages, but each time."""

PRUNE_EVERY: Final = 60
"""Batches between two rounds of deletion: rows of an hour lie on the same few pages."""

SLICE_ROWS: Final = 250
"""Rows of a table that one batch deletes at the most: nothing waits for long."""

_PRUNED: Final = (power, requests, agents, stream)


class History:
    """Takes the figures of the controller's other parts; `tick` once a batch."""

    def __init__(
        self,
        journal: Journal,
        epoch_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        synchronised: Callable[[], bool] | None = None,
        boot: str | None = None,
    ) -> None:
        """Write beside the journal, in its file; `epoch_s` is that of the box (`BoxContext`).

        From now on the journal goes by the history's clock too.
        """
        self._journal = journal
        self._store = journal.store
        self._epoch_s = epoch_s
        self._monotonic = monotonic
        self._power = Power()
        self._traffic = Traffic()
        self._agents = AgentTraffic()
        self._stream = Stream()
        self._refusals = Refusals(journal.sleeps)
        self._carbon = Carbon()
        self._batches = 0
        self._pruning = True
        self.clock = HistoryClock(
            journal,
            self._shift,
            monotonic=monotonic,
            wall=wall,
            synchronised=synchronised,
            boot=boot,
        )
        journal.clock = self.clock.now_s
        journal.at = self._at
        self._counted_us = self._counted_before()
        self._store.batch(self._power.begin)

    def _counted_before(self) -> float:
        """Return the monotonic time of the requests that another run has counted."""
        done = self._store.execute("SELECT max(t_s) + 60 FROM traffic_minutes")
        row = done.fetchone() if done else None
        counted_s = row[0] if row and row[0] else 0
        return 1e6 * min(counted_s - self.clock.at(0.0), self._monotonic())

    def _at(self, house_s: float) -> float:
        return self.clock.at(house_s - self._epoch_s)

    def add_second(self, meter: str, second: PowerSample) -> None:
        """Take one second of a meter, its time by the house's clock. Never fails."""
        by_s = round(self._at(0.0))
        self._power.add(meter, power.moved(second, by_s) if by_s else second)

    def energy_j(self) -> dict[str, float]:
        """Return what each meter has measured since it was first seen, in joules."""
        return {meter: mj / 1000 for meter, mj in self._power.totals_mj.items()}

    def request(self, server: str, event: Event) -> None:
        """Count one request that ended, unless an earlier run did."""
        if event.t_us >= self._counted_us:
            t_s = self.clock.at(event.t_us / 1e6)
            self._traffic.add(server, t_s, event)
            self._agents.add(server, t_s, event)
            self._stream.add(server, t_s, event)
            self._refusals.add(server, t_s, event)

    def carbon(self, co2_g: float) -> None:
        """Take the grid's grams of CO2 a kilowatt-hour of now; none while the clock is a guess."""
        if self.clock.confirmed:
            self._carbon.add(self.clock.now_s(), co2_g)

    def rules(self, rules: Sequence[Rule]) -> None:
        """From now on these are the office's rules; count the effect of each."""
        self._store.batch(lambda db: self._refusals.use(db, rules, self.clock.now_s()))

    def watch(self, servers: Iterable[str]) -> None:
        """From now on the requests of these servers, and of no others, are handed over."""
        self._stream.watch(servers, self.clock.now_s())

    @property
    def next_s(self) -> float:
        """Seconds until the next `tick`."""
        return BATCH_S - self.clock.now_s() % BATCH_S + LATE_S

    def tick(self) -> None:
        """Write the gathered data, follow the clock, delete some of the oldest rows.

        Hours and traffic are written only before a sync: until then a crash of the controller
        costs neither, since they are recomputed from the minutes and Varnish's ring.
        """
        self._batches += 1
        rare = self.sync_due
        if not self._flush(rare=rare, before_s=self.clock.now_s()):
            return
        base_s = self.clock.at(0.0)
        self.clock.check()
        self._stream.stepped(self.clock.at(0.0) - base_s)
        if self._batches % PRUNE_EVERY == 0:
            self._pruning = True
            self._store.batch(lambda db: state_hours.roll_up(db, self.clock.now_s()))
        if self._pruning and self.clock.trusted:
            self._prune()

    def flush(self) -> bool:
        """Write all gathered data or nothing; keep unwritten data for later."""
        return self._flush(rare=True, before_s=math.inf)

    def _flush(self, *, rare: bool, before_s: float) -> bool:
        confirmed, now_s = self.clock.confirmed, self.clock.now_s()
        by_name = rare and (self._batches % AGENTS_EVERY == 0 or before_s == math.inf)

        def write(db: sqlite3.Connection) -> None:
            self._power.write(db)
            self._journal.write(db)
            self._carbon.write(db)
            if rare:
                self._power.roll_up(db)
                self._traffic.write(db, before_s)
                self._stream.write(db, before_s, now_s)
                self._refusals.write(db, before_s)
                if by_name:
                    self._agents.write(db, before_s, confirmed=confirmed)
                if confirmed:
                    gaps.roll_up(db, now_s)

        if not self._store.batch(write):
            self._power.not_written()
            return False
        self._power.written(rolled_up=rare)
        self._journal.written()
        self._carbon.written()
        if rare:
            self._traffic.forget(before_s)
            self._stream.written(before_s, now_s)
            self._refusals.forget(before_s)
            if by_name:
                self._agents.forget(before_s)
        return True

    def _prune(self) -> None:
        deleted = 0

        def delete(db: sqlite3.Connection) -> None:
            nonlocal deleted
            now_s = self.clock.now_s()
            deleted = sum(part.prune(db, now_s, SLICE_ROWS) for part in _PRUNED)

        self._pruning = self._store.batch(delete) and deleted >= SLICE_ROWS

    @property
    def sync_due(self) -> bool:
        """Should `sync` be called after this tick?"""
        return self._batches % SYNC_EVERY == 0

    def sync(self) -> None:
        """Make the disk keep what was written; in a thread, where the disk may take long."""
        try:
            self._store.sync(checkpoint=self._batches % CHECKPOINT_EVERY == 0)
        except (OSError, sqlite3.Error) as error:
            _LOG.error("the history may not survive a power cut: %s", error)

    def _shift(self, since_s: float, by_s: int) -> bool:
        """Move all rows from `since_s` on, of every table; all or nothing."""

        def move(db: sqlite3.Connection) -> None:
            for table in WITH_TIME:
                db.execute(
                    f"UPDATE {table} SET t_s = t_s + ? WHERE t_s >= ?",
                    (by_s, since_s),
                )
            self._power.shift(db, since_s, by_s)
            requests.shift(db, since_s, by_s)
            agents.shift(db, since_s, by_s)
            stream.shift(db, since_s, by_s)
            refusals.shift(db, since_s, by_s)
            state_hours.shift(db, since_s)

        # Rows waiting in memory have times by the clock as it was.
        done = self.flush() and self._store.batch(move)
        if done:
            self._stream.moved()
        return done
