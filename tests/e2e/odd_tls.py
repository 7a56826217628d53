"""An HTTPS server that uses rare features of HTTP, one on each path.

`odd_tls.py PORT CERTIFICATE KEY` serves until it is killed.

/early      103 with a link, then the answer
/trailers   chunked, with a trailer for clients that announce support (RFC 9110, 6.5.1)
/events     one event at once, the next after a request for /go
/go         releases the next event
/upload     the body's length and SHA-256, whether it was chunked, and its `Expect` header
"""

import hashlib
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

GO = Event()


class Handler(BaseHTTPRequestHandler):
    """The paths."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer one of them."""
        {
            "/early": self._early,
            "/trailers": self._trailers,
            "/events": self._events,
            "/go": self._go,
        }.get(self.path.partition("?")[0], lambda: self._say(b"ready"))()

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Take a body."""
        expected, coding = self.headers.get("Expect", "-"), self.headers.get("Transfer-Encoding")
        digest, length = hashlib.sha256(), 0
        for block in self._chunks() if coding else self._blocks():
            digest.update(block)
            length += len(block)
        self._say(f"{length} {digest.hexdigest()} {coding} {expected}".encode())

    def _chunks(self) -> list[bytes]:
        blocks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            blocks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return blocks

    def _blocks(self) -> list[bytes]:
        return [self.rfile.read(int(self.headers.get("Content-Length", 0)))]

    def _early(self) -> None:
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
        self._say(b"after the hints")

    def _trailers(self) -> None:
        self._begin()
        asked = "trailers" in self.headers.get("TE", "")
        self.wfile.write(b"4\r\nbody\r\n0\r\n%b\r\n" % (b"Digest: x\r\n" if asked else b""))

    def _events(self) -> None:
        GO.clear()
        self._begin("text/event-stream")
        self.wfile.write(b"d\r\ndata: first\n\n\r\n")
        GO.wait(60)
        self.wfile.write(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")

    def _go(self) -> None:
        GO.set()
        self._say(b"gone")

    def _begin(self, kind: str = "text/plain") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve."""
    port, certificate, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("", int(port)), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
