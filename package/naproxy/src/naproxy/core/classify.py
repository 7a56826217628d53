"""Classes of clients: people, API clients, crawlers, feed readers, monitors and scanners.

A class is first *declared* by the User-Agent header (`Agents`), then *learned* from what a
client does (`Behaviour`). Both use only facts that a box has when a request arrives: a class
learned from a request holds from the next one on. Robots do not wake a server, so a person must
never be taken for one: the limits below are hard to reach for a person with a browser.
docs/deciding.md has their effect on real logs.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

from naproxy.core.state import Klass

# The class that wins when literals of several match, first to last.
_PRECEDENCE: Final = (Klass.MONITOR, Klass.FEED, Klass.SCANNER, Klass.CRAWLER, Klass.API)
_BROWSERS: Final = ("Mozilla/", "Opera/")

# Table 4.1 of the thesis.
THESIS_CRAWLERS: Final = (
    "Googlebot",
    "Slurp",
    "Baiduspider",
    "bingbot",
    "urlresolver",
    "Speedy Spider",
    "Sosospider",
    "Sogou web spider",
    "Gigabot",
)


class Agents:
    """Classes declared by User-Agent headers, the same table as the VMOD's."""

    def __init__(self, table: Iterable[Mapping[str, Any]] | None = None) -> None:
        """Take `[{"name", "class", "literals"}]`; by default crawlers.json, which is installed.

        Those of `catch_all` count where no other does.
        """
        if table is None:
            text = resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8")
            table = json.loads(text)
        named: dict[Klass, list[str]] = {klass: [] for klass in _PRECEDENCE}
        rest: list[tuple[Klass, list[str]]] = []
        for agent in table:
            klass = Klass[agent["class"].upper()]
            if agent.get("catch_all"):
                rest.append((klass, agent["literals"]))
            else:
                named[klass] += agent["literals"]
        self._patterns = [
            (klass, re.compile("|".join(map(_pattern, found))))
            for klass, found in [*named.items(), *rest]
            if found
        ]
        self.klass = lru_cache(maxsize=1 << 16)(self._klass)

    @classmethod
    def thesis(cls) -> Agents:
        """Only the crawlers of the thesis' table 4.1."""
        literals = [name.lower() for name in THESIS_CRAWLERS]
        return cls([{"name": "table 4.1", "class": "crawler", "literals": literals}])

    def _klass(self, agent: str) -> Klass:
        lowered = agent.lower()
        for klass, pattern in self._patterns:
            if pattern.search(lowered):
                return klass
        return Klass.PERSON if agent.startswith(_BROWSERS) else Klass.API


def _pattern(literal: str) -> str:
    r"""Regular expression of a lower-case literal; `^`, `$` and `\b` tie it to an edge."""
    start, end = "", ""
    if literal.startswith("^"):
        start, literal = "^", literal[1:]
    elif literal.startswith("\\b"):
        start, literal = "(?<![a-z0-9])", literal[2:]
    if literal.endswith("$"):
        end, literal = "$", literal[:-1]
    return start + re.escape(literal) + end


_DAV: Final = re.compile(
    r"/(?:(?:(?:cal|card|group)?dav|cal|card)\.php|(?:cal|card|web|group)?dav|remote\.php)(?![^/?])",
    re.IGNORECASE,
)


def never_refused(method: str, url: str) -> bool:
    """Whether the request is never refused, as in the VMOD's never_refused.c.

    That also knows `Authorization`, and leaves out a monitor's GET.
    """
    if method not in ("GET", "HEAD") or url.startswith("/.well-known/"):
        return True
    bare, _, query = url.partition("?")
    has = {name for name, _, value in (part.partition("=") for part in query.split("&")) if value}
    if "state" in has and ("code" in has or "error" in has):
        return True
    return bool(_DAV.search(bare))


class Kind(IntEnum):
    """The kind of a request."""

    OTHER = 0
    PAGE = 1  # a page load that was answered with a page
    ASSET = 2  # what pages embed: images, styles, scripts, fonts
    ROBOTS_TXT = 3  # RFC 9309: only robots ask for it


class Seen(NamedTuple):
    """One request, as far as it tells who is asking."""

    t_s: float
    client: int  # hash of address and agent
    path: int  # hash of the address with its query
    klass: Klass  # declared
    kind: Kind
    status: int
    safe: bool  # GET or HEAD


# A scanner guesses: most of its addresses do not exist.
SCAN_PATHS: Final = 10  # different addresses that failed
SCAN_SHARE: Final = 0.6  # of its requests that were not for assets
# A crawler in a browser's clothes reads pages and never loads what they embed.
CRAWL_PAGES: Final = 6  # different pages
# A poller asks for the same few addresses over and over, day and night.
POLL_PATHS: Final = 4
POLL_GAP_S: Final = 5.0  # closer requests are one visit
POLL_TIMES: Final = 8  # gaps it takes to see a period,
POLL_JITTER: Final = 0.1  # whose median deviation is at most this share of their median;
POLL_ANYWAY: Final = 60  # this many times is a poller without one too
POLL_API_S: Final = 2 * 3600.0  # for so long, if it says it is a program,
POLL_PERSON_S: Final = 24 * 3600.0  # or so long, if it says it is a browser
_FAILED: Final = frozenset((400, 403, 404, 405, 406, 410, 414))


class _Poll:
    """One address that a client asked for, and the gaps between."""

    __slots__ = ("first_s", "gaps_s", "last_s", "times")

    def __init__(self, t_s: float) -> None:
        self.first_s = self.last_s = t_s
        self.times = 0
        self.gaps_s: list[float] = []


class _Client:
    """The memory of one client."""

    __slots__ = ("assets", "failed", "failures", "learned", "pages", "polls", "requests")

    def __init__(self) -> None:
        self.requests = self.assets = self.failures = 0
        self.failed: set[int] = set()
        self.pages: set[int] = set()
        self.polls: dict[int, _Poll] | None = {}  # None: asks for more than a few addresses
        self.learned: Klass | None = None


class Behaviour:
    """Learns from the behavior of clients which of them are robots.

    `slots` is the number of learned clients that the VMOD can know at once; the latest clients
    keep their slots. `remembered` bounds the memory, about 1 kB per client.
    """

    def __init__(self, slots: int = 64, remembered: int = 4096) -> None:
        self._slots = slots
        self._remembered = remembered
        self._clients: OrderedDict[int, _Client] = OrderedDict()
        self._known: OrderedDict[int, Klass] = OrderedDict()
        # Requests of everybody not known to be a robot: do people here load assets at all?
        self._pages = self._assets = 0

    @property
    def known(self) -> Mapping[int, Klass]:
        """The learned clients for the VMOD's table, the one that asked last at the end."""
        return self._known

    def see(self, seen: Seen) -> Klass:
        """Return the class this request was handled by, then learn from it."""
        klass = seen.klass
        if klass is not Klass.PERSON and klass is not Klass.API:
            return klass
        client = seen.client
        handled_as = self._known.get(client, klass)
        state = self._clients.get(client)
        if state is None:
            state = self._clients[client] = _Client()
            if len(self._clients) > self._remembered:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(client)
        if state.learned is None:
            state.learned = self._learn(state, seen)
        if state.learned is not None:
            self.remember(client, state.learned)
        return handled_as

    def remember(self, client: int, klass: Klass) -> None:
        """Keep a learned client, which asked just now."""
        self._known[client] = klass
        self._known.move_to_end(client)
        if len(self._known) > self._slots:
            self._known.popitem(last=False)

    def _learn(self, state: _Client, seen: Seen) -> Klass | None:
        kind = seen.kind
        if kind is Kind.ROBOTS_TXT:
            return Klass.CRAWLER
        # A client that never loaded a page guesses: a missing image is not from a broken page.
        if kind is Kind.ASSET and (state.pages or seen.status not in _FAILED):
            state.assets += 1
            self._assets += 1
        else:
            state.requests += 1
            if kind is Kind.PAGE:
                self._pages += 1
                if len(state.pages) < CRAWL_PAGES:
                    state.pages.add(seen.path)
            if seen.status in _FAILED:
                state.failures += 1
                if len(state.failed) < SCAN_PATHS:
                    state.failed.add(seen.path)
                if self._scans(state):
                    return Klass.SCANNER
        if self._crawls(state):
            return Klass.CRAWLER
        if not seen.safe:
            state.polls = None
        if state.polls is not None and self._polls(state.polls, state, seen):
            return Klass.MONITOR
        return None

    @staticmethod
    def _scans(state: _Client) -> bool:
        return len(state.failed) >= SCAN_PATHS and state.failures >= SCAN_SHARE * state.requests

    def _crawls(self, state: _Client) -> bool:
        # Where people load fewer assets than pages, none at all says nothing.
        return (
            len(state.pages) >= CRAWL_PAGES
            and state.assets == 0
            and self._assets >= max(self._pages, 100)
        )

    @staticmethod
    def _polls(polls: dict[int, _Poll], state: _Client, seen: Seen) -> bool:
        t_s = seen.t_s
        poll = polls.get(seen.path)
        if poll is None:
            if len(polls) >= POLL_PATHS:
                state.polls = None
            else:
                polls[seen.path] = _Poll(t_s)
            return False
        gap_s = t_s - poll.last_s
        if gap_s < POLL_GAP_S:
            return False
        poll.last_s = t_s
        poll.times += 1
        poll.gaps_s.append(gap_s)
        del poll.gaps_s[: -2 * POLL_TIMES]
        if t_s - poll.first_s < (POLL_API_S if seen.klass is Klass.API else POLL_PERSON_S):
            return False
        return poll.times >= POLL_ANYWAY or _regular(poll.gaps_s)


def _regular(gaps_s: list[float]) -> bool:
    """Do the gaps look like a period? By medians, so that one missed beat does not matter."""
    if len(gaps_s) < POLL_TIMES:
        return False
    median = sorted(gaps_s)[len(gaps_s) // 2]
    deviation = sorted(abs(gap - median) for gap in gaps_s)[len(gaps_s) // 2]
    return deviation <= max(2.0, POLL_JITTER * median)
