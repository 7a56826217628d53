"""When a server is looked at, what becomes of the look, and who obeys it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from naproxy.api import measures
from naproxy.config import document as config
from naproxy.config.document import Server
from naproxy.controller.runner import Runner
from naproxy.controller.sighting import AGAIN_S, SOON_S, Sighting
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.drivers.sleep import Counted, Past, SleepResult, agent, ssh
from naproxy.history.write.journal import Journal
from naproxy.server.machine_io import Answer
from naproxy.server.sight import Look
from one_runner import running
from samples import server

AROUND = Reason("server.https_around", port=443)
NOT_LOOKED = Reason("server.not_looked")
NOT_SEEN = Reason("server.not_seen")
SERVER = server("armed = true\n")
UNUSED = replace(SERVER, https=config.ServerHttps(mode="unused"))


class Asked:
    """A runner, and a machine to look at."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.server = SERVER
        self.awake = State.AWAKE
        self.port = "open"
        self.looks = 0
        self.heard = 0
        self.now_s = 1e9
        self.other: Reason | None = None
        self.amid: Callable[[], None] = lambda: None
        self.served: tuple[str, ...] = ()
        self.sighting = self.anew()

    def anew(self) -> Sighting:
        self.sighting = Sighting(
            self.journal, "web", self, self.look, lambda: self.served, wall=lambda: self.now_s
        )
        return self.sighting

    async def look(self, _: Server) -> Look:
        self.looks += 1
        await asyncio.sleep(0)
        self.amid()
        return Look(self.now_s, self.port)

    def state(self) -> State:
        return self.awake

    def stranger(self) -> Reason | None:
        return self.other

    def sighted(self) -> None:
        self.heard += 1


@asynccontextmanager
async def asking(directory: Path) -> AsyncIterator[Asked]:
    with closing(Journal(directory)) as journal:
        asked = Asked(journal)
        yield asked
        asked.sighting.stop()


@pytest.fixture
def asked(tmp_path: Path, enter: Callable[..., Asked]) -> Asked:
    return enter(asking(tmp_path))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_server_is_looked_at_as_soon_as_it_is_awake(asked: Asked) -> None:
    asked.awake = State.WAKING
    asked.sighting.awake()
    await turns()
    assert (asked.looks, asked.sighting.blind) == (0, NOT_LOOKED)
    asked.awake = State.AWAKE
    asked.sighting.awake()
    await turns()
    assert (asked.looks, asked.heard, asked.sighting.blind) == (1, 1, AROUND)


async def test_a_look_holds_for_an_hour(asked: Asked) -> None:
    await asked.sighting.now()
    asked.now_s += AGAIN_S - 1
    asked.sighting.awake()
    await turns()
    assert asked.looks == 1
    asked.now_s += 1
    asked.sighting.awake()
    await turns()
    assert asked.looks == 2


async def test_an_inconclusive_look_is_repeated_soon(asked: Asked) -> None:
    asked.port = "unknown"
    await asked.sighting.now()
    assert asked.sighting.blind == NOT_SEEN
    asked.now_s += SOON_S
    asked.port = "refused"
    asked.sighting.awake()
    await turns()
    assert (asked.looks, asked.sighting.blind) == (2, None)


async def test_a_restart_while_it_sleeps_needs_no_look(asked: Asked) -> None:
    asked.port = "refused"
    await asked.sighting.now()
    asked.sighting.stop()
    asked.awake = State.ASLEEP
    assert asked.anew().blind is None
    asked.sighting.awake()
    await turns()
    assert asked.looks == 1


async def test_an_invalid_journal_counts_as_no_look(asked: Asked) -> None:
    for kept in ({}, {"about": 5, "look": 7}, {"look": {"port": "open"}}):
        asked.journal.save("look.web", kept)
        assert asked.anew().blind == NOT_LOOKED, kept


async def test_a_look_is_about_one_address_port_and_set_of_names(asked: Asked) -> None:
    asked.port = "refused"
    changes: list[dict[str, Any]] = [{"address": "127.0.0.2"}, {"port": 8080}]
    for change in (*changes, {"hosts": ("shop.example",)}):
        asked.server = SERVER
        await asked.sighting.now()
        asked.server = replace(SERVER, **change)
        assert asked.sighting.blind == NOT_LOOKED, change
        before = asked.looks
        asked.sighting.awake()
        await turns()
        assert (asked.looks, asked.sighting.blind) == (before + 1, None), change


async def test_that_nobody_uses_https_holds_at_once_without_another_look(asked: Asked) -> None:
    await asked.sighting.now()
    asked.server = UNUSED
    assert (asked.sighting.blind, asked.looks) == (None, 1)


async def test_a_look_at_another_machine_is_thrown_away(asked: Asked) -> None:
    asked.port, asked.other = "refused", Reason("ready.stranger")
    await asked.sighting.now()
    assert asked.sighting.blind == NOT_LOOKED


async def test_a_look_at_a_server_that_fell_asleep_meanwhile_is_thrown_away(asked: Asked) -> None:
    asked.port = "silent"
    asked.amid = lambda: setattr(asked, "awake", State.ASLEEP)
    await asked.sighting.now()
    assert asked.sighting.blind == NOT_LOOKED


async def test_two_requests_at_once_cause_one_look(asked: Asked) -> None:
    await asyncio.gather(asked.sighting.now(), asked.sighting.now())
    assert asked.looks == 1


async def test_a_look_that_fails_leaves_it_awake(asked: Asked) -> None:
    def fault() -> None:
        raise RuntimeError("a fault of ours")

    asked.amid = fault
    await asked.sighting.now()
    assert asked.sighting.blind == NOT_SEEN


@dataclass
class Door:
    """443 of a server, as the look finds it."""

    port: str = "open"

    async def look(self, _: Server) -> Look:
        return Look(time.time(), self.port)


@pytest.fixture
def door() -> Door:
    return Door()


Start = Callable[..., AbstractAsyncContextManager[Runner]]


@pytest.fixture
def start(tmp_path: Path, door: Door) -> Start:
    """Start a runner, more than once if the test does; each takes up what the last one saved."""
    return partial(running, tmp_path, SERVER, epoch_s=1.8e9, look=door.look)


@pytest.fixture
def made(start: Start, enter: Callable[..., Runner]) -> Runner:
    """A runner whose server nobody has looked at yet."""
    return enter(start(looked=False))


@pytest.fixture
def looked(start: Start, enter: Callable[..., Runner]) -> Runner:
    """A runner whose server nobody comes past."""
    return enter(start())


async def test_armed_in_the_file_it_sleeps_by_itself_only_after_a_look(made: Runner) -> None:
    assert made.supervisor.inhibitors() == [NOT_LOOKED]
    assert made.status()["https"] == {
        "mode": "none",
        "sight": NOT_LOOKED.plain(),
        "around": None,
        "through": None,
    }


async def test_visitors_past_the_box_are_counted_and_known_after_a_restart(start: Start) -> None:
    async with start() as made:
        made.configure(replace(SERVER, sleep=ssh.Settings()), "lo")
        assert made.status()["https"]["around"]["today"] == 0
        made.supervisor.past(3)
        told = {"today": 3, "yesterday": 0, "total": 3, "how": "ssh"}
        assert made.status()["https"]["around"] == told
    async with start() as made:
        assert made.supervisor.around.total == 3


async def test_an_agents_count_outlives_a_restart(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def counted(_: agent.Driver) -> Counted:
        return Counted("a" * 32, 3, 1)

    by_agent = replace(SERVER, sleep=agent.Settings())
    async with start() as made:
        made.configure(by_agent, "lo")
        assert made.status()["https"]["around"] is None
        monkeypatch.setattr(agent.Driver, "counted", counted)
        monkeypatch.setattr(made.machine, "state", State.AWAKE)
        made.supervisor.look()
        await turns()
        told = {"today": 3, "yesterday": 0, "total": 3, "how": "agent"}
        assert made.status()["https"]["around"] == told
        assert came_past(made) == 3
    async with start() as made:
        made.configure(by_agent, "lo")
        assert made.status()["https"]["around"]["total"] == 3


def came_past(made: Runner) -> float:
    """What the measures say of visitors who came past the box."""
    return {sample[0]: sample[2] for sample in measures._server(made.status())}[measures.AROUND]


async def test_visitors_named_in_a_refusal_are_counted(
    made: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> SleepResult:
        return SleepResult(Answer.REFUSED, Reason("sleep.no_words"), Past(443, 2))

    made.configure(replace(SERVER, sleep=ssh.Settings()), "lo")
    monkeypatch.setattr(made.executor._sleeper, "asked", refuse)
    await made.executor._sleep()
    assert made.supervisor.around.total == came_past(made) == 2


async def test_visitors_seen_only_past_the_box_prevent_sleep(looked: Runner) -> None:
    supervisor, today = looked.supervisor, looked.supervisor._day()
    supervisor.around.through(today - 3)
    supervisor.around.connected(0.0, today - 1, 1)
    assert supervisor.inhibitors() == []
    supervisor.past(2)
    assert supervisor.inhibitors() == [Reason("server.blind", days=3, around=3)]
    supervisor.through()
    assert supervisor.inhibitors() == []


async def test_https_opened_later_keeps_it_awake(
    looked: Runner, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "state", lambda: State.AWAKE)
    monkeypatch.setattr(looked, "stranger", lambda: None)
    arming = looked.supervisor.arming
    arming.prove()
    assert arming.why_not is None
    await looked.supervisor.sighting.now()
    assert arming.why_not == AROUND
    door.port = "refused"
    await looked.supervisor.sighting.now()
    assert arming.why_not is None


async def test_a_new_mode_arms_it_at_once(monkeypatch: pytest.MonkeyPatch, made: Runner) -> None:
    monkeypatch.setattr(made, "state", lambda: State.AWAKE)
    monkeypatch.setattr(made, "stranger", lambda: None)
    await made.supervisor.sighting.now()
    made.configure(UNUSED, "lo")
    assert made.supervisor.arming.why_not is None
