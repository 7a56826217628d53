"""The office's choices of waits, as a promise's `fraction` and `delta_s`. Pure.

Both are chosen together: a choice is a fraction, and the length of a wait that counts follows from
the server's time to wake.
"""

from __future__ import annotations

from typing import Final

FRACTIONS: Final = {"hardly": 0.01, "few": 0.05, "first": 0.10}
"""At most this share of people's requests waits, from the choice with fewest waits on."""
DEFAULT: Final = "few"

NOTICED_S: Final = 1.0
"""Longer interrupts what somebody is thinking (R. B. Miller, 1968; J. Nielsen, 1993)."""
SPREAD: Final = 1.2
"""A slow wake takes this much longer than the mean."""
LONGEST_DELTA_S: Final = 1.5


def delta_s(wake_s: float) -> float:
    """Return the shortest wait that counts, for a server that wakes in `wake_s`.

    One second. If the server takes about that, it is the time of a slow wake. Otherwise half of
    its wakes would count, for a difference that no visitor notices.
    """
    slow_s = round(SPREAD * wake_s, 1)
    return slow_s if NOTICED_S < slow_s <= LONGEST_DELTA_S else NOTICED_S


def choice_of(fraction: float) -> str | None:
    """Return the choice for a promise's fraction; None for any other fraction."""
    return next((name for name, each in FRACTIONS.items() if abs(each - fraction) < 1e-9), None)
