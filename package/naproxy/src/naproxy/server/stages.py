"""Where the seconds of a wake went: pure, marks with their times in, stages out.

A stage ends with its mark and begins with the mark before it, the first one with the call. Marks
that cannot be seen are left out, and their time belongs to the next stage.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from naproxy.server.seeing import Sign

POWER: Final = "power"
"""The meter's first reading above the sleeping level."""
LINK: Final = "link"
"""The box's own port has a link again: only on a cable from the box to the server."""
NETWORK: Final = "network"
"""The first ping, refused connection or open port."""
PORT: Final = "port"
"""The web port takes a connection."""
ANSWER: Final = "answer"
"""The readiness probe gets its answer: the server is awake."""

NAMES: Final = (POWER, LINK, NETWORK, PORT, ANSWER)
"""All stages, in their order."""

_RISE: Final = 0.1
"""Share of the way from the sleeping level to that of awake: below, it is noise."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a wake."""

    name: str
    took_s: float

    def plain(self) -> dict[str, Any]:
        """Return it as JSON types; `load` takes them back."""
        return {"stage": self.name, "took_s": self.took_s}


def plain(stages: Iterable[Stage]) -> list[dict[str, Any]]:
    """Return stages as JSON types."""
    return [stage.plain() for stage in stages]


class Waking:
    """One wake under way, called at `called_s`; the times of all marks are by the same clock."""

    def __init__(
        self, called_s: float, *, on_w: float = math.nan, asleep_w: float | None = None
    ) -> None:
        """`asleep_w` is its power before the call; None: no meter is quick enough."""
        self.called_s = called_s
        self._marks: dict[str, float] = {}
        self._risen_w = math.inf
        if asleep_w is not None and asleep_w < on_w / 2:
            self._risen_w = asleep_w + _RISE * (on_w - asleep_w)
        self._link_up: bool | None = None

    def drew(self, now_s: float, power_w: float) -> None:
        """Take a reading of the meter."""
        if power_w >= self._risen_w:
            self._mark(POWER, now_s)

    def saw_link(self, now_s: float, *, up: bool) -> None:
        """Take whether the box's own port has a link."""
        if up and self._link_up is False:
            # A link may come up, drop while the speed is negotiated, and come up again.
            self._marks[LINK] = now_s
        self._link_up = up

    def pinged(self, now_s: float) -> None:
        """A ping was answered."""
        self._mark(NETWORK, now_s)

    def probed(self, now_s: float, sign: Sign) -> None:
        """A readiness probe ended; its proper answer is the end of the last stage."""
        if sign in (Sign.REFUSING, Sign.UNFIT):
            self._mark(NETWORK, now_s)

    def connected(self, now_s: float) -> None:
        """The web port took a connection."""
        self._mark(NETWORK, now_s)
        self._mark(PORT, now_s)

    def _mark(self, name: str, now_s: float) -> None:
        self._marks.setdefault(name, now_s)

    def up(self, now_s: float) -> tuple[Stage, ...]:
        """Return the stages of a server that gave a proper answer now."""
        marks = {**self._marks, ANSWER: now_s}
        seen: list[tuple[str, float]] = []
        next_s = math.inf
        for name in reversed(NAMES):
            # A mark after the next one was seen too late to tell anything.
            if name in marks and self.called_s <= marks[name] <= next_s:
                next_s = marks[name]
                seen.append((name, next_s))
        stages, before_s = [], self.called_s
        for name, at_s in reversed(seen):
            stages.append(Stage(name, round(at_s - before_s, 3)))
            before_s = at_s
        return tuple(stages)


def load(kept: Any) -> tuple[Stage, ...]:
    """Return stages that were kept as plain types or as their JSON; none if it is neither."""
    if isinstance(kept, str):
        try:
            kept = json.loads(kept)
        except (ValueError, RecursionError):
            return ()
    if not isinstance(kept, list):
        return ()
    found = []
    for each in kept:
        match each:
            case {"stage": str(name), "took_s": int() | float() as took_s} if (
                name in NAMES and 0 <= took_s < math.inf
            ):
                found.append(Stage(name, float(took_s)))
            case _:
                return ()
    return tuple(found)


def typical(wakes: Iterable[Sequence[Stage]]) -> tuple[Stage, ...]:
    """Return the median of each stage; one that a wake lacks counts for the next stage."""
    known = [wake for wake in wakes if wake]
    if not known:
        return ()
    common = set.intersection(*({stage.name for stage in wake} for wake in known))
    merged = [_merged(wake, common) for wake in known]
    return tuple(
        Stage(name, round(statistics.median(wake[name] for wake in merged), 3))
        for name in NAMES
        if name in common
    )


def _merged(wake: Sequence[Stage], common: set[str]) -> dict[str, float]:
    found, before_s = {}, 0.0
    for stage in wake:
        before_s += stage.took_s
        if stage.name in common:
            found[stage.name] = before_s
            before_s = 0.0
    return found
