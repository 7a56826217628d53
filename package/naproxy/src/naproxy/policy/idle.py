"""The common part of policies with a fixed idle time: the time since the last need."""

from __future__ import annotations

from naproxy.core.state import State
from naproxy.policy.base import Policy, Request


class IdlePolicy(Policy):
    """Knows when somebody last needed the server; at first the first time that it heard of."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._last_s: float | None = None

    def request(self, request: Request) -> None:
        """Learn of one request."""
        if self.counts(request):
            self._last_s = request.t_s

    def forget(self, since_s: float) -> None:
        """Wait as if nobody had asked after that."""
        self._last_s = since_s if self._last_s is None else min(self._last_s, since_s)

    def observed(self, t_s: float, state: State) -> None:
        """Being awake again is a reason to stay so for a while."""
        if state is State.AWAKE:
            self._last_s = t_s

    def needed_s(self, t_s: float) -> float:
        """Return when somebody last needed it, as of `t_s`."""
        if self._last_s is None:
            self._last_s = t_s
        return self._last_s
