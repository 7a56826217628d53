"""The four algorithms as state machines: readings in, channels out. Pure, time is an argument."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from naproxy.core.reason import WrongError
from naproxy.lab.transfer.parts import (
    Channels,
    Left,
    Link,
    by_weight,
    in_turn,
    least_energy,
    small_first,
)

PROBE_S: Final = 5.0
_STEP: Final = 4
"""EE tries 1 channel, 5, 9 and so on."""
_NEVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes moved and joules used until a moment."""

    t_s: float
    bytes: int
    joules: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second and joules between two readings."""

    bytes_s: float
    joules: float
    bytes_j: float
    """Bytes for each joule: throughput over energy, of probes that last equally long."""


def between(first: Reading, last: Reading) -> Rate:
    """Return the throughput, the energy, and their ratio."""
    length_s = max(1e-9, last.t_s - first.t_s)
    moved, joules = last.bytes - first.bytes, max(1e-9, last.joules - first.joules)
    return Rate(moved / length_s, joules, moved / joules)


class Algorithm(Protocol):
    """One transfer's. `due_s` is when it wants a reading: infinity for never again."""

    due_s: float

    def begin(self, now: Reading) -> None:
        """Hear that it begins."""

    def read(self, now: Reading) -> None:
        """Take the reading that was due."""

    def channels(self, left: Left) -> Channels:
        """Return how many files of each group may be on their way now."""


class _Unread:
    """Base of an algorithm that needs no readings."""

    due_s = _NEVER

    def begin(self, now: Reading) -> None:
        """Nothing changes."""

    def read(self, now: Reading) -> None:
        """Nothing changes."""


class MinE(_Unread):
    """Algorithm 1, minimum energy: nothing is probed."""

    def __init__(self, link: Link, most: int) -> None:
        self._link, self._most = link, most

    def channels(self, left: Left) -> Channels:
        """Most for the small ones."""
        return least_energy(left, self._link, self._most)


class MaxThr(_Unread):
    """Algorithm 2, maximum throughput: channels of a group that is done go to the others."""

    def __init__(self, most: int) -> None:
        self._most = most

    def channels(self, left: Left) -> Channels:
        """By turns: large, medium, small."""
        return in_turn(left, self._most)


class EE:
    """Algorithm 3, maximum energy efficiency: tries 1, 5, 9... channels, keeps the best ratio."""

    def __init__(self, most: int, probe_s: float = PROBE_S) -> None:
        self._probe_s = probe_s
        self._levels = list(range(1, most + 1, _STEP))
        self._ratios: list[float] = []
        self._channels = self._levels[0]
        self._last = Reading(0.0, 0, 0.0)
        self.due_s = _NEVER

    def begin(self, now: Reading) -> None:
        """Begin with one channel; where there is but one level, nothing is to be tried."""
        self._last = now
        self.due_s = now.t_s + self._probe_s if len(self._levels) > 1 else _NEVER

    def read(self, now: Reading) -> None:
        """Rate a level, and go on to the next one, or to the best."""
        self._ratios.append(between(self._last, now).bytes_j)
        self._last = now
        if len(self._ratios) < len(self._levels):
            self._channels = self._levels[len(self._ratios)]
            self.due_s = now.t_s + self._probe_s
        else:
            self._channels = self._levels[self._ratios.index(max(self._ratios))]
            self.due_s = _NEVER

    def channels(self, left: Left) -> Channels:
        """By the groups' weights."""
        return by_weight(left, self._channels)


class Fixed(_Unread):
    """EE without its search, with a level that is given: brute force tries them all."""

    def __init__(self, channels: int) -> None:
        self._channels = channels

    def channels(self, left: Left) -> Channels:
        """By the groups' weights."""
        return by_weight(left, self._channels)


class FlexibleThr:
    """Algorithm 4, a share of the highest throughput: as few channels as reach it.

    Where nobody says what the highest is, the first probe finds it, with all channels as MaxThr
    has them.
    """

    def __init__(
        self,
        share: float,
        link: Link,
        most: int,
        probe_s: float = PROBE_S,
        top_bytes_s: float | None = None,
    ) -> None:
        self._share, self._link, self._most, self._probe_s = share, link, most, probe_s
        self._target_bytes_s = None if top_bytes_s is None else share * top_bytes_s
        self._estimated = False
        self._channels = 1
        self._last = Reading(0.0, 0, 0.0)
        self.due_s = _NEVER

    def begin(self, now: Reading) -> None:
        """Begin with one channel, or with all to find out what the highest is."""
        self._last = now
        self.due_s = now.t_s + self._probe_s

    def read(self, now: Reading) -> None:
        """Compare with the target; more channels if it is not reached, never fewer."""
        rate = between(self._last, now)
        self._last = now
        self.due_s = now.t_s + self._probe_s
        if self._target_bytes_s is None:
            self._target_bytes_s = self._share * rate.bytes_s
        elif rate.bytes_s <= self._target_bytes_s:
            if self._estimated:
                wanted = self._channels + 1
            else:
                ratio = self._target_bytes_s / rate.bytes_s if rate.bytes_s else self._most
                wanted = math.ceil(min(ratio, self._most))
            self._estimated = True
            self._channels = min(self._most, max(self._channels, wanted))

    def channels(self, left: Left) -> Channels:
        """Small ones first."""
        if self._target_bytes_s is None:
            return in_turn(left, self._most)
        return small_first(left, self._link, self._channels)


@dataclass(frozen=True, slots=True)
class Sla:
    """The agreed algorithm, and FlexibleThr's share."""

    name: str
    share: float = 1.0

    def make(
        self, link: Link, most: int, *, probe_s: float = PROBE_S, top_bytes_s: float | None = None
    ) -> Algorithm:
        """Return its algorithm, with at most so many channels."""
        match self.name:
            case "mine":
                return MinE(link, most)
            case "maxthr":
                return MaxThr(most)
            case "ee":
                return EE(most, probe_s)
            case "fixed":
                return Fixed(most)
            case _:
                return FlexibleThr(self.share, link, most, probe_s, top_bytes_s)


NAMES: Final[Sequence[str]] = ("mine", "maxthr", "ee", "flexible:SHARE")
_FLEXIBLE: Final = re.compile(r"flexible:(1|0?\.[0-9]{1,4})")


def parse(text: str) -> Sla:
    """Read mine, maxthr, ee or flexible:0.8; WrongError for any other text."""
    if text in NAMES[:3]:
        return Sla(text)
    found = _FLEXIBLE.fullmatch(text)
    if not found or float(found[1]) <= 0:
        raise WrongError("transfer.sla", sla=text, known=list(NAMES))
    return Sla("flexible", float(found[1]))
