"""The ways to wake one server, tried in turn until it is seen up: pure, like the machine.

Each rung is called `attempts` times, `spacing_s` apart, before the next one is. The rung
that woke the server is remembered. A rung that failed comes after those that work,
so the ladder starts with one that works for this server. Order among equals is that of the
configuration. When no rung woke it, that tells nothing about any of them.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_NEW: Final = 0.5
"""Score of a rung that nothing is known of; less, and it goes behind the others."""

_WEIGHT: Final = 0.3
"""Of the newest experience: one that always worked loses its place by failing twice in a row."""

_LOOK_S: Final = 1.0
"""A button that may not be pressed yet is thought of again after so long."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to wake the server; its score is kept under `key`."""

    name: str = "etherwake"
    spacing_s: float = 0.5
    attempts: int = 60
    presses: bool = False
    """It presses a button, which would switch off a machine that is on."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a rung (None: only wait, it is not to be pressed now); then wait for `spacing_s`."""

    rung: int | None
    spacing_s: float


class Ladder:
    """The rungs of one server, and their scores."""

    def __init__(self, rungs: Sequence[Rung], remembered: Mapping[str, Any] | None = None) -> None:
        """`rungs` has at least one; `remembered` is the output of `dump`: scores by key."""
        self.rungs = tuple(rungs)
        known = remembered or {}
        self._scores = [_score(known.get(rung.key)) for rung in self.rungs]
        self._alone_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Start at the bottom, with a rung that works."""
        self._order = sorted(range(len(self.rungs)), key=lambda i: self._scores[i] < _NEW)
        self._at = 0
        self._calls = 0
        self._turn = 0
        self._looked_s = 0.0
        self._put_off: set[int] = set()
        self._pressed: set[int] = set()
        self._first_s: dict[int, float] = {}
        self._broken: set[int] = set()

    def climb(self, now_s: float, *, on: bool) -> Call | None:
        """Return the next call, None after the last. `on`: the machine is seen to be on."""
        while self._at < len(self._order):
            index = self._order[self._at]
            rung = self.rungs[index]
            left = rung.attempts - self._calls
            if rung.presses and on and left:
                if self._lets_others_go_first(index):
                    continue
                if self._looked_s < left * rung.spacing_s:
                    self._looked_s += _LOOK_S
                    return Call(None, _LOOK_S)
            elif left:
                self._calls += 1
                self._first_s.setdefault(index, now_s)
                if rung.presses:
                    self._pressed.add(index)
                return Call(index, rung.spacing_s)
            self._next()
        return None

    def _lets_others_go_first(self, index: int) -> bool:
        """Put the present rung behind all others, once: it may be of use when they were not."""
        first = index not in self._put_off and self._at + 1 < len(self._order)
        if first:
            self._put_off.add(index)
            self._order.append(self._order.pop(self._at))
            self._calls = 0
        return first

    def _next(self) -> None:
        self._at += 1
        self._calls = 0
        self._looked_s = 0.0

    def again(self, *, on: bool) -> Call:
        """Return a call after the last: the rungs take turns.

        Buttons are not among them if there is another rung; but one that could not be
        pressed when its turn came is pressed once.
        """
        unpressed = [i for i in self._order if self.rungs[i].presses and i not in self._pressed]
        harmless = self._harmless()
        index = harmless[self._turn % len(harmless)]
        if unpressed and not on:
            index = unpressed[0]
            self._pressed.add(index)
        else:
            self._turn += 1
        rung = self.rungs[index]
        return Call(None, _LOOK_S) if rung.presses and on else Call(index, rung.spacing_s)

    def _harmless(self) -> list[int]:
        return [i for i in self._order if not self.rungs[i].presses] or self._order

    @property
    def spacing_s(self) -> float:
        """How long after a call another one makes sense when somebody asks again."""
        return self.rungs[self._harmless()[0]].spacing_s

    @property
    def now(self) -> str:
        """Name of the rung it is at, empty after the last."""
        return self.rungs[self._order[self._at]].name if self._at < len(self._order) else ""

    def failed(self, index: int) -> bool:
        """Take that a call could not be made: True if the next rung's turn has come.

        The last rung is not given up: a failed call may work a moment later.
        """
        self._broken.add(index)
        current = self._at + 1 < len(self._order) and self._order[self._at] == index
        if current:
            self._next()
        return current

    def up(self, now_s: float) -> str:
        """Take that the server is up: remember and return the rung that woke it, or "".

        That is the last rung called, unless the server was up in less than half the time that
        it took of late when there was no doubt: then most likely it was the one before.
        """
        tried = [i for i in self._first_s if i not in self._broken]
        if not tried:
            return ""
        woke = tried[-1]
        took_s = now_s - self._first_s[woke]
        if len(self._first_s) == 1:
            self._alone_s = took_s
        elif len(tried) > 1 and took_s < self._alone_s / 2:
            woke = tried[-2]
        for index in self._first_s:
            if index == woke:
                self._learn(index, 1.0)
            elif self._order.index(index) < self._order.index(woke):
                self._learn(index, 0.0)
        return self.rungs[woke].name

    def _learn(self, index: int, worked: float) -> None:
        self._scores[index] += _WEIGHT * (worked - self._scores[index])

    def dump(self) -> dict[str, float]:
        """Return what is to be remembered, as JSON."""
        return {
            rung.key: round(score, 4)
            for rung, score in zip(self.rungs, self._scores, strict=True)
            if rung.key
        }

    def status(self) -> list[dict[str, Any]]:
        """Return the rungs in the order in which they would be tried now, for people."""
        order = sorted(range(len(self.rungs)), key=lambda i: self._scores[i] < _NEW)
        return [{"name": self.rungs[i].name, "works": self._scores[i] >= _NEW} for i in order]


def _score(value: object) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if good else _NEW  # type: ignore[arg-type]
