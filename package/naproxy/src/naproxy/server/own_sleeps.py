"""Whether a server puts itself to sleep: silences without a command. Pure; times are arguments.

A machine that crashed does not come back when it is called, and one that restarts takes long and
draws power all the while. So a silence counts as a sleep if nobody had used the server for a while,
and it came back by a call: from hardly any power where there is a meter, else as soon as one
comes from suspend.
"""

from __future__ import annotations

from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.server.machine_io import Transition

TIMES: Final = 3
WITHIN_S: Final = 7 * 86400.0
IDLE_S: Final = 60.0
"""Least time without requests: a server's own sleep timer waits for longer."""
MOST_WAKE_S: Final = 15.0
"""A machine takes longer to restart."""


class OwnSleeps:
    """Those of one server."""

    def __init__(self) -> None:
        """None is known."""
        self._times_s: list[float] = []
        self._silent = False
        self._idle = False
        self._called_s: float | None = None
        self._low: bool | None = None

    def changed(self, change: Transition, t_s: float, unused_s: float) -> None:
        """Hear of a change of state; `unused_s`: so long nobody had an answer of the server."""
        match change.before, change.state:
            case State.AWAKE, State.UNKNOWN:
                self._silent, self._idle = True, unused_s >= IDLE_S
                self._called_s = self._low = None
            case State.UNKNOWN, State.WAKING if self._silent:
                self._called_s = t_s
            case before, state:
                if (before, state) == (State.WAKING, State.AWAKE) and self._called_s is not None:
                    self._judge(t_s, t_s - self._called_s)
                elif state is State.TROUBLE:
                    self._times_s.clear()
                self._silent, self._called_s = False, None

    def drew(self, low: bool | None) -> None:
        """Hear whether it draws much less than awake now; None: there is no meter."""
        if self._silent and low is not None:
            self._low = low or bool(self._low)

    def _judge(self, t_s: float, took_s: float) -> None:
        """Evidence against it counts more than earlier evidence for it."""
        asleep = took_s <= MOST_WAKE_S if self._low is None else self._low
        if asleep and self._idle:
            self._times_s = [*self._times_s, t_s][-TIMES:]
        else:
            self._times_s.clear()

    def seen(self, t_s: float) -> Reason | None:
        """Say that it puts itself to sleep, if that was seen often enough."""
        recent = [each for each in self._times_s if 0 <= t_s - each <= WITHIN_S]
        return Reason("server.sleeps_itself", number=TIMES) if len(recent) >= TIMES else None

    def dump(self) -> list[float]:
        """Return what is kept over a restart, as JSON."""
        return self._times_s

    def load(self, saved: Any) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        if isinstance(saved, list) and all(isinstance(each, (int, float)) for each in saved):
            self._times_s = [float(each) for each in saved[-TIMES:]]
