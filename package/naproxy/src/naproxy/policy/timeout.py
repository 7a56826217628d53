"""Sleep after a fixed time without need, as most tools do, theirs and ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from naproxy.core.reason import Reason
from naproxy.core.schema import fixed, option
from naproxy.policy import Setup
from naproxy.policy.base import Decision, Request
from naproxy.policy.idle import IdlePolicy


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long, and how often it is looked at."""

    name: str = option("timeout: sleep after a fixed idle time", "timeout")
    idle_s: float = option("Idle time after which it sleeps", 300.0, low=1, high=86400)
    tick_s: float = fixed(0.0)
    """Time between looks, for the lab's tools that poll; 0: it reacts at once."""
    robots: bool = fixed(False)
    """Robots' requests count too, as with those tools."""


class Timeout(IdlePolicy):
    """Sleep when no request needed the server for `idle_s`, seen at multiples of `tick_s`."""

    name = "timeout"

    def __init__(self, settings: Settings) -> None:
        """Start idle at the first time heard of."""
        super().__init__()
        self.settings = settings
        self.quiet_s = settings.idle_s

    def counts(self, request: Request) -> bool:
        """Is it a reason to stay awake?"""
        return request.needs_server and (self.settings.robots or not request.klass.robot)

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        last_s, tick_s = self.needed_s(t_s), self.settings.tick_s
        idle_s = t_s - last_s
        reason = Reason("policy.idle_of", idle_s=round(idle_s), least_s=self.settings.idle_s)
        at_s = last_s + self.settings.idle_s
        if tick_s:
            at_s = math.ceil(at_s / tick_s) * tick_s
        if t_s >= at_s:
            return Decision(True, reason)
        return Decision(False, reason, at_s, patient=True)


def make(settings: Settings, setup: Setup) -> Timeout:
    """Make the policy."""
    return Timeout(settings)
