"""`python -m tests.webui.stage [--days 30] [--port 8080]`: the web interface, to be looked at.

A real controller with a history of so many days (tests/simulator/past), before a server on
loopback that falls asleep and wakes, with made-up visitors; and the web interface. No root. All of
it is in a temporary folder, which goes with it.
"""

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from naproxy.api.client import NoAnswerError, ask
from naproxy.config import document as config
from naproxy.core.words import LANGUAGES

from tests.patience import PATIENCE_S
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT
from tests.simulator.past import cached
from tests.simulator.past.board import Power
from tests.simulator.past.front import HOST
from tests.simulator.past.house import MAC, METER
from tests.webui import people
from tests.webui.backend import Backend
from tests.webui.people import PASSWORD, USER, VIEWER
from tests.webui.traffic import Traffic

sys.path.append(str(ROOT / "package/naproxy/tests"))

from free_port import free_port

VARNISH = {
    "MAIN.uptime": 50_000,
    "MAIN.n_object": 4321,
    "MAIN.n_lru_nuked": 37,
    "MAIN.n_expired": 2100,
    "MAIN.n_lru_limited": 0,
    "SMA.default.g_bytes": 126 << 20,
    "SMA.default.g_space": 2 << 20,
}
"""Varnish's counters of its cache."""


class StageError(RuntimeError):
    """Something did not start, in words."""


class Stage:
    """`url` is where the interface answers."""

    def __init__(
        self,
        days: float = 30,
        port: int = 0,
        *,
        visitors: bool = True,
        quick: bool = False,
        language: str = "en",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`quick`: the server falls asleep and wakes at once. `arguments` are further ones of the
        controller; `environment` is that of all.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="naproxy-stage-"))
        self.run_dir = self.directory / "run"
        self.data_dir = self.directory / "data"
        self.state_dir = self.directory / "webui"
        self.config_file = self.directory / "naproxy.toml"
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.controller: subprocess.Popen[bytes] | None = None
        self.webui: subprocess.Popen[bytes] | None = None
        self._days = days
        self._visitors = visitors
        self._quick = quick
        self._traffic: Traffic | None = None
        self._language = language
        self._arguments = arguments
        self._environment = dict(environment or {})
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.fill()
        self.backend = self._stack.enter_context(Backend(self.directory, quick=self._quick))
        self._write_doubles()
        self.config_file.write_text(toml(self.configuration()))
        self.start_controller()
        self.wait("awake")
        if self._visitors:
            server = config.read(self.config_file).server[0]
            self._traffic = self._stack.enter_context(
                Traffic(self.run_dir, server, self.backend.busy_s)
            )
        people.make(self.state_dir)
        self.start_webui()

    def fill(self) -> None:
        """Put the past in its place."""
        cached.fill(self.data_dir, self._days)

    def stop_webui(self) -> None:
        """End it at once, as when the box is switched off."""
        assert self.webui
        self.webui.kill()
        self.webui.wait()

    def switch_off(self) -> None:
        """End web interface and controller; a restart forgets who was logged in."""
        self.stop_webui()
        assert self.controller
        _end(self.controller)
        shutil.rmtree(self.directory / "run-webui", ignore_errors=True)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration: an impatient rule, so that there is something to see."""
        backend = self.backend
        return {
            "box": {"interface": "lo"},
            "office": {
                "name": "Example office",
                "language": self._language,
                "time_zone": "Europe/Zurich",
                "price_per_kwh": 0.31,
                "co2_g_per_kwh": 380,
            },
            "server": [
                {
                    "id": "web",
                    "address": "127.0.0.1",
                    "port": backend.port,
                    "mac": MAC,
                    "hosts": [HOST],
                    "default": True,
                    "armed": True,
                    "sleep": {
                        "driver": "ssh",
                        # The guide's page makes the key: not in this machine's /etc.
                        "key_file": str(self.directory / "ssh/id_ed25519"),
                    },
                    "wake": [
                        {
                            "driver": "udp",
                            "address": "127.0.0.1",
                            "ports": [backend.wake_port],
                        }
                    ],
                    "ready": {"check_mac": False},
                    "promise": {"fraction": 0.05},
                    "policy": {
                        "name": "thesis",
                        "min_awake_s": 1 if self._quick else 10,
                        "fraction": 1.0,
                    },
                }
            ],
            "meter": [
                {
                    "id": METER,
                    "of": "web",
                    "driver": "simulated",
                    "file": str(backend.meter_file),
                    "interval_s": 0.5,
                }
            ],
        }

    def _write_doubles(self) -> None:
        """Write those of ssh, which puts the server to sleep, and of varnishstat."""
        programs = self.directory / "bin"
        programs.mkdir()
        counters = {name: {"value": value} for name, value in VARNISH.items()}
        for name, does in (
            ("ssh", f"exec touch {self.backend.asleep_file}"),
            ("varnishstat", f"echo '{json.dumps({'counters': counters})}'"),
        ):
            double = programs / name
            double.write_text(f"#!/bin/sh\n{does}\n")
            double.chmod(0o755)

    def start_controller(self) -> None:
        """Start it, and wait until its API answers."""
        self.controller = self._popen(
            *("naproxy", "controller", "--config", self.config_file),
            *("--run-dir", self.run_dir, "--data-dir", self.data_dir),
            *("--group=", "--control-group=", "--no-realtime", *self._arguments),
        )
        self._wait_for(self.controller, "controller", self._healthy)

    def start_webui(self) -> None:
        """Start it, and wait until it answers."""
        self.webui = self._popen(
            "naproxy-webui",
            *("--data-dir", self.data_dir, "--state-dir", self.state_dir),
            *("--run-dir", self.directory / "run-webui"),
            *("--socket", self.run_dir / "control.sock"),
            *("--listen", f"127.0.0.1:{self.port}"),
        )
        self._wait_for(self.webui, "web interface", self._answers)

    def _popen(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name(name)
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        log = self._stack.enter_context((self.directory / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            [program, *map(str, arguments)],
            env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C is for the stage, which ends these in order.
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        return process

    def log(self) -> str:
        """Return what both have said."""
        return "".join(
            f"--- {file.stem}\n{file.read_text(errors='replace')[-4000:]}"
            for file in sorted(self.directory.glob("*.log"))
        )

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the controller; StageError if it refuses."""
        answer = ask(str(self.run_dir / "control.sock"), method, path, body)
        if not answer.good:
            raise StageError(f"{method} {path}: {answer.status}: {answer.body}")
        return answer.body

    def command(self, *arguments: str, **environment: str) -> str:
        """Return what `naproxy` prints."""
        argv = [sys.executable, "-m", "naproxy.cli", *arguments]
        argv += ["--socket", str(self.run_dir / "control.sock")]
        made = os.environ | environment
        return subprocess.run(argv, env=made, capture_output=True, check=True, text=True).stdout

    def state(self) -> str:
        """Return the server's state."""
        return str(self.api("GET", "/v1/status")["servers"][0]["state"])

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """The server has been put to sleep, and no visitor wakes it meanwhile."""
        with self._traffic.away() if self._traffic else contextlib.nullcontext():
            self._put_to_sleep()
            yield

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """The server is awake and stays so, also if it was just told to sleep."""
        assert self.controller
        self.api("POST", "/v1/servers/web/mode", {"mode": "awake"})
        self.api("POST", "/v1/servers/web/wake", {})
        self._wait_for(self.controller, "state awake", self._stays_awake)
        yield
        self.api("POST", "/v1/servers/web/mode", {"mode": "auto"})

    def _stays_awake(self) -> bool:
        """Return whether it is awake, and no sleep command is on its way.

        The order of the checks matters: a command that is no longer on its way has arrived.
        """
        return (
            not self._being_told_to_sleep()
            and not self.backend.asleep_file.exists()
            and self.backend.power is Power.ON
            and self.state() == "awake"
        )

    def _being_told_to_sleep(self) -> bool:
        assert self.controller
        told = (f"{self.directory}/bin/ssh".encode(), str(self.backend.asleep_file).encode())
        for children in Path(f"/proc/{self.controller.pid}/task").glob("*/children"):
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if any(each in words for each in told):
                        return True
        return False

    def _put_to_sleep(self) -> None:
        assert self.controller
        self.api("POST", "/v1/servers/web/mode", {"mode": "auto"})
        refusal = "none"

        def sleeps() -> bool:
            nonlocal refusal
            if self.state() == "asleep":
                return True
            try:
                self.api("POST", "/v1/servers/web/sleep", {})
            except StageError as error:
                refusal = str(error)
            return False

        try:
            self._wait_for(self.controller, "state asleep", sleeps)
        except StageError as error:
            raise StageError(f"{error}; last refusal: {refusal}") from None

    def wait(self, state: str) -> None:
        """Wait until the controller says so."""
        assert self.controller
        self._wait_for(self.controller, f"state {state}", lambda: self.state() == state)

    def _healthy(self) -> bool:
        return bool(ask(str(self.run_dir / "control.sock"), "GET", "/v1/health").good)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", "/api/health")
            return connection.getresponse().status < 500

    def _wait_for(
        self, process: subprocess.Popen[bytes], what: str, seen: Callable[[], bool]
    ) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError, RuntimeError, NoAnswerError):
                if seen():
                    return
            if process.poll() is not None or time.monotonic() > end_s:
                raise StageError(f"no {what}:\n{self.log()}")
            time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _leave(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.webui.stage", description=__doc__)
    parser.add_argument("--days", type=float, default=30, help="of history")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--language", choices=LANGUAGES, default="en")
    parser.add_argument("--no-visitors", action="store_true", help="nobody comes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    try:
        with Stage(
            options.days,
            options.port,
            visitors=not options.no_visitors,
            language=options.language,
        ) as stage:
            print(f"{stage.url}  user: {USER} (or {VIEWER})  password: {PASSWORD}")
            print(f"Its files are in {stage.directory}.")
            print("Ctrl-C ends it.", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print()
    except StageError as error:
        print(f"stage: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
