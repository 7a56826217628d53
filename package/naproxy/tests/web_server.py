"""A web server that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebServer(ThreadingHTTPServer):
    """`asked` has the path and headers of each request, their names in small letters.

    `sent` has the method and body of those that have a body.
    """

    daemon_threads = True

    def __init__(self, body: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.sent: list[tuple[str, bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = body

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        head = {name.lower(): text for name, text in self.headers.items()}
        self.server.asked.append((self.path, head))
        if size := int(head.get("content-length", 0)):
            self.server.sent.append((self.command, self.rfile.read(size)))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_PUT = do_GET  # noqa: N815 - http.server looks for these names

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(server: WebServer) -> Iterator[None]:
    """Have it answer meanwhile."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield
        server.shutdown()
        thread.join()
