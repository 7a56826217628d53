"""The guest as the office's web server: Debian in QEMU, on the office's wire.

Nobody logs in there as root over ssh. Root's commands go through QEMU's guest agent, so that logind
has no session of them; the setup text is pasted at the console.
"""

import base64
import contextlib
import io
import json
import re
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from naproxy.setup.keys import HostKey

from tests.guest.console import Console
from tests.guest.image import Image
from tests.guest.power import SUSPEND, WAKEUP, Power, Qmp, accelerator
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import Box, RefusedError
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.mainboard import Settings
from tests.simulator.office.namespace import Namespace, OfficeError
from tests.simulator.office.server import ADDRESS, MAC, Server, Site
from tests.simulator.office.tap import TAP, WIRE, plug_in

USER = "naproxy"
"""The box's user on the server."""
_BOOT_S = 600.0
_COMMAND_S = 300.0
_SLEEP_S = 900.0
_POLL_S = 0.1
_PING_S = 5.0
_ENVIRONMENT = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]
_ANSWER = re.compile(r"^\[([0-9.]+)\] [0-9]+ bytes from", re.MULTILINE)


class Guest(Server):
    """Takes the place of the office's server; its mainboard is QEMU's, its sleep ACPI S3."""

    _to_agent: socket.socket | None = None
    """To the guest's agent."""

    def __init__(self, name: str, directory: Path, logs: Path, image: Image, client: Namespace):
        super().__init__(name, directory, logs)
        self.image = image
        self.power: Power | None = None
        self.boot_s = 0.0
        self.accelerator = accelerator()
        self.console: Console
        self._client = client
        self._talking = threading.Lock()

    def start(self, freezer: Freezer, settings: Settings, contents: Site) -> None:
        """Boot; returns when web and ssh answer. What the virtual mainboard needs is not used."""
        del freezer, settings, contents
        self.directory.mkdir()
        plug_in(self.name)
        began_s = time.monotonic()
        qemu = self.popen(self._qemu(), log="qemu")
        wait_for(lambda: self._socket("power").exists() or qemu.poll() is not None, "QEMU")
        if qemu.poll() is not None:
            raise OfficeError(f"QEMU ended: {(self._logs / 'qemu.log').read_text()}")
        self.console = Console(self._socket("console"), self._logs / "guest-console.log")
        self.power = Power(self, MAC, self._socket("power"), WIRE, TAP)
        self.power.start()
        wait_for(self.answers, "the guest's web server", _BOOT_S)
        self.boot_s = time.monotonic() - began_s
        wait_for(self._takes_commands, "the guest's agent", _BOOT_S)

    def answers(self, timeout_s: float = 1.0) -> bool:
        """Whether the web server answers the client."""
        with contextlib.suppress(OSError):
            connection = HTTPConnection(ADDRESS, timeout=timeout_s)
            connection.sock = self._client.connect(ADDRESS, 80, timeout_s=timeout_s)
            with contextlib.closing(connection):
                connection.request("GET", "/answers")
                return connection.getresponse().status == 200
        return False

    def run_inside(
        self, command: str, *, check: bool = True, stdin: str | bytes = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell's command there as root, which logs in nowhere."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        order: dict[str, Any] = {"path": "/bin/sh", "arg": ["-c", command], "env": _ENVIRONMENT}
        order |= {"input-data": base64.b64encode(data).decode(), "capture-output": True}
        begun = self._agent("guest-exec", order)
        deadline = time.monotonic() + _COMMAND_S
        while not (done := self._agent("guest-exec-status", begun))["exited"]:
            if time.monotonic() > deadline:
                raise OfficeError(f"{command}: no end after {_COMMAND_S:g} s")
            time.sleep(_POLL_S)
        out, err = (base64.b64decode(done.get(f"{n}-data", "")).decode() for n in ("out", "err"))
        code = done.get("exitcode", -1)
        if check and code:
            raise OfficeError(f"{command}: exit {code}: {err or out}")
        return subprocess.CompletedProcess(command, code, out, err)

    def ssh(self, user: str, *command: str, options: Sequence[str] = ()) -> list[str | Path]:
        """Return how to log in from the client: as `anna`, a person, or as the box's user."""
        key = self.image["anna"] if user == "anna" else self.private_key
        return ["ssh", *self._ssh_options(key), *options, f"{user}@{ADDRESS}", *command]

    @contextlib.contextmanager
    def logged_in(self, *options: str, user: str = "anna") -> Iterator[None]:
        """Have somebody logged in from the client; `-tt` asks for a terminal."""
        argv = self.ssh(user, "echo in; exec sleep 600", options=options)
        session = self._client.popen(argv, stdout=subprocess.PIPE, log=f"ssh-{user}")
        try:
            assert session.stdout
            assert session.stdout.readline().strip() == "in"
            # On a busy machine pam_systemd may give up, and lets the login go on without a session.
            wait_for(self.people, "logind to know of the login", _COMMAND_S)
            yield
        finally:
            session.kill()
            wait_for(lambda: not self.people(), "the session to end", _COMMAND_S)

    def people(self) -> str:
        """Return the sessions that logind has of others than the box."""
        return self.run_inside(f"loginctl --no-legend list-sessions | grep -vw {USER} || :").stdout

    def sessions(self, user: str) -> str:
        """Return what logind knows of a user's sessions."""
        ids = f"loginctl --no-legend list-sessions | awk '$3 == \"{user}\" {{ print $1 }}'"
        shown = f"for id in $({ids}); do loginctl show-session $id || :; done"
        return self.run_inside(shown).stdout

    def copy(self, source: Path, to: str) -> None:
        """Copy a directory there, with what its symbolic links lead to."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", dereference=True) as archive:
            archive.add(source, arcname=".")
        self.run_inside(
            f"rm -rf {to}; mkdir {to} && tar -xzC {to} --no-same-owner", stdin=packed.getvalue()
        )

    def order(self, command: str = "") -> subprocess.CompletedProcess[str]:
        """Order sleep as the box does over ssh, once; return what the server says."""
        argv = self.ssh(USER, *([command] if command else []))
        return self._client.run(argv, check=False, timeout_s=_COMMAND_S)

    def sleep(self) -> float:
        """Order sleep as the box does over ssh; return when QEMU said that it sleeps."""
        assert self.power
        before = self.power.count(SUSPEND)
        self._client.popen(self.ssh(USER), log="ssh-naproxy")
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
        return int(self.run_inside("cat /sys/power/suspend_stats/success").stdout)

    def script(self) -> str:
        """Return the command that the box's key runs there."""
        return self.run_inside("cat /usr/local/bin/naproxy-sleep").stdout

    def journal(self) -> str:
        """Return what its journal has since the boot."""
        return self.run_inside("journalctl -b -o short-precise --no-pager").stdout

    def requests(self) -> list[dict[str, Any]]:
        """Return what nginx there has answered, as Server does; the guest must be awake."""
        lines = self.run_inside("cat /var/log/nginx/office.log").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def _takes_commands(self) -> bool:
        """Whether the guest's agent answers; QEMU drops what was said to one that had not begun."""
        with contextlib.suppress(OSError, EOFError):
            self._agent("guest-ping", timeout_s=_PING_S)
            return True
        return False

    def _agent(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        timeout_s: float = _COMMAND_S,
    ) -> Any:
        """Give the guest's agent a command and return what it returns."""
        with self._talking:
            line = self._to_agent or self._greeted(timeout_s)
            self._to_agent = None
            line.settimeout(timeout_s)
            line.sendall(_line(command, arguments or {}))
            said: dict[str, Any] = json.loads(_read_line(line))
            # Kept only if nothing went wrong.
            self._to_agent = line
        if "error" in said:
            raise OfficeError(f"{command}: {said['error']['desc']}")
        return said["return"]

    def _greeted(self, timeout_s: float) -> socket.socket:
        """Connect to the guest's agent; what is said to one that has not begun may be lost."""
        deadline = time.monotonic() + timeout_s
        while True:
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(_PING_S)
            line.connect(str(self._socket("agent")))
            try:
                line.sendall(_line("guest-sync-delimited", {"id": 1}))
                # Before the mark there may be answers to what an earlier connection asked.
                while b"\xff" not in _read_line(line):
                    pass
            except TimeoutError:
                line.close()
                if time.monotonic() > deadline:
                    raise
            else:
                return line

    def _socket(self, name: str) -> Path:
        return self.directory / f"{name}.qmp"

    def _qemu(self) -> list[str | Path]:
        kvm = self.accelerator == "kvm"
        disk = f"file={self.image['disk']},if=virtio,format=raw,snapshot=on"
        # A message of the kernel amidst the login prompt would hide it.
        kernel = "console=ttyS0 root=LABEL=guest rw quiet loglevel=1 no_console_suspend"
        # Emulated on a busy machine, udev may take longer than the 90 s that systemd waits for it.
        kernel += " systemd.default_device_timeout_sec=600"
        return [
            *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"),
            *("-accel", "kvm" if kvm else "tcg,thread=multi", "-cpu", "host" if kvm else "max"),
            *("-machine", "pc", "-global", "PIIX4_PM.disable_s3=0", "-smp", "2", "-m", "512"),
            *("-kernel", self.image["vmlinuz"], "-initrd", self.image["initrd"]),
            *("-append", kernel, "-drive", disk),
            *("-netdev", f"tap,id=wire,ifname={TAP},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=wire,mac={MAC},romfile="),
            *("-chardev", f"socket,id=console,path={self._socket('console')},server=on,wait=off"),
            *("-serial", "chardev:console", "-device", "virtio-serial-pci"),
            *("-chardev", f"socket,id=agent,path={self._socket('agent')},server=on,wait=off"),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
            *("-qmp", f"unix:{self._socket('tests')},server=on,wait=off"),
            *("-qmp", f"unix:{self._socket('power')},server=on,wait=off"),
        ]

    def _ssh_options(self, key: Path) -> list[str | Path]:
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "120",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": self.known_hosts,
        }
        chosen = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["-F", "none", *chosen, "-i", key]


class GuestBox(Box):
    """The box, which logs in as its own user, and keeps its key itself."""

    def default_config(self, **changes: Any) -> dict[str, Any]:
        """Return the office's, with times for an emulated server on a busy machine."""
        config = super().default_config(**changes)
        ssh = {"user": USER, "timeout_s": 180.0}
        config["server"][0]["sleep"].update(ssh)
        return config


class GuestOffice(Office):
    """The office, with a guest for a server."""

    server: Guest

    def __init__(self, image: Image, keep: Path | None = None):
        super().__init__(keep=keep)
        self.server = Guest(self.server.name, self.server.directory, self.logs, image, self.client)
        self.box = GuestBox(self.box.name, self.box.directory, self.logs, self.server)
        # The box writes only where its configuration is.
        self.server.private_key = self.box.directory / "ssh/id_ed25519"
        self.server.known_hosts = self.box.directory / "ssh/known_hosts"

    def prepare(self) -> tuple[str, str]:
        """Do what the guide has a person do: paste its text on the server, compare the host key.

        The box must run. Returns the text, and what the server printed.
        """
        text = self.box.api("POST", "/v1/servers/web/key")["script"]
        console = self.server.console
        console.log_in()
        printed = console.paste(text)
        console.log_out()
        # Under emulation the load is above 1 for minutes after the boot.
        config = "/etc/naproxy-agent/naproxy-agent.conf"
        self.server.run_inside(f"sed -i 's/^#load-above.*/load-above = any/' {config}")
        kind, public, *_ = self.server.image["host.pub"].read_text().split()
        fingerprint = HostKey(kind, public).fingerprint

        def pinned() -> bool:
            # An emulated sshd on a busy machine may take a minute to show its key. Asking again
            # meanwhile would give it one more login at a time, until it shows none.
            path, body = "/v1/servers/web/host-key", {"fingerprint": fingerprint}
            with contextlib.suppress(TimeoutError, RefusedError):
                self.box.api("PUT", path, body, timeout_s=_COMMAND_S)
                return True
            return False

        wait_for(pinned, "the host key", _BOOT_S)
        return text, printed

    def put_to_sleep(self) -> float:
        """Have the box order sleep until QEMU says that it sleeps; return when it said so.

        A request may call the server back before it has slept, and one that is emulated on a busy
        machine may look asleep before it is.
        """
        power = self.server.power
        assert power
        before = power.count(SUSPEND)

        def asleep() -> bool:
            if power.count(SUSPEND) == before and self.box.status()["state"] == "awake":
                with contextlib.suppress(RefusedError):
                    self.box.api("POST", "/v1/servers/web/sleep", {})
            time.sleep(_POLL_S)
            return power.count(SUSPEND) > before

        wait_for(asleep, "the guest to sleep", _SLEEP_S)
        return power.wait(SUSPEND, before + 1)


def _read_line(line: socket.socket) -> bytes:
    read = b""
    while not read.endswith(b"\n"):
        if not (more := line.recv(65536)):
            raise EOFError("QEMU has ended")
        read += more
    return read


def _line(command: str, arguments: Mapping[str, Any]) -> bytes:
    return json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"


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
