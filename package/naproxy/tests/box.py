"""A real controller process on loopback, with a server that can fall silent.

Doubles stand at the process boundary only: `ssh` is a script, the server's power is a flag
that a real magic packet on the wire sets.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked
import pytest
from forked import Forked
from naproxy.api import shapes
from naproxy.api.table import ROUTES
from naproxy.core import page_h
from naproxy.core.state import State
from naproxy.shm import page

from tests.patience import PATIENCE_S, wait_for

# Another run's packets on the same loopback wire must not wake ours.
MAC = "02:" + os.urandom(5).hex(":")
ETHERTYPE_WOL = 0x0842
ONE_SERVER = """
[box]

[[server]]
id = "web"
address = "127.0.0.1"
mac = "02:00:00:00:00:01"
"""
QUICK = {
    "naproxy.drivers.ready.ReadySettings": {"timeout_s": 0.3, "interval_s": 0.2},
    "naproxy.policy.thesis.Settings": {"min_idle_s": 0.0},
}
"""What no office would set, as these tests want it."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="raw packets need root")


class Server:
    """Answers HTTP while awake; asleep it takes connections and says nothing."""

    def __init__(self, power: Path) -> None:
        self.power = power
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while outer.asleep():
                    time.sleep(0.02)
                self.request.recv(4096)
                status = b"301 Moved\r\nLocation: " + outer.leads if outer.leads else b"200 OK"
                self.request.sendall(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_WOL))
        self._wire.bind(("lo", 0))
        self.packets = 0
        self.deaf = False
        self.leads = b""
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()

    def asleep(self) -> bool:
        return self.power.exists()

    def sleep(self) -> None:
        self.power.touch()

    def _listen(self) -> None:
        magic = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16
        while True:
            try:
                frame = self._wire.recv(2000)
            except OSError:
                return
            if magic in frame:
                self.packets += 1
                if not self.deaf:
                    self.power.unlink(missing_ok=True)

    def close(self) -> None:
        self.power.unlink(missing_ok=True)
        self._wire.close()
        self._server.shutdown()
        self._server.server_close()


class Box:
    """The controller and what it is configured with."""

    def __init__(self, directory: Path, **server: Any) -> None:
        self.directory = directory
        self.run_dir = directory / "run"
        self.data_dir = directory / "data"
        self.file = directory / "naproxy.toml"
        self.server = Server(directory / "asleep")
        self.ssh(f"touch {self.server.power}")
        self.file.write_text(self.toml(**server))
        self.arguments = [f"--run-dir={self.run_dir}", f"--data-dir={self.data_dir}"]
        self.arguments += ["--group=", "--control-group="]
        self.fixed = QUICK
        self.process: Forked | None = None
        self._page: page.Page | None = None

    def toml(self, **changes: Any) -> str:
        values: dict[str, Any] = {"port": self.server.port, "awake_s": 86400}
        values["armed"] = "true"
        values |= changes
        return f"""
[box]
interface = "lo"
[[server]]
id = "web"
address = "127.0.0.1"
port = {values["port"]}
mac = "{MAC}"
armed = {values["armed"]}
[server.sleep]
driver = "ssh"
timeout_s = 5
key_file = "{self.directory}/ssh/id_ed25519"
[[server.wake]]
spacing_s = 0.2
[server.ready]
asleep_interval_s = 0.2
[server.policy]
name = "thesis"
min_awake_s = {values["awake_s"]}
"""

    def ssh(self, script: str) -> None:
        """What the double of ssh does; the fifth of its arguments is the log's name."""
        programs = self.directory / "bin"
        programs.mkdir(exist_ok=True)
        double = programs / "ssh"
        double.write_text(f"#!/bin/sh\n{script}\n")
        double.chmod(0o755)

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}"}

    def start(self) -> Box:
        self.process = self.popen()
        wait_for(lambda: self.call("GET", "/v1/health")[0] == 200, "the control API")
        return self

    def popen(self) -> Forked:
        arguments = ["controller", "--config", str(self.file), *self.arguments]
        return Forked(arguments, self.environment(), self.directory / "log", fixed=self.fixed)

    def log(self) -> str:
        return (self.directory / "log").read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.end(signal.SIGKILL)
        self.server.close()

    def layout(self) -> page_h.Layout:
        """The page as Varnish sees it."""
        if self._page is None:
            self._page = page.Page(self.run_dir)
        return self._page.layout

    def record(self) -> page_h.Server:
        record: page_h.Server = self.layout().server[0]
        return record

    def call(self, method: str, target: str, body: bytes = b"") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(self.run_dir / "control.sock"))
            connection.request(method, target, body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except OSError as error:
            return 0, error
        finally:
            connection.close()

    def post(self, verb: str, **body: Any) -> tuple[int, Any]:
        return self.call("POST", f"/v1/servers/web/{verb}", json.dumps(body).encode())

    def order_sleep(self) -> None:
        """Order the server to sleep; again where that is refused.

        On a busy machine a probe of 0.3 s may just have failed.
        """

        def ordered() -> bool:
            status, answer = self.post("sleep")
            assert status == 202 or answer["code"] == "server.just_failed", answer
            return status == 202

        wait_for(ordered, "the order to sleep")

    def sleep(self) -> None:
        self.order_sleep()
        self.wait(State.ASLEEP)

    def status(self) -> dict[str, Any]:
        status, answer = self.call("GET", "/v1/status")
        assert status == 200
        shapes.check(answer, ROUTES["status"].answer)
        server: dict[str, Any] = answer["servers"][0]
        return server

    def wait(self, state: State) -> None:
        wait_for(lambda: self.record().state == state, state.name, log=self.log)

    def datagram(self, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(data, str(self.run_dir / "wake.sock"))

    def ask_for_wake(self) -> None:
        self.datagram(
            b"naproxy-wake 1\nserver=web\nreason=page\nmethod=GET\nclass=person\n"
            b"client=192.0.2.17\nagent=Firefox\nhost=www.example.org\npath=/news?id=3\n"
        )

    def naproxy(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command `naproxy`."""
        socket_option = ("--socket", str(self.run_dir / "control.sock"))
        return forked.run([*arguments, *socket_option], PATIENCE_S)
