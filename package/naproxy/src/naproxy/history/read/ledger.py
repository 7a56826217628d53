"""The wake ledger: the clients that woke a server, page by page, and the most frequent ones.

Epoch seconds; ranges are from (included) to (not included). Texts come from the network.
"""

from __future__ import annotations

import ipaddress
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from naproxy.history.tables import dicts

MOST_ROWS: Final = 200
OWN: Final = ("command", "policy", "schedule", "naproxy")
"""Values of `who` without a request: a person by hand, or the box itself."""

KINDS: Final = ("path", "address", "agent")
"""The fields that a rule can match; wakes are grouped by these and by class."""

MOST_GROUPS: Final = 20

_COLUMNS: Final = (
    "id, t_s, server, who, host, path, method, agent, class, reason, waited_s, packets, outcome,"
    " stages"
)
_REQUEST_COLUMNS: Final = "id, t_s, server, who, path, agent, class"


@dataclass(frozen=True, slots=True)
class Search:
    """Which wakes: all that is given must hold. `cause` is a reason, or one of OWN.

    `text` is in address, host, path or agent, in capitals or not.
    """

    from_s: float
    to_s: float
    server: str | None = None
    klass: str | None = None
    cause: str | None = None
    outcome: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first, and where the next page begins; None after the last."""

    rows: list[dict[str, Any]]
    next: str | None


class CursorError(ValueError):
    """A cursor that no page gave."""


def wakes(db: sqlite3.Connection, search: Search, cursor: str = "", limit: int = 50) -> Page:
    """Return a page of the ledger; CursorError."""
    where, values = _where(search)
    return page(db, f"SELECT {_COLUMNS} FROM wakes WHERE {where}", values, cursor, limit)


def searched(db: sqlite3.Connection, search: Search) -> Iterator[dict[str, Any]]:
    """Yield all wakes that `wakes` would page through, oldest first."""
    where, values = _where(search)
    yield from dicts(
        db.execute(f"SELECT {_COLUMNS} FROM wakes WHERE {where} ORDER BY t_s, id", values)
    )


def events(
    db: sqlite3.Connection, table: str, search: Search, cursor: str = "", limit: int = 50
) -> Page:
    """Return a page of transitions or decisions of a server; CursorError."""
    if table not in ("transitions", "decisions"):
        raise ValueError(f"there is no table {table}")
    return page(
        db,
        f"SELECT * FROM {table} WHERE t_s >= ? AND t_s < ? AND (? IS NULL OR server = ?)",
        [search.from_s, search.to_s, search.server, search.server],
        cursor,
        limit,
    )


def page(
    db: sqlite3.Connection, select: str, values: Sequence[Any], cursor: str, limit: int
) -> Page:
    """Return what follows a cursor of `select`, whose rows have a time and an id."""
    limit = max(1, min(limit, MOST_ROWS))
    after: tuple[float, int] | tuple[()] = _position(cursor) if cursor else ()
    rest = " AND (t_s, id) < (?, ?)" if after else ""
    found = db.execute(
        f"{select}{rest} ORDER BY t_s DESC, id DESC LIMIT ?", [*values, *after, limit + 1]
    )
    rows = list(dicts(found))
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(rows[:limit], f"{last['t_s']!r}_{last['id']}" if last else None)


def _position(cursor: str) -> tuple[float, int]:
    t_s, _, row = cursor.partition("_")
    try:
        at = float(t_s), int(row)
    except ValueError:
        raise CursorError("is not where a page ended") from None
    if not (abs(at[0]) < 1e12 and 0 <= at[1] < 2**63):
        raise CursorError("is not where a page ended")
    return at


def _where(search: Search) -> tuple[str, list[Any]]:
    parts, values = ["t_s >= ?", "t_s < ?"], [search.from_s, search.to_s]

    def add(part: str, *more: Any) -> None:
        parts.append(part)
        values.extend(more)

    if search.server is not None:
        add("server = ?", search.server)
    if search.klass is not None:
        add("class = ?", search.klass)
    if search.cause in OWN:
        add("class = '' AND who = ?", search.cause)
    elif search.cause is not None:
        add("class <> '' AND reason = ?", search.cause)
    if search.outcome is not None:
        add("outcome = ?", search.outcome)
    if search.text:
        # Not LIKE: the reader's % and _ mean themselves.
        add("instr(lower(who || ' ' || host || path || ' ' || agent), lower(?)) > 0", search.text)
    return " AND ".join(parts), values


# Rules that would have matched


def matcher(kind: str, text: str) -> Callable[[dict[str, Any]], bool]:
    """Return whether a rule matches a wake's request, as the VMOD sees it.

    ValueError if `text` is not an address or network. The ledger has the first 120 characters
    of an agent and 256 of a path, so a match beyond them is not seen here.
    """
    if kind == "path":
        return lambda wake: wake["path"].startswith(text)
    if kind == "agent":
        part = text.lower()
        return lambda wake: part in wake["agent"].lower()
    if kind != "address":
        raise ValueError(f"must be one of {', '.join(KINDS)}")
    net = ipaddress.ip_network(text, strict=False)

    def within(wake: dict[str, Any]) -> bool:
        try:
            return ipaddress.ip_address(wake["who"]) in net
        except ValueError:
            return False

    return within


# The most frequent wakers


@dataclass(slots=True)
class Tally:
    """Wakes by requests, added up: the time awake for them, its highest cost (None: not known),
    and the clients with their requests."""

    wakes: int = 0
    awake_s: float = 0.0
    extra_j: float | None = None
    cost: float | None = None
    classes: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    addresses: Counter[str] = field(default_factory=Counter)
    agents: Counter[str] = field(default_factory=Counter)

    def add(self, wake: dict[str, Any]) -> None:
        """Count one more; it may have `awake_s`, `extra_j` (see costs.py) and `cost`, in money."""
        self.wakes += 1
        self.awake_s += wake.get("awake_s", 0.0)
        extra_j = wake.get("extra_j")
        if extra_j is not None:
            self.extra_j = (self.extra_j or 0.0) + extra_j
        cost = wake.get("cost")
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        self.classes[wake["class"]] += 1
        self.paths[bare(wake["path"])] += 1
        self.addresses[wake["who"]] += 1
        self.agents[wake["agent"]] += 1


@dataclass(slots=True, kw_only=True)
class Group(Tally):
    """Wakes that have something in common: `key` is a path without its query, an address, a
    User-Agent, or a class."""

    kind: str
    key: str
    server: str
    first_s: float
    last_s: float


def requests(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float
) -> list[dict[str, Any]]:
    """Return the wakes of a server that requests asked for, oldest first."""
    found = db.execute(
        f"SELECT {_REQUEST_COLUMNS} FROM wakes"
        " WHERE server = ? AND t_s >= ? AND t_s < ? AND class <> '' ORDER BY t_s, id",
        (server, from_s, to_s),
    )
    return list(dicts(found))


def bare(path: str) -> str:
    """Return a path without its query."""
    return path.partition("?")[0]


KEYS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "path": lambda wake: bare(wake["path"]),
    "address": lambda wake: wake["who"],
    "agent": lambda wake: wake["agent"],
    "class": lambda wake: wake["class"],
}
"""The common field of a group's wakes, by its kind."""


def groups(found: Iterable[dict[str, Any]], kind: str) -> list[Group]:
    """Return the groups that woke a server most, most wakes first, at most MOST_GROUPS."""
    made: dict[str, Group] = {}
    key_of = KEYS[kind]
    for wake in found:
        key, t_s = key_of(wake), wake["t_s"]
        group = made.get(key)
        if group is None:
            server = wake["server"]
            group = Group(kind=kind, key=key, server=server, first_s=t_s, last_s=t_s)
            made[key] = group
        group.last_s = t_s
        group.add(wake)
    most = sorted(made.values(), key=lambda g: (-g.wakes, -g.last_s))
    return most[:MOST_GROUPS]
