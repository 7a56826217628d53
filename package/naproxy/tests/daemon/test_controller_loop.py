"""What the controller does again and again goes on, whatever fails in it."""

import asyncio
import errno
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from box import ONE_SERVER
from naproxy.api import client
from naproxy.config import document as config
from naproxy.config.installation import Installation
from naproxy.config.worked import Chosen
from naproxy.daemon import control
from naproxy.daemon.main import Controller
from naproxy.shm.events import Event


class Broken:
    """An events' ring, and a history, that always fail."""

    next_s = 0.05
    sync_due = False
    asked = 0

    def read(self) -> Iterable[Event]:
        self.asked += 1
        raise RuntimeError("a fault")

    tick = read


def play(tmp_path: Path, what: Callable[[Controller], None], until: Callable[[], bool]) -> int:
    """Run a controller until something is so; returns its last heartbeat."""

    async def inside() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        here = Installation(run_dir=f"{tmp_path}/run", data_dir=f"{tmp_path}/data")
        chosen = Chosen(config.look(ONE_SERVER), ONE_SERVER.encode())
        box = Controller(tmp_path / "naproxy.toml", chosen, here)
        asyncio.get_running_loop().call_soon(what, box)
        async with asyncio.timeout(60):
            while not until():
                await asyncio.sleep(0.01)
        return int(box._page.layout.heartbeat_us)

    return asyncio.run(inside())


def test_the_heart_goes_on_beating_after_an_event_that_nobody_can_bear(tmp_path: Path) -> None:
    events = Broken()

    def beat(box: Controller) -> None:
        box._events = events  # type: ignore[assignment]
        box._beat()

    assert play(tmp_path, beat, lambda: events.asked > 1) > 0


def test_the_heart_stops_though_the_loop_turns_on(tmp_path: Path) -> None:
    end_s = time.monotonic() + 0.3  # three beats

    def beat(box: Controller) -> None:
        box._beat()
        box._stop()

    assert play(tmp_path, beat, lambda: time.monotonic() > end_s) == 0


def test_the_history_goes_on_after_a_fault(tmp_path: Path) -> None:
    history = Broken()

    def tick(box: Controller) -> None:
        box._history = history  # type: ignore[assignment]
        box._tick()

    play(tmp_path, tick, lambda: history.asked > 1)


def test_a_disk_that_fails_while_it_answers_is_an_answer(tmp_path: Path, said: list[str]) -> None:
    def broken() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def ask() -> client.Answer:
        path = tmp_path / "control.sock"
        server = await control.serve({"wakes": broken}, path, "")
        answer = await asyncio.to_thread(client.ask, str(path), "GET", "/v1/wakes")
        server.close()
        return answer

    answer = asyncio.run(ask())
    assert answer.status == 500
    assert answer.body["error"] == "a fault in Naproxy; see its log"
    assert answer.body["code"] == "api.fault"
    assert "No space left" in said[0]
