"""How full Varnish's cache is, and how much it evicted in the last day.

Varnish's counters start again with each of its starts. Evictions are kept by the hour, so that a
day can be reported after a restart of Varnish, or of the controller.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from naproxy.box.effects import Machine
from naproxy.history.write.journal import Journal

EVERY_S: Final = 300.0
_ASK_S: Final = 5.0
_KEY: Final = "cache"
_HOUR_S: Final = 3600
_DAY_H: Final = 24


@dataclass(frozen=True, slots=True)
class Counted:
    """Varnish's counters; the last three count from its start."""

    uptime_s: int
    used_bytes: int
    free_bytes: int
    answers: int
    pushed_out: int
    """Answers that were let go to make room."""
    ran_out: int
    no_room: int
    """Answers that were cut off because making room would have taken too much."""


_NAMES: Final = {
    "uptime_s": "MAIN.uptime",
    "used_bytes": "SMA.default.g_bytes",
    "free_bytes": "SMA.default.g_space",
    "answers": "MAIN.n_object",
    "pushed_out": "MAIN.n_lru_nuked",
    "ran_out": "MAIN.n_expired",
    "no_room": "MAIN.n_lru_limited",
}
_GONE: Final = ("pushed_out", "ran_out", "no_room")


def argv(name: str) -> tuple[str, ...]:
    """Return the command that counts; `name` is Varnish's instance, empty for the usual one."""
    wanted = (word for counter in _NAMES.values() for word in ("-I", counter))
    return ("varnishstat", "-j", "-t", "1", *(("-n", name) if name else ()), *wanted)


def read(text: bytes) -> Counted | None:
    """Return what varnishstat says in JSON; None if it does not."""
    try:
        said = json.loads(text)
        # Before Varnish 6.5 the counters stood at the top.
        counters = said.get("counters", said)
        return Counted(**{key: int(counters[name]["value"]) for key, name in _NAMES.items()})
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


class Ledger:
    """Evictions by the hour. Pure: times are arguments."""

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        """Go on where another run ended, as far as that can be read."""
        self._hours: dict[int, dict[str, float]] = {}
        self._last: tuple[float, Counted] | None = None
        try:
            kept = kept or {}
            for hour, sums in kept.get("hours", {}).items():
                self._hours[int(hour)] = {key: float(sums[key]) for key in (*_GONE, "seen_s")}
            if last := kept.get("last"):
                counted = {field.name: int(last[field.name]) for field in fields(Counted)}
                self._last = float(last["t_s"]), Counted(**counted)
        except (ValueError, TypeError, KeyError, AttributeError):
            self._hours, self._last = {}, None

    def kept(self) -> dict[str, Any]:
        """Return what the next run goes on with."""
        last = None
        if self._last:
            last = {"t_s": self._last[0], **asdict(self._last[1])}
        return {"hours": {str(hour): sums for hour, sums in self._hours.items()}, "last": last}

    def add(self, t_s: float, counted: Counted) -> bool:
        """Count what went since the last time; has an hour begun?"""
        before = self._same_start(counted)
        if before is None and counted.uptime_s > _DAY_H * _HOUR_S:
            before = counted  # when all that went by is not known
        gone = {key: getattr(counted, key) - getattr(before, key, 0) for key in _GONE}
        seen_s = counted.uptime_s - (before.uptime_s if before else 0)
        hour = int(t_s // _HOUR_S)
        new = hour not in self._hours
        sums = self._hours.setdefault(hour, dict.fromkeys((*_GONE, "seen_s"), 0.0))
        for key, more in (*gone.items(), ("seen_s", seen_s)):
            sums[key] += more
        # Those of a clock that has been set back since, too.
        for old in [each for each in self._hours if not hour - _DAY_H < each <= hour]:
            del self._hours[old]
        self._last = t_s, counted
        return new

    def _same_start(self, counted: Counted) -> Counted | None:
        """Return the last count, if Varnish has not started since; by no clock, for these step."""
        if self._last is None:
            return None
        _, last = self._last
        grown = all(getattr(counted, key) >= getattr(last, key) for key in ("uptime_s", *_GONE))
        return last if grown else None

    def told(self) -> dict[str, Any] | None:
        """Return how full it was at the last count, and the evictions of the day before that."""
        if self._last is None:
            return None
        t_s, counted = self._last
        sums = {key: sum(each[key] for each in self._hours.values()) for key in (*_GONE, "seen_s")}
        return {
            "t_s": t_s,
            "used_bytes": counted.used_bytes,
            "room_bytes": counted.used_bytes + counted.free_bytes,
            "answers": counted.answers,
            **{key: int(sums[key]) for key in _GONE},
            "seen_s": min(sums["seen_s"], float(_DAY_H * _HOUR_S)),
        }


class Fill:
    """Asks Varnish every few minutes."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        does: Machine | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`name` is Varnish's instance, empty for the usual one."""
        self._argv = argv(name)
        self._journal = journal
        self._does = does or Machine()
        self._now = now
        self._ledger = Ledger(journal.saved(_KEY))
        self._answers = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Ask now, and again and again."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Stop asking, and write the counts."""
        if self._task:
            self._task.cancel()
            self._save()

    async def _go_on(self) -> None:
        while True:
            await self.ask()
            await asyncio.sleep(EVERY_S)

    async def ask(self) -> None:
        """Ask once. A missing Varnish is not reported here; the front door's check does that."""
        try:
            done = await self._does.run(self._argv, _ASK_S)
        except OSError:
            self._answers = False
            return
        counted = read(done.output) if done.code == 0 else None
        self._answers = counted is not None
        # One row an hour: a card wears with each.
        if counted and self._ledger.add(self._now(), counted):
            self._save()

    def _save(self) -> None:
        self._journal.save(_KEY, self._ledger.kept())

    def told(self) -> dict[str, Any]:
        """Return it for the control API; null where Varnish did not answer."""
        return {"cache": self._ledger.told() if self._answers else None}
