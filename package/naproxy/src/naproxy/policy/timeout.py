"""Sleep after a fixed time without need, as most tools do, theirs and ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from naproxy.core.reason import Reason
from naproxy.core.schema import option
from naproxy.core.state import State
from naproxy.policy import Setup
from naproxy.policy.base import Decision, Policy, Request


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long, and how often it is looked at."""

    name: str = option("timeout: sleep after a fixed idle time", "timeout")
    idle_s: float = option("Idle time after which it sleeps", 300.0, low=1, high=86400)
    tick_s: float = option(
        "Time between looks, as with tools that poll; 0: react at once", 0.0, low=0, high=3600
    )
    robots: bool = option("Robots' requests count too", False)


class Timeout(Policy):
    """Sleep when no request needed the server for `idle_s`, seen at multiples of `tick_s`."""

    name = "timeout"

    def __init__(self, settings: Settings) -> None:
        """Start idle at the first time heard of."""
        self.settings = settings
        self.quiet_s = settings.idle_s
        self._last_s: float | None = None

    def request(self, request: Request) -> None:
        """Learn of one request."""
        if self.counts(request):
            self._last_s = request.t_s

    def counts(self, request: Request) -> bool:
        """Is it a reason to stay awake?"""
        return request.needs_server and (self.settings.robots or not request.klass.robot)

    def forget(self, since_s: float) -> None:
        """Wait as if nobody had asked after that."""
        self._last_s = since_s if self._last_s is None else min(self._last_s, since_s)

    def observed(self, t_s: float, state: State) -> None:
        """Being awake again is a reason to stay so for a while."""
        if state is State.AWAKE:
            self._last_s = t_s

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        if self._last_s is None:
            self._last_s = t_s
        idle_s, tick_s = t_s - self._last_s, self.settings.tick_s
        reason = Reason("policy.idle_of", idle_s=round(idle_s), least_s=self.settings.idle_s)
        at_s = self._last_s + self.settings.idle_s
        if tick_s:
            at_s = math.ceil(at_s / tick_s) * tick_s
        if t_s >= at_s:
            return Decision(True, reason)
        return Decision(False, reason, at_s, patient=True)


def make(settings: Settings, setup: Setup) -> Timeout:
    """Make the policy."""
    return Timeout(settings)
