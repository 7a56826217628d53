"""Nobody outside empties the cache by requests that change something; a real change counts."""

import itertools
import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest
from conftest import Box

from tests.patience import PATIENCE_S

FILES = [f"/file-{number}.css" for number in range(100)]
POSTS = int(os.environ.get("POSTS", "1500"))
"""An attacker's; 40,000 were tried."""


class Agreeing(socketserver.StreamRequestHandler):
    """A server that agrees to everything; a GET may be kept."""

    made = itertools.count()

    def handle(self) -> None:
        while line := self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            body = b"%d" % next(self.made)
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Type: text/css\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            if not line.startswith(b"GET"):
                return


class Agrees(socketserver.ThreadingTCPServer):
    """It has many connections at once."""

    daemon_threads = True
    request_queue_size = 128


class Visitor(HTTPConnection):
    """One at this address; the cache's listener believes it."""

    def __init__(self, box: Box, address: str, host: str = "www.example.org") -> None:
        super().__init__("127.0.0.1", box.proxied, timeout=PATIENCE_S)
        self.address, self.site = address, host

    def connect(self) -> None:
        super().connect()
        assert isinstance(self.sock, socket.socket)
        self.sock.sendall(f"PROXY TCP4 {self.address} 127.0.0.1 1000 80\r\n".encode())

    def ask(self, url: str, method: str = "GET") -> tuple[HTTPResponse, bytes]:
        self.request(method, url, headers={"Host": self.site})
        response = self.getresponse()
        return response, response.read()


@pytest.fixture(scope="module")
def agreeing(box: Box) -> Iterator[Box]:
    server = Agrees(("127.0.0.1", 0), Agreeing)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    port = server.server_address[1]
    box.set("state=awake", f"address=127.0.0.1:{port}", "flags=default,waiting_page,defer,frozen")
    yield box
    flags = "flags=default,waiting_page,defer"
    box.set("state=asleep", f"address=127.0.0.1:{box.server_port}", flags)
    server.shutdown()
    assert "not panicked" in box.adm("panic.show")


def cached(box: Box, host: str) -> int:
    """How many of the files are served while the server sleeps."""
    box.set("state=asleep", "hold_limit_ms=1")
    try:
        visitor = Visitor(box, "198.51.100.1", host)
        return sum(visitor.ask(file)[0].status == 200 for file in FILES)
    finally:
        box.set("state=awake", "hold_limit_ms=60000")


def fill(box: Box, host: str) -> None:
    visitor = Visitor(box, "198.51.100.1", host)
    for file in FILES:
        assert visitor.ask(file)[0].status == 200


def fnv(data: bytes) -> int:
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def test_posts_to_other_urls_evict_nothing(agreeing: Box) -> None:
    fill(agreeing, "many.example")
    attacker = Visitor(agreeing, "203.0.113.1", "many.example")
    for number in range(POSTS):
        assert attacker.ask(f"/{number}", "POST")[0].status == 200
    assert cached(agreeing, "many.example") == len(FILES)


def test_a_post_with_the_same_hash_as_a_file_on_another_host_evicts_nothing(
    agreeing: Box,
) -> None:
    """The hash was FNV-1a, of which 14 bits counted: a collision took milliseconds."""

    def bucket(url: str, host: str) -> int:
        whole = fnv(f"{host}\0{url}".encode())
        return (whole ^ whole >> 32) % 16384

    fill(agreeing, "one.example")
    wanted = bucket(FILES[0], "one.example")
    tried = (f"/{number}" for number in itertools.count())
    crafted = next(url for url in tried if bucket(url, "other.example") == wanted)
    attacker = Visitor(agreeing, "203.0.113.2", "other.example")
    assert attacker.ask(crafted)[0].status == 200
    assert attacker.ask(crafted, "POST")[0].status == 200
    assert cached(agreeing, "one.example") == len(FILES)


def test_a_client_from_outside_evicts_few_that_it_posts_to(agreeing: Box) -> None:
    fill(agreeing, "direct.example")
    attacker = Visitor(agreeing, "203.0.113.3", "direct.example")
    for file in FILES:
        assert attacker.ask(file, "POST")[0].status == 200
    assert cached(agreeing, "direct.example") == len(FILES) - 10
    # Another visitor's change counts all the same.
    visitor = Visitor(agreeing, "203.0.113.4", "direct.example")
    before = visitor.ask(FILES[-1])[1]
    assert visitor.ask(FILES[-1])[1] == before
    visitor.ask(FILES[-1], "POST")
    assert visitor.ask(FILES[-1])[1] != before


def test_page_changed_by_a_visitor_is_fresh_for_all_each_time(agreeing: Box) -> None:
    author = Visitor(agreeing, "203.0.113.5", "blog.example")
    reader = Visitor(agreeing, "203.0.113.6", "blog.example")
    for method in ("POST", "PUT", "PATCH", "DELETE") * 5:
        before = reader.ask("/guests")[1]
        assert author.ask("/guests")[1] == before, method
        assert author.ask("/guests", method)[0].status == 200
        after = author.ask("/guests")[1]
        assert after != before, method
        assert reader.ask("/guests")[1] == after, method


def test_the_office_changes_as_much_as_it_likes(agreeing: Box) -> None:
    fill(agreeing, "office.example")
    program = Visitor(agreeing, "192.168.1.9", "office.example")
    for file in FILES:
        before = program.ask(file)[1]
        program.ask(file, "PUT")
        assert program.ask(file)[1] != before, file
