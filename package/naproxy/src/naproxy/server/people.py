"""Does a client that claims to be a browser behave like a person, or like an attack?

A person's browser loads what the pages embed, or follows the waiting page, or uses an application
that fetches several things. A client that has shown one of these has no limit. A client that has
shown none, and goes on asking, looks like an attack, as does a client that asks for missing pages.
Clients that have done little so far are neither.

Pure: times are arguments. Addresses are hashes, in memory only, until the end of the next day.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST: Final = 4096
"""Addresses whose behaviour is known; of more, those that asked last."""

EMBEDDED_S: Final = 60.0
"""A request so soon after a page may be for something embedded in it."""
FOLLOWS_S: Final = 120.0
"""Nobody asks for the status of a waiting page that came longer ago."""
RELOADS_S: Final = (8.0, 20.0)
"""A browser without scripts loads a page again after 10 s that says that the server sleeps."""
LEAST_REQUESTS: Final = 50
"""Of fewer the share that does not exist says nothing: a site may have broken links."""
MISSING: Final = 0.5
PAGES: Final = 30
"""So many pages without anything that they embed. On real logs people came to 15, because their
browsers had cached the rest (`make bench-people`)."""
WAITS: Final = 3
"""So many waiting pages without a look whether the wait is over."""
OPEN_S: Final = 600.0
"""So long with requests in flight, without any sign of a person."""
PATHS: Final = 3
"""An application's page elsewhere fetches so many different things from here, and no page."""

_GONE: Final = (404, 410)
_GOOD: Final = range(200, 400)


class Request(NamedTuple):
    """A request of a client that claims to be a browser, and its answer."""

    t_s: float
    address: int
    network: int
    path: int
    status: int
    page_load: bool = False
    waits: bool = False
    """It got the waiting page, or one that says that the server is not woken."""
    status_path: bool = False
    """It asked the box how the server is."""


@dataclass(slots=True)
class Behaviour:
    """One address's activity today."""

    network: int = 0
    requests: int = 0
    missing: int = 0
    pages: int = 0
    embedded: int = 0
    waits: int = 0
    followed: int = 0
    open_s: float = 0.0
    page_s: float = -math.inf
    waited_s: float = -math.inf
    waited_for: int = 0
    """The path that it waits for."""
    paths: set[int] = field(default_factory=set)
    before: bool = False
    """It showed on the day before that it is a person's."""

    def add(self, asked: Request) -> None:
        """Hear of a request that ended."""
        if asked.status_path:
            self.followed += asked.t_s - self.waited_s <= FOLLOWS_S
            return
        self.requests += 1
        self.missing += asked.status in _GONE
        since_s = asked.t_s - self.waited_s
        if asked.page_load and asked.path == self.waited_for:
            self.followed += RELOADS_S[0] <= since_s <= RELOADS_S[1]
        if asked.waits:
            self.waits += 1
            self.waited_s, self.waited_for = asked.t_s, asked.path
        elif asked.page_load:
            self.pages += 1
            self.page_s = asked.t_s
        elif asked.status in _GOOD:
            self.embedded += 0 <= asked.t_s - self.page_s <= EMBEDDED_S
            if len(self.paths) < PATHS:
                self.paths.add(asked.path)


def scans(seen: Behaviour) -> bool:
    """Does it mostly ask for what does not exist?"""
    return seen.requests >= LEAST_REQUESTS and seen.missing > MISSING * seen.requests


def is_person(seen: Behaviour) -> bool:
    """Has it shown that it is a person's browser?"""
    return (seen.before or _shows(seen)) and not scans(seen)


def _shows(seen: Behaviour) -> bool:
    return seen.embedded > 0 or seen.followed > 0 or len(seen.paths) >= PATHS


def is_attack(seen: Behaviour) -> bool:
    """Does it behave as no person would?"""
    if scans(seen):
        return True
    if is_person(seen):
        return False
    return seen.pages >= PAGES or seen.waits >= WAITS or seen.open_s >= OPEN_S


class People:
    """The behaviour of all addresses today."""

    def __init__(self) -> None:
        """Nobody has come yet."""
        self._seen: OrderedDict[int, Behaviour] = OrderedDict()
        self._attackers: dict[int, None] = {}
        self._persons: OrderedDict[int, None] = OrderedDict()

    def next_day(self) -> People:
        """Return the state for the next day: the addresses shown today to be a person's."""
        made = People()
        for address in self._persons:
            if _shows(seen := self._seen[address]):
                made._seen[address] = Behaviour(seen.network, before=True)
                made._persons[address] = None
        return made

    def saw(self, asked: Request) -> None:
        """Hear of a request that ended."""
        seen = self._of(asked.address, asked.network)
        seen.add(asked)
        self._judge(asked.address, seen)

    def open(self, address: int, network: int, for_s: float) -> None:
        """Hear that an address has had requests in flight for so long."""
        seen = self._of(address, network)
        seen.open_s += for_s
        self._judge(address, seen)

    def _of(self, address: int, network: int) -> Behaviour:
        seen = self._seen.get(address)
        if seen is None:
            seen = self._seen[address] = Behaviour(network)
            if len(self._seen) > MOST:
                gone, _ = self._seen.popitem(last=False)
                self._attackers.pop(gone, None)
                self._persons.pop(gone, None)
        self._seen.move_to_end(address)
        return seen

    def _judge(self, address: int, seen: Behaviour) -> None:
        if is_attack(seen):
            self._attackers[address] = None
        else:
            self._attackers.pop(address, None)
        if is_person(seen):
            self._persons[address] = None
            self._persons.move_to_end(address)
        else:
            self._persons.pop(address, None)

    def attacks(self, address: int) -> bool:
        """Does it look like an attack?"""
        return address in self._attackers

    def shown(self, address: int) -> bool:
        """Has it shown that it is a person's?"""
        return address in self._persons

    @property
    def attackers(self) -> Iterator[tuple[int, int]]:
        """The addresses that look like an attack, each with its network."""
        return ((each, self._seen[each].network) for each in self._attackers)

    @property
    def persons(self) -> tuple[int, ...]:
        """The addresses that have shown that they are a person's, the last at the end."""
        return tuple(self._persons)
