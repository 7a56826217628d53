"""The agent's driver against the agent itself; what goes over the wire can be changed."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from driver_calls import secret_file
from free_port import free_port
from naproxy.core.reason import Reason
from naproxy.drivers import agent_protocol
from naproxy.drivers.sleep import Counted, SleepResult, agent
from naproxy.server.jobs import Job
from naproxy.server.machine_io import Answer
from naproxy.server.services import Office, parse
from ssh_server import TARGET

from tests.patience import PATIENCE_S, wait_for

AGENT = Path(__file__).parents[3] / "naproxy-agent" / "src"
KEY = bytes(range(32)).hex()
BACKUP = f"backup-{os.getpid()}"
"""The agent looks at all processes of the machine, also at those of other runs."""

SLOW_S = 1.5
"""Longer than a datagram waits for its answer before it is sent again."""

# How many requests it answers in a second is its own tests' concern.
START = """
import sys
import naproxy_agent
naproxy_agent.Agent.REQUESTS_PER_S = 10_000
sys.exit(naproxy_agent.main(sys.argv[1:]))
"""


def driver_of(folder: Path, port: int, **changes: Any) -> agent.Driver:
    usual = {"port": port, "key_file": secret_file(folder, KEY)}
    return agent.Driver(agent.Settings(**{**usual, **changes}), TARGET)


class Server:
    """The agent as a process; it sleeps by making a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port(socket.SOCK_DGRAM)
        self.asleep = directory / "asleep"
        (directory / "agent.conf").write_text(
            f"[agent]\nserver = web\nlisten = 127.0.0.1\nport = {self.port}\n"
            "[stay-awake]\ninhibitors = no\nlogged-in-users = no\nload-above = any\n"
            f"connections-except-ports = all\nprocesses = {BACKUP}\n"
            f"[sleep]\nmem = touch {self.asleep}\n"
        )
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", START, "--config", str(directory / "agent.conf")),
                *("--key", secret_file(directory, KEY)),
            ],
            cwd=AGENT,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr
        assert b"agent of web" in self.process.stderr.readline()

    def driver(self, **changes: Any) -> agent.Driver:
        return driver_of(self.directory, changes.pop("port", self.port), **changes)

    def sleep(self, answer_s: float = agent.ANSWER_S, **changes: Any) -> SleepResult:
        with mock.patch.object(agent, "ANSWER_S", answer_s):
            return asyncio.run(self.driver(**changes).sleep())

    def counted(self, **changes: Any) -> Counted | None:
        return asyncio.run(self.driver(**changes).counted())

    def sleeps(self) -> bool:
        """Whether it has gone to sleep, or does in time."""
        wait_for(self.asleep.exists, "the server to sleep")
        return True

    def stays_awake(self) -> bool:
        """Whether it has not obeyed what came before: it answers the next question after that."""
        assert self.counted()
        return not self.asleep.exists()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("agent"))
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.fixture
def server(running: Server) -> Server:
    running.asleep.unlink(missing_ok=True)
    return running


Change = Callable[[bytes], bytes | None]


@contextmanager
def wired(there: Change = bytes, back: Change = bytes) -> Iterator[list[bytes]]:
    """Change or drop datagrams between box and agent; those that went to the agent."""
    passed: list[bytes] = []
    real = agent_protocol.converse

    def converse(question: Any, *, send: Any, receive: Any, **rest: Any) -> Any:
        def sent(data: bytes) -> None:
            if (changed := there(data)) is not None:
                send(changed)
                passed.append(changed)

        def received(wait_s: float) -> bytes | None:
            data = receive(wait_s)
            return None if data is None else back(data)

        return real(question, send=sent, receive=received, **rest)

    with mock.patch.object(agent_protocol, "converse", converse):
        yield passed


def altered(data: bytes) -> bytes:
    """As somebody without the key would change a no into a yes."""
    return data.replace(b"verdict=no", b"verdict=yes").replace(b"time=1", b"time=2")


def test_a_busy_server_refuses_with_its_reason(server: Server, tmp_path: Path) -> None:
    program = tmp_path / BACKUP
    program.symlink_to("/bin/sleep")
    busy = subprocess.Popen([program, "60"])
    try:
        result = server.sleep()
    finally:
        busy.kill()
        busy.wait()
    assert result.answer is Answer.REFUSED
    assert f"{BACKUP} is running" in str(result.reason)
    assert server.stays_awake()


def test_a_state_that_is_not_offered_is_refused_with_its_name(server: Server) -> None:
    result = server.sleep(state="disk")
    assert result.answer is Answer.REFUSED
    assert "disk is not offered" in str(result.reason)


def test_a_forged_answer_is_not_believed(server: Server) -> None:
    with wired(back=altered):
        result = server.sleep(answer_s=SLOW_S)
    assert result == SleepResult(Answer.FAILED, Reason("sleep.agent_forged"))


def test_a_forged_order_is_not_obeyed(server: Server) -> None:
    with wired(there=altered):
        assert server.sleep(answer_s=SLOW_S).answer is Answer.FAILED
    assert server.stays_awake()


def test_a_recorded_order_does_not_put_it_to_sleep_again(server: Server) -> None:
    with wired() as passed:
        assert server.sleep() == SleepResult(Answer.ACCEPTED, Reason("sleep.accepted"))
    assert server.sleeps()
    server.asleep.unlink()
    assert any(b"challenge=" in datagram for datagram in passed)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in passed:
            stranger.sendto(datagram, ("127.0.0.1", server.port))
    assert server.stays_awake()


def test_every_answer_lost_after_the_order_is_left_to_observation(server: Server) -> None:
    answers: list[bytes] = []

    def first_only(data: bytes) -> bytes | None:
        answers.append(data)
        return data if len(answers) == 1 else None

    with wired(back=first_only):
        result = server.sleep(answer_s=SLOW_S)
    assert result == SleepResult(Answer.ACCEPTED, Reason("sleep.agent_left"))
    assert server.sleeps()


def test_a_wrong_clock_does_no_harm_and_is_said(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() - 10**9)
    result = server.sleep()
    assert result.answer is Answer.ACCEPTED
    assert "is one of them set wrong?" in str(result.reason)
    assert server.sleeps()


def test_where_no_agent_runs_it_is_said(server: Server) -> None:
    result = server.sleep(port=free_port(socket.SOCK_DGRAM))
    assert result.answer is Answer.FAILED
    assert "refused" in str(result.reason)


def test_a_key_that_is_none_or_may_be_read_by_others_is_said(
    server: Server, tmp_path: Path
) -> None:
    for text, mode, words in (
        *((text, 0o600, "key") for text in ("", "short", "zz" * 32, "00" * 33)),
        (KEY, 0o644, "chmod 600"),
    ):
        file = Path(secret_file(tmp_path, text))
        file.chmod(mode)
        result = server.sleep(key_file=str(file))
        assert result.answer is Answer.FAILED, text
        assert words in str(result.reason)


def test_nothing_is_ordered_after_it_was_called_off(server: Server) -> None:
    answered, go = threading.Event(), threading.Event()

    def held(data: bytes) -> bytes:
        answered.set()
        go.wait(PATIENCE_S)
        return data

    async def play() -> None:
        task = asyncio.ensure_future(server.driver().sleep())
        assert await asyncio.to_thread(answered.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    with wired(back=held) as passed:
        asyncio.run(play())
    assert server.stays_awake()
    assert not any(b"challenge=" in datagram for datagram in passed)


class Liar:
    """Has the agent's key, and answers a question with what `says` makes of it."""

    def __init__(self, says: Callable[[Any], bytes]) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE_S)
        self.port = self._socket.getsockname()[1]
        self._says = says
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with self._socket:
            data, box = self._socket.recvfrom(2000)
            request = agent_protocol.read_request(bytes.fromhex(KEY), data)
            assert not isinstance(request, agent_protocol.Request)
            self._socket.sendto(self._says(request), box)


Questions = agent_protocol.Count | agent_protocol.Ask


def signed(kind: str, request: Questions, said: dict[str, str], changes: dict[str, str]) -> bytes:
    """An honest answer with some lines changed, and signed."""
    head = {"kind": kind, "server": "web", "time": "1700000000", "re": request.nonce}
    lines = [f"{key}={value}" for key, value in {**head, **said, **changes}.items()]
    return agent_protocol._sign(bytes.fromhex(KEY), lines)


def told(request: agent_protocol.Count, **changes: str) -> bytes:
    return signed("counted", request, {"run": "a" * 32, "visits": "41", "here": "1"}, changes)


def appointments(request: agent_protocol.Ask, **changes: str) -> bytes:
    return signed("told", request, {"job": "36000 other backup.timer"}, changes)


def counted_by(folder: Path, says: Callable[[Any], bytes]) -> Counted | None:
    return asyncio.run(driver_of(folder, Liar(says).port).counted())


def asked_of(folder: Path, says: Callable[[Any], bytes]) -> list[Job] | SleepResult | None:
    return asyncio.run(driver_of(folder, Liar(says).port).asked())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is none is not waited for as long as usual."""
    monkeypatch.setattr(agent, "_LOOK_S", 0.1)


# Who came past the box


def test_the_agent_tells_how_many_visits_to_the_ports_of_the_web_it_counted(
    server: Server,
) -> None:
    with wired() as passed:
        counted = server.counted()
    assert counted
    assert (counted.visits, counted.here, len(counted.run)) == (0, 0, 32)
    ports = " ".join(map(str, sorted({80, 443, TARGET.port})))
    assert f"ports={ports}\n".encode() in passed[0]


@pytest.mark.usefixtures("impatient")
def test_an_answer_in_good_order_is_believed_and_nonsense_counts_nothing(tmp_path: Path) -> None:
    assert counted_by(tmp_path, told) == Counted("a" * 32, 41, 1)
    for key, value in (
        *(("visits", "-1"), ("here", "1\nvisits=2"), ("re", "b" * 32), ("server", "mail")),
        *(("kind", "answer"), ("why", "words"), ("more", "x" * 2000)),
    ):
        assert counted_by(tmp_path, partial(told, **{key: value})) is None, key
    assert counted_by(tmp_path, lambda _: b"x" * 65000) is None


def test_without_key_or_agent_nothing_is_counted(server: Server, tmp_path: Path) -> None:
    assert server.counted(key_file=str(tmp_path / "none")) is None
    assert server.counted(port=free_port(socket.SOCK_DGRAM)) is None


def test_the_doctor_sees_whether_the_agent_counts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent from before that question does not answer it."""

    def heard() -> agent.Heard:
        settings = agent.Settings(port=server.port, key_file=secret_file(server.directory, KEY))
        return asyncio.run(agent.see(settings, TARGET))

    assert heard().counts
    asked = agent._ask_count

    async def briefly(*about: Any) -> agent_protocol.Counted | None:
        monkeypatch.setattr(agent, "_LOOK_S", 0.1)
        return await asked(*about)

    monkeypatch.setattr(agent, "_ask_count", briefly)
    with wired(lambda data: None if b"kind=count\n" in data else data):
        before = heard()
    assert (before.answer is not None, before.counts) == (True, False)


# What the server is going to do


def test_the_agent_tells_what_its_server_is_going_to_do(server: Server, tmp_path: Path) -> None:
    assert isinstance(asyncio.run(server.driver().asked()), list)
    assert asked_of(tmp_path, appointments) == [Job("backup.timer", 36000.0)]


def test_an_agent_that_cannot_tell_is_not_put_to_sleep(tmp_path: Path) -> None:
    said = asked_of(tmp_path, partial(appointments, why="crontabs cannot be read"))
    assert isinstance(said, SleepResult)
    assert said.answer is Answer.REFUSED
    assert "crontabs cannot be read" in str(said.reason)


@pytest.mark.usefixtures("impatient")
def test_an_agent_that_talks_nonsense_is_as_one_that_does_not_tell(tmp_path: Path) -> None:
    for key, value in (("job", "1 other"), ("server", "mail"), ("re", "b" * 32), ("x", "y")):
        assert asked_of(tmp_path, partial(appointments, **{key: value})) is None, key


def test_one_that_told_and_is_silent_now_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = Liar(appointments)
    driver = driver_of(tmp_path, liar.port)
    assert isinstance(asyncio.run(driver.asked()), list)
    monkeypatch.setattr(agent, "_LOOK_S", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", liar.port))
        said = asyncio.run(driver.asked())
    assert isinstance(said, SleepResult)
    assert (said.answer, said.reason.code) == (Answer.FAILED, "sleep.agent_silent")


def test_only_who_told_of_its_appointments_is_given_an_alarm(server: Server) -> None:
    driver = server.driver()
    with wired() as passed:
        asyncio.run(driver.sleep(3600))
        assert server.sleeps()
        assert not any(b"alarm=" in each for each in passed)
        server.asleep.unlink()
        asyncio.run(driver.asked())
        asyncio.run(driver.sleep(3600))
    assert server.sleeps()
    assert any(b"kind=sleep-until\n" in each and b"alarm=3600\n" in each for each in passed)


def test_its_ports_are_told_and_those_that_the_office_chose_are_looked_at(
    server: Server,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("0.0.0.0", 0))
        port = sock.getsockname()[1]
        chosen = replace(TARGET, office=Office((f"{port}/udp used", "22/tcp ignore")))
        key_file = secret_file(server.directory, KEY)
        driver = agent.Driver(agent.Settings(port=server.port, key_file=key_file), chosen)
        with wired() as passed:
            found = asyncio.run(driver.ports())
    assert found is not None
    named = {each.key for each in found.listeners}
    assert f"{port}/udp" in named or found.more
    if not found.more:
        key = bytes.fromhex(KEY)
        asked = [agent_protocol.read_request(key, datagram) for datagram in passed]
        assert [message.watch for message in asked] == [(), (port,)]


def test_an_agent_that_knows_nothing_of_ports_is_not_asked_each_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def converse(question: object, *_: object) -> None:
        asked.append(question)
        raise agent_protocol.NoAnswerError(ordered=False, forged=0)

    monkeypatch.setattr(agent, "_converse", converse)
    driver = server.driver()
    assert [asyncio.run(driver.ports()) for _ in range(5)] == [None] * 5
    assert len(asked) == 1
    driver.listening = parse("22/tcp/sshd")
    assert asyncio.run(driver.asked()) is None
    assert driver.listening is None
