"""Decides whether the started system works, and the next step in either case: pure.

It works when everything was in order for 10 s in a row. If that is not so after 300 s, a system
that was never confirmed gives way to the other one, if that one may be better; the boot loader
learns that this one is bad. A confirmed system stays in any case: the update is not the cause
then, and a box that restarts again and again serves no visitor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.update.rauc import Slots

_LOG: Final = logging.getLogger(__name__)
SURE_S: Final = 10.0
LIMIT_S: Final = 300.0
_LOOK_S: Final = 1.0
_LATE_LOOK_S: Final = 10.0


class UnhealthyError(WrongError):
    """The faults found."""


Check = Callable[[], None]
"""Looks at one thing; UnhealthyError if it is not in order."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The known facts about the two systems."""

    running: str
    """The one that runs, A or B; empty if that is not known."""
    slots: Slots | None
    """RAUC's report; None if it does not answer."""
    confirmed: tuple[str, str] | None
    """The slot that was confirmed last, and when it was installed; None if none was."""


def way_back(seen: Seen) -> Reason | None:
    """Return why this system must stay; None if the other is to be tried."""
    if seen.slots is None:
        return _way_back_without_rauc(seen)
    booted, other = seen.slots.booted(), seen.slots.other()
    if booted and seen.confirmed == (booted.name, booted.installed):
        return Reason("update.confirmed_before")
    if other is None or not other.good:
        return Reason("update.other_is_bad")
    return None


def _way_back_without_rauc(seen: Seen) -> Reason | None:
    """RAUC itself may be what does not work. Only what was confirmed once is a way back."""
    if seen.confirmed is None:
        return Reason("update.no_other_confirmed")
    if not seen.running:
        return Reason("update.running_unknown")
    if seen.confirmed[0] == seen.running:
        return Reason("update.confirmed_before")
    return None


class Watch:
    """How long it has been in order: time and findings are arguments."""

    def __init__(self, began_s: float) -> None:
        """`began_s` is when it was first looked at."""
        self._began_s = began_s
        self._well_since_s: float | None = None

    def judge(self, t_s: float, problem: Reason | None) -> Literal["wait", "works", "late"]:
        """Return what to do now that this was found."""
        if problem is None:
            if self._well_since_s is None:
                self._well_since_s = t_s
            return "works" if t_s - self._well_since_s >= SURE_S else "wait"
        self._well_since_s = None
        return "late" if t_s - self._began_s >= LIMIT_S else "wait"


def problem_of(checks: Sequence[Check]) -> Reason | None:
    """Return what is wrong first."""
    for check in checks:
        try:
            check()
        except UnhealthyError as error:
            return error.reason
        except Exception as error:  # any exception is a fault
            return own_words(repr(error))
    return None


class Box(Protocol):
    """Effects on the box."""

    def now_s(self) -> float:
        """Return a time that never steps."""

    def sleep(self, time_s: float) -> None:
        """Let time pass."""

    def seen(self) -> Seen:
        """Return what is known of the two systems."""

    def confirm(self) -> None:
        """Have this system stay; UnhealthyError if that could not be done."""

    def give_way(self) -> None:
        """Tell the boot loader that this system is bad, and restart the box."""


def watch(checks: Sequence[Check], does: Box) -> bool:
    """Look until this system was confirmed (True), or gave way to the other (False)."""
    watching, look_s, last = Watch(does.now_s()), _LOOK_S, None
    _LOG.info("is everything in order?")
    while True:
        problem = problem_of(checks)
        verdict = watching.judge(does.now_s(), problem)
        if verdict == "works":
            problem = _confirmed(does)
            if problem is None:
                return True
            verdict = watching.judge(does.now_s(), problem)
        if problem not in (last, None):
            _LOG.warning("not in order: %s", problem)
        last = problem
        if verdict == "late" and look_s == _LOOK_S:
            stay = way_back(does.seen())
            if stay is None:
                _LOG.error("the other system is started instead: %s", problem)
                does.give_way()
                return False
            _LOG.error("not in order for %.0f s, but this system stays: %s", LIMIT_S, stay)
            look_s = _LATE_LOOK_S
        does.sleep(look_s)


def _confirmed(does: Box) -> Reason | None:
    try:
        does.confirm()
    except UnhealthyError as error:
        return error.reason
    _LOG.info("everything is in order: this system stays")
    return None
