"""Floods from one address, at a Varnish with the box's own arguments: nobody else sees them."""

import re
import resource
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import ROOT, Box

from tests.patience import wait_for

MOST = 400
"""Requests in flight on a box with 512 MB."""

MOST_LARGE = 680
"""And on one with more."""

HELD_MB = 60.0
"""500 waiting requests may add this much to Varnish's memory."""

BIG = 8_000_000  # more than a socket on loopback takes
AT_ONCE_S = 10.0
"""A busy machine takes seconds; a request without a thread waits for the others to end."""


class Site(socketserver.StreamRequestHandler):
    """Answers /big and /small for the cache, reads all that is sent, and opens WebSockets."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            self._answer()

    def _answer(self) -> None:
        _, _, path = self.rfile.readline().partition(b" ")
        path = path.partition(b" ")[0]
        length, upgrade = 0, False
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            upgrade |= name.lower() == b"upgrade"
            if name.lower() == b"content-length":
                length = int(value)
        if upgrade:
            self.wfile.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n")
            self.rfile.read()
            return
        self.rfile.read(length)
        size, kept = (BIG if path == b"/big" else 100), path in (b"/big", b"/small")
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n"
            b"Cache-Control: %s\r\n\r\n" % (size, b"max-age=600" if kept else b"no-store")
        )
        self.wfile.write(b"x" * size)


def arguments() -> list[str]:
    """Return the parameters that the box gives Varnish, without user and memory."""
    text = (ROOT / "varnish-vcl/varnishd.args").read_text()
    words = re.sub(r"^#.*$", "", text, flags=re.MULTILINE).split()
    return [word for pair in pairwise(words) if pair[0] == "-p" for word in pair]


class Server(socketserver.ThreadingTCPServer):
    """Takes as many at once as come."""

    request_queue_size = 1024
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Iterator[None]:
    """Thousands of connections need files, here and in varnishd; a user's shell gives 1,024."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def running(tmp: Path, most: int = MOST) -> Iterator[Box]:
    server = Server(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    box = Box(tmp, server.server_address[1], *arguments(), most=most)
    box.set("state=awake")
    for path in ("/big", "/small"):
        assert box.get(path)[0] == 200
    yield box
    box.stop()
    server.shutdown()


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with running(tmp_path_factory.mktemp("box")) as box:
        yield box


@pytest.fixture(autouse=True)
def calm(box: Box) -> Iterator[None]:
    """Each test begins and ends with nobody in flight."""
    yield
    wait_for(lambda: in_flight(box) == 0, "all to leave")
    assert "not panicked" in box.adm("panic.show")


def in_flight(box: Box) -> int:
    done = box.tool_output("clients")
    return sum(int(number) for number in re.findall(r"in_flight=(\d+)", done))


def worker_mb(box: Box) -> float:
    """Resident memory of varnishd's worker."""
    children = Path(f"/proc/{box.process.pid}/task/{box.process.pid}/children").read_text()
    status = Path(f"/proc/{children.split()[0]}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found
    return int(found[1]) / 1024


@contextmanager
def flood(box: Box, count: int, request: bytes, receive: int = 0) -> Iterator[list[socket.socket]]:
    """So many connections of one address, each with this request."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            if receive:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
            sock.settimeout(10)
            sock.connect(("127.0.0.1", box.port))
            sock.sendall(request)
            sockets.append(sock)
        yield sockets


def refused(sockets: list[socket.socket]) -> int:
    """How many have been answered 503 by now."""
    count = 0
    for sock in sockets:
        sock.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            count += sock.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 503"
    return count


def head(first: str, *lines: str) -> bytes:
    return "\r\n".join([f"{first} HTTP/1.1", "Host: www.example.org", *lines, "", ""]).encode()


def ask(box: Box, path: str, address: str = "") -> bytes:
    """Ask and read the answer; from 127.0.0.1, or as if from another address."""
    begin = time.monotonic()
    port = box.proxied if address else box.port
    with socket.create_connection(("127.0.0.1", port), timeout=AT_ONCE_S) as sock:
        if address:
            sock.sendall(f"PROXY TCP4 {address} 192.0.2.1 5000 80\r\n".encode())
        sock.sendall(head(f"GET {path}", "Connection: close"))
        answer = b""
        while data := sock.recv(65536):
            answer += data
    assert time.monotonic() - begin < AT_ONCE_S
    return answer


def others_are_served(box: Box) -> None:
    """The same address' hits and questions, and all that another asks."""
    assert ask(box, "/.naproxy/status").startswith(b"HTTP/1.1 200")
    assert ask(box, "/small").startswith(b"HTTP/1.1 200")
    assert ask(box, "/fetched", "203.0.113.7").startswith(b"HTTP/1.1 200")
    assert len(ask(box, "/big", "203.0.113.7")) > BIG


SLOW_POST = head("POST /form", "Content-Length: 1000") + b"a"
FLOODS = {
    "slow posts": (320, SLOW_POST, 0),
    "silent websockets": (610, head("GET /ws", "Upgrade: websocket", "Connection: upgrade"), 0),
    "readers that stop": (610, head("GET /big"), 4096),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_one_address_leaves_room_for_others(box: Box, name: str) -> None:
    count, request, receive = FLOODS[name]
    with flood(box, count, request, receive) as sockets:
        wait_for(lambda: in_flight(box) == MOST // 2, name)
        wait_for(lambda: refused(sockets) == count - MOST // 2, "the others to be refused")
        others_are_served(box)


def test_half_heads_keep_no_thread_that_others_need(box: Box) -> None:
    with ExitStack() as stack:
        end = time.monotonic() + 8
        number, slowest_s = 0, 0.0
        begin = time.monotonic()
        while (now := time.monotonic()) < end:
            while number < (now - begin) * 300:
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", box.port)))
                sock.sendall(b"GET / HTTP/1.1\r\nHost:")
                number += 1
            asked = time.monotonic()
            assert ask(box, "/.naproxy/status").startswith(b"HTTP/1.1 200")
            slowest_s = max(slowest_s, time.monotonic() - asked)
            time.sleep(0.02)
    assert number >= 2000
    assert slowest_s < AT_ONCE_S / 2


def test_four_hundred_in_flight_take_little_memory(tmp_path: Path) -> None:
    """Of as many addresses as it takes until nothing is free."""
    with running(tmp_path) as box, ExitStack() as stack:
        fresh_mb = worker_mb(box)
        for n in range(12):
            for _ in range(MOST // 2):
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", box.proxied)))
                sock.sendall(b"PROXY TCP4 203.0.113.%d 192.0.2.1 5000 80\r\n" % n + SLOW_POST)
        wait_for(lambda: in_flight(box) == MOST, "all room to be taken")
        assert ask(box, "/small").startswith(b"HTTP/1.1 200")
        taken_mb = worker_mb(box) - fresh_mb
    # Measured: 72 MB with jemalloc. A thread takes 22 kB of stack and 50 kB of the allocator's.
    assert taken_mb < 100


def test_five_hundred_visitors_wait_on_a_larger_box_and_all_are_answered(tmp_path: Path) -> None:
    with running(tmp_path, MOST_LARGE) as box, ExitStack() as stack:
        box.set("state=asleep", "hold_cap=510", "hold_limit_ms=30000")
        before_mb, sockets = worker_mb(box), []
        for number in range(500):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", box.proxied), 10))
            address = f"203.0.{number // 250}.{number % 250}"
            sock.sendall(f"PROXY TCP4 {address} 192.0.2.1 5000 80\r\n".encode())
            sock.sendall(head(f"GET /{number}", "User-Agent: curl/8", "Connection: close"))
            sockets.append(sock)
        wait_for(lambda: box.tool_output("get", "web", "held_now").strip() == "500", "all to wait")
        assert worker_mb(box) - before_mb < HELD_MB
        box.set("state=awake")
        assert {sock.recv(12) for sock in sockets} == {b"HTTP/1.1 200"}
