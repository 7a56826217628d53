"""Which choice of who may wait is better than the one of now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MORE: Final = 0.10
"""Of the energy of a server that is always on: with so much more saved, more waits are worth it."""
ALIKE: Final = 0.01
"""A choice that saves no more than this less saves about as much,"""
FEWER: Final = 0.75
"""and is better if it has at most this share of the waits."""


def better(cards: Sequence[Mapping[str, Any]], now: str) -> str | None:
    """Return the better choice's name, None if there is none; `cards` are as their API says them.

    A better one saves about as much with fewer waits; or pays, as now does not; or saves much more.
    Of several it is the one with the fewest waits. The cards have the fewest waits first.
    """
    names = [each["name"] for each in cards]
    if now not in names:
        return None
    at = names.index(now)
    mine = cards[at]
    for each in cards[:at]:
        fewer = each["waits_a_day"] <= FEWER * mine["waits_a_day"]
        if each["pays"] and fewer and each["saving_net"] >= mine["saving_net"] - ALIKE:
            return str(each["name"])
    for each in cards[at + 1 :]:
        much = each["saving_net"] >= mine["saving_net"] + MORE
        if each["pays"] and (much or not mine["pays"]):
            return str(each["name"])
    return None
