"""Which hours people come in nearly every week, as times of the week. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WEEKS: Final = 4
LEAST_WEEKS: Final = 3
"""Fewer weeks show no habit."""
OFTEN: Final = 0.75
"""In so many of the weeks: one may have been a holiday."""
LEAST_REQUESTS: Final = 6
"""Of people in an hour, that need the server: one each ten minutes."""
LEAST_H: Final = 3
"""Consecutive hours: many visitors cause single busy hours by chance, outside office hours."""
MOST_H: Final = 120
"""With more of the 168 hours the server would hardly sleep."""

_DAY_H: Final = 24


def proposed(busy: Sequence[int], seen: Sequence[int]) -> list[list[list[int]]] | None:
    """Return each day's times as [begin, end] in minutes, from Monday on; None: over MOST_H.

    `busy`: for each hour of the week, the number of weeks with people; `seen`: the number watched.
    """
    usual = [
        weeks >= LEAST_WEEKS and times >= OFTEN * weeks
        for times, weeks in zip(busy, seen, strict=True)
    ]
    days = [usual[at : at + _DAY_H] for at in range(0, len(usual), _DAY_H)]
    for day in days:
        for hour in range(1, _DAY_H - 1):
            # They are not gone for lunch.
            day[hour] |= day[hour - 1] and day[hour + 1]
    if sum(map(sum, days)) > MOST_H:
        return None
    return [[each for each in _stretches(day) if each[1] - each[0] >= LEAST_H * 60] for day in days]


def _stretches(day: Sequence[bool]) -> list[list[int]]:
    found: list[list[int]] = []
    for hour in (hour for hour, on in enumerate(day) if on):
        if found and found[-1][1] == hour * 60:
            found[-1][1] += 60
        else:
            found.append([hour * 60, hour * 60 + 60])
    return found
