"""Finds out which addresses are a search engine's, as the engines tell site owners to do.

Any client can send a search engine's User-Agent. It is believed if the name of its address ends
as the engine says, and that name resolves to the address. No request waits for that: the names are
looked up after a refusal, and the result holds for the next request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

from naproxy.core.request import Refusal

KNOWN: Final = 512
"""Addresses that are remembered."""

TRUE_S: Final = 86400.0
FALSE_S: Final = 3600.0
"""So long what was found of an address holds."""

ASKED: Final = 8
"""Addresses that are asked after at once; others when they come again."""

PATIENCE_S: Final = 20.0


class Dns(NamedTuple):
    """Looks up names and addresses; OSError if that fails."""

    name: Callable[[str], Awaitable[str]]
    """The name of an address."""
    addresses: Callable[[str], Awaitable[Iterable[str]]]
    """The addresses of a name."""


async def _name(address: str) -> str:
    loop = asyncio.get_running_loop()
    name, _ = await loop.getnameinfo((address, 0), socket.NI_NAMEREQD)
    return name


async def _addresses(name: str) -> Iterable[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


DNS: Final = Dns(_name, _addresses)


@lru_cache(maxsize=1)
def _agents() -> tuple[dict[str, tuple[str, ...]], dict[int, str]]:
    rows = json.loads(resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8"))
    named = [(index, row) for index, row in enumerate(rows) if "engine" in row]
    ends = {row["engine"]: tuple(row["domains"]) for _, row in named}
    return ends, {index: row["engine"] for index, row in named}


def domains() -> dict[str, tuple[str, ...]]:
    """Return where the names of each search engine's addresses end: the list of robots has it."""
    return _agents()[0]


def engine_of(agent: int) -> str | None:
    """Return whose search engine `naproxy_event.agent` names, if any."""
    return _agents()[1].get(agent)


async def belongs(address: str, ends: Iterable[str], dns: Dns) -> bool:
    """Has this address a name that ends so, and that name the address?"""
    try:
        wanted = ipaddress.ip_address(address)
        name = (await dns.name(str(wanted))).rstrip(".").lower()
        if not any(name.endswith(f".{end}") for end in ends):
            return False
        # An address with a zone is nobody's on the Internet.
        return any(ipaddress.ip_address(each) == wanted for each in await dns.addresses(name))
    except (OSError, ValueError):
        return False


class Verifier:
    """Remembers which addresses are a search engine's."""

    def __init__(self, dns: Dns = DNS, now_s: Callable[[], float] = time.monotonic) -> None:
        """Know nobody."""
        self._dns = dns
        self._now_s = now_s
        self._domains = domains()
        self._known: OrderedDict[tuple[str, str], tuple[bool, float]] = OrderedDict()
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}

    def ask(self, refusal: Refusal, found: Callable[[], None]) -> None:
        """Call `found` if it is one: at once if that is known, else when it is."""
        key = refusal.engine, refusal.address
        if refusal.engine not in self._domains or key in self._asking:
            return
        good, until_s = self._known.get(key, (False, 0.0))
        if self._now_s() < until_s:
            if good:
                found()
        elif len(self._asking) < ASKED:
            task = asyncio.get_running_loop().create_task(self._look(key, found))
            self._asking[key] = task

    async def _look(self, key: tuple[str, str], found: Callable[[], None]) -> None:
        engine, address = key
        try:
            async with asyncio.timeout(PATIENCE_S):
                good = await belongs(address, self._domains[engine], self._dns)
        except TimeoutError:
            good = False
        finally:
            del self._asking[key]
        self._known[key] = good, self._now_s() + (TRUE_S if good else FALSE_S)
        self._known.move_to_end(key)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        if good:
            found()

    def stop(self) -> None:
        """Ask no more."""
        for task in self._asking.values():
            task.cancel()
