"""IPMI against Debian's ipmi_sim, Redfish against OpenStack's sushy-emulator."""

import asyncio
import base64
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driver_calls import certificate, failures, needs, presenting, secret_file
from free_port import free_port
from naproxy.core.reason import Reason, WrongError
from naproxy.drivers import pinned, secret
from naproxy.drivers.sleep import SleepResult
from naproxy.drivers.sleep import ipmi as sleep_ipmi
from naproxy.drivers.sleep import redfish as sleep_redfish
from naproxy.drivers.wake import ipmi as wake_ipmi
from naproxy.drivers.wake import redfish as wake_redfish
from naproxy.server.machine_io import Answer
from ssh_server import TARGET

from tests.patience import wait_for

PASSWORD = "s3cret-of-the-bmc"
EMULATOR = Path(sys.executable).with_name("sushy-emulator")

needs_ipmi = needs("ipmi_sim", "ipmitool")
needs_redfish = needs(str(EMULATOR), "openssl")


# IPMI


class Bmc:
    """ipmi_sim, whose chassis is a script with the power in a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port(socket.SOCK_DGRAM)
        chassis = directory / "chassis"
        chassis.write_text(
            f'#!/bin/sh\ncd {directory}\nshift\necho "$@" >>log\n'
            'case "$1 $2" in\n"get "*) shift; for p in "$@"; do echo "$p:$(cat power)"; done ;;\n'
            '"set power") echo "$3" >power ;;\n"set shutdown") echo 0 >power ;;\nesac\n'
        )
        chassis.chmod(0o755)
        (directory / "lan.conf").write_text(
            f'name "bmc"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 {self.port}\n'
            "priv_limit admin\nallowed_auths_callback none\nallowed_auths_user md5\n"
            "allowed_auths_operator md5\nallowed_auths_admin md5\n"
            f'guid a123456789abcdefa123456789abcdef\nendlan\nchassis_control "{chassis} 0x20"\n'
            f'user 2 true "naproxy" "{PASSWORD}" operator 10 md5\n'
        )
        (directory / "bmc.emu").write_text(
            "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n"
            "mc_enable 0x20\n"
        )
        (directory / "state").mkdir()
        (directory / "power").write_text("1\n")
        self.process = subprocess.Popen(
            ["ipmi_sim", "-c", "lan.conf", "-f", "bmc.emu", "-n", "-s", "state"],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: not self.wake(), "an answer of ipmi_sim")

    def login(self, **changes: Any) -> dict[str, Any]:
        usual = {"host": "127.0.0.1", "port": self.port, "user": "naproxy"}
        return {**usual, "password_file": secret_file(self.directory, PASSWORD), **changes}

    def sleep(self, **changes: Any) -> SleepResult:
        settings = sleep_ipmi.Settings(**self.login(**changes))
        return asyncio.run(sleep_ipmi.Driver(settings, TARGET).sleep())

    def wake(self, **changes: Any) -> list[str]:
        return failures(wake_ipmi.Driver(wake_ipmi.Settings(**self.login(**changes)), TARGET))


@pytest.fixture(scope="module")
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    made = Bmc(tmp_path_factory.mktemp("bmc"))
    yield made
    made.process.kill()
    made.process.wait()


def test_ipmi_powers_off_softly_and_on_again(bmc: Bmc) -> None:
    power, log = bmc.directory / "power", bmc.directory / "log"
    power.write_text("1\n")
    assert bmc.sleep().answer is Answer.ACCEPTED
    assert power.read_text() == "0\n"
    assert log.read_text().splitlines()[-1].startswith("set shutdown")
    assert bmc.wake() == []
    assert power.read_text() == "1\n"
    assert bmc.wake() == [], "a machine that is on is left alone"
    assert power.read_text() == "1\n"


@needs_ipmi
def test_a_bmc_that_lets_nobody_in_or_does_not_answer_is_a_failure_and_not_a_refusal(
    bmc: Bmc,
) -> None:
    result = bmc.sleep(password_file=secret_file(bmc.directory, "wrong"))
    assert result.answer is Answer.FAILED
    assert "the BMC at 127.0.0.1" in str(result.reason)
    assert "127.0.0.1" in bmc.wake(port=free_port(socket.SOCK_DGRAM), timeout_s=1.0)[0]


@needs_ipmi
def test_the_password_is_in_no_command_line(bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = bmc.directory / "bin"
    programs.mkdir()
    double = programs / "ipmitool"
    double.write_text(f'#!/bin/sh\necho "$@" >{bmc.directory}/argv\nenv >>{bmc.directory}/argv\n')
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert bmc.wake() == []
    said = (bmc.directory / "argv").read_text()
    assert "chassis power on" in said
    assert PASSWORD not in said


def test_a_missing_ipmitool_or_too_long_a_password_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for password, words in ((PASSWORD, "ipmitool cannot be run"), ("x" * 21, "20 bytes")):
        file = secret_file(tmp_path, password)
        settings = wake_ipmi.Settings(host="127.0.0.1", user="naproxy", password_file=file)
        assert words in failures(wake_ipmi.Driver(settings, TARGET))[0]


# Files with a secret


def test_a_secret_that_others_may_read_or_that_is_not_one_line_is_refused(tmp_path: Path) -> None:
    what = Reason("bmc.password")
    for text, mode, words in (
        (PASSWORD, 0o640, "chmod 600"),
        *(
            (text, 0o600, "one line")
            for text in ("", "\n", "two\nlines\n", "x" * 300, "nul\0", "a\x1b[2J")
        ),
    ):
        file = tmp_path / "secret"
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(WrongError, match=words):
            secret.read(str(file), what)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "nothing", "."):
        with pytest.raises(WrongError):
            secret.read(str(tmp_path / name), what)


# Redfish


class Redfish:
    """Calls a BMC at `port` with a certificate of its own making."""

    directory: Path
    port: int
    fingerprint: str

    def login(self, **changes: Any) -> dict[str, Any]:
        usual = {
            "host": "127.0.0.1",
            "port": self.port,
            "fingerprint": self.fingerprint,
            "user": "naproxy",
            "password_file": secret_file(self.directory, PASSWORD),
        }
        return {**usual, **changes}

    def wake(self, **changes: Any) -> list[str]:
        settings = wake_redfish.Settings(**self.login(**changes))
        return failures(wake_redfish.Driver(settings, TARGET))


class Emulator(Redfish):
    """sushy-emulator with a system that needs a moment to switch."""

    def __init__(self, directory: Path) -> None:
        import bcrypt  # noqa: PLC0415 - comes with the emulator

        self.directory = directory
        self.port = free_port()
        self.fingerprint = certificate(directory)
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (directory / "users").write_text(f"naproxy:{hashed}\n")
        (directory / "emulator.conf").write_text(
            # It switches after 1 to 11 s; here always after 1 s.
            "import random\nrandom.randint = lambda low, high: low\n"
            f"SUSHY_EMULATOR_AUTH_FILE = '{directory}/users'\n"
            f"SUSHY_EMULATOR_SSL_CERT = '{directory}/bmc.pem'\n"
            f"SUSHY_EMULATOR_SSL_KEY = '{directory}/bmc.key'\n"
            "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n"
            f"SUSHY_EMULATOR_LISTEN_PORT = {self.port}\n"
            "SUSHY_EMULATOR_FAKE_DRIVER = True\n"
            f"SUSHY_EMULATOR_STATE_DIR = '{directory}/state'\n"
        )
        self.log = (directory / "log").open("wb")
        self.process = subprocess.Popen(
            [EMULATOR, "--config", directory / "emulator.conf"], stderr=self.log, stdout=self.log
        )
        wait_for(lambda: "refused" not in str(self.wake()).lower(), "an answer of the emulator")

    def sleep(self, **changes: Any) -> SleepResult:
        settings = sleep_redfish.Settings(**self.login(**changes))
        return asyncio.run(sleep_redfish.Driver(settings, TARGET).sleep())

    def until_on(self) -> None:
        """Call until the BMC says that it is on already."""
        wait_for(lambda: "already On" in str(self.wake()), "the power")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    made = Emulator(tmp_path_factory.mktemp("redfish"))
    yield made
    made.process.kill()
    made.process.wait()
    made.log.close()


@needs_redfish
def test_redfish_powers_off_gracefully_and_on_again(emulator: Emulator) -> None:
    emulator.until_on()
    assert emulator.sleep() == SleepResult(
        Answer.ACCEPTED, Reason("bmc.taken", kind="GracefulShutdown", state="On")
    )
    wait_for(lambda: "already Off" in str(emulator.sleep().reason), "the power to go")
    assert emulator.wake() == []
    emulator.until_on()


@needs_redfish
def test_a_bmc_that_says_on_while_the_server_is_not_up_leaves_it_to_the_next_rung(
    emulator: Emulator,
) -> None:
    emulator.until_on()
    words = ["the BMC at 127.0.0.1: it says that the server is already On"]
    assert emulator.wake() == words
    # A fingerprint may have colons, as openssl prints them.
    printed = ":".join(emulator.fingerprint[i : i + 2] for i in range(0, 64, 2)).upper()
    assert pinned.is_fingerprint(printed) is None
    assert emulator.wake(fingerprint=printed) == words


@needs_redfish
def test_a_wrong_password_or_system_is_said(emulator: Emulator) -> None:
    result = emulator.sleep(password_file=secret_file(emulator.directory, "wrong"))
    assert result.answer is Answer.FAILED
    assert "does not accept the user and the password" in str(result.reason)
    [words] = emulator.wake(machine="blade7")
    assert "set the key system to one of its systems: 27946b59" in words


# A BMC that means harm: real TLS with the pinned certificate, answers of its own


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def hostile_fingerprint(hostile_folder: Path) -> str:
    return certificate(hostile_folder)


@pytest.fixture
def hostile(hostile_folder: Path, hostile_fingerprint: str) -> Callable[..., "Hostile"]:
    return partial(Hostile, hostile_folder, hostile_fingerprint)


class Hostile(Redfish):
    """Answers each request with bytes given by the test, and keeps what it was sent."""

    def __init__(self, directory: Path, fingerprint: str, *answers: bytes) -> None:
        self.directory, self.fingerprint = directory, fingerprint
        self.seen = b""
        self._answers = answers
        self._listener = presenting(directory).wrap_socket(
            socket.create_server(("127.0.0.1", 0)), server_side=True
        )
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                for answer in self._answers:
                    self.seen += connection.recv(65536)
                    connection.sendall(answer)
                while more := connection.recv(65536):
                    self.seen += more
        except OSError:
            pass
        finally:
            self._listener.close()


def http(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


MEMBERS = http(b'{"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}')


@needs_redfish
@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([http(b"{")], "is not JSON"),
        ([http(b"[" * 100_000)], "is not JSON"),
        ([http(b"[1, 2]")], "lists no system"),
        ([http(b'{"Members": [{"@odata.id": "https://evil.example/x"}]}')], "outside"),
        ([http(b'{"Members": [{"@odata.id": "/redfish/v1/x\\r\\nHost: y"}]}')], "outside"),
        ([http(b'{"Members": [{"@odata.id": "/etc"}]}')], "outside"),
        ([MEMBERS, http(b'{"Actions": {"#ComputerSystem.Reset": 7}}')], "outside"),
        ([http(b"", b"302 Found", b"Location: https://evil.example/")], "HTTP status 302"),
        ([http(b'{"error": {"message": "go \\u001b[2J away"}}', b"503 No")], "503: go [2J away"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 1_100_000], "longer than"),
        ([b"not http at all\r\n\r\n"], "127.0.0.1"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"], "in time"),
    ],
)
def test_a_bmc_that_means_harm_gets_no_further(
    hostile: Callable[..., Hostile], answers: list[bytes], words: str
) -> None:
    [said] = hostile(*answers).wake(timeout_s=1.0 if words == "in time" else 20.0)
    assert words in said
    assert said.isprintable()
    assert len(said) < 500


def system(state: str, *kinds: str) -> bytes:
    target = {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}
    reset = {**target, "ResetType@Redfish.AllowableValues": kinds}
    return json.dumps({"PowerState": state, "Actions": {"#ComputerSystem.Reset": reset}}).encode()


@needs_redfish
@pytest.mark.parametrize(
    ("kinds", "sent"),
    [
        (("ForceOff", "ForceOn", "On"), "On"),
        (("ForceOff", "ForceOn", "PushPowerButton"), "ForceOn"),
        (("PushPowerButton",), "PushPowerButton"),
    ],
)
def test_a_bmc_without_on_is_asked_for_what_does_the_same(
    hostile: Callable[..., Hostile], kinds: tuple[str, ...], sent: str
) -> None:
    known = hostile(MEMBERS, http(system("Off", *kinds)), http(b""))
    assert known.wake() == []
    assert known.seen.endswith(json.dumps({"ResetType": sent}).encode())


@needs_redfish
def test_the_power_button_is_pushed_only_on_a_system_that_is_off(
    hostile: Callable[..., Hostile],
) -> None:
    known = hostile(MEMBERS, http(system("PoweringOn", "PushPowerButton")))
    [said] = known.wake()
    assert "PushPowerButton" in said
    assert b"POST" not in known.seen


@needs_redfish
def test_a_bmc_that_wants_a_slash_at_the_end_and_compresses_is_understood(
    hostile: Callable[..., Hostile],
) -> None:
    slash = http(b"", b"308 Permanent Redirect", b"Location: /redfish/v1/Systems/")
    packed = http(gzip.compress(system("Off", "On")), b"200 OK", b"Content-Encoding: gzip")
    known = hostile(slash, MEMBERS, packed, http(b""))
    assert known.wake() == []
    assert b"GET /redfish/v1/Systems/ HTTP" in known.seen


@needs_redfish
def test_the_password_is_sent_to_the_pinned_certificate_only(
    hostile: Callable[..., Hostile],
) -> None:
    other = hostile(MEMBERS)
    [said] = other.wake(fingerprint="cd" * 32)
    assert "is not the pinned one" in said
    assert other.fingerprint in said
    assert other.seen == b""
    known = hostile(http(b"{}"))
    known.wake()
    assert base64.b64encode(f"naproxy:{PASSWORD}".encode()) in known.seen
