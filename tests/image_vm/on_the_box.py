"""Run by the box's own Python: what is wrong with what it ships, as JSON: each thing and why not.

drivers PATTERN...  what each driver needs: its programs start, its modules are imported, its
                    options are in the running kernel's configuration; of its devices those are
                    asked for that this machine has (PATTERN)
programs            each program of the root file system starts
services HOST       each service of the supervisor is asked for its answer; HOST is served by HTTPS
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import importlib
import ipaddress
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naproxy import drivers
from naproxy.drivers.needs import Needs

KINDS: tuple[drivers.Kind, ...] = ("sleep", "wake", "ready", "meter")
NOT_STARTED = (126, 127)
"""Exit statuses of a shell, and of a program whose libraries are not there."""
BROKEN = re.compile(
    r"FATAL ERROR|error while loading shared|symbol lookup error|Traceback \(most recent call"
)
PLACES = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/libexec", "usr/libexec/*")
SERVICES = Path("/etc/service")
SUPERVISED = Path("/run/service")
PATIENCE_S = 60.0
"""A service that was just asked for takes a moment."""


def main(what: str, *words: str) -> None:
    """Print each thing and what is wrong with it."""
    found: dict[str, Callable[..., dict[str, Any]]] = {
        "drivers": of_drivers,
        "programs": of_programs,
        "services": of_services,
    }
    print(json.dumps(found[what](*words)))


# Drivers


def of_drivers(*has: str) -> dict[str, list[str]]:
    """Return what each driver lacks."""
    with gzip.open("/proc/config.gz", "rt") as text:
        kernel = set(re.findall(r"^CONFIG_(\w+)=[ym]$", text.read(), re.MULTILINE))
    found = {}
    for kind in KINDS:
        for name in drivers.names(kind):
            try:
                lacks = missing(drivers.settings(kind, name), kernel, set(has))
            except ImportError as error:
                lacks = [f"itself: {error}"]
            found[f"{kind} {name}"] = lacks
    return found


def missing(settings: type, kernel: set[str], has: set[str]) -> list[str]:
    """Return what a driver needs and what is not here."""
    needs = getattr(settings, "needs", Needs())
    told = [f"program {each}: {why}" for each in needs.programs if (why := not_started(each))]
    for each in needs.modules:
        try:
            importlib.import_module(each)
        except ImportError as error:
            told.append(f"module {each}: {error}")
    told += [f"kernel option {each}" for each in needs.kernel if each not in kernel]
    told += [f"device {each}" for each in needs.devices if each in has and not there(each)]
    return told


def there(pattern: str) -> bool:
    """Whether there is such a file."""
    return any(Path("/").glob(pattern.removeprefix("/")))


# Programs


def of_programs() -> dict[str, str]:
    """Start each program once; what it thinks of `--version` does not matter."""
    files = (file for place in PLACES for file in sorted(Path("/").glob(f"{place}/*")))
    # A link is another name: BusyBox would take `reboot` at its word.
    return {str(file): not_started(file) for file in files if not file.is_symlink() and ours(file)}


def ours(file: Path) -> bool:
    """Whether it is a program for the processor or in Python; a shell script would do its work."""
    if not file.is_file() or not os.access(file, os.X_OK):
        return False
    with file.open("rb") as content:
        first = content.readline(200)
    return first.startswith(b"\x7fELF") or (first.startswith(b"#!") and b"python" in first)


def not_started(program: str | Path) -> str:
    """Start it; return why it does not, or nothing."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""  # it knows no such option, and serves
    except OSError as error:
        return str(error)
    said = (done.stdout + done.stderr).decode(errors="replace")
    if "applet not found" in said:
        return ""  # BusyBox, which asks what it is to be
    if done.returncode in NOT_STARTED or done.returncode < 0 or BROKEN.search(said):
        return f"{done.returncode}: {said[-200:]}"
    return ""


# Services


def of_services(host: str) -> dict[str, str]:
    """Ask each for its answer; those that this box does not want are not among them."""
    ask = questions(host)
    found = {}
    for folder in sorted(SERVICES.iterdir()):
        name = folder.name
        if name not in ask:
            found[name] = "there is no question for it"
        elif wanted(folder):
            found[name] = asked(ask[name])
    return found


def questions(host: str) -> dict[str, Callable[[], object]]:
    """Return what to ask each service; an error is no answer."""
    return {
        "chores": the_spare_settings,
        "chrony": lambda: said("chronyc", "-n", "sources"),
        "controller": lambda: json.loads(said("naproxy", "status", "--json"))["servers"],
        "dbus": lambda: said(*DBUS, "/org/freedesktop/DBus", "org.freedesktop.DBus.GetId"),
        "edge": lambda: by_https(host),
        "hawkbit": lambda: running("hawkbit"),
        "health": lambda: json.loads(Path(CONFIRMED).read_text())["slot"],
        "klogd": lambda: in_the_log(lambda mark: Path("/dev/kmsg").write_text(f"<4>{mark}\n")),
        "lighttpd": lambda: status(http.client.HTTPSConnection("127.0.0.1", 8443, context=ANYONE)),
        "logcopy": lambda: in_the_log(lambda mark: said("logger", mark), "/data/log/current"),
        "mdev": the_device_that_was_removed,
        "mdnsd": lambda: running("mdnsd"),
        "mqtt": lambda: running("mqtt"),
        "network": the_address,
        "rauc": lambda: json.loads(said("rauc", "status", "--output-format=json"))["booted"],
        "screen": the_screen,
        "sshd": lambda: greeted(("127.0.0.1", 22), b"SSH-2.0"),
        "syslogd": lambda: in_the_log(lambda mark: said("logger", mark)),
        "through": lambda: running("through"),
        "varnish": lambda: status(http.client.HTTPConnection("127.0.0.1", 80), "X-Naproxy"),
        "watchdog": the_watchdog,
        "webui": lambda: status(Local("/run/naproxy-webui/http.sock")),
    }


DBUS = ("dbus-send", "--system", "--print-reply", "--dest=org.freedesktop.DBus")
CONFIRMED = "/data/naproxy/update/confirmed.json"
ANYONE = ssl._create_unverified_context()


def wanted(folder: Path) -> bool:
    """Whether this box needs the service; each says so itself."""
    asks = folder / "wanted"
    return not asks.exists() or subprocess.run([asks], check=False).returncode == 0


def asked(question: Callable[[], object]) -> str:
    """Ask until there is an answer; return why there is none, or nothing."""
    deadline_s = time.monotonic() + PATIENCE_S
    why = ""
    while time.monotonic() < deadline_s:
        try:
            question()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        else:
            return ""
        time.sleep(1.0)
    return why


def said(*argv: str) -> str:
    """Run a program; return what it says."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.returncode}: {done.stderr[-200:]}")
    return done.stdout


def running(name: str) -> None:
    """Whether it has run for five seconds. Who asks it for its answer is outside of the box."""
    told = said("sv", "status", str(SUPERVISED / name))
    if not (up := re.match(r"run: .*?: \(pid \d+\) (\d+)s", told)) or int(up[1]) < 5:
        raise OSError(told)


def the_spare_settings() -> None:
    """On the boot partition are those that are in use."""
    used, spare = Path("/data/etc/naproxy.toml"), Path("/bootpart/naproxy-settings.toml")
    if used.read_bytes() != spare.read_bytes():
        raise OSError("the spare settings are not those in use")


def by_https(host: str) -> None:
    """This box answers by HTTPS for a name of the server's."""
    with (
        socket.create_connection(("127.0.0.1", 443), 10) as plain,
        ANYONE.wrap_socket(plain, server_hostname=host) as line,
    ):
        line.sendall(f"GET /.naproxy/status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        first = line.recv(100)
    if not first.startswith(b"HTTP/1.1 200"):
        raise OSError(repr(first))


class Local(http.client.HTTPConnection):
    """HTTP through a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self) -> None:
        """Open it."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def status(connection: http.client.HTTPConnection, header: str = "") -> None:
    """Something answers there, with no error of its own."""
    connection.timeout = 10
    with contextlib.closing(connection):
        connection.request("GET", "/.naproxy/status" if header else "/login")
        answer = connection.getresponse()
    if answer.status >= 500 or (header and not answer.getheader(header)):
        raise OSError(f"{answer.status}, {header} {answer.getheader(header)}")


def in_the_log(write: Callable[[str], object], log: str = "/var/log/messages") -> None:
    """What is written comes to the log."""
    mark = uuid.uuid4().hex
    write(mark)
    for _ in range(50):
        if mark in Path(log).read_text(errors="replace"):
            return
        time.sleep(0.2)
    raise OSError(f"{log} has nothing of what was written")


def the_device_that_was_removed() -> None:
    """The kernel tells of a device, and there is a file for it again."""
    Path("/dev/full").unlink(missing_ok=True)
    Path("/sys/class/mem/full/uevent").write_text("add")
    for _ in range(50):
        if Path("/dev/full").exists():
            return
        time.sleep(0.2)
    raise OSError("there is no /dev/full")


def the_address() -> None:
    """The address that the box says it has is one of its card's."""
    told = Path("/run/naproxy-system/network-is").read_text().split("/")[0].strip()
    ipaddress.ip_address(told)
    if f" {told}/" not in said("ip", "addr", "show", "eth0"):
        raise OSError(f"eth0 has not {told}")


def the_screen() -> None:
    """The first screen shows where the web interface is."""
    if "Web interface: https://" not in Path("/dev/vcs1").read_text(errors="replace"):
        raise OSError("the screen does not say where the web interface is")


def greeted(where: tuple[str, int], greeting: bytes) -> None:
    """Who comes is greeted."""
    with socket.create_connection(where, 10) as line:
        if not (first := line.recv(100)).startswith(greeting):
            raise OSError(repr(first))


def the_watchdog() -> None:
    """Somebody has each open, and feeds it."""
    for device in Path("/dev").glob("watchdog[0-9]*"):
        try:
            with device.open("wb", buffering=0) as free:
                free.write(b"V")  # else the box starts anew
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            raise OSError(f"nobody has {device}")


if __name__ == "__main__":
    main(*sys.argv[1:])
