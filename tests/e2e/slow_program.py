"""A site's program that starts later than its web server, and first answers that it is starting.

`python slow_program.py PORT LATE`: the program reads the file LATE at the start. It has two times
in seconds and a status. The program listens from the first time on, and answers with the status
until the second.
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

port, late = int(sys.argv[1]), Path(sys.argv[2])
listens_s, ready_s, status = (float(word) for word in late.read_text().split())
begun_s = time.monotonic()


class Program(BaseHTTPRequestHandler):
    """Answers all paths alike."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Say that it starts, or answer."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        starts = time.monotonic() - begun_s < ready_s
        body = b"starting" if starts else b"the site"
        self.send_response(int(status) if starts else 200)
        self.send_header("Cache-Control", "max-age=120")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815 - as http.server wants them called

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


time.sleep(listens_s)
ThreadingHTTPServer(("127.0.0.1", port), Program).serve_forever()
