"""The box: varnishd with our VMOD and VCL, and the controller, as the image runs them."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from naproxy.core.page_h import Layout

from tests import fixed
from tests.patience import wait_for
from tests.simulator.office import pki, server
from tests.simulator.office.namespace import ROOT, Namespace, OfficeError, running
from tests.simulator.office.server import Server

ADDRESS = "192.0.2.1"
ADDRESS_V6 = "2001:db8:2::1"
HOST = "www.office.example"
"""The host name that the server serves; the box also serves it for any other."""

EDGE_GROUP = "varnish"
"""Whose members may come to Varnish as who came by HTTPS; the image has its own for that."""

BY_HTTPS: dict[str, Any] = {"server": {"https": {"mode": "box"}}}
"""Changes for `Box.start`: the box serves HTTPS for the server."""

# As the image's service, and with its rights: it waits for what to start from, and starts what has
# ended again. haproxy wants to come back to where it was, which must be open to it.
_EDGE = """\
cd /
trap 'kill "$!"; exit' TERM
while :; do
    until [ -e "$1" ]; do sleep 0.1; done
    setpriv --no-new-privs --bounding-set "-all,$3" --inh-caps -all haproxy -W -p "$2" -f "$1" &
    wait "$!"
    echo "ended: $?"
    sleep 0.1
done
"""

VMOD = ROOT / "build/libvmod-naproxy"
VCL = ROOT / "varnish-vcl"
_BUILT = ROOT / "build/varnish-vcl"
_COMPILED = ROOT / "build/varnish-vcl-compiled"
_MOST_COMPILED = 8

# The text is the same for each box, so that it is compiled once: RUN_DIR is in the environment.
_PATHS = """\
import naproxy;
import std;

sub vcl_init {
	naproxy.open(std.getenv("RUN_DIR"), 400);
}
"""


class RefusedError(OfficeError):
    """The controller answered with an error."""

    def __init__(self, status: int, answer: dict[str, Any]):
        super().__init__(f"{status}: {answer.get('error')}")
        self.status = status
        self.answer = answer


class Box(Namespace):
    """The machine that is always on. Nothing runs on it until `start`."""

    def __init__(self, name: str, directory: Path, logs: Path, office_server: Server):
        super().__init__(name, logs)
        self.directory = directory
        self.run_dir = directory / "run"
        self.data_dir = directory / "data"
        self.config_file = directory / "naproxy.toml"
        self.edge_dir = directory / "edge"
        self.webui_state_dir = directory / "webui"
        self.edge_socket = self.run_dir / "edge/jail/varnish.sock"
        self.controller: subprocess.Popen[str] | None = None
        self.varnish: subprocess.Popen[str] | None = None
        self.edge: subprocess.Popen[str] | None = None
        self.through: subprocess.Popen[str] | None = None
        self.vmod = VMOD
        self.arguments: list[str | Path] = []
        """Further ones of the controller."""
        self.fixed: fixed.Fixed = {}
        """What it begins with of what no office can set."""
        self.others: list[dict[str, Any]] = []
        """The configuration of further servers."""
        self.optimised = False
        """Whether Varnish's rules are compiled as on the image: two seconds more."""
        self._server = office_server

    def start(self, **changes: Any) -> Self:
        """Start varnishd and the controller; `changes` are laid over `default_config`.

        What ends TLS is started too where they want it; it needs certificates: `give`.
        """
        for directory in (self.directory, self.run_dir, self.data_dir):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        config = self.default_config(**changes)
        self.config_file.write_text(toml(config))
        self.start_controller()
        self.start_varnish()
        if any(
            each.get("https", {}).get("mode") in ("box", "through") for each in config["server"]
        ):
            self.start_edge()
            self.start_through()
        return self

    def default_config(self, **changes: Any) -> dict[str, Any]:
        """Return the configuration: never sleeps by itself, wakes and sleeps as commanded."""
        web = {
            "id": "web",
            "address": server.ADDRESS,
            "mac": server.MAC,
            "hosts": [HOST],
            "default": True,
            "armed": True,
            "sleep": {
                "driver": "ssh",
                "user": "root",
                "key_file": str(self._server.private_key),
            },
            "ready": {"kind": "http", "path": "/robots.txt"},
            "policy": {"name": "thesis", "min_awake_s": 86400},
            # All visitors come from one machine, which is no stranger.
            "share": {"strangers_cost": 0},
        }
        merged = _merge({"box": {"interface": "eth0"}, "server": web}, changes)
        return {**merged, "server": [merged["server"], *self.others]}

    def reconfigure(self, **changes: Any) -> None:
        """Give the running controller another configuration, made as for `start`."""
        self.api("PUT", "/v1/config", toml(self.default_config(**changes)).encode())

    def _naproxy(self) -> list[str | Path]:
        if self.fixed:
            return [*fixed.command(self.fixed)]
        return [Path(sys.executable).with_name("naproxy")]

    def controller_command(self) -> list[str | Path]:
        """Return how it is started."""
        return [
            *self._naproxy(),
            "controller",
            *("--config", self.config_file),
            *("--run-dir", self.run_dir, "--data-dir", self.data_dir),
            *("--edge-dir", self.edge_dir, "--edge-user", EDGE_GROUP),
            *self.arguments,
        ]

    def start_controller(self, env: Mapping[str, str] | None = None) -> None:
        """Start it, and wait until its API answers."""
        self.controller = self.popen(self.controller_command(), log="controller", env=env)
        self._wait_for(self.controller, self.healthy, "controller")

    def start_varnish(self, env: Mapping[str, str] | None = None) -> None:
        """Start it with our VCL, and wait until it takes connections."""
        vcl = self._vcl()
        jail = self.edge_socket.parent
        jail.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.chown(jail, group=EDGE_GROUP)
        jail.chmod(0o750)
        edge = f"edge={self.edge_socket},PROXY,group={EDGE_GROUP},mode=660"
        own = f"box={self.run_dir / 'box.sock'},mode=600"
        path = vmod_path(self.directory, self.vmod)
        self.varnish = self.popen(
            [
                *("varnishd", "-F", "-n", self.directory / "varnish"),
                *("-a", ":80", "-a", edge, "-a", own),
                *("-f", vcl / "naproxy.vcl", "-p", f"vmod_path={path}"),
                *arguments(),
                *(() if self.optimised else self._quick_compiler()),
            ],
            log="varnishd",
            env=surroundings() | {"RUN_DIR": str(self.run_dir)} | dict(env or {}),
        )
        self._wait_for(self.varnish, lambda: self.listens(80), "varnishd")
        if not self.optimised:
            _add_new(self._compiler / "compiled", _COMPILED)
            _forget_the_oldest(_COMPILED)

    def _vcl(self) -> Path:
        """Return a folder of this box with the rules."""
        # Another office may make them at the same time.
        self.run(("flock", VCL, "make", "-s", "-C", VCL), timeout_s=120)
        vcl = self.directory / "vcl"
        vcl.mkdir(exist_ok=True)
        for file in _BUILT.glob("*.vcl"):
            shutil.copy(file, vcl)
        (vcl / "paths.vcl").write_text(_PATHS)
        return vcl

    @property
    def _compiler(self) -> Path:
        return self.directory / "compiler"

    def _quick_compiler(self) -> tuple[str, str]:
        """Have what other boxes have compiled, where Varnish's own users can read and add."""
        compiled = self._compiler / "compiled"
        if not compiled.exists():
            compiled.mkdir(parents=True)
            compiled.chmod(0o1777)
            shutil.copy(VCL / "tests/quick/compile", self._compiler)
            _add_new(_COMPILED, compiled)
        return ("-p", f"cc_command=exec '{self._compiler}/compile' %o %s")

    def start_webui(self, listen: str, *more: str | Path) -> subprocess.Popen[str]:
        """Start the web interface; it makes a claim code if it has no user."""
        return self.popen(
            [
                *(Path(sys.executable).with_name("naproxy-webui"), "--listen", listen),
                *("--data-dir", self.data_dir, "--state-dir", self.webui_state_dir),
                *("--run-dir", self.directory / "run-webui"),
                *("--socket", self.run_dir / "control.sock", *more),
            ],
            log="webui",
        )

    def start_edge(self) -> None:
        """Start the service of haproxy, which runs from when the controller has said how."""
        service = (ROOT / "overlay/etc/service/edge/run").read_text()
        kept = re.search(r'^bounded "([a-z_ ]+)"', service, re.MULTILINE)
        assert kept
        config = self.edge_dir / "current/haproxy.cfg"
        rights = ",".join(f"+{right}" for right in kept[1].split())
        argv = ("sh", "-c", _EDGE, "edge", config, self._edge_pid, rights)
        self.edge = self.popen(argv, log="edge")

    def start_through(self) -> None:
        """Start what passes connections on unopened, with no rights, as its service does."""
        built = ROOT / "build/naproxy-through"
        built.mkdir(parents=True, exist_ok=True)
        make = ("make", "-s", "-C", ROOT / "package/naproxy-through")
        # Another office may build it at the same time.
        self.run(("flock", built, *make), timeout_s=120)
        # From where it was built its user may not be let in: a home often is closed to others.
        program = shutil.copy(built / "naproxy-through", self.directory)
        sockets = self.edge_socket.parent / "through"
        sockets.mkdir(mode=0o750, exist_ok=True)
        shutil.chown(sockets, EDGE_GROUP, EDGE_GROUP)
        nobody = (f"--reuid={EDGE_GROUP}", f"--regid={EDGE_GROUP}", "--init-groups")
        argv = ("setpriv", *nobody, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
        self.through = self.popen((*argv, program, self.run_dir), log="through")

    @property
    def _edge_pid(self) -> Path:
        return self.run_dir / "edge/master.pid"

    def edge_master(self) -> int:
        """Process id of haproxy's master; OfficeError if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._edge_pid.read_text())
            if Path(f"/proc/{pid}/comm").read_text() == "haproxy\n" and running(pid):
                return pid
        raise OfficeError("haproxy does not run")

    def edge_workers(self) -> list[int]:
        """Process ids of haproxy's workers, old ones after a reload among them."""
        master = self.edge_master()
        return [int(pid) for pid in _children(master) if running(int(pid))]

    def give(self, **certificates: pki.Issued) -> None:
        """Send certificates by their ids, and wait until each is shown: 2 s after another."""
        for name, issued in certificates.items():
            self.put(name, issued)
        for issued in certificates.values():
            self.await_shown(issued)

    def put(self, name: str, issued: pki.Issued) -> Any:
        """Send a certificate; returns what the API says of it."""
        sent = {"pem": issued.pem.decode(), "key": issued.key.decode()}
        return self.api("PUT", f"/v1/certificates/{name}", sent)

    def await_shown(self, issued: pki.Issued, timeout_s: float = 60.0) -> None:
        """Wait until a client that asks for a name of a certificate is shown it.

        One that knows only RSA, where it is the second for that name.
        """
        wanted, name = pki.fingerprint(issued), pki.asked_for(issued)

        def seen() -> bool:
            with contextlib.suppress(OSError):
                if wanted in (pki.shown(self, "127.0.0.1", name, c) for c in ("", "aRSA")):
                    return True
            time.sleep(0.1)  # the edge counts how often somebody comes
            return False

        wait_for(seen, f"the certificate of {name} to be shown", timeout_s)

    def listens(self, port: int) -> bool:
        """Whether something takes connections there."""
        with contextlib.suppress(OSError):
            self.connect("127.0.0.1", port, timeout_s=1.0).close()
            return True
        return False

    def stop(self) -> None:
        """End controller, varnishd and what ends TLS as an init script would."""
        for process in (self.through, self.edge, self.varnish, self.controller):
            if process and process.poll() is None:
                process.terminate()
                process.wait(timeout=20)

    def kill_controller(self) -> None:
        """`kill -9`; nothing starts it again by itself here."""
        assert self.controller, "not started"
        self.controller.kill()
        self.controller.wait(timeout=10)

    def kill_child(self) -> int:
        """`kill -9` varnishd's child, which its manager starts again; returns its process id."""
        child = self.child()
        os.kill(child, signal.SIGKILL)
        return child

    def child(self) -> int:
        """Process id of varnishd's child."""
        assert self.varnish, "not started"
        children = _children(self.varnish.pid)
        if not children:
            raise OfficeError("varnishd has no child")
        return int(children[0])

    def api(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        timeout_s: float = 10.0,
    ) -> Any:
        """Ask the control API; an error is RefusedError."""
        connection = HTTPConnection("controller", timeout=timeout_s)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(timeout_s)
        with contextlib.closing(connection):
            connection.sock.connect(str(self.run_dir / "control.sock"))
            data = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, path, data)
            answer = connection.getresponse()
            said = json.loads(answer.read() or b"{}")
        if answer.status >= 400:
            raise RefusedError(answer.status, said)
        return said

    def healthy(self) -> bool:
        """Whether the controller's loop turns."""
        with contextlib.suppress(OSError, OfficeError):
            self.api("GET", "/v1/health")
            return True
        return False

    def status(self) -> dict[str, Any]:
        """Return the server's status, as the control API tells it."""
        servers: list[dict[str, Any]] = self.api("GET", "/v1/status")["servers"]
        return servers[0]

    def transitions(self) -> list[dict[str, Any]]:
        """Return the journal of the server, newest first: t_s, from, to, reason."""
        rows: list[dict[str, Any]] = self.api("GET", "/v1/transitions?server=web")["transitions"]
        return rows

    def wakes(self) -> list[dict[str, Any]]:
        """Return the wake ledger, newest first: who, path, class, reason, waited_s, outcome, ..."""
        rows: list[dict[str, Any]] = self.api("GET", "/v1/wakes?server=web")["wakes"]
        return rows

    def page(self) -> Layout:
        """Return a copy of the page."""
        return Layout.from_buffer_copy((self.run_dir / "page").read_bytes())

    def await_heard(self) -> None:
        """Wait until the controller has read what Varnish has written until now: it does each beat.

        The first of these may have begun before, the last has only begun.
        """
        seen = {self.page().heartbeat_us}

        def beaten() -> bool:
            seen.add(self.page().heartbeat_us)
            return len(seen) > 3

        wait_for(beaten, "three beats")

    def varnishstat(self) -> dict[str, int]:
        """Return Varnish's counters by name."""
        said = self.run(["varnishstat", "-n", self.directory / "varnish", "-j"]).stdout
        return {name: counter["value"] for name, counter in json.loads(said)["counters"].items()}

    def sleep(self, timeout_s: float = 60.0) -> None:
        """Put the server to sleep, and wait until the controller has seen it.

        Asks again where that was called off, as for a request still on its way.
        """

        def asleep() -> bool:
            state = self.status()["state"]
            if state == "awake":
                with contextlib.suppress(RefusedError):
                    self.api("POST", "/v1/servers/web/sleep", {})
            return bool(state == "asleep")

        wait_for(asleep, "the server to sleep", timeout_s)

    def wake(self, timeout_s: float = 60.0) -> None:
        """Wake the server, and wait until the controller has seen it."""
        self.api("POST", "/v1/servers/web/wake", {})
        self.await_state("awake", timeout_s)

    def begin_awake(self) -> None:
        """Wait until it has seen the server awake; wakes what had the time to fall asleep.

        One that sleeps after ten seconds does so while a slow machine still starts the rest.
        """
        found = wait_for(
            lambda: {self.status()["state"]} & {"awake", "asleep"}, "the server to be seen"
        )
        if "asleep" in found:
            self.wake()

    def await_state(self, state: str, timeout_s: float = 60.0) -> None:
        """Wait until the controller says so."""
        wait_for(lambda: self.status()["state"] == state, f"the state {state}", timeout_s)

    def _wait_for(self, process: subprocess.Popen[str], up: Any, log: str) -> None:
        wait_for(lambda: up() or process.poll() is not None, f"{log} to start")
        if process.poll() is not None:
            words = (self._logs / f"{log}.log").read_text()[-2000:]
            raise OfficeError(f"{log} ended with {process.returncode}:\n{words}")


def _add_new(source: Path, target: Path) -> None:
    """Copy the files that are not there yet; several may do so at once."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*"):
        if "." not in file.name and not (target / file.name).exists():
            half = target / f"{file.name}.{os.getpid()}"
            shutil.copy(file, half)
            half.rename(target / file.name)


def _forget_the_oldest(directory: Path) -> None:
    """Keep the newest: each change of the rules or of the VMOD adds one."""
    with contextlib.suppress(FileNotFoundError):  # another office does the same
        files = sorted(directory.glob("*"), key=lambda each: each.stat().st_mtime)
        for file in files[:-_MOST_COMPILED]:
            file.unlink()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def arguments() -> list[str]:
    """Return the arguments of varnishd that the image uses too."""
    return [word for line in _lines_of(VCL / "varnishd.args") for word in line.split()]


def surroundings() -> dict[str, str]:
    """Return the variables of varnishd's environment that the image sets too."""
    return dict(line.split("=", 1) for line in _lines_of(VCL / "varnishd.env"))


def _lines_of(file: Path) -> list[str]:
    lines = file.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def toml(table: Mapping[str, Any]) -> str:
    """Write a configuration: tables of strings, numbers, lists, tables and arrays of tables."""
    return "\n".join(_lines(table, ""))


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in table.items():
        if not _is_tables(value):
            # A JSON string, number, boolean or list of them is TOML too.
            yield f"{key} = {json.dumps(value)}"
    for key, value in table.items():
        if _is_tables(value):
            many = isinstance(value, list)
            for each in value if many else [value]:
                yield f"[[{path}{key}]]" if many else f"[{path}{key}]"
                yield from _lines(each, f"{path}{key}.")


def _is_tables(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    )


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def vmod_path(directory: Path, vmod: Path = VMOD) -> str:
    """Copy our VMOD into `directory`, and return the parameter of varnishd that finds all.

    Where it was built its own users may not be let in: a home often is closed to others.
    """
    shutil.copy(vmod / "libvmod_naproxy.so", directory)
    return f"{directory}:{vmods_of_varnish()}"


def vmods_of_varnish() -> str:
    """Return the folder of the VMODs that come with Varnish."""
    return subprocess.run(
        ["pkg-config", "--variable=vmoddir", "varnishapi"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
