"""The agent's answers, to the box and to strangers. No socket, no clock, no sleep."""

import contextlib
import dataclasses
import itertools
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import agent_protocol as protocol
from agent_protocol import (
    AGAIN,
    NO,
    YES,
    Ask,
    Count,
    ForgedError,
    Listen,
    Request,
)
from jobs import Job
from naproxy_agent import (
    Agent,
    BusyError,
    Clock,
    Connection,
    Visits,
    Watched,
    go_to_sleep,
    open_socket,
    tell_systemd_ready,
)

KEY = bytes(range(32))
BOX = "192.0.2.1"
TIME_S = 1_700_000_000
SOURCE = Path(__file__).resolve().parent.parent / "src"
nonces = itertools.count(1)


def nonce():
    return f"{next(nonces):032x}"


class Server:
    """An agent, with a clock that is set by hand and reasons given by the test."""

    def __init__(self, server="web", states=("mem", "off")):
        self.now = Clock(1000.0, 1_700_000_000.0)
        self.why = ()
        self.looked = 0
        self.box = ""
        self.connected = ()
        self.visits = Visits(frozenset(), lambda: self.connected)
        self.coming = []
        self.ports = ("22/tcp/sshd",)
        self.watched = None
        self.agent = Agent(
            server,
            KEY,
            states,
            self._why_not,
            visits=self.visits,
            listening=self._read_ports,
            coming=self._read_jobs,
            nonce=nonce,
        )

    def _why_not(self, _state, box, watched):
        self.looked += 1
        self.box, self.watched = box, watched
        return self.why

    def _read_ports(self):
        if isinstance(self.ports, Exception):
            raise self.ports
        return self.ports

    def _read_jobs(self, now_s):
        self.asked_s = now_s
        if isinstance(self.coming, Exception):
            raise self.coming
        return self.coming

    def pass_s(self, seconds):
        self.now = Clock(self.now.boot_s + seconds, self.now.epoch_s + seconds)

    def take(self, datagram):
        reply = self.agent.handle(datagram, BOX, self.now)
        return protocol.read_answer(KEY, reply.datagram), reply.sleep

    def ask(self, **changes):
        request = Request("web", nonce(), TIME_S, "mem")
        return self.take(protocol.request(KEY, dataclasses.replace(request, **changes)))

    def question(self, write, read, question, changes):
        datagram = write(KEY, dataclasses.replace(question, **changes))
        return read(KEY, self.agent.handle(datagram, BOX, self.now).datagram)

    def count(self, **changes):
        question = Count("web", nonce(), TIME_S, (80, 443))
        return self.question(protocol.count, protocol.read_counted, question, changes)

    def tell(self, **changes):
        question = Ask("web", nonce(), TIME_S)
        return self.question(protocol.ask, protocol.read_told, question, changes)

    def listen(self, **changes):
        question = Listen("web", nonce(), TIME_S)
        return self.question(protocol.listen, protocol.read_listening, question, changes)

    def order(self, **changes):
        challenge = self.ask()[0].nonce
        return self.ask(**{"challenge": challenge, **changes})


@pytest.fixture
def server():
    return Server()


def test_an_idle_server_would_sleep_and_a_question_does_not_make_it(server):
    said, sleep = server.ask()
    assert (said.verdict, said.why, said.states) == (YES, (), ("mem", "off"))
    assert (sleep, server.box) == ("", BOX)


def test_a_busy_server_says_why_not_also_when_it_looks_again_at_the_order(server):
    challenge = server.ask()[0].nonce
    server.why = ("logged in: anna", "rsync is running")
    said, sleep = server.ask(challenge=challenge)
    assert (said.verdict, said.why, sleep) == (NO, server.why, "")


def test_a_state_without_a_command_is_refused(server):
    said, sleep = server.order(state="disk")
    assert (said.verdict, sleep) == (NO, "")
    assert "disk is not offered" in said.why[0]


def test_what_is_meant_for_another_server_is_refused_and_changes_nothing(server):
    said, sleep = server.order(server="db")
    assert (said.server, sleep) == ("web", "")
    assert said.why == ("this is the agent of web, not of db",)
    server.coming = [Job("backup.timer", 60.0)]
    assert server.tell(server="db").jobs == ()
    assert server.listen(server="db").words == ()
    assert server.count(server="db").server == "web"
    assert server.visits.due_in_s(0.0) is None


def test_a_forged_order_gets_no_answer_and_nothing_is_looked_at(server):
    challenge = server.ask()[0].nonce
    looked = server.looked
    forged = protocol.request(bytes(32), Request("web", nonce(), TIME_S, "mem", challenge))
    with pytest.raises(ForgedError):
        server.agent.handle(forged, BOX, server.now)
    assert server.looked == looked


def order_of(server):
    """An order that is good, as it was sent."""
    challenge = server.ask()[0].nonce
    return protocol.request(KEY, Request("web", nonce(), TIME_S, "mem", challenge))


def test_a_repeated_order_gets_the_same_answer_and_no_second_sleep(server):
    order = order_of(server)
    first, again = (server.agent.handle(order, BOX, server.now) for _ in range(2))
    assert (first.sleep, again.sleep) == ("mem", "")
    assert again.datagram == first.datagram


def test_a_recorded_order_is_worthless_when_its_answer_is_forgotten(server):
    order = order_of(server)
    server.agent.handle(order, BOX, server.now)
    for _ in range(Agent.ANSWERS):
        server.pass_s(1)
        server.ask()
    said, sleep = server.take(order)
    assert (said.verdict, sleep) == (AGAIN, "")


def test_an_order_is_worthless_after_a_restart_or_once_another_was_obeyed(server):
    held = order_of(server)
    server.order()
    for other in (Server(), server):
        said, sleep = other.take(held)
        assert (said.verdict, sleep) == (AGAIN, "")


def test_a_challenge_is_good_for_ten_seconds(server):
    for age_s, verdict in ((9.9, YES), (10.1, AGAIN), (86400, AGAIN)):
        challenge = server.ask()[0].nonce
        server.pass_s(age_s)
        assert server.ask(challenge=challenge)[0].verdict == verdict, age_s


def test_a_challenge_is_good_once_even_if_refused(server):
    challenge = server.ask()[0].nonce
    server.why = ("busy",)
    server.ask(challenge=challenge)
    server.why = ()
    assert server.ask(challenge=challenge)[0].verdict == AGAIN


def test_an_invented_challenge_is_not_known(server):
    said, sleep = server.ask(challenge="e" * 32)
    assert said.verdict == AGAIN
    assert sleep == ""
    assert server.ask(challenge=said.nonce)[1] == "mem"


def test_a_wrong_clock_of_the_box_does_no_harm():
    for time_s in (0, 1_600_000_000, 1_700_003_601, 999_999_999_999):
        server = Server()
        challenge = server.ask(time_s=time_s)[0].nonce
        assert server.ask(time_s=time_s, challenge=challenge)[1] == "mem", time_s


def test_a_step_of_its_own_wall_clock_does_no_harm(server):
    challenge = server.ask()[0].nonce
    server.now = Clock(server.now.boot_s + 1, 5.0)
    said, sleep = server.ask(challenge=challenge)
    assert (said.time_s, sleep) == (5, "mem")


def test_what_it_remembers_is_bounded(server):
    for _ in range(1000):
        server.pass_s(1)
        server.ask()
    assert len(server.agent._new.answers) == Agent.ANSWERS
    assert len(server.agent._new.challenges) == Agent.CHALLENGES


@pytest.mark.parametrize("ask", [Server.ask, Server.count, Server.tell, Server.listen])
def test_a_flood_of_questions_is_cut_off_and_then_forgotten(server, ask):
    for _ in range(Agent.REQUESTS_PER_S):
        ask(server)
    looked = server.looked
    with pytest.raises(BusyError):
        ask(server)
    assert server.looked == looked
    server.pass_s(1.0)
    ask(server)


BEFORE_S = TIME_S - Agent.OLD_S - 1


def replay(server):
    """More of what the box signed long ago than a second may have."""
    for _ in range(2 * max(Agent.REQUESTS_PER_S, Agent.CHALLENGES)):
        with contextlib.suppress(BusyError):
            server.count(time_s=BEFORE_S)
        with contextlib.suppress(BusyError):
            server.ask(time_s=BEFORE_S)
        server.pass_s(0.05)


def test_the_box_is_answered_while_somebody_replays_a_recording(server):
    server.ask()
    for _ in range(Agent.REQUESTS_PER_S):
        replay(server)
        assert server.ask()[0].verdict == YES


def test_a_recording_takes_no_challenge_from_the_box(server):
    challenge = server.ask()[0].nonce
    replay(server)
    assert server.ask(challenge=challenge)[1] == "mem"


def test_a_recording_has_no_answer_to_the_box_forgotten(server):
    server.ask(nonce="a" * 32)
    looked = server.looked
    for _ in range(Agent.ANSWERS):
        server.ask(time_s=BEFORE_S)
        server.pass_s(0.2)
    assert server.looked == looked + Agent.ANSWERS
    server.ask(nonce="a" * 32)
    assert server.looked == looked + Agent.ANSWERS


def test_a_box_whose_clock_was_set_back_puts_it_to_sleep_by_an_order_that_is_good_once(server):
    server.ask()
    challenge = server.ask(time_s=5)[0].nonce
    assert server.ask(time_s=5, challenge=challenge)[1] == "mem"
    assert server.ask(time_s=5, challenge=challenge)[0].verdict == AGAIN


def test_a_failed_command_is_a_reason_for_a_while(server):
    server.agent.failed("Failed to suspend: no such verb", server.now)
    assert server.ask()[0].why == (
        "the last sleep command failed: Failed to suspend: no such verb",
    )
    server.pass_s(Agent.FAILURE_S)
    assert server.ask()[0].verdict == YES


def test_it_tells_how_many_visits_did_not_come_from_who_asks(server):
    server.connected = (Connection(443, "192.0.2.7"), Connection(443, BOX))
    said = server.count(nonce="a" * 32)
    assert (said.server, said.re, said.run) == ("web", "a" * 32, server.visits.run)
    assert (said.visits, said.here) == (1, 1)


def test_a_question_for_visits_puts_nothing_to_sleep_and_is_no_challenge(server):
    challenge = server.count().run
    assert server.ask(challenge=challenge)[0].verdict == AGAIN


def test_a_recorded_question_for_visits_does_not_make_the_box_a_visitor(server):
    server.connected = (Connection(443, BOX),)
    server.count()
    server.pass_s(2.0)
    recorded = protocol.count(KEY, Count("web", nonce(), BEFORE_S, (22,)))
    server.agent.handle(recorded, "192.0.2.66", server.now)
    server.visits.look(server.now.boot_s)
    assert (server.visits.total, server.visits.here) == (0, 0)


def test_a_sleep_command_s_failure_is_told_in_its_words():
    assert go_to_sleep(("true",)) == ""
    for command, words in (
        (("sh", "-c", "echo no such verb >&2; exit 1"), "no such verb"),
        (("false",), "exit status 1"),
        (("/nonexistent/command",), "No such file"),
    ):
        assert words in go_to_sleep(command)


def exchange(port, datagram, host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as box:
        box.settimeout(60)
        box.sendto(datagram, (host, port))
        return protocol.read_answer(KEY, box.recv(2000))


def free_port():
    """Return a port that nobody uses: none that the kernel may give to a client meanwhile."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), open_socket("", port):
            return port


@pytest.fixture
def process(tmp_path):
    """The real program on a port of its own; its sleep command leaves a file."""
    port = free_port()
    config, key, slept = tmp_path / "agent.conf", tmp_path / "key", tmp_path / "slept"
    config.write_text(
        f"[agent]\nserver = web\nport = {port}\n"
        "[stay-awake]\ninhibitors = no\nlogged-in-users = no\nload-above = any\n"
        f"connections-except-ports = all\n[sleep]\nmem = touch {slept}\n"
    )
    key.write_text(KEY.hex() + "\n")
    key.chmod(0o600)
    with subprocess.Popen(
        [sys.executable, SOURCE / "naproxy_agent.py", "--config", config, "--key", key],
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        lines = []
        started = threading.Event()

        def listen():
            for line in agent.stderr:
                lines.append(line)
                started.set()

        threading.Thread(target=listen, daemon=True).start()
        assert started.wait(60)
        yield agent, port, slept, lines
        agent.terminate()


def test_the_program_survives_strangers_and_sleeps_on_the_box_s_order(process):
    agent, port, slept, lines = process
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for hostile in (
            b"",
            b"\0",
            b"x" * 65000,
            protocol.request(bytes(32), Request("web", nonce(), 0, "mem")),
        ):
            stranger.sendto(hostile, ("127.0.0.1", port))
    hello = exchange(port, protocol.request(KEY, Request("web", nonce(), 0, "mem")))
    assert hello.verdict == YES
    assert not slept.exists()
    order = protocol.request(KEY, Request("web", nonce(), 0, "mem", hello.nonce))
    assert exchange(port, order).verdict == YES
    # The next answer comes when the command has ended.
    assert exchange(port, order).verdict == YES
    assert slept.exists()
    assert agent.poll() is None
    end_s = time.monotonic() + 60
    while "1 datagrams not answered, the last from" not in "".join(lines):
        assert time.monotonic() < end_s, lines
        time.sleep(0.01)


def test_the_program_answers_over_both_families(process):
    _agent, port, _slept, _lines = process
    for host in ("127.0.0.1", "::1"):
        request = protocol.request(KEY, Request("web", nonce(), 0, "mem"))
        assert exchange(port, request, host).verdict == YES


def test_the_program_tells_systemd_when_it_listens(monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        tell_systemd_ready()
        assert systemd.recv(100) == b"READY=1"


def test_the_check_says_what_it_would_answer(tmp_path):
    config = tmp_path / "agent.conf"
    command = [sys.executable, SOURCE / "naproxy_agent.py", "--check", "--config", config]
    for process, said, code in (
        ("naproxy_agent.py", "mem: no\n  naproxy_agent.py is running\n", 1),
        ("no-such-process", "mem: yes\n", 0),
    ):
        config.write_text(
            "[agent]\nserver = web\n[stay-awake]\ninhibitors = no\nlogged-in-users = no\n"
            f"load-above = any\nconnections-except-ports = all\nprocesses = {process}\n"
            "[sleep]\nmem = true\n"
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == (said, code)


def test_it_tells_what_its_server_is_going_to_do_what_matters_first(server):
    server.coming = [
        Job("php", 60.0, often=True),
        Job("logrotate.timer", 600.0),
        Job("backup.timer", 3600.5),
    ]
    assert server.tell().jobs == (
        (3600, False, "backup.timer"),
        (600, False, "logrotate.timer"),
        (60, True, "php"),
    )


def test_what_cannot_be_read_is_said(server):
    server.coming = OSError("no such thing")
    assert "no such thing" in server.tell().why[0]
    assert server.asked_s == server.now.epoch_s
    server.ports = OSError("no such table")
    said = server.listen()
    assert said.words == ()
    assert "the ports cannot be read" in said.why[0]
    assert "no such table" in said.why[0]


def test_an_order_says_in_how_long_its_own_clock_is_to_wake_it_unless_it_is_refused(server):
    for why, told in (((), ("mem", 3600)), (("rsync is running",), ("", 0))):
        challenge = server.ask()[0].nonce
        server.why = why
        request = Request("web", nonce(), TIME_S, "mem", challenge, 3600)
        reply = server.agent.handle(protocol.request(KEY, request), BOX, server.now)
        assert (reply.sleep, reply.alarm_s) == told


def test_its_ports_are_told_and_those_that_the_box_names_are_looked_at_from_then_on(server):
    assert server.listen(watch=(51820,), ignore=(445,)).words == ("22/tcp/sshd",)
    server.ask()
    assert server.watched == Watched((51820,), frozenset({445}))
    server.listen()
    server.ask()
    assert server.watched == Watched()


def test_what_may_be_a_recording_does_not_change_what_is_looked_at(server):
    server.listen(watch=(51820,))
    assert server.listen(time_s=TIME_S - Agent.OLD_S - 1).words == ("22/tcp/sshd",)
    server.ask()
    assert server.watched.udp == (51820,)


def test_of_thousands_of_ports_the_first_are_told_and_how_many_are_not(server):
    server.ports = tuple(f"{port}/tcp/{'x' * 15}" for port in range(1, 5001))
    *words, last = server.listen().words
    assert words == list(server.ports[: len(words)])
    assert last == f"more/{5000 - len(words)}"
    assert len(words) > 30
