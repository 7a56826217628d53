"""The cache of a box inside a simulation: its content depends on when the server slept.

An entry is fetched at the first request while the server is awake, or is woken for it, and again
at a request after its time. Requests then end as the VCL decides:

    awake        a hit until `ttl_s` after the fetch; for `grace_s` more, too, while it is fetched
                 again; otherwise it needs the server
    not awake    a hit as long as that, and nothing is fetched; *held* entries, if they were
                 revalidated between the decision to sleep and the command; *kept* ones
                 (robots.txt, icons, sitemaps) always; otherwise the request wakes the server and
                 is fetched once it is up

After a wake, the entries that were served meanwhile are revalidated in the background. With `warm`,
the planner of naproxy.policy.warming revalidates between the decision to sleep and the command.

A log leaves some facts open. Here the server sends no headers, so everything is fresh for `TTL_S`,
or as long as a rule of the office says. There are no cookies. Files never change, so revalidating
one costs a 304; pages always change. Robots do not fill the cache here, though they do in the box
while the server is awake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from naproxy.lab.estimate.cachemodel import TTL_S, CacheModel
from naproxy.policy.warming import BOUNDS, Bounds, Warming

GRACE_S: Final = 10.0
"""Varnish's own grace, with all modes but aggressive."""
ROOM_BYTES: Final = 128 << 20
ANSWER_BYTES: Final = 500
"""Bytes of a 304, and of the headers before a body."""
FILE_S: Final = 0.002
"""Seconds to revalidate one unchanged file over open connections in an office's network."""
PAGE_S: Final = 0.05
"""The same for a page. The server generates it for that, several at a time."""
BYTES_PER_S: Final = 5e6

_REMEMBERED: Final = 200_000
_LARGEST: Final = 8 << 20
"""Larger responses are not cached."""
_KEPT: Final = re.compile(
    r"/(?:robots\.txt|favicon\.ico|[\w-]*sitemap[\w-]*\.(?:xml|xml\.gz|txt))", re.ASCII
)


class PathRule(NamedTuple):
    """A rule of the office for paths that begin so; see the configuration's `cache_rule`."""

    path: str
    keep_s: float = -1.0
    asleep: str = ""


class Keep(NamedTuple):
    """How answers to an address are kept."""

    ttl_s: float
    held: bool  # valid in a sleep, with every mode but default
    kept: bool = False
    static: bool = True  # a file, which seldom changes


HIT: Final = 0
NEEDS: Final = 1
AGAIN: Final = 2
"""It needs the server, but would not have if that had slept and the cache had been warm."""

NOT_KEPT: Final = 0
PAGE: Final = 1
FILE: Final = 2
_FOR_ALL: Final = 3
_PERMANENT: Final = (301, 308)  # redirects, frozen as files are
_MOST: Final = 256  # kinds, of which a record has the number


class Keeps:
    """The ways in which answers are kept, by the number that records have."""

    def __init__(self, rules: Iterable[PathRule] = ()) -> None:
        """Of a box with these rules; the first that says it counts, for each thing by itself."""
        self._ttls = [(r.path, r.keep_s) for r in rules if r.keep_s >= 0]
        self._asleep = [(r.path, r.asleep == "yes") for r in rules if r.asleep]
        self.all = [
            Keep(0.0, held=False),
            Keep(TTL_S, held=False, static=False),
            Keep(TTL_S, held=True),
            Keep(TTL_S, held=True, kept=True),
        ]
        self._numbers = {keep: number for number, keep in enumerate(self.all)}

    def of(self, bare: str, *, static: bool, status: int, size: int) -> int:
        """Return the number for the cacheable answer to an address without its query."""
        if size > _LARGEST:
            return NOT_KEPT
        static = static or status in _PERMANENT
        kept = _KEPT.fullmatch(bare) is not None
        if not self._ttls and not self._asleep:
            return _FOR_ALL if kept and static else FILE if static else PAGE
        keep = Keep(TTL_S, held=static, kept=kept, static=static)
        if status == 200:
            ttl_s = next((ttl for path, ttl in self._ttls if bare.startswith(path)), TTL_S)
            if ttl_s == 0:
                return NOT_KEPT
            keep = keep._replace(ttl_s=ttl_s)
        held = next((yes for path, yes in self._asleep if bare.startswith(path)), static)
        return self._number(keep._replace(held=held))

    def _number(self, keep: Keep) -> int:
        number = self._numbers.get(keep)
        if number is None:
            if len(self.all) >= _MOST:
                return NOT_KEPT
            number = self._numbers[keep] = len(self.all)
            self.all.append(keep)
        return number


PLAIN: Final = Keeps()
"""Of an office without rules."""


@dataclass(frozen=True, slots=True)
class BoxModel:
    """A box's cache: its mode, whether it warms, and the rules by which records were made."""

    name: str
    frozen: bool = False
    grace_s: float = GRACE_S
    warm: bool = False
    pages: bool = False  # held too, as with a rule for all of the site
    keeps: Keeps = field(default=PLAIN, compare=False)
    room_bytes: int = ROOM_BYTES
    bounds: Bounds = BOUNDS

    def holds(self, keep: Keep) -> bool:
        """Does what is kept so stay valid in a sleep, once the server was asked after it?"""
        return self.frozen and self.warm and (keep.held or self.pages)

    @property
    def bound(self) -> CacheModel:
        """Return a model that answers at least as much, whenever the server slept.

        An entry was fetched at most `TTL_S` later than with a server that is always awake.
        """
        usable = [
            math.inf if self.holds(keep) or keep.kept else self._usable_s(keep.ttl_s)
            for keep in self.keeps.all
        ]
        usable[NOT_KEPT] = -math.inf
        return CacheModel(f"bound of {self.name}", frozen=True, usable=tuple(usable))

    def _usable_s(self, ttl_s: float) -> float:
        return TTL_S + ttl_s + self.grace_s


def boxes(keeps: Keeps = PLAIN) -> dict[str, BoxModel]:
    """Return the modes that a box has, with these rules."""
    return {
        model.name: model
        for model in (
            BoxModel("box-default", keeps=keeps),
            BoxModel("box-frozen", frozen=True, warm=True, keeps=keeps),
            BoxModel("box-pages", frozen=True, warm=True, pages=True, keeps=keeps),
            BoxModel("box-aggressive", frozen=True, grace_s=3600.0, warm=True, keeps=keeps),
        )
    }


BOXES: Final = boxes()
BOX: Final = "box"
"""The box as it is set."""
NEW_BOX: Final = "box-frozen"
"""The settings that the guide leaves."""


def size_code(size: int) -> int:
    """Return a size in one byte, at most an eighth too small; `bytes_of` is the way back."""
    octave = max(1, size).bit_length() - 1
    return min(255, octave * 8 + ((max(1, size) << 3) >> octave) - 8)


def bytes_of(code: int) -> int:
    """Return the size that a code stands for."""
    return (1 << (code >> 3)) * (8 + (code & 7)) >> 3


class BoxCache:
    """The content of one simulated box's cache; it informs the planner, if there is one."""

    def __init__(self, model: BoxModel) -> None:
        self.planner = Warming() if model.warm else None
        self._frozen, self._grace_s = model.frozen, model.grace_s
        self._room = self._left = model.room_bytes
        keeps = model.keeps.all
        self._ttl_s = [keep.ttl_s for keep in keeps]
        self._held = [model.holds(keep) for keep in keeps]
        self._kept = [keep.kept for keep in keeps]
        self._static = [keep.static for keep in keeps]
        # Least recently used first, once the room has become scarce.
        self._fetched_s: dict[int, float] = {}
        self._what: dict[int, int] = {}  # keep, and code of the size
        self._served: set[int] = set()  # while not awake, to be validated
        self._awaited: dict[int, int] = {}  # to be fetched once the server is up

    def awake(self, t_s: float, path: int, what: int) -> int:
        """Say whether a request needs the server, which is awake: HIT, NEEDS or AGAIN.

        `what` is the address' keep, and the code of its size times 256.
        """
        keep = what & 255
        if keep == NOT_KEPT:
            return NEEDS
        fetched_s = self._fetched_s.get(path)
        if fetched_s is None:
            self._store(t_s, path, what)
            return NEEDS
        past_s = t_s - fetched_s - self._ttl_s[keep]
        if past_s >= 0:
            self._store(t_s, path, what)
            return HIT if past_s < self._grace_s else AGAIN if self._held[keep] else NEEDS
        if self._left < self._room >> 2:
            self._fetched_s[path] = self._fetched_s.pop(path)
        return HIT

    def asleep(self, t_s: float, decided_s: float, path: int, what: int) -> bool:
        """Does a request need the server, which was told to sleep then, and is not awake?"""
        keep = what & 255
        if keep == NOT_KEPT:
            return True
        fetched_s = self._fetched_s.get(path)
        if fetched_s is not None:
            until_s = fetched_s + self._ttl_s[keep]
            if (
                (self._held[keep] and fetched_s >= decided_s)
                or t_s < until_s + self._grace_s
                or self._kept[keep]
            ):
                if self._frozen:
                    self._served.add(path)
                return False
        self._awaited[path] = what
        return True

    def up(self, t_s: float) -> None:
        """The server is awake again."""
        for path in self._served:
            if path in self._what:
                self._store(t_s, path, self._what[path])
        for path, what in self._awaited.items():
            self._store(t_s, path, what)
        self._served.clear()
        self._awaited.clear()

    def warm(self, t_s: float, path: int) -> tuple[int, float]:
        """Fetch or validate an address; returns the bytes that came, and how long it took."""
        what = self._what.get(path)
        if what is None:
            return 0, 0.0
        same = path in self._fetched_s and self._static[what & 255]
        size = ANSWER_BYTES + (0 if same else bytes_of(what >> 8))
        self._store(t_s, path, what, validated=same)
        return size, (FILE_S if self._static[what & 255] else PAGE_S) + size / BYTES_PER_S

    def _store(self, t_s: float, path: int, what: int, *, validated: bool = False) -> None:
        known = self._fetched_s.pop(path, None) is not None
        size = bytes_of(what >> 8)
        if not known:
            self._left -= size
        self._fetched_s[path] = t_s
        if len(self._what) >= _REMEMBERED:
            self._what = {p: w for p, w in self._what.items() if p in self._fetched_s}
        self._what[path] = what
        planner = self.planner
        if planner is not None:
            keep = what & 255
            validated = validated or (known and self._static[keep])
            planner.stored(
                t_s, path, size, self._ttl_s[keep], held=self._held[keep], validated=validated
            )
        while self._left < 0 or len(self._fetched_s) > _REMEMBERED // 2:
            lost = next(iter(self._fetched_s))
            del self._fetched_s[lost]
            self._left += bytes_of(self._what[lost] >> 8)
            if planner is not None:
                planner.lost(lost)
