"""What Varnish and the VMOD would have made of each request: the only piece that is a model.

Who asks is found by the same table and the same learned clients, what needs the server by the
estimator's model of a cache. A visitor who waits sends nothing more until the page has come.
"""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import resources
from typing import Any

from naproxy.config.document import Server
from naproxy.controller.learning import path_hash
from naproxy.core import page_h
from naproxy.core.classify import Agents
from naproxy.core.page_h import SERVED, Outcome
from naproxy.core.state import Klass, State
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.estimate.cachemodel import CACHES, TTL_S, is_cacheable, is_static
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Page

from tests.simulator.past.log import Timed

HOST = "www.office.example"
_NO_AGENT = 0xFFFFFFFF
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_GOES = (State.UNKNOWN, State.AWAKE, State.TROUBLE)
"""States in which requests go to the server."""
_FETCH_S = (-2.6, 0.7)
"""How long the server takes for an answer, log-normal: the median is 74 ms."""
_MOST_FETCH_S = 5.0


Who = tuple[Klass, int]
"""Class, and flags of the event."""


class Recognised:
    """Class and number of a User-Agent, as the VMOD's own table has them."""

    def __init__(self) -> None:
        self.klass = Agents().klass
        table = json.loads(resources.files("naproxy").joinpath("crawlers.json").read_text("utf-8"))
        # Of another class each, so that what it says is not what holds for no entry.
        self._each = [
            (Klass[agent["class"].upper()], Agents([{**agent, "class": "scanner"}]).klass)
            for agent in table
        ]
        self.number = lru_cache(maxsize=1 << 14)(self._number)

    def _number(self, agent: str) -> int:
        said = self.klass(agent)
        for number, (klass, of) in enumerate(self._each):
            if klass is said and of(agent) is Klass.SCANNER:
                return number
        return _NO_AGENT


class Front:
    """Takes requests, asks for wakes, and reports each when it has ended."""

    def __init__(
        self,
        shared: Page,
        server: Server,
        wall: Callable[[], float],
        *,
        ended: Callable[[Event], None],
        wake: Callable[[bytes], None],
        dice: random.Random,
    ) -> None:
        """`ended` is told of each request, `wake` gets the datagrams."""
        self.busy_s: defaultdict[int, float] = defaultdict(float)
        """Second -> time for which requests were at the server."""
        self._page = shared
        self._server = server
        self._wall = wall
        self._ended = ended
        self._wake = wake
        self._dice = dice
        self._agents = Recognised()
        self._fetched_s: dict[str, float] = {}
        self._waiting: list[tuple[Timed, float]] = []
        self._clients: set[int] = set()
        self._since_s = 0.0
        self._sequence = 0
        self._asked_s = 0.0
        self._path = lru_cache(maxsize=1 << 14)(lambda url: path_hash(HOST, url))

    @property
    def _record(self) -> Any:
        return self._page.server(0)

    def state(self, state: State) -> None:
        """Hear of the server's state, as the page says it."""
        if state is State.FALLING_ASLEEP:
            self._since_s = self._wall()
        if state in _GOES and self._waiting:
            waiting, self._waiting = self._waiting, []
            self._clients.clear()
            loop = asyncio.get_running_loop()
            for number, (timed, asked_s) in enumerate(waiting):
                # Let go in stages, and a browser takes a moment to come back.
                back_s = 0.01 * number + (0.3 if asked_s < 0 else 0.0)
                loop.call_later(back_s, self._again, timed, asked_s)

    def _again(self, timed: Timed, asked_s: float) -> None:
        if asked_s > 0:
            self._fetch(timed, asked_s, Outcome.HELD)
        else:
            self.ask(Timed(self._wall(), timed.entry))

    async def play(self, requests: Iterable[Timed]) -> None:
        """Let them come when they are due."""
        for timed in requests:
            await asyncio.sleep(max(0.0, timed.t_s - self._wall()))
            self.ask(timed)

    def ask(self, timed: Timed) -> None:
        """A request comes."""
        entry = timed.entry
        client = _client(entry)
        who = klass, _ = self._who(entry, client)
        if not klass.robot and client in self._clients:
            self._waiting.append((timed, -1.0))
            return
        asleep = State(self._record.state) not in _GOES
        kept = self._kept(entry, klass, asleep=asleep)
        if kept is not None:
            self._end(timed, timed.t_s, kept, who)
        elif not asleep:
            cacheable = is_cacheable(entry.method, entry.status) and is_static(_bare(entry))
            self._fetch(timed, timed.t_s, Outcome.FETCH if cacheable else Outcome.PASS)
        elif klass.name.lower() not in self._server.wake_classes:
            self._end(timed, timed.t_s, Outcome.REFUSED, who)
        else:
            self._need(timed, who, client)

    def _need(self, timed: Timed, who: Who, client: int) -> None:
        klass, flags = who
        load = bool(flags & page_h.E_PAGE_LOAD)
        self._ask_for_wake(timed.entry, klass, load=load)
        if load and self._server.waiting_page:
            self._end(timed, timed.t_s, Outcome.WAITING_PAGE, who)
            self._clients.add(client)
            self._waiting.append((timed, -1.0))
        else:
            self._waiting.append((timed, timed.t_s))

    def _who(self, entry: Entry, client: int) -> Who:
        klass, flags = self._agents.klass(entry.agent), 0
        for slot in self._page.layout.learned:
            if slot.client == client:
                klass, flags = Klass(slot.klass), page_h.E_LEARNED
            elif not slot.client:
                break
        load = klass is Klass.PERSON and entry.method == "GET" and not is_static(_bare(entry))
        return klass, flags | (page_h.E_PAGE_LOAD if load else 0)

    def _kept(self, entry: Entry, klass: Klass, *, asleep: bool) -> Outcome | None:
        """Return how the cache answers; None if it does not."""
        if not is_cacheable(entry.method, entry.status) or not is_static(_bare(entry)):
            return None
        now_s, fetched_s = self._wall(), self._fetched_s.get(entry.path)
        if fetched_s is not None and now_s - fetched_s < TTL_S:
            return Outcome.HIT
        usable_s = CACHES["frozen"].usable_s
        if fetched_s is not None and (self._since_s if asleep else now_s) < fetched_s + usable_s:
            if not asleep:
                self._fetched_s[entry.path] = now_s
            return Outcome.STALE
        if not asleep and not klass.robot:
            self._fetched_s[entry.path] = now_s
        return None

    def _ask_for_wake(self, entry: Entry, klass: Klass, *, load: bool) -> None:
        if self._wall() - self._asked_s < 0.1:
            return
        self._asked_s = self._wall()
        reason = "page" if load else "miss" if entry.method in ("GET", "HEAD") else "pass"
        lines = {
            "server": self._server.id,
            "reason": reason,
            "method": entry.method,
            "class": klass.name.lower(),
            "client": entry.host,
            "agent": entry.agent[:120],
            "host": HOST,
            "path": entry.path[:256],
        }
        said = "".join(f"{key}={_printable(value)}\n" for key, value in lines.items())
        self._wake(f"naproxy-wake 1\n{said}".encode())

    def _fetch(self, timed: Timed, asked_s: float, outcome: Outcome) -> None:
        took_s = min(self._dice.lognormvariate(*_FETCH_S), _MOST_FETCH_S)
        self.busy_s[int(self._wall())] += took_s
        self._record.fetching_now += 1
        who = self._who(timed.entry, _client(timed.entry))
        asyncio.get_running_loop().call_later(
            took_s, self._fetched, timed, (asked_s, self._wall() - asked_s), outcome, who
        )

    def _fetched(
        self,
        timed: Timed,
        waited: tuple[float, float],
        outcome: Outcome,
        who: Who,
    ) -> None:
        self._record.fetching_now -= 1
        asked_s, delay_s = waited
        self._end(timed, asked_s, outcome, who, delay_s)

    def _end(
        self,
        timed: Timed,
        asked_s: float,
        outcome: Outcome,
        who: Who,
        delay_s: float = 0.0,
    ) -> None:
        entry, (klass, flags) = timed.entry, who
        self._sequence += 1
        if outcome in (*SERVED, Outcome.WAITING_PAGE):
            flags |= page_h.E_NEEDED
        if outcome is Outcome.WAITING_PAGE or delay_s > self._server.promise.delta_s:
            flags |= page_h.E_DELAYED
        self._ended(
            Event(
                seq=self._sequence,
                t_us=page.monotonic_us() - int(1e6 * (self._wall() - asked_s)),
                client=_client(entry),
                path=self._path(entry.path),
                delay_ms=int(1000 * delay_s),
                agent=self._agents.number(entry.agent),
                server=0,
                klass=klass,
                outcome=outcome,
                flags=flags,
                status=503 if outcome in (Outcome.WAITING_PAGE, Outcome.REFUSED) else entry.status,
                method=_METHODS.index(entry.method) if entry.method in _METHODS else 7,
            )
        )


@lru_cache(maxsize=1 << 14)
def _client_of(host: str, agent: str) -> int:
    high = zlib.crc32(host.encode("latin-1"))
    return high << 32 | zlib.crc32(agent.encode("latin-1"), high)


def _client(entry: Entry) -> int:
    return _client_of(entry.host, entry.agent)


def _bare(entry: Entry) -> str:
    return entry.path.partition("?")[0]


def _printable(text: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in text)
