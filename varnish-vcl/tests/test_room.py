"""A cache that is full of small answers still takes a large one, whole."""

import socketserver
import threading
from http.client import HTTPConnection
from pathlib import Path

from conftest import Box
from test_in_flight import Server, arguments

SMALL, LARGE = 20_000, 8_000_000
MANY = 1700
"""More small ones than the 32 MB of this Varnish hold."""


class Site(socketserver.StreamRequestHandler):
    """Answers with so many bytes as the path begins with."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            size = int(line.split(b" ")[1].split(b"/")[1])
            while self.rfile.readline().strip():
                pass
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nCache-Control: max-age=600\r\n\r\n"
            self.wfile.write(head % size + b"x" * size)


def test_a_large_answer_finds_room_in_a_full_cache(tmp_path: Path) -> None:
    server = Server(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    box = Box(tmp_path, server.server_address[1], *arguments())
    try:
        box.set("state=awake")
        visitor = HTTPConnection("127.0.0.1", box.port)

        def length(path: str) -> int:
            visitor.request("GET", path)
            return len(visitor.getresponse().read())

        for number in range(MANY):
            assert length(f"/{SMALL}/{number}.png") == SMALL
        assert length(f"/{LARGE}/film.png") == LARGE
    finally:
        box.stop()
        server.shutdown()
