"""When the server is asked for the visits it counted."""

import asyncio

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


async def test_a_server_that_is_awake_is_asked_at_once_and_heard_if_it_tells() -> None:
    for is_awake, answer, asked in ((True, COUNTED, 1), (True, None, 1), (False, COUNTED, 0)):
        server = Server()
        server.is_awake, server.answer = is_awake, answer
        server.counting.awake()
        await turns()
        told = [COUNTED] if is_awake and answer else []
        assert (server.asked, server.heard) == (asked, told), (is_awake, answer)
        server.counting.stop()


async def test_silent_servers_are_asked_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = asyncio.sleep
    for answer, every_s in ((COUNTED, counting.EVERY_S), (None, counting.LATER_S)):
        waited: list[float] = []

        async def sleep(delay_s: float, waited: list[float] = waited) -> None:
            waited.append(delay_s)
            await turn(0 if len(waited) < 3 else 3600)

        server = Server()
        server.answer = answer
        monkeypatch.setattr(counting.asyncio, "sleep", sleep)
        server.counting.awake()
        while len(waited) < 3:
            await turn(0)
        server.counting.stop()
        assert (server.asked, waited) == (3, [every_s] * 3), answer


async def test_a_new_state_ends_the_questions_of_the_old_one() -> None:
    server = Server()
    server.counting.awake()
    server.is_awake = False
    server.counting.awake()
    await turns()
    assert server.asked == 0
