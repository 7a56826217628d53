"""The history's clock: right in the end, also on a box whose clock has no battery.

Such a box starts with any time, and NTP sets the clock minutes later. Rows written until then are
moved by the clock's error, which is recorded in the table `clock`.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from naproxy.history.tables import METER_BITS, WITH_TIME
from naproxy.history.write.journal import Journal

_LOG: Final = logging.getLogger(__name__)
STEP_S: Final = 2.0
"""A wall clock that moved by less than this against the monotonic one was only corrected."""

TAKEN_S: Final = 86400.0
"""A clock that nothing has confirmed for so long is taken as it is: nothing will."""

AHEAD_S: Final = 30 * 86400.0
"""A clock that nothing confirmed and that is so far ahead of the newest row deletes nothing."""

_TIME_ERROR: Final = 5
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class HistoryClock:
    """Epoch seconds for the history's rows: the monotonic clock plus an offset."""

    def __init__(
        self,
        journal: Journal,
        shift: Callable[[float, int], bool],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        synchronised: Callable[[], bool] | None = None,
        boot: str | None = None,
    ) -> None:
        """Continue the time of another run of the same boot, else that of the wall clock.

        If the wall clock is before the newest row and nothing vouches for it, time continues from
        that row, so that runs never mix. `shift` moves all rows from a time on by seconds, and
        returns whether that was done.
        """
        self._journal = journal
        self._shift = shift
        self._monotonic = monotonic
        self._wall = wall
        self._synchronised = synchronised or kernel_says_synchronised
        self._boot = _boot_id() if boot is None else boot
        self._seen_s = self._base_s = wall() - monotonic()
        self.since_s = self.now_s()
        self.confirmed = self._synchronised()
        newest_s = self._newest_s()
        self._ahead = newest_s > 0 and self.now_s() - newest_s > AHEAD_S
        saved = journal.saved("clock")
        if saved.get("boot") == self._boot and saved.get("confirmed") is False:
            self._go_on(saved)
        elif not self.confirmed:
            self._never_before(newest_s)
        self._save()

    def _newest_s(self) -> float:
        """Return the latest time of any row, 0 if there is none."""
        newest_s = 0.0
        for sql in (
            *(f"SELECT max(t_s) FROM {table}" for table in (*WITH_TIME, "traffic_minutes")),
            f"SELECT (max(key) >> {METER_BITS}) * 60 FROM minutes",
        ):
            done = self._journal.store.execute(sql)
            row = done.fetchone() if done else None
            newest_s = max(newest_s, row[0] or 0.0) if row else newest_s
        return newest_s

    def _note(self, t_s: float, what: str, shift_s: float, since_s: float) -> None:
        """Record what was done about the clock."""
        self._journal.store.execute(
            "INSERT INTO clock (t_s, what, shift_s, since_s) VALUES (?, ?, ?, ?)",
            *(t_s, what, shift_s, since_s),
        )

    def _go_on(self, saved: Mapping[str, Any]) -> None:
        values = [saved.get(name) for name in ("base_s", "seen_s", "since_s")]
        if all(isinstance(v, (int, float)) for v in values):
            self._base_s, self._seen_s, self.since_s = values  # type: ignore[assignment]
            self.confirmed = False

    def _never_before(self, newest_s: float) -> None:
        behind_s = newest_s - self.now_s()
        if behind_s <= 0:
            return
        self._base_s += behind_s // 60 * 60 + 120
        self.since_s = self.now_s()
        self._note(self.since_s, "guessed", self.since_s - self._wall(), self.since_s)
        _LOG.warning("the clock is behind the history: times are a guess until it is set")

    @property
    def trusted(self) -> bool:
        """May rows be deleted because they are old by this clock?"""
        return self.confirmed or not self._ahead

    def now_s(self) -> float:
        """Return the time now."""
        return self._base_s + self._monotonic()

    def at(self, monotonic_s: float) -> float:
        """Return the time at which the monotonic clock read so."""
        return self._base_s + monotonic_s

    def check(self) -> None:
        """See whether the wall clock was set, and correct what was written if it was."""
        stepped = abs(self._wall() - self._monotonic() - self._seen_s) >= STEP_S
        vouched = self._synchronised()
        if stepped or (vouched and not self.confirmed):
            if not self._set():
                return
            self._seen_s = self._wall() - self._monotonic()
        taken = self.now_s() - self.since_s > TAKEN_S
        if stepped or (not self.confirmed and (vouched or taken)):
            self.confirmed = self.confirmed or vouched or taken
            self._save()

    def _set(self) -> bool:
        """Follow the wall clock. As long as nothing vouched for it, written rows follow too."""
        by_s = round(self._wall() - self.now_s())
        if abs(by_s) < STEP_S:
            return True
        since_s = self.since_s
        if not self.confirmed:
            if not self._shift(since_s, by_s):
                return False
            self.since_s += by_s
        self._base_s += by_s
        what = "stepped" if self.confirmed else "corrected"
        self._note(self.now_s(), what, by_s, since_s)
        moved = "" if self.confirmed else ", and so was what was written since the start"
        _LOG.info("the clock was set by %+d s%s", by_s, moved)
        return True

    def _save(self) -> None:
        self._journal.save(
            "clock",
            {
                "boot": self._boot,
                "base_s": self._base_s,
                "seen_s": self._seen_s,
                "since_s": self.since_s,
                "confirmed": self.confirmed,
            },
        )


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def kernel_says_synchronised() -> bool:
    """Ask the kernel whether something (NTP) keeps the clock right: adjtimex(2)."""
    # struct timex is 208 bytes or less on all of Linux; modes 0 only asks.
    asked = ctypes.create_string_buffer(512)
    state: int = ctypes.CDLL(None, use_errno=True).adjtimex(asked)
    return 0 <= state < _TIME_ERROR
