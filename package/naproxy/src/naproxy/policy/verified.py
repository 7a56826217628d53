"""Which pages the box may answer with while their server sleeps, because it keeps checking them.

A page is *verified* once it was the same for two strangers, and an hour later still: so pages that
change by the hour never get there. It then stays verified as long as each check finds it the same.
A check is two answers of the server to two visitors with nothing in common.

A sleeping server cannot be edited. So if a page differs right after a wake from before the sleep,
it has changed by itself, and visitors got an old one meanwhile. It is *caught*: never answered
asleep again, and neither are the pages of its pattern after two such cases. Last-Modified shows an
edited page (before the sleep or after the wake). A person's POST in between may be the cause: a
page is forgiven once. Edited and forgiven pages begin their hour again.

Only people can make the box check an address, from two networks or in three different hours.
An address with a query is never a page. One network has at most half of the candidates. When the
table of verified pages is full, the one with the fewest networks gives way.

How to feed it:

    stored(...)    whenever the cache stored an answer
    loaded(...)    for each page that a person loads
    answered(...)  for each answer from the cache while the server sleeps
    due(t_s)       pages to check while the server is awake, the most urgent first
    checked(...)   with the two copies
    copied(...)    just before a sleep: the copies that visitors will get
    slept, woke    when the server falls asleep, and when it is found to wake
    compare()      pages to compare after a wake, the answered ones first
    compared(...)  with the two copies
    table()        the addresses to answer, as hashes

Times are continuous epoch seconds and never step back. It has no effects.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import Any, Final, NamedTuple

from naproxy.core.page_h import VERIFIED
from naproxy.policy.sameness import Copy

SETTLE_S: Final = 3600.0
"""A page must have been the same for so long."""
AGAIN_S: Final = 600.0
"""A page whose two answers differed, or that gave none, is checked again after so long."""
RECHECK_S: Final = 6 * 3600.0
EXCLUDED_S: Final = 86400.0
"""A page's headers may change: an excluded page is tried again after this time."""
CANDIDATES: Final = 1024
"""Remembered addresses: those that the cache stored last, and those that people loaded last."""
ENTRIES: Final = 1024
"""Pages that are checked, verified or excluded."""
CAUGHT: Final = 256
"""After so many cases the box answers with no page of this server any more."""
CASES: Final = 2
"""So many pages of one pattern that changed by themselves exclude the pattern."""
WHY: Final = (
    *("changed", "differs", "pattern", "query", "token", "personal", "varies", "forbidden"),
    *("status", "not_page", "large"),
)
"""Reasons to exclude a page: observations here, or the verdict of `sameness`."""
SAMPLE: Final = 10
"""So many pages that nobody got in a sleep are compared after it, too."""
LISTED: Final = 20
NETWORKS: Final = 2
HOURS: Final = 3
_COUNTED: Final = 8  # networks of one page
_DISAGREED: Final = 2
_FOR_GOOD: Final = ("query", "differs")
_OWN: Final = 2  # one network has at most one in so many places
_MOST_TEXT: Final = 400
_HOUR_S: Final = 3600.0

NEW, SETTLING, GOOD, EXCLUDED = "new", "settling", "verified", "excluded"


class Key(NamedTuple):
    """One page: the hash of its host and URL, as in events, and whether it is over HTTPS."""

    path: int
    https: bool


class Address(NamedTuple):
    """How to ask for it."""

    host: str
    url: str


@dataclass(slots=True)
class _Asked:
    """The networks that loaded an address, as hashes, which must never reach a disk."""

    first: int
    networks: set[int] = field(default_factory=set)
    hours: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Entry:
    address: Address
    state: str = NEW
    why: str = ""
    digest: str = ""
    since_s: float = math.inf
    """Since when it has been the same."""
    next_s: float = 0.0
    """When it is checked next."""
    disagreed: int = 0
    forgiven: bool = False
    used_s: float = 0.0
    networks: set[int] = field(default_factory=set)
    known_networks: int = 0
    """Their number before a restart."""
    copy: Copy | None = None
    """The copy that visitors get in this sleep, or got in the last one until it is compared."""
    answered: int = 0
    """So often in this sleep."""

    @property
    def wanted(self) -> int:
        """From how many networks it was loaded, as far as it is counted."""
        return max(len(self.networks), self.known_networks)


@dataclass(slots=True)
class Counts:
    """Since `since_s`: pages answered asleep, compared after a wake, and that had changed."""

    since_s: float | None = None
    answered: int = 0
    compared: int = 0
    edited: int = 0
    differed: int = 0
    old: int = 0
    """Of `answered`, those with a page that had changed by itself."""


def patterns(url: str) -> set[str]:
    """Return the patterns of an address: others of its folder, and those with other numbers.

    Addresses at the top of a website have nothing else in common.
    """
    folder, _, last = re.sub("[0-9]+", "#", url.partition("?")[0].rstrip("/")).rpartition("/")
    found = {f"{folder}/*"} if folder else set()
    return found | {f"{folder}/{last}"} if "#" in last else found


class Verified:
    """One server's pages."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._stored: OrderedDict[Key, Address] = OrderedDict()
        self._asked: dict[int, _Asked] = {}
        self._first: Counter[int] = Counter()
        self._entries: dict[Key, _Entry] = {}
        self._caught: dict[Key, tuple[Address, str]] = {}
        """Pages that changed by themselves while they were answered; never forgotten."""
        self._slept_s = -math.inf
        self._woke_s = -math.inf
        self._copied_s = -math.inf

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    # ---------------------------------------------------------------- what happens

    def stored(self, t_s: float, key: Key, address: Address) -> None:
        """The cache stored an answer."""
        self._stored[key] = address
        self._stored.move_to_end(key)
        if len(self._stored) > CANDIDATES:
            self._stored.popitem(last=False)
        asked = self._asked.get(key.path)
        if asked is not None:
            self._consider(t_s, key.path, asked)

    def loaded(self, t_s: float, path: int, network: int) -> None:
        """A person loaded a page."""
        for https in (False, True):
            entry = self._entries.get(Key(path, https))
            if entry is not None:
                entry.used_s = t_s
                if network and len(entry.networks) < _COUNTED:
                    entry.networks.add(network)
        asked = self._asked.get(path) or self._new(path, network)
        if network and len(asked.networks) < NETWORKS:
            asked.networks.add(network)
        if len(asked.hours) < HOURS:
            asked.hours.add(int(t_s // _HOUR_S))
        self._consider(t_s, path, asked)

    def answered(self, path: int) -> None:
        """Somebody got it from the cache while the server slept."""
        told = [self._entries.get(Key(path, https)) for https in (False, True)]
        entries = [each for each in told if each is not None and each.copy is not None]
        for entry in entries:
            entry.answered += 1
        self.counts.answered += bool(entries)

    def _new(self, path: int, network: int) -> _Asked:
        if network and self._first[network] >= CANDIDATES // _OWN:
            self._forget(next(p for p, asked in self._asked.items() if asked.first == network))
        elif len(self._asked) >= CANDIDATES:
            self._forget(next(iter(self._asked)))
        made = self._asked[path] = _Asked(network)
        self._first[network] += 1
        return made

    def _forget(self, path: int) -> None:
        first = self._asked.pop(path).first
        self._first[first] -= 1
        if not self._first[first]:
            del self._first[first]

    def _consider(self, t_s: float, path: int, asked: _Asked) -> None:
        """Check an address from now on, if enough people asked for it and the cache has it."""
        if len(asked.networks) < NETWORKS and len(asked.hours) < HOURS:
            return
        for key in (Key(path, https=False), Key(path, https=True)):
            address = self._stored.get(key)
            if address is None or key in self._entries or key in self._caught:
                continue
            self._make_room()
            entry = self._entries[key] = _Entry(address, used_s=t_s, networks=set(asked.networks))
            if "?" in address.url:
                self._exclude(entry, t_s, "query")

    def _make_room(self) -> None:
        if len(self._entries) >= ENTRIES:
            del self._entries[min(self._entries, key=lambda key: self._worth(self._entries[key]))]

    @staticmethod
    def _worth(entry: _Entry) -> tuple[bool, int, float]:
        # Those of the present sleep are compared first.
        return entry.copy is not None, entry.wanted, entry.used_s

    @staticmethod
    def _exclude(entry: _Entry, t_s: float, why: str) -> None:
        entry.state, entry.why, entry.digest, entry.since_s = EXCLUDED, why, "", math.inf
        entry.next_s = t_s + EXCLUDED_S

    # ---------------------------------------------------------------- checks while awake

    def due(self, t_s: float) -> list[tuple[Key, Address]]:
        """Return the pages to check now: those that settle first, then the most wanted."""
        order = {SETTLING: 0, NEW: 1, GOOD: 2, EXCLUDED: 3}
        ready = [
            (order[entry.state], -entry.wanted, entry.next_s, key, entry.address)
            for key, entry in self._entries.items()
            if entry.next_s <= t_s and entry.why not in _FOR_GOOD and entry.copy is None
        ]
        return [(key, address) for *_, key, address in sorted(ready)]

    def failed(self, t_s: float, key: Key) -> None:
        """The server gave no answer, or an error: the page is not answered until it does."""
        entry = self._entries.get(key)
        if entry is not None:
            self._withdraw(entry, t_s)

    @staticmethod
    def _withdraw(entry: _Entry, t_s: float) -> None:
        entry.copy, entry.answered = None, 0
        if entry.state == GOOD:
            # The next check that finds it the same makes it verified again.
            entry.state = SETTLING
        entry.next_s = t_s + AGAIN_S

    def checked(self, t_s: float, key: Key, one: Copy, other: Copy) -> None:
        """Hear what two strangers got."""
        entry = self._entries.get(key)
        if entry is None:
            return
        if why := one.why_not or other.why_not:
            self._exclude(entry, t_s, why)
        elif one.digest != other.digest:
            entry.disagreed += 1
            entry.state, entry.digest, entry.since_s = NEW, "", math.inf
            entry.next_s = t_s + AGAIN_S
            if entry.disagreed >= _DISAGREED:
                self._exclude(entry, t_s, "differs")
        elif one.digest != entry.digest:
            entry.state, entry.why, entry.digest, entry.since_s = SETTLING, "", one.digest, t_s
            entry.next_s = t_s + SETTLE_S
        elif t_s - entry.since_s >= SETTLE_S:
            entry.state, entry.disagreed = GOOD, 0
            entry.next_s = t_s + RECHECK_S
        else:
            entry.next_s = entry.since_s + SETTLE_S

    # ---------------------------------------------------------------- a sleep

    def answerable(self) -> dict[Key, Address]:
        """Return the verified pages, as many as there is room for in the table."""
        if len(self._caught) >= CAUGHT:
            return {}
        barred = self._barred()
        good = [
            (self._worth(entry), key)
            for key, entry in self._entries.items()
            if entry.state == GOOD and not patterns(entry.address.url) & barred
        ]
        best = {key for _, key in sorted(good, reverse=True)[:VERIFIED]}
        return {key: self._entries[key].address for key in best - self._doubtful(best)}

    def _doubtful(self, good: set[Key]) -> set[Key]:
        """Return which of these are not: a hash stands for HTTP and HTTPS alike."""
        bad = {key.path for key in (*self._entries, *self._caught) if key not in good}
        return {key for key in good if key.path in bad}

    def table(self) -> list[int]:
        """Return the hashes of pages that may be answered, in order."""
        return sorted({key.path for key in self.answerable()})

    def copied_table(self, warmed: Iterable[Key]) -> list[int]:
        """Return the hashes of pages that may be answered in the coming sleep, in order.

        `warmed`: all responses fetched for it. An unverified variant excludes the others.
        """
        good = {key for key in self.answerable() if self._entries[key].copy is not None}
        bad = {key.path for key in warmed if key not in good}
        return sorted({key.path for key in good if key.path not in bad})

    def begin_copies(self, t_s: float) -> None:
        """Begin copying for a coming sleep; withdraw pages that were not compared."""
        self._copied_s = t_s
        for entry in self._entries.values():
            if entry.copy is not None:
                self._withdraw(entry, t_s)

    def copied(self, t_s: float, key: Key, copy: Copy) -> None:
        """Hear what visitors will get: a page that is not as verified is not answered."""
        entry = self._entries.get(key)
        if entry is None or entry.state != GOOD:
            return
        if copy.why_not or copy.digest != entry.digest:
            entry.state, entry.digest, entry.since_s, entry.next_s = NEW, "", math.inf, t_s
        else:
            entry.copy, entry.answered = copy, 0

    def slept(self, t_s: float) -> None:
        """The command to sleep is given."""
        self._slept_s = t_s
        if self.counts.since_s is None:
            self.counts.since_s = t_s

    def woke(self, t_s: float) -> None:
        """The server begins to wake."""
        self._woke_s = t_s

    def compare(self) -> list[tuple[Key, Address]]:
        """Return the pages to compare after a wake: the most often answered first, and a few more.

        A sleep that is cancelled again and again must not fetch all pages each time.
        """
        copied = sorted(
            (-entry.answered, key, entry.address)
            for key, entry in self._entries.items()
            if entry.copy is not None
        )
        answered = sum(1 for number, *_ in copied if number)
        return [(key, address) for _, key, address in copied[: answered + SAMPLE]]

    def end_compare(self, t_s: float) -> None:
        """Withdraw what was answered and could not be compared; nobody got the others."""
        for entry in self._entries.values():
            if entry.copy is not None and entry.answered:
                self._withdraw(entry, t_s)
            entry.copy = None

    def compared(self, t_s: float, key: Key, one: Copy, other: Copy, *, sent: bool) -> None:
        """Hear what two strangers got after a wake.

        `sent`: somebody sent something that may have changed the server since it woke.
        """
        entry = self._entries.get(key)
        if entry is None or entry.copy is None:
            return
        before, answered = entry.copy, entry.answered
        entry.copy, entry.answered = None, 0
        self.counts.compared += bool(answered)
        why = one.why_not or other.why_not
        if not why and one.digest != other.digest:
            self._catch(key, entry, "differs", answered)
        elif not why and one.digest == before.digest:
            entry.next_s = t_s + RECHECK_S
        elif self._edited(before, one) or (sent and not entry.forgiven):
            entry.forgiven |= not self._edited(before, one)
            self.counts.edited += bool(answered)
            self.checked(t_s, key, one, other)
        else:
            self._catch(key, entry, why or "changed", answered)

    def _edited(self, before: Copy, now: Copy) -> bool:
        """Does the page say that it was modified when the server was awake?"""
        if now.modified_s is None or now.modified_s == before.modified_s:
            return False
        # A date has no fractions of a second.
        just_before = self._copied_s - 2 <= now.modified_s <= self._slept_s + 1
        return just_before or now.modified_s >= self._woke_s - 1

    def _catch(self, key: Key, entry: _Entry, why: str, answered: int) -> None:
        self._caught[key] = entry.address, why
        del self._entries[key]
        self.counts.differed += bool(answered)
        self.counts.old += answered

    def _barred(self) -> set[str]:
        """Return the patterns that too many pages of were caught."""
        cases: dict[str, set[str]] = {}
        for address, _ in self._caught.values():
            for each in patterns(address.url):
                cases.setdefault(each, set()).add(address.url)
        return {each for each, urls in cases.items() if len(urls) >= CASES}

    # ---------------------------------------------------------------- to tell, and to keep

    def status(self) -> dict[str, Any]:
        """Return what the control API says of it."""
        listed = [
            {"url": address.url[:_MOST_TEXT], "why": why}
            for address, why in reversed(self._caught.values())
        ]
        listed += [{"url": each, "why": "pattern"} for each in sorted(self._barred())]
        excluded = sorted(
            (entry for entry in self._entries.values() if entry.state == EXCLUDED),
            key=lambda entry: entry.used_s,
            reverse=True,
        )
        listed += [{"url": each.address.url[:_MOST_TEXT], "why": each.why} for each in excluded]
        counts = self.counts
        return {
            "since_s": counts.since_s,
            "verified": len(self.answerable()),
            "settling": sum(each.state in (NEW, SETTLING) for each in self._entries.values()),
            "answered": counts.answered,
            "compared": counts.compared,
            "edited": counts.edited,
            "differed": counts.differed,
            "old": counts.old,
            "excluded": len(excluded) + len(self._caught),
            "excluded_pages": listed[:LISTED],
        }

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON: `load` takes it."""
        return {
            "counts": list(astuple(self.counts)),
            "sleep": [max(0.0, each) for each in (self._copied_s, self._slept_s)],
            "caught": [[*key, *address, why] for key, (address, why) in self._caught.items()],
            "pages": [[*key, *_row(entry)] for key, entry in self._entries.items()],
        }

    def load(self, saved: Any, t_s: float) -> None:
        """Restore the result of `dump`; ignore values that do not fit."""
        if not isinstance(saved, Mapping):
            return
        for row in _rows(saved.get("caught"), CAUGHT):
            try:
                path, https, host, url, why = row
                self._caught[_key(path, https)] = Address(_text(host), _text(url)), _why(why)
            except (TypeError, ValueError):
                continue
        for row in _rows(saved.get("pages"), ENTRIES):
            try:
                key, entry = _entry(row, t_s)
            except (TypeError, ValueError):
                continue
            if key not in self._caught:
                self._entries[key] = entry
        with suppress(TypeError, ValueError):
            self._copied_s, self._slept_s = map(_number, saved.get("sleep", ()))
        counts = saved.get("counts")
        if isinstance(counts, list) and len(counts) == len(Counts.__slots__):
            since_s, *numbers = counts
            if all(type(each) is int and 0 <= each < 1 << 53 for each in numbers):
                since_s = min(_number(since_s), t_s) if isinstance(since_s, float) else None
                self.counts = Counts(since_s, *numbers)


def _rows(saved: Any, most: int) -> list[Any]:
    return saved[:most] if isinstance(saved, list) else []


def _row(entry: _Entry) -> list[Any]:
    return [
        *entry.address,
        entry.state,
        entry.why,
        entry.digest,
        entry.since_s if entry.digest else 0.0,
        entry.next_s,
        entry.used_s,
        entry.disagreed,
        entry.forgiven,
        entry.wanted,
        entry.answered,
        [entry.copy.modified_s] if entry.copy else [],
    ]


def _entry(row: Any, t_s: float) -> tuple[Key, _Entry]:
    path, https, host, url, state, why, digest, since_s, next_s, used_s, *rest = row
    disagreed, forgiven, wanted, answered, copy = rest
    if state not in (NEW, SETTLING, GOOD, EXCLUDED):
        raise ValueError("not a page's state")
    if any(type(each) is not int for each in (disagreed, wanted, answered)):
        raise ValueError("not a number")
    since_s = min(_number(since_s), t_s) if digest else math.inf
    entry = _Entry(
        Address(_text(host), _text(url)),
        state if digest or state == EXCLUDED else NEW,
        _why(why) if state == EXCLUDED else "",
        _text(digest),
        since_s,
        min(_number(next_s), t_s + EXCLUDED_S),
        disagreed,
        forgiven is True,
        min(_number(used_s), t_s),
        known_networks=min(wanted, _COUNTED),
    )
    if isinstance(copy, list) and copy and digest:
        modified_s = None if copy[0] is None else _number(copy[0])
        entry.copy, entry.answered = Copy(entry.digest, modified_s=modified_s), answered
    return _key(path, https), entry


def _key(path: Any, https: Any) -> Key:
    if type(path) is not int or not 0 < path < 1 << 64 or type(https) is not bool:
        raise ValueError("not a page")
    return Key(path, https)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError("not a page's text")
    return value


def _why(value: Any) -> str:
    if value not in WHY:
        raise ValueError("not a reason")
    return str(value)


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not 0 <= number < 1e15:
        raise ValueError("not a moment")
    return number
