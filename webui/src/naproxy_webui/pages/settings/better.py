"""Finds a better choice of the visitors who may wait than the current one. Pure."""

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
    """Return the name of the better choice, or None; `cards` are as in their API.

    A better choice saves about as much with fewer waits, or saves at all if the current one does
    not, or saves much more. If there are several, take the one with the fewest waits. The cards
    are sorted by waits, fewest first.
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
