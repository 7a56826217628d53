"""A small cast of scripted visitors, so that each kind certainly comes at its moment.

They wait for the state of the server that they are to meet, and try again if they miss it.
"""

import asyncio
import itertools
from collections.abc import Callable

from naproxy.core.state import State
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.replay.replay_visit import Visit

from tests.e2e.browser import AGENT
from tests.simulator.demo.visitors import Ask
from tests.simulator.office.office import CLIENT_ADDRESS

FIRST_NUMBER = 1_000_000
"""Requests of the cast are numbered from here on, those of the log from 1."""

PERSON, CRAWLER, MONITOR, PROGRAM = (f"198.19.255.{n}" for n in (1, 3, 4, 5))
READER = CLIENT_ADDRESS
"""A browser chooses no address of its own."""
NAMES = {
    PERSON: "a person",
    READER: "another person (Chromium)",
    CRAWLER: "a crawler",
    MONITOR: "a monitor",
    PROGRAM: "a program (curl)",
}
BY_HTTP_2 = {READER, PROGRAM}
"""These are the real programs, and speak HTTP/2."""
_AGENTS = {
    PERSON: "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    READER: AGENT,
    CRAWLER: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    MONITOR: "Uptime-Kuma/1.23.3",
    PROGRAM: "curl/7.88.1",
}
_KNOWN_PAGE = "/pages/001.html"
_NEW_PAGES = 58  # of the site's 60, the front page and the known one are not new
_BEAT_S = 1.5
_REST_S = 45.0


class _CurtainError(Exception):
    """The play is over."""


class Cast:
    """The visitors; `ask` sends a request as one of them."""

    def __init__(self, ask: Ask, state: Callable[[], State], stop: asyncio.Event) -> None:
        self._ask = ask
        self._state = state
        self._stop = stop
        self._numbers = itertools.count(FIRST_NUMBER)
        self._new = itertools.count(0)

    async def play(self) -> None:
        """Play until `stop` is set: one round soon, then one now and then."""
        try:
            await self._pause(2.0)
            await self._say(PERSON, _KNOWN_PAGE)
            while True:
                await self._asleep(PERSON, lambda: _KNOWN_PAGE, {"hit", "stale"})
                await self._asleep(CRAWLER, self._new_page, {"refused"})
                await self._asleep(MONITOR, lambda: "/.naproxy/status", {"status"})
                await self._asleep(READER, self._new_page, {"waiting_page"})
                await self._asleep(PROGRAM, lambda: "/app/echo", {"held"}, "POST")
                await self._pause(_REST_S)
        except _CurtainError:
            pass

    async def _say(self, who: str, path: str, method: str = "GET") -> Visit:
        entry = Entry(0, who, method, path, 200, 0, "", _AGENTS[who])
        return await self._ask(next(self._numbers), entry)

    async def _asleep(
        self, who: str, path: Callable[[], str], wanted: set[str], method: str = "GET"
    ) -> None:
        """Ask while the server sleeps, until what is to be shown was seen."""
        outcome = ""
        while outcome not in wanted:
            while self._state() is not State.ASLEEP:
                await self._pause(0.2)
            await self._pause(_BEAT_S)
            if self._state() is State.ASLEEP:
                outcome = (await self._say(who, path(), method)).outcome

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise _CurtainError

    def _new_page(self) -> str:
        """Return a page that is not in the cache; after all were asked for, an address's query."""
        turn, page = divmod(next(self._new), _NEW_PAGES)
        return f"/pages/{page + 2:03}.html" + (f"?again={turn}" if turn else "")
