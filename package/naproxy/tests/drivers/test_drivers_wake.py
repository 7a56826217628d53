"""Magic packets, the power button, programs of the admin's own."""

import asyncio
import gc
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driver_calls import failures, needs
from naproxy.core.reason import WrongError
from naproxy.core.schema import Problem, load
from naproxy.drivers import own_command
from naproxy.drivers.sleep import command as sleep_command
from naproxy.drivers.wake import SlowDriver, SlowRungSettings, command, etherwake, gpio, udp
from naproxy.server.machine_io import Answer
from ssh_server import TARGET

SETTINGS = SlowRungSettings(driver="slow")


def magic(mac: str) -> bytes:
    """The packet that wakes this address."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


MAGIC = magic(TARGET.mac)
needs_root = needs(root=True)


# UDP


Ears = tuple[socket.socket, socket.socket]


@pytest.fixture
def ears() -> Iterator[Ears]:
    """Two sockets, each with a port of its own."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        for each in (one, other):
            each.bind(("", 0))
            each.settimeout(20)
        yield one, other


def heard(ears: Ears, **settings: Any) -> list[bytes]:
    """What each of them hears of a magic packet."""
    assert send(ports=tuple(each.getsockname()[1] for each in ears), **settings) == []
    return [each.recv(2000) for each in ears]


def send(**settings: Any) -> list[str]:
    failed: list[str] = []
    udp.Driver(udp.Settings(**settings), TARGET).send(lambda reason: failed.append(str(reason)))
    return failed


def test_a_magic_packet_goes_to_each_port_with_its_password_if_there_is_one(ears: Ears) -> None:
    assert udp.Settings().ports == (9, 7)
    assert heard(ears, address="127.255.255.255") == [MAGIC, MAGIC]
    for password in ("00:11:22:33:44:55", "c0:a8:01:02"):
        packet = MAGIC + bytes.fromhex(password.replace(":", ""))
        assert heard(ears, address="127.0.0.1", password=password) == [packet, packet]


@needs_root
def test_it_leaves_by_the_interface_that_is_chosen_or_says_that_it_is_not_there(ears: Ears) -> None:
    assert heard(ears, address="127.0.0.1", interface="lo") == [MAGIC, MAGIC]
    [words] = send(interface="nope0")
    assert words == "udp: no magic packet to 255.255.255.255: No such device"


@needs_root
def test_a_packet_to_everybody_leaves_by_the_servers_interface_not_the_default_route() -> None:
    program = (
        "import socket\nfrom naproxy.drivers import Target\nfrom naproxy.drivers.wake import udp\n"
        "ears = []\n"
        "for name in ('v1', 'w1'):\n"
        "    ears.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)))\n"
        "    ears[-1].bind((name, 0x0800))\n"
        "    ears[-1].settimeout(5 if name == 'v1' else 0)\n"
        "target = Target('web', '192.0.2.7', 80, '02:00:00:00:00:01', 'v0')\n"
        "udp.Driver(udp.Settings(address='255.255.255.255', ports=(9,)), target).send(print)\n"
        "assert b'\\xff' * 6 + bytes.fromhex('020000000001') in ears[0].recv(2000)\n"
        "try:\n    print('left by the default route', ears[1].recv(2000))\n"
        "except BlockingIOError:\n    pass\n"
    )
    script = (
        "for n in v w; do ip link add ${n}0 type veth peer name ${n}1; ip link set ${n}0 up;"
        " ip link set ${n}1 up; done; ip addr add 192.0.2.1/24 dev v0;"
        ' ip addr add 198.51.100.1/24 dev w0; ip route add default via 198.51.100.2; "$0" -c "$1"'
    )
    argv = ("unshare", "-n", "sh", "-ec", script, sys.executable, program)
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == ""


# Wake-on-LAN by etherwake

# Other runs send packets on the same loopback wire.
MAC = "02:" + os.urandom(5).hex(":")
ETHERTYPE_WOL = 0x0842
needs_etherwake = needs("/usr/sbin/etherwake", root=True)


def children() -> set[str]:
    """Process ids of those that were started here and have not been waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def etherwakes(at: str = "lo", **settings: Any) -> list[str]:
    """Send once and wait until etherwake has ended; return what failed."""
    driver = etherwake.Driver(
        etherwake.Settings(**settings), replace(TARGET, mac=MAC, interface=at)
    )

    async def play() -> list[str]:
        failed: list[str] = []
        # Other tests' servers may be children of this process, too.
        before = children()
        driver.send(lambda reason: failed.append(str(reason)))
        async with asyncio.timeout(20):
            while children() - before:
                await asyncio.sleep(0.001)
        return failed

    return asyncio.run(play())


@needs_etherwake
def test_the_magic_packet_is_on_the_wire() -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_WOL)) as wire:
        wire.bind(("lo", 0))
        wire.settimeout(20)
        assert etherwakes() == []
        while magic(MAC) not in (frame := wire.recv(2000)):
            pass
    assert frame[:6] == b"\xff" * 6


@needs_etherwake
def test_an_interface_that_is_not_there_is_said_in_etherwakes_words() -> None:
    [words] = etherwakes("nope0")
    assert words.startswith("etherwake: ")
    assert "nope0" in words
    assert "nope1" in etherwakes(interface="nope1")[0], "it goes before the box's"


def test_a_missing_etherwake_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert etherwakes() == ["etherwake is not installed"]


@needs_etherwake
def test_nothing_is_left_open() -> None:
    gc.collect()  # what other tests left is none of ours
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        etherwakes()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


# GPIO: gpioset itself where there is no chip, and a double that writes down how it is called


class Button:
    """A double of gpioset that says which version it is and keeps its calls with their times."""

    def __init__(self, directory: Path, version: str, script: str = "") -> None:
        self.log = directory / "log"
        double = directory / "gpioset"
        double.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "gpioset v{version}"; exit; fi\n'
            f'echo "$@" >>{self.log}\n{script}\n'
        )
        double.chmod(0o755)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def press(**settings: Any) -> list[str]:
    return failures(gpio.Driver(gpio.Settings(line=17, **settings), TARGET))


@pytest.mark.parametrize(
    ("version", "settings", "calls"),
    [
        (
            "1.6.3",
            {"pulse_ms": 1200},
            ["--mode=time --sec=1 --usec=200000 gpiochip0 17=1", "--mode=exit gpiochip0 17=0"],
        ),
        (
            "1.6.3",
            {"active_low": True},
            [
                "--active-low --mode=time --sec=0 --usec=200000 gpiochip0 17=1",
                "--active-low --mode=exit gpiochip0 17=0",
            ],
        ),
        ("2.2.1", {"chip": "gpiochip4"}, ["--toggle 200ms,0 --chip gpiochip4 17=1"]),
        (
            "2.2.1",
            {"active_low": True},
            ["--active-low --toggle 200ms,0 --chip gpiochip0 17=1"],
        ),
    ],
)
def test_each_version_presses_and_then_lets_go(
    path: Path, version: str, settings: dict[str, Any], calls: list[str]
) -> None:
    button = Button(path, version)
    assert press(**settings) == []
    assert button.calls() == calls


def test_the_button_is_let_go_though_the_press_failed(path: Path) -> None:
    button = Button(path, "1.6.3", 'case "$*" in *17=1) echo "gpioset: busy" >&2; exit 1 ;; esac')
    assert press() == ["gpioset gpiochip0: busy"]
    assert button.calls()[-1] == "--mode=exit gpiochip0 17=0"


@needs("gpioset")
def test_a_chip_that_is_not_there_is_said_in_gpiosets_words() -> None:
    [words] = press(chip="gpiochip99")
    assert words.startswith("gpioset gpiochip99: ")
    assert "No such file" in words


def test_a_missing_gpioset_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert press() == ["gpioset cannot be run: No such file or directory"]


# Programs of the admin's own


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "commands"
    directory.mkdir(mode=0o755)
    monkeypatch.setattr(own_command, "DIRECTORY", directory)
    return directory


def script(directory: Path, text: str, mode: int = 0o755) -> str:
    file = directory / "press"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(mode)
    return file.name


def run(name: str, *arguments: str, **settings: Any) -> list[str]:
    chosen = command.Settings(program=shlex.join([name, *arguments]), **settings)
    return failures(command.Driver(chosen, TARGET))


@needs_root
def test_a_program_gets_its_arguments_and_the_servers_data(commands: Path) -> None:
    log = commands / "log"
    name = script(commands, f'echo "$*|$NAPROXY_SERVER $NAPROXY_ADDRESS $NAPROXY_MAC" >{log}')
    assert run(name, "a b", "$(id)") == []
    assert log.read_text() == "a b $(id)|web 127.0.0.1 02:00:00:00:00:01\n"


@needs_root
def test_a_program_that_fails_or_hangs_is_said(commands: Path) -> None:
    assert run(script(commands, "echo no plug; exit 3")) == ["press: no plug"]
    hangs = script(commands, "exec sleep 60")
    assert run(hangs, timeout_s=1.0) == ["press: it did not end in time"]


@needs_root
def test_a_program_that_talks_without_end_is_cut(commands: Path) -> None:
    [words] = run(script(commands, "head -c 50000000 /dev/zero | tr '\\0' x; exit 1"))
    assert len(words) < 400


@needs_root
@pytest.mark.parametrize(("folder", "mode"), [(0o755, 0o775), (0o755, 0o757), (0o777, 0o755)])
def test_a_program_that_others_may_change_is_not_run(
    commands: Path, folder: int, mode: int
) -> None:
    commands.chmod(folder)
    [words] = run(script(commands, f"touch {commands}/ran", mode))
    assert "must belong to root" in words
    assert not (commands / "ran").exists()


def test_a_program_that_is_not_there_is_said(commands: Path) -> None:
    [words] = run("nothing")
    assert words == f"{commands}/nothing cannot be run: No such file or directory"


def test_a_program_is_a_name_and_not_a_path() -> None:
    for name in ("../../bin/sh", "/bin/sh", "-c", ".hidden", "a b", "a;b", ""):
        assert own_command.is_program(name), name
    for call in ("../press x", "'a b' x", "press 'x", "$(id) x", " ", "press;id x"):
        found: list[Problem] = []
        load(command.Settings, {"program": call}, "wake", found)
        assert [each.where for each in found] == ["wake.program"], call


@needs_root
def test_a_program_says_whether_the_server_may_sleep(commands: Path) -> None:
    for text, answer, words in (
        ("exit 0", Answer.ACCEPTED, "accepted"),
        ("echo a backup runs; exit 1", Answer.REFUSED, "press refuses to sleep: a backup runs"),
        ("exit 127", Answer.FAILED, "press cannot run the command"),
        ("kill -9 $$", Answer.FAILED, "ended by signal 9"),
    ):
        settings = sleep_command.Settings(program=script(commands, text))
        result = asyncio.run(sleep_command.Driver(settings, TARGET).sleep())
        assert result.answer is answer, text
        assert words in str(result.reason)


# One call at a time


def test_a_slow_call_that_raises_is_a_failure_in_words() -> None:
    class Broken(SlowDriver[Any]):
        async def call(self) -> None:
            raise ValueError("a fault")

    assert failures(Broken(SETTINGS, TARGET)) == ["the wake driver failed: ValueError('a fault')"]


def test_a_slow_call_is_not_made_again_while_it_is_under_way() -> None:
    class Slow(SlowDriver[Any]):
        calls = 0

        async def call(self) -> None:
            self.calls += 1
            await go.wait()
            raise WrongError("core.own_words", text="no")

    go = asyncio.Event()

    async def play() -> tuple[int, list[str]]:
        slow = Slow(SETTINGS, TARGET)
        failed: list[str] = []
        for _ in range(5):
            slow.send(lambda reason: failed.append(str(reason)))
            await asyncio.sleep(0)
        go.set()
        assert slow._task
        await slow._task
        slow.send(lambda reason: failed.append(str(reason)))
        await slow._task
        return slow.calls, failed

    assert asyncio.run(play()) == (2, ["no", "no"])
