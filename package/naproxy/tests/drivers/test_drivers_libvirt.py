"""The libvirt drivers over a real OpenSSH server: libvirtd's own test driver, and QEMU.

Suspend to RAM from inside (dompmsuspend) needs a guest agent: these tests only show that its
refusal is told.
"""

import asyncio
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driver_calls import failures, needs
from looked import nobody_around
from naproxy.config import document
from naproxy.controller.context import BoxContext
from naproxy.controller.needing import Company
from naproxy.controller.ping import Pinger
from naproxy.controller.probing import Prober
from naproxy.controller.runner import Runner
from naproxy.core.reason import Reason, WrongError
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.drivers import virsh
from naproxy.drivers.sleep import SleepResult
from naproxy.drivers.sleep import libvirt as sleep_libvirt
from naproxy.drivers.wake import libvirt as wake_libvirt
from naproxy.history.write.journal import Journal
from naproxy.server.machine_io import Answer, Observed, SleepAsked
from naproxy.server.seeing import Sign
from naproxy.shm.page import Page
from ssh_server import SSHD, TARGET, Server, key, serving

from tests.patience import PATIENCE_S, wait_for

NOBODY = 65534

pytestmark = needs(SSHD, "libvirtd", "virsh", root=True)


class Host:
    """A machine with libvirt and a virtual machine called test."""

    def __init__(self, sshd: Server, directory: Path) -> None:
        self.sshd = sshd
        socket_path = directory / "libvirt" / "libvirt-sock"
        self.uri = f"test+unix:///default?socket={socket_path}"
        os.chown(directory, NOBODY, NOBODY)
        places = ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
        # As another user: as root it would look after this machine's own virtual machines.
        self.daemon = subprocess.Popen(
            ["libvirtd"],
            env={**os.environ, **{name: str(directory) for name in places}},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: _answers(socket_path), "an answer of libvirtd")
        # What the test driver remembers, it forgets with the last connection.
        self.keeper = subprocess.Popen(
            ["virsh", "-q", "-c", self.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.keeper.stdin
        assert self.keeper.stdout
        self.keeper.stdin.write(b"uri\n")
        self.keeper.stdin.flush()
        while b"test" not in (said := self.keeper.stdout.readline()):
            assert said, "virsh does not connect"
        sshd.says('exec sh -c "$SSH_ORIGINAL_COMMAND"')

    @contextmanager
    def forced(self, script: str) -> Iterator[None]:
        """Let the box do only what a script lets it."""
        self.sshd.says(script)
        yield
        self.sshd.says('exec sh -c "$SSH_ORIGINAL_COMMAND"')

    def close(self) -> None:
        self.keeper.communicate(b"quit\n")
        self.daemon.kill()
        self.daemon.wait()

    def virsh(self, *words: str) -> str:
        done = subprocess.run(
            ["virsh", "-q", "-c", self.uri, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def settings(self, **changes: Any) -> dict[str, Any]:
        usual = {"host": "127.0.0.1", "machine": "test", "uri": self.uri}
        return self.sshd.login(**{**usual, **changes})

    def sleep(self, **changes: Any) -> SleepResult:
        settings = sleep_libvirt.Settings(**self.settings(**changes))
        return asyncio.run(sleep_libvirt.Driver(settings, TARGET).sleep())

    def wake(self, **changes: Any) -> list[str]:
        settings = wake_libvirt.Settings(**self.settings(**changes))
        return failures(wake_libvirt.Driver(settings, TARGET))


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    # Short, for a socket's path, and where another user may look.
    with (
        serving(tmp_path_factory.mktemp("host")) as sshd,
        tempfile.TemporaryDirectory(prefix="naproxy-") as directory,
    ):
        made = Host(sshd, Path(directory))
        yield made
        made.close()


TINY = """
<domain type="qemu">
  <name>tiny</name>
  <memory unit="MiB">32</memory>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
</domain>
"""
"""Firmware, and nothing to start."""


@pytest.fixture
def tiny(host: Host) -> Iterator[str]:
    """A virtual machine of real QEMU, without KVM; the address of its libvirt."""
    socket_path = host.uri.partition("socket=")[2]
    uri = f"qemu:///session?socket={socket_path}"
    virsh = ["virsh", "-q", "-c", uri]
    file = Path(socket_path).parents[1] / "tiny.xml"
    file.write_text(TINY)
    subprocess.run([*virsh, "define", file], check=True, capture_output=True)
    subprocess.run([*virsh, "start", "tiny"], check=True, capture_output=True)
    yield uri
    subprocess.run([*virsh, "destroy", "tiny"], check=False, capture_output=True)
    subprocess.run([*virsh, "undefine", "--managed-save", "tiny"], check=True, capture_output=True)


@needs("qemu-system-x86_64")
@pytest.mark.parametrize(
    ("how", "state"),
    [({"state": "ram", "pause": True}, "paused"), ({"state": "disk"}, "shut off")],
)
def test_real_qemu_sleeps_and_is_woken(
    host: Host, tiny: str, how: dict[str, Any], state: str
) -> None:
    there = {"uri": tiny, "machine": "tiny"}
    ask = ["virsh", "-q", "-c", tiny, "domstate", "tiny"]
    assert host.sleep(**there, **how, timeout_s=PATIENCE_S).answer is Answer.ACCEPTED
    assert subprocess.check_output(ask, text=True).strip() == state
    assert host.wake(**there) == []
    assert subprocess.check_output(ask, text=True).strip() == "running"


@pytest.fixture
def running(host: Host) -> Host:
    if host.virsh("domstate", "test") != "running":
        assert host.wake() == []
    return host


@pytest.mark.parametrize(
    ("how", "state", "saved"),
    [
        ({"state": "ram", "pause": True}, "paused", False),
        ({"state": "disk"}, "shut off", True),  # it is restored, and not started anew
        ({"state": "off"}, "shut off", False),
    ],
)
def test_each_state_has_its_way_there_and_back(
    running: Host, how: dict[str, Any], state: str, saved: bool
) -> None:
    assert running.sleep(**how).answer is Answer.ACCEPTED
    assert running.virsh("domstate", "test") == state
    assert ("Managed save:   yes" in running.virsh("dominfo", "test")) == saved
    assert running.wake() == []
    assert running.virsh("domstate", "test") == "running"
    assert "Managed save:   no" in running.virsh("dominfo", "test")
    assert running.wake() == [], "a machine that runs is left alone"


def test_what_the_hypervisor_cannot_do_is_told_in_its_words(running: Host) -> None:
    result = running.sleep(state="ram")
    assert result.answer is Answer.FAILED
    assert "virsh dompmsuspend on 127.0.0.1" in str(result.reason)
    assert "not supported" in str(result.reason)
    assert "nope" in running.wake(machine="nope")[0]
    assert running.virsh("domstate", "test") == "running"


def test_the_forced_command_of_the_documentation_allows_what_is_needed_and_nothing_else(
    running: Host,
) -> None:
    text = (Path(__file__).parents[4] / "docs" / "drivers.md").read_text()
    script = re.search(r"```sh\n(#!/bin/sh\nset -f\n.*?)```", text, re.DOTALL)
    assert script
    with running.forced(
        script[1].replace("-c qemu:///system", f"-c '{running.uri}'").replace("web", "test")
    ):
        assert running.sleep(state="disk").answer is Answer.ACCEPTED
        assert running.wake() == []
        settings = sleep_libvirt.Settings(**running.settings())
        with pytest.raises(WrongError, match="not allowed: destroy"):
            asyncio.run(virsh.run(settings, 5, "destroy"))
    assert running.virsh("domstate", "test") == "running"


def test_a_wrong_host_key_of_the_host_is_said(running: Host) -> None:
    changed = running.sshd.directory / "changed"
    other = key(running.sshd.directory / "other")
    changed.write_text(f"[127.0.0.1]:{running.sshd.port} {other}")
    result = running.sleep(state="off", known_hosts_file=str(changed))
    assert result.answer is Answer.FAILED
    assert result.reason.code == "ssh.other_key"
    assert running.virsh("domstate", "test") == "running"


# The guest and its host, as the controller has them

BOTH = """
[[server]]
id = "guest"
address = "127.0.0.2"
port = 1
mac = "02:00:00:00:00:01"
armed = true
needs = ["host"]

[[server]]
id = "host"
address = "127.0.0.3"
port = 1
mac = "02:00:00:00:00:02"
"""


def test_the_host_is_up_before_virsh_starts_the_guest_and_stays_awake_for_it(
    running: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test says which of the two answers.
    monkeypatch.setattr(Prober, "set", lambda *_: None)
    monkeypatch.setattr(Pinger, "every", lambda *_: None)
    asyncio.run(_sleep_and_wake(running, tmp_path))


async def _sleep_and_wake(place: Host, tmp_path: Path) -> None:
    guest, host = document.parse(BOTH).server
    settings = place.settings(state="disk")
    wake_settings = place.settings()
    guest = replace(
        guest,
        sleep=sleep_libvirt.Settings(**settings),
        wake=(wake_libvirt.Settings(**wake_settings),),
    )
    runners: dict[str, Runner] = {}
    company = Company(lambda: runners)
    company.configure((guest, host))
    with closing(Journal(tmp_path)) as journal:
        epoch_s = time.time() - time.monotonic()
        box = BoxContext(Page(tmp_path), journal, epoch_s, company=company)
        for index, server in enumerate((guest, host)):
            nobody_around(journal, server)
            runners[server.id] = Runner(box, index, server, "lo")
        try:
            await _play(place, runners)
        finally:
            for runner in runners.values():
                runner.stop(why=Reason("server.stopped"))


async def _play(place: Host, runners: dict[str, Runner]) -> None:
    guest, host = runners["guest"], runners["host"]
    needed = Reason("server.needed_by", names=("guest",))
    for runner in (guest, host):
        _answers_now(runner)
    assert needed in host.decider.inhibitors()
    guest.executor.step(SleepAsked(Reason("server.by_hand")))
    await _until(lambda: place.virsh("domstate", "test") == "shut off")
    await _until(lambda: guest.state() is State.ASLEEP, guest)
    assert needed not in host.decider.inhibitors()
    host.machine.state, host.machine.slept = State.ASLEEP, True
    guest.wake(WakeRequest("192.0.2.17", "page", klass="person"))
    assert host.state() is State.WAKING
    await _until(lambda: guest.machine.waits_for)
    assert place.virsh("domstate", "test") == "shut off"
    _answers_now(host)
    await _until(lambda: place.virsh("domstate", "test") == "running")


def _answers_now(runner: Runner) -> None:
    seen = Observed(Sign.READY, Reason("ready.status", status=200), time.monotonic())
    runner.executor.step(seen)


async def _until(done: Callable[[], Any], silent: Runner | None = None) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            if silent:
                gone = Observed(Sign.SILENT, Reason("ready.silent"), time.monotonic())
                silent.executor.step(gone)
            await asyncio.sleep(0.05)
