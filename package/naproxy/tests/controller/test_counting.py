"""When the server is asked for the visits it counted."""

import asyncio
from collections.abc import Callable

import pytest
from naproxy.controller import counting
from naproxy.controller.counting import Counting
from naproxy.drivers.sleep import Counted

COUNTED = Counted("a" * 32, 3, 1)


class Server:
    """Awake or not, and its answers; time passes as fast as somebody waits."""

    def __init__(self) -> None:
        self.is_awake = True
        self.answer: Counted | None = COUNTED
        self.asked = 0
        self.heard: list[Counted] = []
        self.counting = Counting(lambda: self.is_awake, self._ask, self.heard.append)

    async def _ask(self) -> Counted | None:
        self.asked += 1
        return self.answer


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(what: Callable[[Server], None], *, after: Callable[[Server], None]) -> None:
    async def inside() -> None:
        server = Server()
        what(server)
        await turns()
        after(server)
        server.counting.stop()

    asyncio.run(inside())


def test_it_is_asked_at_once_when_it_is_awake() -> None:
    def after(server: Server) -> None:
        assert (server.asked, server.heard) == (1, [COUNTED])

    play(lambda server: server.counting.awake(), after=after)


def test_a_server_that_sleeps_is_not_asked() -> None:
    def asleep(server: Server) -> None:
        server.is_awake = False
        server.counting.awake()

    def after(server: Server) -> None:
        assert server.asked == 0

    play(asleep, after=after)


def test_who_does_not_tell_is_not_heard() -> None:
    def silent(server: Server) -> None:
        server.answer = None
        server.counting.awake()

    def after(server: Server) -> None:
        assert (server.asked, server.heard) == (1, [])

    play(silent, after=after)


@pytest.mark.parametrize(
    ("answer", "every_s"), [(COUNTED, counting.EVERY_S), (None, counting.LATER_S)]
)
def test_it_is_asked_each_minute_and_who_does_not_tell_more_rarely(
    monkeypatch: pytest.MonkeyPatch, answer: Counted | None, every_s: float
) -> None:
    waited: list[float] = []
    turn = asyncio.sleep

    async def sleep(delay_s: float) -> None:
        waited.append(delay_s)
        await turn(0 if len(waited) < 3 else 3600)

    async def inside() -> None:
        server = Server()
        server.answer = answer
        monkeypatch.setattr(counting.asyncio, "sleep", sleep)
        server.counting.awake()
        while len(waited) < 3:
            await turn(0)
        server.counting.stop()
        assert server.asked == 3
        assert waited == [every_s] * 3

    asyncio.run(inside())


def test_a_new_state_ends_the_questions_of_the_old_one() -> None:
    def falls_asleep(server: Server) -> None:
        server.counting.awake()
        server.is_awake = False
        server.counting.awake()

    def after(server: Server) -> None:
        assert server.asked == 0

    play(falls_asleep, after=after)
