"""Which field of a log has the visitor's address: behind a proxy not that of the connection."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from naproxy.lab.estimate import logvalues as values

PEERS: Final = (
    *("clienthost", "remoteaddr", "remoteip", "clientip", "clientaddr", "remotehost", "client"),
    *("cip", "sourceip", "srcip", "ip", "ipaddress", "remote", "host", "clientaddress", "peer"),
    *("sourceaddress", "visitor", "fwd", "src", "raddr", "addr"),
)
FORWARDED: Final = re.compile(r"forward|realip|connectingip|trueclient|clientipreal|xff")
SERVERS: Final = re.compile(
    r"upstream|server|service|local|dest|origin|backend|target|^s-ip$|^dst|resp_|response"
)
"""Names of fields: for visitors, for proxies' additions, and for machines that are neither."""


def plain(name: str) -> str:
    """Return a name without its punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


class Column(NamedTuple):
    """A column that may have the client's address."""

    key: Any
    cells: Sequence[str]
    forwarded: bool
    """Is it a text in quotes, or named so: a header that a proxy set?"""
    before: bool = True
    """Does it stand before the request?"""


class _Addresses:
    """Statistics of the addresses in a column."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.found = [values.address(cell) for cell in column.cells]
        known = [each for each in self.found if each]
        counts = Counter(known)
        self.known = len(known) / max(1, len(self.found))
        self.distinct = len(counts)
        self.most = max(counts.values(), default=0) / max(1, len(known))
        self.private = values.share(known, values.is_private)
        self.cloudflare = values.share(known, values.is_cloudflare)
        self.ports = values.share(list(column.cells), values.has_port)

    @property
    def proxies(self) -> bool:
        """Are these a few machines in between rather than visitors?"""
        return self.most >= 0.9 or self.private > 0.9 or self.cloudflare > 0.5


def clients_of(columns: Sequence[Column]) -> list[Any]:
    """Return the keys of the columns that have the visitor's address, the best first."""
    found = [each for each in map(_Addresses, columns) if each.known >= 0.5]
    best = found[0] if found else None
    for other in found[1:]:
        if best and _nearer(other, best):
            best = other
    # Where a proxy named nobody, the one that connected is the visitor.
    return list(dict.fromkeys(each.column.key for each in (best, *found[:1]) if each))


def _nearer(other: _Addresses, best: _Addresses) -> bool:  # noqa: PLR0911 - one for each reason
    """Is the other column nearer to the visitor than the best one before it?"""
    both = [(a, b) for a, b in zip(other.found, best.found, strict=True) if a and b]
    if sum(a != b for a, b in both) * 2 <= len(both):
        return False
    if best.ports > 0.5 >= other.ports and other.column.before and best.column.before:
        return True  # a virtual host that is an address
    if other.ports > 0.5 >= best.ports:
        return False  # the server behind, which the proxy connected to
    if other.distinct == 1 and best.distinct > 1:
        return False
    if other.private > 0.9 and best.private < 0.5 and not best.proxies:
        return False
    if best.proxies:
        return other.distinct >= best.distinct or not other.proxies
    if other.column.forwarded:
        return other.distinct > 4 or other.distinct * 10 >= best.distinct
    return other.distinct > 2 * best.distinct
