"""When a refused search engine may wake a server once, and crawl it for a while.

Search engines drop pages that they cannot read for days. So refusals end at
a limit: then an engine's next request wakes the server and is answered, and the server stays awake
while the crawl goes on, for ten minutes at most. Only engines with verified addresses count here.

Pure: times are arguments, seconds of one clock. The controller and the estimate ask the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

WINDOW_S: Final = 600.0
"""So long a server stays awake for one that crawls."""

QUIET_S: Final = 60.0
"""An engine without requests for so long is done."""

PACE_S: Final = 1.0
"""Of crawlers one request in so long gets to a server that is awake for one that crawls."""

MOST: Final = 64
"""Search engines of one server that are remembered: there are fewer in the list."""


@dataclass(slots=True)
class Engine:
    """One search engine at one server."""

    refused_since_s: float | None = None
    """None: it got what it asked for last."""
    served_s: float | None = None
    """When the server last answered it."""
    let_in_s: float | None = None
    """When it last woke the server."""


@dataclass(slots=True)
class _Crawl:
    engine: str
    until_s: float
    last_s: float


class Engines:
    """Those that ask one server."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: one is refused for so long at most; 0: for ever."""
        self.limit_s = limit_s
        self.known: dict[str, Engine] = {}
        self._crawl: _Crawl | None = None

    def refused(self, name: str, t_s: float) -> None:
        """It asked, and was sent away because the server sleeps."""
        engine = self._of(name)
        if engine.refused_since_s is None:
            engine.refused_since_s = t_s

    def served(self, name: str, t_s: float, *, held: bool = False) -> None:
        """The server answered it; `held`: after it was woken for that."""
        engine = self._of(name)
        if held and self.due(name, t_s):
            engine.let_in_s = t_s
            self._crawl = _Crawl(name, t_s + WINDOW_S, t_s)
        elif self._crawl and self._crawl.engine == name:
            self._crawl.last_s = t_s
        engine.refused_since_s = None
        engine.served_s = t_s

    def due(self, name: str, t_s: float) -> bool:
        """May it wake the server?"""
        engine = self.known.get(name)
        since_s = engine.refused_since_s if engine else None
        return bool(self.limit_s) and since_s is not None and t_s - since_s >= self.limit_s

    def crawls(self, t_s: float) -> tuple[str, float] | None:
        """Return for whom the server stays awake now, and until when at most."""
        crawl = self._crawl
        if crawl and not t_s < min(crawl.until_s, crawl.last_s + QUIET_S):
            crawl = self._crawl = None
        return (crawl.engine, crawl.until_s) if crawl else None

    def _of(self, name: str) -> Engine:
        if name not in self.known and len(self.known) >= MOST:
            del self.known[next(iter(self.known))]
        return self.known.setdefault(name, Engine())

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        return {name: asdict(engine) for name, engine in self.known.items()}

    def load(self, saved: Mapping[str, Any], t_s: float) -> None:
        """Restore kept values; ignore invalid and future ones."""
        for name, kept in list(saved.items())[:MOST]:
            if not isinstance(name, str) or not isinstance(kept, Mapping):
                continue
            times = {
                each: found
                for each, found in kept.items()
                if each in Engine.__slots__ and isinstance(found, (int, float)) and found <= t_s
            }
            self.known[name] = Engine(**times)
