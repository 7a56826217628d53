"""The hits of a cache in front of the server, from a log that does not record them.

Each cacheable address has the time of its last fetch, with a server that is always awake: it is
fetched at the first request, and again at a request after `TTL_S`. Only people and programs fill
the cache, since robots are refused while the server sleeps. An entry is usable until `expires_s`.
A request needs the server

    awake:           from expires_s on
    asleep, thesis:  from expires_s on; nothing is fetched meanwhile
    asleep, frozen:  if the entry had expired when the server fell asleep: a sleeping server
                     cannot change its files, so usable entries stay usable

Entries served during a sleep count as fetched again when the server wakes. A real cache fetches
them at the next request, which finds the server awake: that causes no wait either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TTL_S: Final = 120.0
"""Fresh for so long (the thesis' proxy; Varnish's default)."""

NEVER: Final = -1.0
"""Age of an address that is not in the cache."""


@dataclass(frozen=True, slots=True)
class CacheModel:
    """One model; `grace_s` is how long after `TTL_S` an entry may still be served."""

    name: str
    grace_s: float | None = None  # None: nothing is cached
    frozen: bool = False
    pages: bool = False  # pages too, not only static files
    usable: tuple[float, ...] = ()
    """In seconds, for each way in which a box keeps answers; it goes before all of the above."""

    @property
    def usable_s(self) -> float:
        """How long after it was fetched an entry may be served, in seconds."""
        return 0.0 if self.grace_s is None else TTL_S + self.grace_s


# The thesis' "aggressive" mode has an hour of grace. The frozen models need the cache's content
# when the server falls asleep, often hours after the last visit. Their day is RFC 9111's heuristic
# freshness (4.2.2) of a file that last changed ten days ago.
CACHES: Final = {
    model.name: model
    for model in (
        CacheModel("none"),
        CacheModel("thesis", grace_s=3600.0),
        CacheModel("frozen", grace_s=86400.0, frozen=True),
        CacheModel("frozen-pages", grace_s=86400.0, frozen=True, pages=True),
    )
}

# A real cache's own record: it keeps answering its former hits, all else needs the server.
RECORDED: Final = CacheModel("recorded", grace_s=math.inf, frozen=True, pages=True)
MODELS: Final = {**CACHES, RECORDED.name: RECORDED}

_STATIC: Final = frozenset(
    """
    avif bmp css eot gif ico jpeg jpg js map mjs mov mp3 mp4 ogg otf pdf png svg ttf txt wasm
    webm webmanifest webp woff woff2 xml zip
    """.split()  # noqa: SIM905 a list of thirty lines reads no better
)
_CACHEABLE: Final = frozenset((200, 203, 204, 206, 300, 301, 302, 304, 307, 404, 410))


def is_static(path: str) -> bool:
    """Does the address (without its query) look like a file that pages embed or link to?"""
    name = path[path.rfind("/") + 1 :]
    return name[name.rfind(".") + 1 :].lower() in _STATIC if "." in name else False


def is_cacheable(method: str, status: int) -> bool:
    """May an answer be kept (RFC 9110, 15.1; and redirects, which Varnish keeps too)?"""
    return status in _CACHEABLE and method in ("GET", "HEAD")


class Fetched:
    """When each address was last fetched, were the server always awake."""

    def __init__(self, remembered: int = 200_000) -> None:
        """`remembered` bounds the memory: beyond it the half fetched longest ago is forgotten."""
        self._fetched_s: dict[int, float] = {}
        self._remembered = remembered

    def age_s(self, t_s: float, path: int) -> float:
        """Age of the entry as a request at `t_s` finds it, or NEVER; then it may be fetched."""
        fetched_s = self._fetched_s.get(path)
        if fetched_s is None:
            if len(self._fetched_s) >= self._remembered:
                self._forget(self._fetched_s.values())
            self._fetched_s[path] = t_s
            return NEVER
        age_s = t_s - fetched_s
        if age_s >= TTL_S:
            self._fetched_s[path] = t_s
        return age_s

    def _forget(self, times_s: Iterable[float]) -> None:
        median_s = sorted(times_s)[self._remembered // 2]
        self._fetched_s = {p: t for p, t in self._fetched_s.items() if t > median_s}
