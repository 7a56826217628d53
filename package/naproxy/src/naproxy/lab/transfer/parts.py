"""Files in groups, and the equations of algorithms 1 to 4 for each group. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

_SMALL: Final = 0.1
"""Of the bandwidth-delay product; in the paper's networks that parts its pages from its pictures,
and the product itself its pictures from its films."""


class Group(StrEnum):
    """Files of about one size."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


ALL: Final = tuple(Group)

Channels = Mapping[Group, int]
"""How many files of each group are on their way at a time: never more than it has left. A group
that waits has none."""


@dataclass(frozen=True, slots=True)
class Link:
    """The path to the server, and the size of one connection's buffer."""

    bandwidth_bytes_s: float
    rtt_s: float
    buffer_bytes: int

    @property
    def bdp_bytes(self) -> float:
        """The bandwidth-delay product: the bytes in flight when the link is full."""
        return self.bandwidth_bytes_s * self.rtt_s


@dataclass(frozen=True, slots=True)
class Load:
    """The rest of a group."""

    files: int
    bytes: int

    @property
    def average_bytes(self) -> float:
        """The average size; 1 where all are empty, so that it can be divided by."""
        return max(1.0, self.bytes / self.files) if self.files else 1.0


Left = Mapping[Group, Load]
"""The rest of each group; a finished one may be missing, or have no files."""


def group_of(size_bytes: int | None, bdp_bytes: float) -> Group:
    """Return a file's group. One whose size nobody knows is small: most are, and none is split."""
    if size_bytes is None or size_bytes < _SMALL * bdp_bytes:
        return Group.SMALL
    return Group.MEDIUM if size_bytes < bdp_bytes else Group.LARGE


def loads(sizes_bytes: Iterable[tuple[Group, int | None]]) -> dict[Group, Load]:
    """Return what each group has."""
    found = dict.fromkeys(ALL, Load(0, 0))
    for group, size in sizes_bytes:
        found[group] = Load(found[group].files + 1, found[group].bytes + (size or 0))
    return found


def pipelining(load: Load, link: Link) -> int:
    """Return the requests of a channel that may be on their way at a time: ceil(BDP / average)."""
    return max(1, math.ceil(link.bdp_bytes / load.average_bytes))


def parallelism(load: Load, link: Link) -> int:
    """Return the parts that a file is fetched in at a time.

    min(ceil(BDP / buffer), ceil(average / buffer)): so many buffers fill the link, or hold a file.
    """
    fill = math.ceil(link.bdp_bytes / link.buffer_bytes)
    return max(1, min(fill, math.ceil(load.average_bytes / link.buffer_bytes)))


def least_energy(left: Left, link: Link, most: int) -> dict[Group, int]:
    """Algorithm 1: most channels for the small files, as few as possible for the large.

    The paper's loop gives a group ceil(BDP / average) channels, but not more than half of those
    left, rounded up; with few channels that can be one more than there are. Here the group waits
    then, until another is done.
    """
    found = dict.fromkeys(ALL, 0)
    for group in ALL:
        load = left.get(group)
        if load and load.files:
            wanted = math.ceil(link.bdp_bytes / load.average_bytes)
            found[group] = min(max(1, wanted), math.ceil((most + 1) / 2), most, load.files)
            most -= found[group]
    return found


def in_turn(left: Left, most: int) -> dict[Group, int]:
    """Algorithm 2: channels by turns, in the order large, medium, small."""
    found = dict.fromkeys(ALL, 0)
    while spare := most - sum(found.values()):
        open_ = [g for g in reversed(ALL) if g in left and found[g] < left[g].files]
        if not open_:
            break
        for group in open_[:spare]:
            found[group] += 1
    return found


def by_weight(left: Left, most: int) -> dict[Group, int]:
    """Algorithm 3's proportions: by a group's share of the bytes and of the files, half each.

    Each group has a channel while there are enough.
    """
    there = [group for group in ALL if group in left and left[group].files]
    files = sum(left[group].files for group in there)
    size = sum(left[group].bytes for group in there)
    weights = {
        group: left[group].files / files + (left[group].bytes / size if size else 0.0)
        for group in there
    }
    found = dict.fromkeys(ALL, 0)
    for _ in range(most):
        open_ = [group for group in there if found[group] < left[group].files]
        if not open_:
            break
        # Sainte-Laguë's method: the group with the largest weight per channel gets the next one.
        best = max(open_, key=lambda g: (found[g] == 0, weights[g] / (2 * found[g] + 1)))
        found[best] += 1
    return found


def small_first(left: Left, link: Link, channels: int) -> dict[Group, int]:
    """Algorithm 4's: as `least_energy`; the remaining channels go to the small files first."""
    found = least_energy(left, link, channels)
    spare = channels - sum(found.values())
    for group in ALL:
        load = left.get(group, Load(0, 0))
        more = max(0, min(spare, load.files - found[group]))
        found[group] += more
        spare -= more
    return found


def ranges(size_bytes: int, parts: int) -> Sequence[tuple[int, int]]:
    """Cut a file into so many parts of about one size: the first and the last byte of each."""
    parts = max(1, min(parts, size_bytes))
    edges = [size_bytes * n // parts for n in range(parts + 1)]
    return [(a, b - 1) for a, b in pairwise(edges)]
