"""The agent on the office's server: puts it to sleep for the box, or says why not.

Answers signed datagrams (docs/agent.md), or with `--once` the one request of a login over ssh. It
reads the server afresh for each request; pure functions decide what follows. One process, one
thread: while it puts the server to sleep, it does nothing else.

Standard library of Python 3.9 or later, on Linux.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import ipaddress
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import agent_protocol as protocol
import jobs
from agent_protocol import (
    AGAIN,
    NO,
    YES,
    Answer,
    Ask,
    Count,
    Counted,
    Listen,
    Listening,
    Request,
    Told,
)

CONFIG: Final = Path("/etc/naproxy-agent/naproxy-agent.conf")
KEY: Final = Path("/etc/naproxy-agent/key")

# -------------------------------------------------------------------- configuration


class ConfigError(ValueError):
    """The configuration is wrong, in words."""


@dataclass(frozen=True)
class Rules:
    """The settings for reasons to stay awake."""

    inhibitors: bool = True
    logged_in_users: bool = True
    load_above: float | None = 1.0
    """Runnable processes, averaged over a minute; None: any load is fine."""
    connections_except_ports: frozenset[int] | None = frozenset()
    """Ports of the server where connections do not count; None: none counts."""
    processes: frozenset[str] = frozenset()
    units: tuple[str, ...] = ()
    gpu_above: float | None = 20.0
    """Percent of its time that a graphics processor computes; None: any is fine."""


@dataclass(frozen=True)
class Config:
    """The whole file."""

    server: str
    listen: str = ""
    """Address to listen on; empty: all."""
    port: int = protocol.PORT
    box: frozenset[str] = frozenset()
    """Addresses of the box besides the one that it asks from."""
    rules: Rules = Rules()
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Command for each state that is offered."""


def parse_config(text: str) -> Config:
    """Read a configuration; ConfigError names the key that is wrong."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ConfigError(" ".join(str(error).split())) from None
    known = {
        "agent": {"server", "listen", "port", "box"},
        "stay-awake": {
            *("inhibitors", "logged-in-users", "load-above", "gpu-above"),
            *("connections-except-ports", "processes", "units"),
        },
        "sleep": set(protocol.STATES),
    }
    for section in parser.sections():
        if section not in known:
            raise ConfigError(f"[{section}] is not known")
        for key in parser[section]:
            if key not in known[section]:
                raise ConfigError(f"[{section}] {key} is not known")
    return _config(_Values(parser))


def _config(values: _Values) -> Config:
    rules = Rules(
        inhibitors=values.switch("stay-awake", "inhibitors"),
        logged_in_users=values.switch("stay-awake", "logged-in-users"),
        load_above=values.limit("stay-awake", "load-above", "1.0"),
        gpu_above=values.limit("stay-awake", "gpu-above", "20"),
        connections_except_ports=values.ports("stay-awake", "connections-except-ports", ""),
        processes=frozenset(values.words("stay-awake", "processes")),
        units=values.units("stay-awake", "units"),
    )
    commands = {state: tuple(values.words("sleep", state)) for state in protocol.STATES}
    if not any(commands.values()):
        raise ConfigError("[sleep] offers no state: give a command for mem, disk or off")
    return Config(
        server=values.server("agent", "server"),
        listen=values.address("agent", "listen"),
        port=values.port("agent", "port", str(protocol.PORT)),
        box=values.addresses("agent", "box"),
        rules=rules,
        commands={state: command for state, command in commands.items() if command},
    )


class _Values:
    """Typed values of the file; what is wrong is said with its key."""

    def __init__(self, parser: configparser.ConfigParser):
        self._parser = parser

    def _text(self, section: str, key: str, default: str = "") -> str:
        if section not in self._parser:
            return default
        return self._parser[section].get(key, default).strip()

    def words(self, section: str, key: str) -> list[str]:
        try:
            return shlex.split(self._text(section, key))
        except ValueError as error:
            raise ConfigError(f"[{section}] {key}: {error}") from None

    def switch(self, section: str, key: str) -> bool:
        text = self._text(section, key, "yes")
        if text not in {"yes", "no"}:
            raise ConfigError(f"[{section}] {key} must be yes or no, not {text!r}")
        return text == "yes"

    def limit(self, section: str, key: str, default: str) -> float | None:
        text = self._text(section, key, default)
        if text == "any":
            return None
        try:
            limit = float(text)
        except ValueError:
            limit = -1.0
        if not 0 < limit < 1000:
            raise ConfigError(f"[{section}] {key} must be a number above 0, or any, not {text!r}")
        return limit

    def ports(self, section: str, key: str, default: str) -> frozenset[int] | None:
        text = self._text(section, key, default)
        if text == "all":
            return None
        return frozenset(self._port(section, key, word) for word in text.split())

    def port(self, section: str, key: str, default: str) -> int:
        return self._port(section, key, self._text(section, key, default))

    @staticmethod
    def _port(section: str, key: str, word: str) -> int:
        if not (word.isascii() and word.isdigit() and 0 < int(word) < 65536):
            raise ConfigError(f"[{section}] {key}: {word!r} is no port (1 to 65535)")
        return int(word)

    def units(self, section: str, key: str) -> tuple[str, ...]:
        words = self.words(section, key)
        for word in words:
            if "." not in word or word.startswith("-"):
                raise ConfigError(f"[{section}] {key}: {word!r} is no unit, as backup.service is")
        return tuple(words)

    def address(self, section: str, key: str) -> str:
        text = self._text(section, key)
        return text and self._address(section, key, text)

    def addresses(self, section: str, key: str) -> frozenset[str]:
        words = self._text(section, key).split()
        return frozenset(plain_address(self._address(section, key, word)) for word in words)

    @staticmethod
    def _address(section: str, key: str, word: str) -> str:
        try:
            return str(ipaddress.ip_address(word))
        except ValueError:
            raise ConfigError(f"[{section}] {key}: {word!r} is no IP address") from None

    def server(self, section: str, key: str) -> str:
        text = self._text(section, key)
        if not protocol.is_server_id(text):
            raise ConfigError(
                f"[{section}] {key} must be the server's id on the box "
                f"(1 to 31 of a to z, 0 to 9 and -), not {text!r}"
            )
        return text


# ---------------------------------------------------------------- what keeps it awake


@dataclass(frozen=True)
class Inhibitor:
    """A lock as `systemd-inhibit --list` shows it; `what` has the operations it is for."""

    what: frozenset[str]
    who: str
    why: str
    mode: str


@dataclass(frozen=True)
class Connection:
    """An established TCP connection that was made to this server."""

    port: int
    peer: str


@dataclass(frozen=True)
class Unit:
    """A systemd unit's LoadState and ActiveState."""

    name: str
    load: str
    active: str


@dataclass(frozen=True)
class Readings:
    """What the server is busy with."""

    inhibitors: tuple[Inhibitor, ...] = ()
    users: tuple[str, ...] = ()
    """People who are logged in, or left programs running, in words."""
    load: float = 0.0
    gpus: tuple[tuple[str, float], ...] = ()
    """Graphics processors, and the percent of their time that they compute."""
    connections: tuple[Connection, ...] = ()
    processes: frozenset[str] = frozenset()
    """Names of the processes that run."""
    units: tuple[Unit, ...] = ()
    arrays: tuple[tuple[str, str], ...] = ()
    """Arrays of disks that are at work, and at what."""
    flows: tuple[Connection, ...] | None = ()
    """Who uses ports of UDP; None: this server has no table of that."""
    packages: tuple[str, ...] = ()
    """Locks of package managers that somebody holds."""
    target: Unit | None = None
    """The systemd target that the sleep command would start."""
    unreadable: tuple[str, ...] = ()
    """The readings that failed, in words."""


_WORKING: Final = frozenset({"active", "activating", "reloading", "deactivating"})


@dataclass(frozen=True)
class Login:
    """The box's own login over ssh: its user, and the hosts that it comes from."""

    user: str = ""
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Watched:
    """What the box wants looked at besides."""

    udp: tuple[int, ...] = ()
    ignore: frozenset[int] = frozenset()
    """Ports of TCP where connections do not count."""


def reasons(
    readings: Readings,
    rules: Rules,
    state: str,
    box: frozenset[str] = frozenset(),
    watched: Watched = Watched(),
) -> tuple[str, ...]:
    """Return why the server must stay awake: one a reason, none if it may sleep.

    What is connected from an address of the box does not count: the box knows of it.
    """
    past = tuple(one for one in readings.connections if one.peer not in box)
    return (
        *readings.unreadable,
        *_masked(readings.target),
        *_inhibited(readings.inhibitors, state),
        *readings.users,
        *_running(readings, rules),
        *(f"packages are being installed ({file} is locked)" for file in readings.packages[:1]),
        *(f"{array} is being rebuilt ({work})" for array, work in readings.arrays),
        *_connected(past, rules.connections_except_ports, watched.ignore),
        *_flowing(readings.flows, watched.udp, box),
        *_loaded(readings.load, rules.load_above),
        *_computing(readings.gpus, rules.gpu_above),
    )


_CAN: Final = {"suspend": "CanSuspend", "hibernate": "CanHibernate", "poweroff": "CanPowerOff"}


def dry_run(command: tuple[str, ...], run: Run) -> tuple[str, ...]:
    """Return why the sleep command would fail, tried without sleeping; only systemctl's can be."""
    verb = next((word for word in command[1:] if word in _CAN), "")
    if not verb or not command[0].endswith("systemctl"):
        return ()
    manager = (_LOGIND, "/org/freedesktop/login1", f"{_LOGIND}.Manager")
    try:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if '"na"' in run(["busctl", "call", *manager, _CAN[verb]]):
                return ("cannot sleep: logind says that this server does not offer it",)
        run([*command, "--dry-run"])
    except (OSError, subprocess.SubprocessError) as error:
        return (f"cannot sleep: {_words(error)}",)
    return ()


def _masked(target: Unit | None) -> Iterator[str]:
    if target and target.load == "masked":
        yield f"{target.name} is masked: systemctl unmask {target.name} allows it again"


def _inhibited(inhibitors: tuple[Inhibitor, ...], state: str) -> Iterator[str]:
    # "idle" is for those who mind that a machine sleeps because nobody uses it: our case.
    against = {"idle", "shutdown" if state == "off" else "sleep"}
    for lock in inhibitors:
        if lock.mode.startswith("block") and lock.what & against:
            yield f"inhibited by {lock.who}: {lock.why}"


def _running(readings: Readings, rules: Rules) -> Iterator[str]:
    for name in sorted(readings.processes & rules.processes):
        yield f"{name} is running"
    for unit in readings.units:
        if unit.load == "not-found":
            yield f"{unit.name} is to be waited for, but there is no such unit"
        elif unit.active in _WORKING:
            yield f"{unit.name} is {unit.active}"


def _connected(
    connections: tuple[Connection, ...],
    but_ports: frozenset[int] | None,
    ignore: frozenset[int],
) -> Iterator[str]:
    if but_ports is None:
        return
    for port in sorted({one.port for one in connections} - but_ports - ignore):
        yield f"port {port} is connected to {_peers(connections, port)}"


def _flowing(
    flows: tuple[Connection, ...] | None, ports: tuple[int, ...], box: frozenset[str]
) -> Iterator[str]:
    if flows is None:
        yield from (
            f"udp port {port} cannot be watched: this server tracks no connections"
            for port in ports[:1]
        )
        return
    past = tuple(one for one in flows if one.peer not in box)
    for port in sorted({one.port for one in past} & set(ports)):
        yield f"udp port {port} is used by {_peers(past, port)}"


def _peers(connections: tuple[Connection, ...], port: int) -> str:
    peers = sorted({one.peer for one in connections if one.port == port})
    return peers[0] + (f" and {len(peers) - 1} more" if len(peers) > 1 else "")


def _loaded(load: float, limit: float | None) -> Iterator[str]:
    if limit is not None and load > limit:
        yield f"the load is {load:.2f}, above {limit:g}"


def _computing(gpus: tuple[tuple[str, float], ...], limit: float | None) -> Iterator[str]:
    for name, percent in gpus:
        if limit is not None and percent > limit:
            yield f"GPU {name} is {percent:.0f} % busy"


# ------------------------------------------------------------------ reading the server

Run = Callable[[list[str]], str]
"""Runs a command and returns what it prints; OSError or SubprocessError where it fails."""

_LOGIND: Final = "org.freedesktop.login1"


def run(command: list[str]) -> str:
    """Run a reading command; it is over in 5 s or it has failed."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=True
    ).stdout


def read(
    config: Config,
    state: str,
    run: Run = run,
    root: Path = Path("/"),
    watched: Watched = Watched(),
    *,
    own: Login = Login(),
) -> Readings:
    """Read what the rules and the box ask for. What cannot be read keeps the server awake.

    The box's `own` login does not count.
    """
    rules = config.rules
    systemd = (root / "run/systemd/system").is_dir()
    target = _target(config.commands.get(state, ())) if systemd else ""
    found: dict[str, Any] = {}
    unreadable = []
    wanted: list[tuple[str, bool, Callable[[], Any]]] = [
        ("inhibitors", rules.inhibitors and systemd, lambda: read_inhibitors(run)),
        ("users", rules.logged_in_users, lambda: read_users(run, systemd, own)),
        ("load", rules.load_above is not None, lambda: read_load(root)),
        ("gpus", rules.gpu_above is not None, lambda: read_gpus(root, run)),
        ("connections", rules.connections_except_ports is not None, lambda: read_tcp(root)),
        ("flows", bool(watched.udp), lambda: read_flows(run, root, frozenset(watched.udp))),
        ("processes", bool(rules.processes), lambda: read_processes(root)),
        ("packages", True, lambda: read_installing(root)),
        ("arrays", True, lambda: read_rebuilding(root)),
        ("units", bool(rules.units), lambda: read_units(run, rules.units)),
        ("target", bool(target), lambda: read_units(run, (target,))[0]),
    ]
    for name, want, reading in wanted:
        if want:
            try:
                found[name] = reading()
            except Exception as error:  # whatever it is, not knowing is a reason
                unreadable.append(f"the {name} cannot be read: {_words(error)}")
    return Readings(**found, unreadable=tuple(unreadable))


def _words(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or error.stdout or "").strip()
        return f"{error.cmd[0]}: {said or f'exit status {error.returncode}'}"
    return f"{type(error).__name__}: {error}"


def _target(command: tuple[str, ...]) -> str:
    """Return the target behind `systemctl suspend` and the like, or nothing."""
    return f"{command[1]}.target" if len(command) == 2 and command[0] == "systemctl" else ""


def read_inhibitors(run: Run) -> tuple[Inhibitor, ...]:
    """Ask logind for its inhibitor locks."""
    said = json.loads(run(_logind("ListInhibitors")))
    return tuple(
        Inhibitor(frozenset(what.split(":")), who, why, mode)
        for what, who, why, mode, _uid, _pid in said["data"][0]
    )


_PEOPLE: Final = frozenset({"tty", "x11", "wayland", "mir", "web"})
"""Types of sessions that systemctl minds, too: not those of mail or file servers."""


def read_users(run: Run, systemd: bool, own: Login = Login()) -> tuple[str, ...]:
    """Return who is logged in: logind's sessions of class user, or else utmp's.

    The box's own sessions have no terminal, and come from where it logs in.
    """
    if not systemd:
        return tuple(f"logged in: {' '.join(row.split())}" for row in run(["who"]).splitlines())
    users = []
    for _id, _uid, name, seat, path in json.loads(run(_logind("ListSessions")))["data"][0]:
        values = _session(run, path)
        if values is None:
            continue
        kind, state, session, remote, tty, service = values
        # Others are greeters, cron jobs and managers.
        if not kind.startswith("user") or session not in _PEOPLE:
            continue
        if (name, tty) == (own.user, "") and remote in own.hosts:
            continue
        if state == "closing":
            users.append(f"{name} has logged out, but left programs running")
        elif remote:
            users.append(f"logged in: {name} from {remote}")
        else:
            users.append(f"logged in: {name} at {tty or seat or service or 'the console'}")
    return tuple(users)


def _session(run: Run, path: str) -> list[str] | None:
    """Return what logind knows of a session; None: it has ended since it was listed."""
    names = ("Class", "State", "Type", "RemoteHost", "TTY", "Service")
    get = ["busctl", "--json=short", "get-property", _LOGIND, path, f"{_LOGIND}.Session", *names]
    try:
        return [json.loads(line)["data"] for line in run(get).splitlines()]
    except subprocess.CalledProcessError as error:
        if "Unknown object" in str(error.stderr):
            return None
        raise


def read_login(run: Run, user: str, host: str) -> Login:
    """Return the login of this very process, for a user who came from `host`.

    logind may know the host by its name.
    """
    hosts = {host}
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        path = json.loads(run([*_logind("GetSessionByPID"), "u", str(os.getpid())]))["data"][0]
        if values := _session(run, path):
            hosts.add(values[3])
    return Login(user, frozenset(hosts - {""}))


def _logind(method: str) -> list[str]:
    path = "/" + _LOGIND.replace(".", "/")
    return ["busctl", "--json=short", "call", _LOGIND, path, f"{_LOGIND}.Manager", method]


def read_load(root: Path) -> float:
    """Return the load, averaged over one minute (proc(5))."""
    return float((root / "proc/loadavg").read_text().split()[0])


def read_gpus(root: Path, run: Run) -> tuple[tuple[str, float], ...]:
    """Return graphics processors by name, and the percent of their time that they compute.

    The kernel's amdgpu tells it; of NVIDIA's their tool does. systemd runs that: the service does
    not see their devices.
    """
    found = []
    for file in sorted((root / "sys/class/drm").glob("card*/device/gpu_busy_percent")):
        # One that sleeps does not say.
        with contextlib.suppress(OSError):
            found.append((file.parts[-3], float(file.read_text())))
    places = os.pathsep.join(str(root / each.lstrip("/")) for each in os.get_exec_path())
    if shutil.which("nvidia-smi", path=places):
        found += _nvidia(run)
    return tuple(found)


def _nvidia(run: Run) -> Iterator[tuple[str, float]]:
    query = ["--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = run([*_BY_SYSTEMD, "nvidia-smi", *query])
    except subprocess.CalledProcessError as error:
        if "No devices were found" in f"{error.stdout}{error.stderr}":
            return
        raise
    for row in said.splitlines():
        name, _, percent = row.partition(",")
        # A card that cannot tell says [N/A].
        if percent.strip().isdigit():
            yield f"nvidia{name.strip()}", float(percent)


def read_processes(root: Path) -> frozenset[str]:
    """Return the names of all processes, as the kernel cuts them and as they were called."""
    names = set()
    for process in (root / "proc").glob("[0-9]*"):
        # It may end while it is looked at.
        with contextlib.suppress(OSError):
            names.add((process / "comm").read_text(errors="replace").rstrip("\n"))
            words = (process / "cmdline").read_text(errors="replace").split("\0")
            # A script is run by its interpreter: its own name comes second.
            names.update(Path(word).name for word in words[:2] if word[:1] not in {"", "-"})
    return frozenset(names)


_PACKAGE_LOCKS: Final = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/rpm/.rpm.lock",
)


def read_installing(root: Path) -> tuple[str, ...]:
    """Return the locks of dpkg and rpm that a process holds (proc_locks(5))."""
    places = {}
    for name in _PACKAGE_LOCKS:
        with contextlib.suppress(FileNotFoundError):
            places[name] = _lock_place((root / name[1:]).stat())
    if not places:
        return ()
    rows = (root / "proc/locks").read_text().splitlines()
    held = [row.split()[-3] for row in rows]
    return tuple(
        name for name, place in places.items() if any(each.endswith(place) for each in held)
    )


def _lock_place(file: os.stat_result) -> str:
    """Return device and inode as the table of locks ends them.

    File systems without a disk of their own (btrfs, overlays) tell programs another device.
    """
    device = file.st_dev
    disk = f"{os.major(device):02x}:{os.minor(device):02x}" if os.major(device) else ""
    return f"{disk}:{file.st_ino}"


_AT_WORK: Final = re.compile(r"(resync|recovery|reshape|check|repair) *= *([0-9]+\.[0-9])%")


def read_rebuilding(root: Path) -> tuple[tuple[str, str], ...]:
    """Return arrays that are built or checked anew, not those that wait for it (md(4))."""
    try:
        rows = (root / "proc/mdstat").read_text().splitlines()
    except FileNotFoundError:
        return ()  # nothing here knows of arrays
    found, array = [], ""
    for row in rows:
        if row.startswith("md"):
            array = row.split()[0]
        elif work := _AT_WORK.search(row):
            found.append((array, f"{work[1]}, {work[2]} % done"))
    return tuple(found)


def read_units(run: Run, names: tuple[str, ...]) -> tuple[Unit, ...]:
    """Ask systemd for the state of these units."""
    said = run(["systemctl", "show", "--property=LoadState,ActiveState", "--", *names])
    units = []
    for name, block in zip(names, said.strip().split("\n\n")):
        values = dict(line.split("=", 1) for line in block.splitlines())
        units.append(Unit(name, values["LoadState"], values["ActiveState"]))
    if len(units) != len(names):
        raise ValueError("systemctl did not tell of every unit")
    return tuple(units)


_PARTS: Final = tuple(f"/etc/cron.{each}" for each in ("hourly", "daily", "weekly", "monthly"))
_CRONTABS: Final = ("/var/spool/cron/crontabs", "/var/spool/cron")
"""Where users' crontabs are: Debian's place, and others'."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
"""What cron and run-parts take: not what an editor or a package manager has left there."""
_USERS_NAME: Final = re.compile(r"(?![.#]|tmp\.)(?!.*(?:~|\.dpkg-.*|\.rpm.*)\Z).+")
"""A user's crontab has the user's name, such as max.muster: not what crontab and editors leave."""


def read_jobs(run: Run, root: Path, now_s: float) -> list[jobs.Job]:
    """Return what this server is going to do by itself; OSError, ValueError, SubprocessError."""
    return jobs.parse("\n".join(job_lines(run, root, now_s)), None, _no_zone)


def job_lines(run: Run, root: Path, now_s: float) -> list[str]:
    """Return the lines of them, as `jobs.parse` reads them; OSError, SubprocessError."""
    lines = [jobs.FIRST_LINE, f"now {int(now_s)}"]
    if (root / "usr/sbin/anacron").exists():
        lines.append("anacron")
    for folder in _PARTS:
        programs = [
            each.name for each in _plain_files(root / folder[1:]) if os.access(each, os.X_OK)
        ]
        lines.append(" ".join(["parts", folder, *programs]))
    if (root / "run/systemd/system").is_dir():
        said = run(
            ["env", "TZ=UTC", "systemctl", "list-timers", "--all", "--no-legend", "--output=json"]
        )
        lines += [f"timers {line}" for line in said.splitlines()]
    system = [root / "etc/crontab"] if (root / "etc/crontab").is_file() else []
    own = next((place for place in (root / each[1:] for each in _CRONTABS) if place.is_dir()), None)
    users = _files(own, _USERS_NAME) if own else []
    for file in [*system, *_plain_files(root / "etc/cron.d"), *users]:
        lines.append(f"crontab /{file.relative_to(root)}")
        lines += [f"|{line}" for line in file.read_text(errors="replace").split("\n")]
    return [*lines, jobs.LAST_LINE]


def _plain_files(folder: Path) -> list[Path]:
    return _files(folder, _PLAIN_NAME)


def _files(folder: Path, name: re.Pattern[str]) -> list[Path]:
    if not folder.is_dir():
        return []
    found = (each for each in folder.iterdir() if name.fullmatch(each.name))
    return sorted(each for each in found if each.is_file())


def _no_zone(name: str) -> Any:
    raise LookupError(name)  # this machine's own is the right one


_ESTABLISHED: Final = frozenset({"01"})
BEEN_ESTABLISHED: Final = _ESTABLISHED | {"04", "05", "06", "08", "09", "0B"}
"""FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: its handshake was whole."""
_LISTEN: Final = "0A"
_MOST_CONNECTIONS: Final = 16384


def read_tcp(root: Path, states: frozenset[str] = _ESTABLISHED) -> tuple[Connection, ...]:
    """Return who is connected from elsewhere to ports that listen (proc(5), /proc/net/tcp)."""
    listening = {port for _, port, _, status in _tcp(root) if status == _LISTEN}
    found: set[Connection] = set()
    for address, port, remote, status in _tcp(root):
        if status in states and port in listening and len(found) < _MOST_CONNECTIONS:
            peer = _peer(address, remote)
            if peer:
                found.add(Connection(int(port, 16), peer))
    return tuple(sorted(found, key=lambda one: (one.port, one.peer)))


def _tcp(root: Path) -> Iterator[tuple[str, str, str, str]]:
    return _sockets(root, "tcp")


def _sockets(root: Path, protocol: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield local address and port, remote address, and state of each row, as they are there."""
    for name in (protocol, f"{protocol}6"):
        # A kernel without IPv6 has none of that.
        with contextlib.suppress(FileNotFoundError), (root / "proc/net" / name).open() as rows:
            next(rows, None)
            for row in rows:
                _, local, remote, status, _ = row.split(None, 4)
                address, _, port = local.partition(":")
                yield address, port, remote.partition(":")[0], status


_PROGRAM: Final = re.compile(r'\(\("([^"]*)"')
_UDP_OPEN: Final = "07"


def read_listening(run: Run, root: Path) -> tuple[str, ...]:
    """Return the ports that others can reach, the lower ones first, as `445/tcp/smbd`.

    Whose they are only root may see, who may do more than this agent: systemd asks ss. Without that
    they have no names. `flows` is among them if there is a table of connections.
    """
    found = set()
    for kind, wanted in (("tcp", _LISTEN), ("udp", _UDP_OPEN)):
        for address, port, _, status in _sockets(root, kind):
            if status == wanted and not _address(address).is_loopback:
                found.add((int(port, 16), kind))
    names = {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        for row in run([*_BY_SYSTEMD, "ss", "-Htulnp"]).splitlines():
            words, program = row.split(), _PROGRAM.search(row)
            if len(words) > 4 and program:
                name = re.sub(r"[^A-Za-z0-9._-]", "_", program[1])[:15]
                names[words[4].rpartition(":")[2], words[0]] = f"/{name}"
    flows = () if _tracked(run, root) is None else ("flows",)
    return (*flows, *(f"{n}/{of}{names.get((str(n), of), '')}" for n, of in sorted(found)))


_BY_SYSTEMD: Final = ("systemd-run", "--quiet", "--collect", "--wait", "--pipe")
_MOST_FLOWS: Final = 65536


def read_flows(run: Run, root: Path, ports: frozenset[int]) -> tuple[Connection, ...] | None:
    """Return who began to use these ports of UDP, from elsewhere; None: nobody keeps a table."""
    rows = _tracked(run, root)
    if rows is None:
        return None
    if len(rows) == _MOST_FLOWS:
        raise ValueError("the table of connections is too long")  # who counts may be beyond that
    own, found = _own_addresses(root), set()
    for row in rows:
        words = row.split()
        if "udp" not in words[:3]:
            continue
        first: dict[str, str] = {}  # of each pair: who began
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                first.setdefault(name, value)
        peer = _unmapped(ipaddress.ip_address(first["src"]))
        if int(first["dport"]) in ports and not peer.is_loopback and peer not in own:
            found.add(Connection(int(first["dport"]), str(peer)))
    return tuple(sorted(found, key=lambda one: (one.port, one.peer)))


def _tracked(run: Run, root: Path) -> list[str] | None:
    """Return the table of connections; who asks is in it, where it is kept."""
    try:
        with (root / "proc/net/nf_conntrack").open() as table:
            rows = list(itertools.islice(table, _MOST_FLOWS))
    except OSError:
        try:
            rows = run([*_BY_SYSTEMD, "conntrack", "-L"]).splitlines()[:_MOST_FLOWS]
        except (OSError, subprocess.SubprocessError):
            rows = []
    return rows or None


def _own_addresses(root: Path) -> set[Any]:
    """Return this server's addresses."""
    trie = (root / "proc/net/fib_trie").read_text()
    own = set(re.findall(r"\|-- ([0-9.]+)\n[^|]*?/32 host LOCAL", trie))
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        rows = (root / "proc/net/if_inet6").read_text().splitlines()
        own |= {str(ipaddress.IPv6Address(int(row.split()[0], 16))) for row in rows}
    return {ipaddress.ip_address(each) for each in own}


def _peer(local: str, remote: str) -> str:
    """Return the connected clients, except this machine."""
    peer = _address(remote)
    return "" if peer.is_loopback or peer == _address(local) else str(peer)


def _address(digits: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address of hex words in this machine's byte order."""
    packed = b"".join(
        int(digits[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(digits), 8)
    )
    return _unmapped(ipaddress.ip_address(packed))


def _unmapped(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return getattr(address, "ipv4_mapped", None) or address


def plain_address(peer: str) -> str:
    """Return an address as the table of connections has it."""
    return str(_unmapped(ipaddress.ip_address(peer.partition("%")[0])))


# ------------------------------------------------------------------ who comes past the box


class Visits:
    """Counts visits that do not come from the box, from its first question on. Has no clock.

    A visitor is an address; who was not seen for half an hour and is back makes another visit.
    """

    EVERY_S = 20.0
    """A connection that the server ended is in the table for a minute (TCP's TIME-WAIT)."""
    SOONEST_S = 1.0
    SILENT_S = 1800.0
    MOST = 4096
    """Visitors who are remembered."""

    def __init__(self, box: frozenset[str], connected: Callable[[], tuple[Connection, ...]]):
        """`box`: its addresses besides the one that asks; `connected` reads the connections."""
        self._own = box
        self._box = box
        self._connected = connected
        self._ports: frozenset[int] = frozenset()
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._looked_s = -self.SOONEST_S
        self.run = secrets.token_hex(16)
        self.total = 0
        self.here = 0

    def due_in_s(self, now_s: float) -> float | None:
        """Return when to look again; None: nobody has asked yet."""
        return max(0.0, self._looked_s + self.EVERY_S - now_s) if self._ports else None

    def ask(self, ports: tuple[int, ...], box: str, now_s: float) -> None:
        """Bring the figures up to now, and count at these ports from now on."""
        self._ports, self._box = frozenset(ports), self._own | {box}
        if now_s - self._looked_s >= self.SOONEST_S:
            self.look(now_s)

    def look(self, now_s: float) -> None:
        """See who is connected, or was a moment ago."""
        self._looked_s = now_s
        peers = {one.peer for one in self._connected() if one.port in self._ports} - self._box
        self.here = len(peers)
        # Those who are known come first: else newcomers would have them forgotten.
        for peer in sorted(peers, key=lambda one: (one not in self._seen, one))[: self.MOST]:
            last_s = self._seen.pop(peer, None)
            self.total += last_s is None or now_s - last_s >= self.SILENT_S
            _remember(self._seen, peer, now_s, self.MOST)


# ------------------------------------------------------------------------- the agent


@dataclass(frozen=True)
class Clock:
    """Now: seconds since boot, sleep included, and since 1970."""

    boot_s: float
    epoch_s: float

    @staticmethod
    def now() -> Clock:
        """Read both."""
        return Clock(time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


@dataclass(frozen=True)
class Reply:
    """What to send back, and the state to go to when it has gone out, or nothing."""

    datagram: bytes
    sleep: str = ""
    alarm_s: int = 0
    """In so many seconds the server's own clock is to wake it; 0: never."""


class BusyError(Exception):
    """More requests than anybody honest sends."""


class _Memory:
    """What is known of requests: when the last ones came, the answers, the challenges in these."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=Agent.REQUESTS_PER_S)
        self.answers: OrderedDict[str, bytes] = OrderedDict()
        self.challenges: OrderedDict[str, float] = OrderedDict()


class Agent:
    """Takes datagrams and says what to do. Has no socket and no clock."""

    CHALLENGE_S = 10.0
    """A challenge is good for so long, by the server's own clock since boot."""
    CHALLENGES = 16
    ANSWERS = 256
    """Requests remembered: a repeated one gets the same answer and has no effect."""
    REQUESTS_PER_S = 10
    OLD_S = 30
    """By the box's clock: what it signed so long before the newest may be somebody's recording.

    The box's clock may have been set back, so such requests are answered, too. But they have a
    memory of their own: a recording uses up nothing that the box needs.
    """
    FAILURE_S = 600.0
    """After a sleep command failed, the server refuses for so long, with the command's words."""

    def __init__(
        self,
        server: str,
        key: bytes,
        states: tuple[str, ...],
        why_not: Callable[[str, str, Watched], tuple[str, ...]],
        *,
        visits: Visits,
        listening: Callable[[], tuple[str, ...]],
        coming: Callable[[float], list[jobs.Job]],
        nonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ):
        """`why_not` reads and judges the server, for a state, the box's address, what is watched.

        `listening` reads the ports at which the server listens, `coming` what the server is going
        to do after now, in epoch seconds. `nonce` gives 32 hex digits.
        """
        self._server = server
        self._key = key
        self._states = states
        self._why_not = why_not
        self._visits = visits
        self._listening = listening
        self._watched = Watched()
        self._coming = coming
        self._nonce = nonce
        self._newest_s = 0
        self._new, self._old = _Memory(), _Memory()
        self._failure: tuple[float, str] | None = None

    def handle(self, datagram: bytes, peer: str, now: Clock) -> Reply:
        """Answer a datagram from this address. ProtocolError or BusyError: it deserves none."""
        request = protocol.read_request(self._key, datagram)
        self._newest_s = max(self._newest_s, request.time_s)
        memory = self._old if request.time_s < self._newest_s - self.OLD_S else self._new
        if request.nonce in memory.answers:
            return Reply(memory.answers[request.nonce])
        if len(memory.recent) == self.REQUESTS_PER_S and now.boot_s - memory.recent[0] < 1.0:
            raise BusyError(f"more than {self.REQUESTS_PER_S} requests in a second")
        memory.recent.append(now.boot_s)
        # It is signed: so this is an address of the box.
        if isinstance(request, Count):
            reply = Reply(self._count(request, peer, now, obey=memory is self._new))
        elif isinstance(request, Ask):
            reply = Reply(self._tell(request, now))
        elif isinstance(request, Listen):
            reply = Reply(self._listen(request, now, obey=memory is self._new))
        else:
            reply = self._answer(request, peer, now, memory.challenges)
        _remember(memory.answers, request.nonce, reply.datagram, self.ANSWERS)
        return reply

    def _count(self, request: Count, peer: str, now: Clock, *, obey: bool) -> bytes:
        """Say how many have come; what may be somebody's recording does not say who the box is."""
        visits = self._visits
        if obey and request.server == self._server:
            visits.ask(request.ports, peer, now.boot_s)
        time_s = int(now.epoch_s)
        told = Counted(self._server, time_s, request.nonce, visits.run, visits.total, visits.here)
        return protocol.counted(self._key, told)

    def _listen(self, request: Listen, now: Clock, *, obey: bool) -> bytes:
        """Say at which ports the server listens; from now on look at those the box names.

        What may be somebody's recording changes nothing.
        """
        words: tuple[str, ...] = ()
        why: tuple[str, ...] = ()
        try:
            if request.server == self._server:
                if obey:
                    self._watched = Watched(request.watch, frozenset(request.ignore))
                words = self._listening()
        except Exception as error:  # whatever it is, not knowing is a reason
            why = (f"the ports cannot be read: {_words(error)}",)
        said = Listening(self._server, int(now.epoch_s), request.nonce, words, why)
        return protocol.listening(self._key, said)

    def _tell(self, request: Ask, now: Clock) -> bytes:
        coming: list[jobs.Job] = []
        why: tuple[str, ...] = ()
        try:
            coming = self._coming(now.epoch_s) if request.server == self._server else []
        except Exception as error:  # whatever it is, not knowing is a reason
            why = (f"the timers and crontabs cannot be read: {_words(error)}",)
        # What recurs so often is of least use to who asks, and not everything may fit.
        rows = [(int(one.in_s), one.often, one.name) for one in coming]
        rows.sort(key=lambda row: (row[1], jobs.is_housekeeping(row[2]), row[0]))
        told = Told(self._server, int(now.epoch_s), request.nonce, tuple(rows), why)
        return protocol.told(self._key, told)

    def _answer(
        self, request: Request, peer: str, now: Clock, challenges: OrderedDict[str, float]
    ) -> Reply:
        fresh = now.boot_s < challenges.pop(request.challenge, 0.0)
        verdict, why = self._judge(request, peer, now, fresh=fresh)
        sleep = request.state if verdict == YES and request.challenge else ""
        if sleep:
            # Nothing said before this sleep counts after it.
            self._new.challenges.clear()
            self._old.challenges.clear()
        challenge = self._nonce()
        _remember(challenges, challenge, now.boot_s + self.CHALLENGE_S, self.CHALLENGES)
        datagram = protocol.answer(
            self._key,
            Answer(
                server=self._server,
                nonce=challenge,
                time_s=int(now.epoch_s),
                re=request.nonce,
                verdict=verdict,
                states=self._states,
                why=why,
            ),
        )
        return Reply(datagram, sleep, request.alarm_s if sleep else 0)

    def failed(self, words: str, now: Clock) -> None:
        """Take note that the sleep command failed."""
        self._failure = (now.boot_s, words)

    def _judge(
        self, request: Request, peer: str, now: Clock, *, fresh: bool
    ) -> tuple[str, tuple[str, ...]]:
        if request.server != self._server:
            return NO, (f"this is the agent of {self._server}, not of {request.server}",)
        if request.challenge and not fresh:
            return AGAIN, ()
        if request.state not in self._states:
            return NO, (f"{request.state} is not offered: no command in [sleep]",)
        why_not = self._why_not(request.state, peer, self._watched)
        why = (*self._failure_of_late(now), *why_not)
        return (NO if why else YES), why

    def _failure_of_late(self, now: Clock) -> Iterator[str]:
        if self._failure and now.boot_s - self._failure[0] < self.FAILURE_S:
            yield f"the last sleep command failed: {self._failure[1]}"


def _remember(cache: OrderedDict[str, Any], key: str, value: Any, most: int) -> None:
    cache[key] = value
    while len(cache) > most:
        cache.popitem(last=False)


# --------------------------------------------------------------------------- effects

_LET_THE_ANSWER_GO_S: Final = 0.2
_COMMAND_S: Final = 120.0
_LOG_EVERY_S: Final = 60.0


def go_to_sleep(command: tuple[str, ...]) -> str:
    """Run the sleep command; return its words if it failed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return done.stdout.strip() or f"exit status {done.returncode}"


def set_alarm(alarm_s: int) -> str:
    """Have the server's own clock wake it; return the words if that failed.

    systemd runs it: the agent itself may not touch the clock.
    """
    rtcwake = ("rtcwake", "--mode", "no", "--seconds", str(alarm_s))
    return go_to_sleep(("systemd-run", "--quiet", "--collect", "--wait", *rtcwake))


# --------------------------------------------------------------------- one login over ssh

ONCE: Final = "naproxy-sleep"
"""The first word over ssh, and the command that the box's key runs here."""
REFUSES: Final = "naproxy-refuses"
"""Before the reasons, one a line, which `END` ends: a login may print other lines around them."""
END: Final = "naproxy-end"
WOULD_SLEEP: Final = "naproxy-would-sleep"
_ORDER, _CHECK, _APPOINTMENTS = "order", "check", "appointments"
_VERBS: Final = {"mem": "suspend", "disk": "hibernate", "off": "poweroff"}
_MOST_ASKED: Final = 4096
_ASKED: Final = re.compile(
    rf"(?:(?:/[A-Za-z0-9._-]+)*/)?{ONCE}"
    r"(?: ignore(?P<ignore>(?: [0-9]{1,5}/(?:tcp|udp)){0,256}))?"
    r"(?: watch(?P<watch>(?: [0-9]{1,5}/(?:tcp|udp)){0,256}))?"
    r"(?: (?P<what>check appointments|appointments)| alarm (?P<alarm>[0-9]{1,6}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Asked:
    """One request of a login over ssh."""

    what: str
    watched: Watched = Watched()
    alarm_s: int = 0


def parse_asked(text: str) -> Asked:
    """Read one of the box's requests; ValueError for all else. No words are the order."""
    found = _ASKED.fullmatch(text or ONCE)
    if not found:
        raise ValueError(f"not understood: {text[:100]!r}")
    watched = Watched(
        tuple(_ports(found["watch"], "udp")), frozenset(_ports(found["ignore"], "tcp"))
    )
    what = (found["what"] or _ORDER).partition(" ")[0]
    return Asked(what, watched, int(found["alarm"] or 0))


def _ports(words: str | None, protocol: str) -> list[int]:
    pairs = (word.split("/") for word in (words or "").split())
    return [int(port) for port, of in pairs if of == protocol]


def once(config: Config, state: str, client: str, asked: Asked, user: str) -> int:
    """Carry out one request, and print the answer. Exit 1: no, with the reasons."""
    command = config.commands.get(state) or ("systemctl", _VERBS[state])
    config = replace(config, commands={state: command})
    box = config.box | ({plain_address(client)} if client else set())
    readings = read(config, state, watched=asked.watched, own=read_login(run, user, client))
    why = reasons(readings, config.rules, state, box, asked.watched)
    why += dry_run(command, run)
    lines: list[str] = []
    if asked.what == _APPOINTMENTS and not why:
        try:
            lines = _told_once()
        except Exception as error:  # whatever it is, not knowing is a reason
            why = (f"the timers and crontabs cannot be read: {_words(error)}",)
    if asked.what == _ORDER and not why:
        words = set_alarm(asked.alarm_s) if asked.alarm_s else ""
        if words:
            _log(f"the clock is not set to wake this server: {words}")
        words = go_to_sleep(command)
        why = (f"cannot sleep: {words}",) if words else ()
    if why:
        lines = [REFUSES, *(_one_line(reason) for reason in why), END]
    elif asked.what == _CHECK:
        lines = [WOULD_SLEEP]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if why else 0


def _told_once() -> list[str]:
    """Return the lines that tell of its jobs and ports."""
    first, *rest = job_lines(run, Path("/"), time.time())
    zone = os.path.realpath("/etc/localtime").rpartition("/zoneinfo/")[2]
    listens = " ".join(["listens", *_short(read_listening(run, Path("/")))])
    return [first, f"zone {zone} {time.strftime('%z')}", listens, *rest]


def _short(words: tuple[str, ...], most: int = 76) -> tuple[str, ...]:
    """Leave out ports that nobody would read through."""
    return words if len(words) <= most else (*words[:most], f"more/{len(words) - most}")


def _one_line(words: str) -> str:
    return " ".join(words.split())


def serve_once(config: Config, state: str) -> int:
    """Answer the login whose two lines are on standard input: the client, and its request.

    ssh's forced command gives them to sudo, which runs this (docs/server.md).
    """
    # What is longer is cut, and not understood.
    given = sys.stdin.buffer.read(_MOST_ASKED)
    try:
        client, _, text = given.decode("ascii").partition("\n")
        asked = parse_asked(text.rstrip("\n"))
        host = client.partition(" ")[0]
        if host:
            plain_address(host)
    except ValueError as error:
        _log(f"naproxy-agent: {error}")
        return 2
    return once(config, state, host, asked, os.environ.get("SUDO_USER", ""))


# ------------------------------------------------------------------------------ the service


class _Complaints:
    """Says what is wrong with datagrams, at most once a minute, so nobody can fill the log."""

    def __init__(self) -> None:
        self._count = 0
        self._last_s = -_LOG_EVERY_S

    def __call__(self, peer: str, error: Exception) -> None:
        self._count += 1
        if time.monotonic() - self._last_s >= _LOG_EVERY_S:
            _log(f"{self._count} datagrams not answered, the last from {peer}: {error}")
            self._count = 0
            self._last_s = time.monotonic()


def open_socket(address: str, port: int) -> socket.socket:
    """Listen on an address, or on all of both families."""
    family = socket.AF_INET if address and ":" not in address else socket.AF_INET6
    try:
        listener = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        if address:
            raise
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # a kernel without IPv6
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((address, port))
    return listener


def serve(listener: socket.socket, agent: Agent, visits: Visits, config: Config) -> None:
    """Answer, and look who visits, until the process is ended."""
    complain = _Complaints()
    while True:
        due_s = visits.due_in_s(Clock.now().boot_s)
        if due_s == 0.0:
            _look(visits)
            continue
        listener.settimeout(due_s)
        try:
            datagram, peer = listener.recvfrom(protocol.MAX_BYTES + 1)
        except socket.timeout:
            continue
        try:
            reply = agent.handle(datagram, plain_address(peer[0]), Clock.now())
        except (BusyError, OSError, ValueError) as error:
            complain(peer[0], error)
            continue
        try:
            listener.sendto(reply.datagram, peer)
        except OSError as error:
            complain(peer[0], error)
        if reply.sleep:
            _log(f"{peer[0]} asked for it: going to sleep ({reply.sleep})")
            time.sleep(_LET_THE_ANSWER_GO_S)
            words = set_alarm(reply.alarm_s) if reply.alarm_s else ""
            if words:
                _log(f"the clock is not set to wake this server: {words}")
            words = go_to_sleep(config.commands[reply.sleep])
            if words:
                _log(f"the sleep command failed: {words}")
                agent.failed(words, Clock.now())


def _look(visits: Visits) -> None:
    # Who asks next is told by getting no answer.
    with contextlib.suppress(OSError, ValueError):
        visits.look(Clock.now().boot_s)


def tell_systemd_ready() -> None:
    """Say that the socket is open (sd_notify(3)), so that whoever starts the agent knows."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect("\0" + path[1:] if path.startswith("@") else path)
            notify.send(b"READY=1")


def _log(words: str) -> None:
    # The journal knows the time.
    print(words, file=sys.stderr, flush=True)


def _read_file(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def read_key(path: Path) -> bytes:
    """Read the key, which nobody else may read."""
    text = _read_file(path)
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise ConfigError(f"{path} may be read by others (mode {mode:o}): chmod 600 {path}")
    try:
        return protocol.parse_key(text)
    except protocol.ProtocolError as error:
        raise ConfigError(f"{path}: {error}") from None


def _check(config: Config) -> int:
    """Print what the agent would answer for each state that it offers."""
    refused = 0
    for state in config.commands:
        why = reasons(read(config, state), config.rules, state, config.box)
        why += dry_run(config.commands[state], run)
        print(f"{state}: {'no' if why else 'yes'}")
        for reason in why:
            print(f"  {reason}")
        refused += bool(why)
    return 1 if refused else 0


def main(arguments: list[str] | None = None) -> int:
    """Serve, `--check` or `--once`; exit 2 where the configuration or a request is wrong."""
    parser = argparse.ArgumentParser(prog="naproxy-agent", description="Naproxy's agent")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--key", type=Path, default=KEY)
    parser.add_argument(
        "--check", action="store_true", help="say whether it would sleep now; exit 1 if not"
    )
    parser.add_argument(
        "--once",
        choices=protocol.STATES,
        metavar="STATE",
        help="answer one login over ssh, which may ask for this state: "
        "its client and its command are two lines of standard input",
    )
    options = parser.parse_args(arguments)
    try:
        try:
            config = parse_config(_read_file(options.config))
        except ConfigError as error:
            raise ConfigError(f"{options.config}: {error}") from None
        if options.check:
            return _check(config)
        if options.once:
            return serve_once(config, options.once)
        key = read_key(options.key)
        listener = open_socket(config.listen, config.port)
    except (ConfigError, OSError) as error:
        _log(f"naproxy-agent: {error}")
        return 2

    def why_not(state: str, peer: str, watched: Watched) -> tuple[str, ...]:
        readings = read(config, state, watched=watched)
        why = reasons(readings, config.rules, state, config.box | {peer}, watched)
        return why + dry_run(config.commands[state], run)

    visits = Visits(config.box, lambda: read_tcp(Path("/"), BEEN_ESTABLISHED))
    agent = Agent(
        config.server,
        key,
        tuple(config.commands),
        why_not,
        visits=visits,
        listening=lambda: read_listening(run, Path("/")),
        coming=lambda now_s: read_jobs(run, Path("/"), now_s),
    )
    where = config.listen or "all addresses"
    _log(f"agent of {config.server}, UDP port {config.port} of {where}")
    with listener:
        tell_systemd_ready()
        serve(listener, agent, visits, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
