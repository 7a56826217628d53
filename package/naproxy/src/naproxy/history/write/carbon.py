"""The grid's carbon intensity, as the office's API says it: the mean of each hour of UTC."""

from __future__ import annotations

import sqlite3
from typing import Final

HOUR_S: Final = 3600
MOST_WAITING: Final = 720
"""Hours that wait for a disk that cannot be written; older ones are given up."""


class Carbon:
    """Gathers readings in memory, and adds them to their hours in a batch."""

    def __init__(self) -> None:
        """Nothing is gathered yet."""
        self._waiting: dict[int, tuple[int, float]] = {}

    def add(self, t_s: float, co2_g: float) -> None:
        """Take a reading, in grams a kilowatt-hour."""
        hour_s = int(t_s // HOUR_S) * HOUR_S
        readings, sum_g = self._waiting.get(hour_s, (0, 0.0))
        self._waiting[hour_s] = (readings + 1, sum_g + co2_g)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def write(self, db: sqlite3.Connection) -> None:
        """Add the gathered values to the stored ones; then call `written`."""
        for hour_s, (readings, sum_g) in self._waiting.items():
            db.execute(
                "INSERT INTO co2_hours (t_s, readings, mean_g) VALUES (?, ?, ?)"
                " ON CONFLICT (t_s) DO UPDATE SET"
                " mean_g = (readings * mean_g + excluded.readings * excluded.mean_g)"
                " / (readings + excluded.readings), readings = readings + excluded.readings",
                (hour_s, readings, sum_g / readings),
            )

    def written(self) -> None:
        """Forget what was written."""
        self._waiting = {}
