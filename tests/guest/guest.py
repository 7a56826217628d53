"""The guest as the office's web server: Debian in QEMU, on the office's wire."""

import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from tests.guest.image import Image
from tests.guest.power import SUSPEND, WAKEUP, Power, Qmp, accelerator
from tests.simulator.office import Office
from tests.simulator.office.box import Box
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.mainboard import Settings
from tests.simulator.office.namespace import Namespace, OfficeError, wait_for
from tests.simulator.office.server import ADDRESS, ADDRESS_V6, MAC, Server, Site
from tests.simulator.office.tap import TAP, WIRE, plug_in

_BOOT_S = 600.0
_ANSWER = re.compile(r"^\[([0-9.]+)\] [0-9]+ bytes from", re.MULTILINE)


class Guest(Server):
    """Takes the place of the office's server; its mainboard is QEMU's, its sleep ACPI S3."""

    def __init__(self, name: str, directory: Path, logs: Path, image: Image, client: Namespace):
        super().__init__(name, directory, logs)
        self.image = image
        self.power: Power | None = None
        self.boot_s = 0.0
        self.accelerator = accelerator()
        self._client = client

    def start(self, freezer: Freezer, settings: Settings, contents: Site) -> None:
        """Boot; returns when web and ssh answer. What the virtual mainboard needs is not used."""
        del freezer, settings, contents
        self.directory.mkdir()
        plug_in(self.name)
        self._keys()
        began_s = time.monotonic()
        qemu = self.popen(self._qemu(), log="qemu")
        wait_for(lambda: self._socket("power").exists() or qemu.poll() is not None, "QEMU")
        if qemu.poll() is not None:
            raise OfficeError(f"QEMU ended: {(self._logs / 'qemu.log').read_text()}")
        self.power = Power(self, MAC, self._socket("power"), WIRE, TAP)
        self.power.start()
        wait_for(self.answers, "the guest's web server", _BOOT_S)
        self.boot_s = time.monotonic() - began_s
        wait_for(lambda: self.ssh("true", check=False).returncode == 0, "the guest's ssh", _BOOT_S)

    def answers(self, timeout_s: float = 1.0) -> bool:
        """Whether the web server answers the client."""
        with contextlib.suppress(OSError):
            connection = HTTPConnection(ADDRESS, timeout=timeout_s)
            connection.sock = self._client.connect(ADDRESS, 80, timeout_s=timeout_s)
            with contextlib.closing(connection):
                connection.request("GET", "/answers")
                return connection.getresponse().status == 200
        return False

    def ssh(
        self, command: str, *, key: str = "admin", check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the guest as root, from the client."""
        return self._client.run(
            [*self._ssh(key), command], check=check, timeout_s=120.0, stdin=stdin
        )

    def ssh_begin(self, command: str, *, key: str = "admin") -> subprocess.Popen[str]:
        """Begin a command there that may outlast this call."""
        return self._client.popen(
            [*self._ssh(key), command], stdout=subprocess.PIPE, log=f"ssh-{key}"
        )

    def copy(self, source: Path, to: str) -> None:
        """Copy a directory there, with what its symbolic links lead to."""
        self.ssh(f"rm -rf {to}")
        self._client.run(
            ["scp", *self._ssh_options("admin"), "-q", "-r", source, f"root@{ADDRESS}:{to}"],
            timeout_s=120.0,
        )

    def sleep(self) -> float:
        """Order sleep as the box does by ssh; return when QEMU said that it sleeps."""
        assert self.power
        before = self.power.count(SUSPEND)
        self.ssh_begin("", key="sleep")
        return self.power.wait(SUSPEND, before + 1)

    def wake(self, send: Callable[[], Any]) -> float:
        """Have a magic packet sent; return when QEMU said that it woke."""
        assert self.power
        before = self.power.count(WAKEUP)
        send()
        return self.power.wait(WAKEUP, before + 1)

    def press(self) -> None:
        """Wake it without a packet, as its power button would."""
        self.qmp("system_wakeup")

    def qmp(self, command: str) -> Any:
        """Give QEMU a command and return what it returns."""
        with contextlib.closing(Qmp(self._socket("tests"))) as qmp:
            return qmp(command)

    def suspends(self) -> int:
        """How often the guest's own kernel says it has suspended and come back."""
        return int(self.ssh("cat /sys/power/suspend_stats/success").stdout)

    def requests(self) -> list[dict[str, Any]]:
        """Return what nginx there has answered, as Server does; the guest must be awake."""
        lines = self.ssh("cat /var/log/nginx/office.log").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def _keys(self) -> None:
        self.private_key = self.image["sleep"]
        kind, public, *_ = self.image["host.pub"].read_text().split()
        self.known_hosts.write_text(f"{ADDRESS},{ADDRESS_V6} {kind} {public}\n")

    def _socket(self, name: str) -> Path:
        return self.directory / f"{name}.qmp"

    def _qemu(self) -> list[str | Path]:
        kvm = self.accelerator == "kvm"
        disk = f"file={self.image['disk']},if=virtio,format=raw,snapshot=on"
        kernel = "console=ttyS0 root=LABEL=guest rw quiet no_console_suspend"
        return [
            *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"),
            *("-accel", "kvm" if kvm else "tcg,thread=multi", "-cpu", "host" if kvm else "max"),
            *("-machine", "pc", "-global", "PIIX4_PM.disable_s3=0", "-smp", "2", "-m", "512"),
            *("-kernel", self.image["vmlinuz"], "-initrd", self.image["initrd"]),
            *("-append", kernel, "-drive", disk),
            *("-netdev", f"tap,id=wire,ifname={TAP},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=wire,mac={MAC},romfile="),
            *("-serial", f"file:{self._logs / 'guest-console.log'}"),
            *("-qmp", f"unix:{self._socket('tests')},server=on,wait=off"),
            *("-qmp", f"unix:{self._socket('power')},server=on,wait=off"),
        ]

    def _ssh(self, key: str) -> list[str | Path]:
        return ["ssh", *self._ssh_options(key), f"root@{ADDRESS}"]

    def _ssh_options(self, key: str) -> list[str | Path]:
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "10",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": self.known_hosts,
        }
        chosen = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["-F", "none", *chosen, "-i", self.image[key]]


class GuestOffice(Office):
    """The office, with a guest for a server."""

    server: Guest

    def __init__(self, image: Image, keep: Path | None = None):
        super().__init__(keep=keep)
        self.server = Guest(self.server.name, self.server.directory, self.logs, image, self.client)
        self.box = Box(self.box.name, self.box.directory, self.logs, self.server)


class Pinger:
    """Pings the guest every 100 ms, as the thesis did to measure sleep and wake."""

    def __init__(self, client: Namespace, log: Path):
        self._log = log
        with log.open("w") as said:
            self._ping = client.popen(["ping", "-D", "-n", "-i", "0.1", ADDRESS], stdout=said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ping.kill()
        self._ping.wait(timeout=10)

    def answers(self) -> list[float]:
        """When an answer came, CLOCK_MONOTONIC, in order."""
        offset_s = time.time() - time.monotonic()
        found = _ANSWER.findall(self._log.read_text())
        return [float(realtime_s) - offset_s for realtime_s in found]

    def first_after(self, t_s: float) -> float:
        """Wait for an answer after `t_s` and return its time."""
        return wait_for(lambda: next((at for at in self.answers() if at > t_s), 0.0), "a ping")

    def last_before(self, t_s: float) -> float:
        """When the last answer before `t_s` came."""
        return max(at for at in self.answers() if at < t_s)


@contextlib.contextmanager
def wire(client: Namespace) -> Iterator[socket.socket]:
    """Give the client's raw wire, to send frames on."""
    with client.entered():
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with sender:
        sender.bind(("eth0", 0))
        yield sender


@contextlib.contextmanager
def udp(client: Namespace, to: tuple[str, int]) -> Iterator[socket.socket]:
    """Give a datagram socket of the client's that is connected there; it may broadcast."""
    with client.entered():
        family, kind, _, _, address = socket.getaddrinfo(*to, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.connect(address)
            yield sender
