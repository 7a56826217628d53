"""Which names in `Host` belong to the box. DNS rebinding needs a different name, so it fails.

The box's own addresses, `localhost`, its host name with and without `.local` (mDNS), and
names from the configuration and the command line. Ports do not matter.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

FRESH_S: Final = 10.0
"""Addresses change with the network; they are read again so often."""


def split(host: str) -> str | None:
    """Return the name or address in a `Host` header, without port, None if it is malformed."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?", host)
    if not found:
        return None
    return found[1].strip("[]").lower().removesuffix(".")


class Hosts:
    """The names of the box."""

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        own: Callable[[], Iterable[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`names` are those that were configured; `own` are its addresses and its host name."""
        self._names = names
        self._own = own or own_names
        self._clock = clock
        self._known: frozenset[str] = frozenset()
        self._until_s = float("-inf")

    def knows(self, name: str) -> bool:
        """Return whether the box is called so."""
        if self._clock() >= self._until_s:
            self._known = frozenset(canonical(each) for each in (*self._own(), *self._names()))
            self._until_s = self._clock() + FRESH_S
        return canonical(name) in self._known


def canonical(name: str) -> str:
    """Return the one way to write an address or a name."""
    bare = name.strip("[]").lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare


def own_names() -> Iterator[str]:
    """Yield the box's host name, as mDNS has it too, and all addresses of its interfaces."""
    short = socket.gethostname().split(".")[0]
    yield from ("localhost", "127.0.0.1", "::1", socket.gethostname(), short, f"{short}.local")
    yield from _ipv4(Path("/proc/net/fib_trie"))
    yield from _ipv6(Path("/proc/net/if_inet6"))


def _ipv4(file: Path) -> Iterator[str]:
    address = ""
    for line in _lines(file):
        if line.startswith("|--"):
            address = line[3:].strip()
        elif line.startswith("/32 host LOCAL"):
            yield address


def _ipv6(file: Path) -> Iterator[str]:
    for line in _lines(file):
        yield str(ipaddress.IPv6Address(int(line.split()[0], 16)))


def _lines(file: Path) -> Iterator[str]:
    try:
        text = file.read_text()
    except OSError:
        return
    for line in text.splitlines():
        yield line.strip()
