"""How long tests wait for what has to come, and the one way in which they wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""Enough beside two loops that keep the processors busy. A longer limit is named in place."""


def wait_for(
    seen: Callable[[], T],
    what: str,
    timeout_s: float = PATIENCE_S,
    log: Callable[[], str] = str,
) -> T:
    """Look until `seen` gives something true, and return it; less often the longer it takes.

    TimeoutError after `timeout_s`: it names `what` was waited for, and ends with what `log` says.
    """
    end_s, pause_s = time.monotonic() + timeout_s, 0.005
    while not (found := seen()):
        if time.monotonic() > end_s:
            raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}\n{log()}".rstrip())
        time.sleep(pause_s)
        pause_s = min(0.05, 1.2 * pause_s)
    return found
