import asyncio
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from naproxy import drivers
from naproxy.drivers.sleep import SleepResult, none, ssh
from naproxy.machine import Answer

SSHD = "/usr/sbin/sshd"
needs_sshd = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SSHD).exists() or not shutil.which("ssh"),
    reason="needs root, sshd and ssh",
)


@dataclass
class Server:
    """A real sshd on loopback whose forced command is a script."""

    directory: Path
    port: int

    def says(self, script: str) -> None:
        (self.directory / "forced").write_text(f"#!/bin/sh\n{script}\n")

    def settings(self, **changes: Any) -> ssh.Settings:
        usual = {
            "port": self.port,
            "user": getpass.getuser(),
            "key_file": str(self.directory / "client"),
            "known_hosts_file": str(self.directory / "known_hosts"),
        }
        return ssh.Settings(**{**usual, **changes})

    def sleep(self, **changes: Any) -> SleepResult:
        target = drivers.Target("web", "127.0.0.1", 80, "02:00:00:00:00:01", "lo")
        return asyncio.run(ssh.Driver(self.settings(**changes), target).sleep())


def key(path: Path) -> str:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path], check=True
    )
    return path.with_suffix(".pub").read_text()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("sshd")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_key, client_key = key(directory / "host"), key(directory / "client")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (directory / "authorized_keys").write_text(
        f'restrict,command="/bin/sh {directory}/forced" {client_key}'
    )
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nPidFile none\nStrictModes no\n"
        "UsePAM no\nPasswordAuthentication no\nPermitRootLogin forced-commands-only\n"
    )
    log = (directory / "sshd.log").open("wb")
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", directory / "sshd_config"], stderr=log)
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
    yield Server(directory, port)
    process.terminate()
    process.wait()
    log.close()


@pytest.fixture
def quick(sshd: Server) -> Callable[[str], SleepResult]:
    def run(script: str) -> SleepResult:
        sshd.says(script)
        return sshd.sleep()

    return run


@needs_sshd
def test_exit_status_0_is_accepted(quick: Callable[[str], SleepResult]) -> None:
    assert quick("exit 0") == SleepResult(Answer.ACCEPTED, "accepted")


@needs_sshd
def test_another_exit_status_is_a_refusal_in_the_servers_words(
    quick: Callable[[str], SleepResult],
) -> None:
    result = quick("echo 'backup is running' >&2; exit 3")
    assert result == SleepResult(Answer.REFUSED, "the server refuses to sleep: backup is running")


@needs_sshd
def test_a_refusal_without_words_says_the_status(quick: Callable[[str], SleepResult]) -> None:
    assert "exit status 7" in quick("exit 7").reason


@needs_sshd
def test_the_servers_words_are_made_safe_and_cut(quick: Callable[[str], SleepResult]) -> None:
    result = quick(r"printf '\033[2J\nline two\r\n'; head -c 5000 /dev/zero | tr '\0' x; exit 1")
    assert result.reason.isprintable()
    assert "line two" in result.reason
    assert len(result.reason) < 400


@needs_sshd
def test_a_connection_that_dies_after_the_login_is_accepted(
    quick: Callable[[str], SleepResult],
) -> None:
    result = quick("kill -9 $PPID")
    assert result.answer is Answer.ACCEPTED


@needs_sshd
def test_a_command_that_does_not_end_is_left_to_observation(sshd: Server) -> None:
    sshd.says("sleep 20")
    assert sshd.sleep(timeout_s=1.0).answer is Answer.ACCEPTED


@needs_sshd
def test_a_command_that_is_not_there_failed(quick: Callable[[str], SleepResult]) -> None:
    result = quick("no-such-command")
    assert result.answer is Answer.FAILED
    assert "no-such-command" in result.reason


@needs_sshd
def test_a_changed_host_key_is_a_failure_that_says_so(sshd: Server) -> None:
    other = key(sshd.directory / "other")
    changed = sshd.directory / "changed"
    changed.write_text(f"[127.0.0.1]:{sshd.port} {other}")
    result = sshd.sleep(known_hosts_file=str(changed))
    assert result.answer is Answer.FAILED
    assert "is not the one pinned" in result.reason


@needs_sshd
def test_a_host_key_that_is_not_pinned_is_not_learned(sshd: Server) -> None:
    empty = sshd.directory / "empty"
    empty.write_text("")
    result = sshd.sleep(known_hosts_file=str(empty))
    assert result.answer is Answer.FAILED
    assert "no host key" in result.reason
    assert empty.read_text() == ""


@needs_sshd
def test_a_key_that_is_not_let_in_is_named(sshd: Server) -> None:
    stranger = sshd.directory / "stranger"
    key(stranger)
    result = sshd.sleep(key_file=str(stranger))
    assert result.answer is Answer.FAILED
    assert str(stranger) in result.reason


@needs_sshd
def test_a_server_that_is_not_reached_is_a_failure(sshd: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    closed = replace(sshd.settings(), port=port)
    target = drivers.Target("web", "127.0.0.1", 80, "02:00:00:00:00:01", "lo")
    result = asyncio.run(ssh.Driver(closed, target).sleep())
    assert result.answer is Answer.FAILED
    assert "refused" in result.reason


@needs_sshd
def test_no_ssh_is_left_when_the_sleep_is_called_off(sshd: Server) -> None:
    sshd.says("sleep 20")
    target = drivers.Target("web", "127.0.0.1", 80, "02:00:00:00:00:01", "lo")

    async def play() -> str:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        before = children.read_text()
        task = asyncio.ensure_future(ssh.Driver(sshd.settings(), target).sleep())
        while children.read_text() == before:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return children.read_text().removeprefix(before)

    assert asyncio.run(play()) == ""


def test_without_a_way_to_sleep_the_answer_is_no() -> None:
    target = drivers.Target("web", "127.0.0.1", 80, "02:00:00:00:00:01", "lo")
    result = asyncio.run(none.Driver(none.Settings(), target).sleep())
    assert result.answer is Answer.REFUSED
    assert "sleep.driver" in result.reason
