"""A write reaches the server once at most, whenever that closes the connection."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from naproxy.config import document
from naproxy.edge.render import Here, render
from naproxy.edge.to_server import Way

from tests.patience import PATIENCE_S, wait_for
from tests.simulator.office.namespace import ROOT

_spec = importlib.util.spec_from_file_location("vcl_box", ROOT / "varnish-vcl/tests/conftest.py")
assert _spec
assert _spec.loader
_vcl_box = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_vcl_box)

HOST = "shop.example"
BODY = b"x" * 40
ENDS = {
    "answers": None,
    "accepting": b"",
    "before reading": b"",
    "in the head": b"",
    "after the head": b"",
    "in the body": b"",
    "after the body": b"",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "in the status": b"HTTP/1.1 2",
    "in the headers": b"HTTP/1.1 200 OK\r\nContent-Le",
    "in the answer": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123",
}
"""When the server closes a connection, and how much of a response it sends before."""
WRITES = [("POST", BODY), ("PUT", BODY), ("PATCH", BODY), ("POST", b""), ("DELETE", b"")]
TLS_DATA = b"\x17"
RESET = struct.pack("ii", 1, 0)


def _comes(sock: socket.socket) -> bool:
    """Wait, and read nothing: does a request come, or the end?"""
    if not isinstance(sock, ssl.SSLSocket):
        return bool(sock.recv(1, socket.MSG_PEEK))
    return socket.socket.recv(sock, 1, socket.MSG_PEEK) == TLS_DATA


@dataclass
class Closer:
    """A server that closes connections, over HTTP and over HTTPS."""

    context: ssl.SSLContext
    ports: list[int] = field(default_factory=list)
    first: str = "answers"
    """The result of a connection's first request."""
    later: str = "answers"
    """The same of those that follow."""
    reset: bool = False
    then: Callable[[], Any] = lambda: None
    """Called just before a connection is closed."""
    arrived: list[str] = field(default_factory=list)
    """For each request that arrived, or may have: when the server closed its connection."""

    def __post_init__(self) -> None:
        for tls in (False, True):
            listener = socket.create_server(("127.0.0.1", 0))
            self.ports.append(listener.getsockname()[1])
            threading.Thread(target=self._accept, args=(listener, tls), daemon=True).start()

    def _accept(self, listener: socket.socket, tls: bool) -> None:
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=self._serve, args=(plain, tls), daemon=True).start()

    def _serve(self, plain: socket.socket, tls: bool) -> None:
        with contextlib.suppress(OSError), plain, contextlib.ExitStack() as stack:
            if self.first == "accepting":
                self._end(plain, "accepting")
                return
            sock = plain
            if tls:
                sock = stack.enter_context(self.context.wrap_socket(plain, server_side=True))
            for number in itertools.count():
                if not _comes(sock):
                    return
                end = self.later if number else self.first
                if not self._request(sock, end):
                    return

    def _request(self, sock: socket.socket, end: str) -> bool:
        """Read what is to be read of a request, and answer; False: that was the last."""
        if end == "before reading":
            self._end(sock, end)
            return False
        head = sock.recv(10)
        if not head:
            return False
        while end != "in the head" and b"\r\n\r\n" not in head:
            head += sock.recv(1)
        if end not in ("in the head", "after the head") and BODY[:1] * 2 not in head:
            left = len(BODY) if b"ontent-length: 40" in head.lower() else 0
            if end == "in the body":
                left //= 2
            while left:
                left -= len(sock.recv(left))
        if end != "answers":
            sock.sendall(ENDS[end] or b"")
            self._end(sock, end)
            return False
        if not head.startswith(b"GET /first"):
            self.arrived.append(end)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok")
        return True

    def _end(self, sock: socket.socket, end: str) -> None:
        self.arrived.append(end)
        self.then()
        if self.reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        os.close(sock.detach())


def _certificate(tmp: Path) -> Path:
    file = tmp / "self.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", f"/CN={HOST}", "-days", "2", "-keyout", file, "-out", "-"),
        ],
        check=True,
        stdout=(tmp / "chain").open("wb"),
        stderr=subprocess.DEVNULL,
    )
    file.write_bytes((tmp / "chain").read_bytes() + file.read_bytes())
    return file


class Place:
    """The box's varnishd and haproxy before such a server."""

    def __init__(self, tmp: Path) -> None:
        file = _certificate(tmp)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        # Later versions encrypt what kind of record it is.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.server = Closer(context)
        self.box = _vcl_box.Box(tmp, self.server.ports[0])
        self.port = _vcl_box.free_port()
        here = Here(self.box.run, "daemon", ipv6=False, varnish_group="")
        here.jail.mkdir(parents=True)
        os.link(self.box.edge, here.jail / "varnish.sock")
        for each in (tmp, *tmp.parents):
            each.chmod(each.stat().st_mode | 0o055)
        self.box.edge.chmod(0o666)
        config = document.parse(
            f"""
            [https]
            port = {self.port}
            [[server]]
            id = "web"
            address = "127.0.0.1"
            mac = "02:00:00:00:00:01"
            hosts = ["{HOST}"]
            [server.https]
            mode = "box"
            to_server = "https"
            to_server_port = {self.server.ports[1]}
            to_server_check = "name"
            """
        )
        folder = tmp / "haproxy"
        folder.mkdir()
        for name, data in render(config, {}, file.read_bytes(), here, {"web": Way()}).items():
            (folder / name).write_bytes(data)
        self.haproxy = subprocess.Popen(["haproxy", "-db", "-f", folder / "haproxy.cfg"])
        wait_for((self.box.run / "edge/to-web.sock").exists, "haproxy")
        self.to_server("http")

    def close(self) -> None:
        self.haproxy.kill()
        self.haproxy.wait()
        assert "not panicked" in self.box.adm("panic.show")
        self.box.stop()

    def to_server(self, by: str) -> None:
        port = self.server.ports[by == "https"]
        flags = "default,waiting_page,defer" + (",tls" if by == "https" else "")
        self.box.set("state=awake", f"address=127.0.0.1:{port}", f"flags={flags}")

    def ask(self, by: str, method: str, body: bytes = b"", path: str = "/write") -> int:
        """The status of an answer; 0: it was cut off."""
        port = self.box.port if by == "http" else self.port
        scheme = "http" if by == "http" else "https"
        version = "2" if by == "https 2" else "1.1"
        data: list[str | bytes] = ["--data-binary", body] if body else []
        done = subprocess.run(
            [
                *("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code} %{exitcode}"),
                *(f"--http{version}", "-X", method, "--resolve", f"{HOST}:{port}:127.0.0.1"),
                *("--max-time", str(PATIENCE_S), *data, f"{scheme}://{HOST}:{port}{path}"),
            ],
            capture_output=True,
            check=False,
        )
        status, problem = done.stdout.split()
        return 0 if int(problem) else int(status)

    def counter(self, name: str) -> int:
        said = subprocess.run(
            ["varnishstat", "-n", self.box.name, "-1", "-f", name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return int(said.split()[1])

    def held(self) -> int:
        """How many requests wait for the server."""
        return int(self.box.tool_output("get", "web", "held_now"))

    def idle_connection(self) -> None:
        """Have Varnish keep one to the server that was used before."""
        self.server.first = self.server.later = "answers"
        recycled = self.counter("MAIN.backend_recycle")
        assert self.ask("http", "GET", path="/first") == 200
        wait_for(lambda: self.counter("MAIN.backend_recycle") > recycled, "an idle connection")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("place"))
    yield made
    made.close()


@pytest.fixture(params=["http", "https"], ids=["to-server-http", "to-server-https"])
def closing(request: pytest.FixtureRequest, place: Place) -> Iterator[Place]:
    """The place, its server asked by one of the two."""
    place.to_server(request.param)
    yield place
    place.server.first = place.server.later = "answers"
    place.server.reset, place.server.then = False, lambda: None


def clients() -> Iterator[tuple[str, str, bytes]]:
    """Yield how each write is sent: all of them over HTTP, and some over HTTPS."""
    yield from (("http", method, body) for method, body in WRITES)
    yield ("https 1.1", "POST", BODY)
    yield ("https 2", "DELETE", b"")


def test_a_write_on_a_new_connection_arrives_once(closing: Place) -> None:
    server = closing.server
    for end, write, reset in itertools.product(ENDS, clients(), (False, True)):
        server.first, server.reset, server.arrived = end, reset, []
        case = (end, write, reset)
        status = closing.ask(*write)
        if end == "accepting" and reset:
            # Where nothing could be sent, another connection may be tried.
            assert set(server.arrived) == {end}, case
        else:
            assert server.arrived == [end], case
        if end == "answers":
            assert status == 200, case
        elif end != "in the answer":
            assert status == 503, case


def test_a_write_is_not_lost_on_a_connection_that_is_just_closed(closing: Place) -> None:
    server = closing.server
    for end, write in itertools.product(ENDS, clients()):
        closing.idle_connection()
        server.later, server.arrived = end, []
        assert closing.ask(*write) == 200, (end, write)
        assert server.arrived == ["answers"], (end, write)


def test_a_read_on_a_connection_that_is_just_closed_is_answered(closing: Place) -> None:
    server = closing.server
    for end in ("before reading", "in the head", "after the head"):
        closing.idle_connection()
        server.later, server.arrived = end, []
        assert closing.ask("http", "GET") == 200, end
        assert server.arrived == [end, "answers"], end


def test_a_write_whose_server_falls_asleep_or_wakes_arrives_once(closing: Place) -> None:
    server = closing.server
    states = ("falling_asleep", "asleep", "waking", "trouble")
    for state, end, (method, body) in itertools.product(
        states, ("before reading", "after the body"), WRITES
    ):
        server.first, server.arrived = end, []
        server.then = partial(closing.box.set, f"state={state}")
        assert closing.ask("http", method, body) == 503, (state, end, method)
        assert server.arrived == [end], (state, end, method)
        closing.box.set("state=awake")


def test_a_write_that_was_held_arrives_once(closing: Place) -> None:
    server = closing.server
    ends = ("answers", "before reading", "after the body", "in the answer")
    for end, state in itertools.product(ends, ("falling_asleep", "asleep", "waking")):
        server.first, server.arrived = end, []
        closing.box.set(f"state={state}")
        visitors = [
            threading.Thread(target=closing.ask, args=("http", method, body))
            for method, body in WRITES
        ]
        for visitor in visitors:
            visitor.start()
        wait_for(lambda: closing.held() == len(WRITES), "all to be held")
        closing.box.set("state=awake")
        for visitor in visitors:
            visitor.join(PATIENCE_S)
        assert server.arrived == [end] * len(WRITES), (end, state)
