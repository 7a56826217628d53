"""The contract of a policy: a plain object that gets one event at a time.

The live controller, the log estimator and the tests use the same objects. A policy
knows no clock and has no effects: times are arguments and never decrease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from naproxy.core.reason import Reason
from naproxy.core.state import Klass, State


@dataclass(slots=True)
class Request:
    """One request that reached the proxy; callees must not change it.

    Not `frozen`, which makes it seven times as slow to make: the estimator makes millions.

    `t_s` is continuous epoch seconds: it follows the monotonic clock and never steps.
    """

    t_s: float
    client: int
    klass: Klass
    needs_server: bool
    page_load: bool
    path: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """May the server sleep now, and why; `check_at_s` is when the answer may change by itself.

    `patient`: it may not only because somebody asked lately.
    """

    sleep: bool
    reason: Reason
    check_at_s: float | None = None
    wake: bool = False
    patient: bool = False


class Policy(Protocol):
    """Decides when a server may sleep, and (rarely) when it should be woken ahead of need.

    A policy without a state worth keeping over a restart inherits `dump` and `load`.
    """

    name: str

    def request(self, request: Request) -> None:
        """Learn of one request, in the order of their times."""

    def counts(self, request: Request) -> bool:
        """Is this request a reason to stay awake for a while?"""
        return request.needs_server and not request.klass.robot

    def forget(self, since_s: float) -> None:
        """Stop waiting for the clients that asked, or woke the server, after `since_s`.

        They are over their share. The lessons from their requests stay.
        """

    def observed(self, t_s: float, state: State) -> None:
        """Learn that the server was seen to enter `state`."""

    def spent(self) -> float:
        """Return the share of the waits that it may cost today which it has cost; at most 1.

        0 where nothing limits them.
        """
        return 0.0

    def decide(self, t_s: float) -> Decision:
        """Answer for now; asked after each request and at `check_at_s`."""

    def dump(self) -> dict[str, Any]:
        """State to keep over a restart, as JSON types."""
        return {}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `dump`; ignore values that do not fit."""
        return
