"""The thesis' power-off rule: equation 4.6, the delay budget and the debounce."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason, together
from naproxy.core.schema import fixed, option
from naproxy.core.state import State
from naproxy.policy import Setup
from naproxy.policy.base import Decision, Policy, Request

WINDOW: Final = 10
"""Requests that the expected gap is taken over (thesis, equation 4.6)."""

THRESHOLD_S: Final = 5.0
"""Length of the gap for which the rule estimates the requests to come."""

BUDGET_HOURS: Final = 24
"""Hours over which delays count."""

_HOUR_S: Final = 3600.0
_JUST_AFTER_S: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The thesis' numbers."""

    name: str = option("thesis: the rule of the thesis", "thesis")
    min_awake_s: float = option(
        "Stay awake at least this long after waking", 60.0, low=0, high=86400
    )
    min_idle_s: float = fixed(5.0)
    """It stays awake at least this long after a request."""
    fraction: float = option("Share of requests that may be delayed", 0.10, low=0, high=1)
    delta_s: float = fixed(0.05)
    """A request that waits longer than this is delayed."""


@dataclass(slots=True)
class _Hour:
    """Requests that were not robots', and of these the delayed, within one hour."""

    number: int
    total: int = 0
    delayed: int = 0


class Thesis(Policy):
    """Sleep when the gap expected is worth it and the delays so far leave room for more.

    Robots' requests do not count. Only requests that needed the server (misses
    and uncacheable ones) make gaps; all of people's requests count for the budget.
    """

    name = "thesis"

    def __init__(self, settings: Settings, break_even_s: float) -> None:
        """`break_even_s`: the gap whose saving pays for one switch, E_switch/(P_on - P_off)."""
        self.settings = settings
        self.break_even_s = break_even_s
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._hours: deque[_Hour] = deque()
        self._awake_s: float | None = None

    def request(self, request: Request) -> None:
        """Learn of one request."""
        if request.klass.robot:
            return
        hour = int(request.t_s // _HOUR_S)
        if not self._hours or self._hours[-1].number < hour:
            self._hours.append(_Hour(hour))
        self._forget(request.t_s)
        self._hours[-1].total += 1
        self._hours[-1].delayed += request.delay_s > self.settings.delta_s
        if request.needs_server:
            self._window.append(request.t_s)

    def observed(self, t_s: float, state: State) -> None:
        """Learn of a transition; the debounce starts when the server is seen awake."""
        if state is State.AWAKE:
            self._awake_s = t_s

    def forget(self, since_s: float) -> None:
        """Take what was asked after that out of the window, and a wake out of the debounce."""
        while self._window and self._window[-1] > since_s:
            self._window.pop()
        if self._awake_s is not None:
            self._awake_s = min(self._awake_s, since_s)

    def expected_gap_s(self, t_s: float) -> float:
        """Return E[T] (thesis, equation 4.6): mean gap over the window, with the open gap.

        Without the open gap a burst would keep the server awake until the next request,
        however long that takes. Infinite while no request needed the server.
        """
        return (t_s - self._window[0]) / len(self._window) if self._window else math.inf

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        self._forget(t_s)
        settings = self.settings
        if self._awake_s is not None and t_s - self._awake_s < settings.min_awake_s:
            awake_s, least_s = round(t_s - self._awake_s), settings.min_awake_s
            reason = Reason("policy.awake_of", awake_s=awake_s, least_s=least_s)
            at_s = self._awake_s + least_s
            return Decision(False, self._with_budget(reason), at_s, patient=True)
        idle_s = t_s - self._window[-1] if self._window else math.inf
        if idle_s < settings.min_idle_s:
            least_s = settings.min_idle_s
            reason = Reason("policy.idle_of", idle_s=round(idle_s), least_s=least_s)
            at_s = self._window[-1] + least_s
            return Decision(False, self._with_budget(reason), at_s, patient=True)
        gap_s = self.expected_gap_s(t_s)
        if gap_s <= self.break_even_s:
            pays_s = round(self.break_even_s, 1)
            reason = Reason("policy.too_busy", gap_s=round(gap_s, 1), pays_s=pays_s)
            at_s = self._when_gap_is(self.break_even_s)
            return Decision(False, self._with_budget(reason), at_s, patient=True)
        if not self._fits(THRESHOLD_S / gap_s):
            reason = Reason("policy.too_many", gap_s=round(gap_s, 1))
            at_s, patient = self._when_it_fits(t_s), bool(self._window) and self._room() > 0
            return Decision(False, self._with_budget(reason), at_s, patient=patient)
        reason = Reason("policy.nobody_yet")
        if self._window:
            reason = Reason("policy.idle", idle_s=round(idle_s))
        return Decision(True, self._with_budget(reason))

    def _counts(self) -> tuple[int, int]:
        return sum(h.total for h in self._hours), sum(h.delayed for h in self._hours)

    def _fits(self, coming: float) -> bool:
        """D + K <= f (T + K), K requests expected within one threshold (thesis, section 4.5.3.2).

        With nobody there for a whole day there is no share to keep.
        """
        total, delayed = self._counts()
        if total == 0 and self.settings.fraction > 0:
            return True
        return delayed + coming <= self.settings.fraction * (total + coming)

    def _room(self) -> float:
        """Return how many more may be delayed by the requests so far."""
        total, delayed = self._counts()
        return self.settings.fraction * total - delayed

    def _when_gap_is(self, gap_s: float) -> float:
        return self._window[0] + gap_s * len(self._window) + _JUST_AFTER_S

    def _when_it_fits(self, t_s: float) -> float:
        """Return when the budget may fit by waiting: K falls as the open gap grows."""
        room = self._room()
        next_hour_s = (t_s // _HOUR_S + 1) * _HOUR_S
        if room <= 0 or not self._window:
            return next_hour_s
        most = room / (1 - self.settings.fraction)
        return min(next_hour_s, self._when_gap_is(THRESHOLD_S / most))

    def _forget(self, t_s: float) -> None:
        oldest = int(t_s // _HOUR_S) - BUDGET_HOURS
        while self._hours and self._hours[0].number <= oldest:
            self._hours.popleft()

    def _with_budget(self, first: Reason) -> Reason:
        total, delayed = self._counts()
        allowed = math.floor(self.settings.fraction * total)
        return together(first, Reason("policy.budget", used=delayed, allowed=allowed))

    def dump(self) -> dict[str, Any]:
        """Return what to keep over a restart."""
        return {
            "window_s": list(self._window),
            "hours": [[h.number, h.total, h.delayed] for h in self._hours],
            "awake_s": self._awake_s,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `dump`; ignore values that do not fit."""
        try:
            window = [float(t) for t in saved["window_s"]]
            hours = [_Hour(int(n), int(t), int(d)) for n, t, d in saved["hours"]]
            awake_s = None if saved["awake_s"] is None else float(saved["awake_s"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return
        if not all(map(math.isfinite, [*window, awake_s or 0.0])):
            return
        self._window = deque(sorted(window), maxlen=WINDOW)
        self._hours = deque(sorted(hours, key=lambda h: h.number))
        self._awake_s = awake_s


def make(settings: Settings, setup: Setup) -> Thesis:
    """Make the policy."""
    return Thesis(settings, setup.break_even_s)
