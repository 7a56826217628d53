"""The dynamic part of the office's web server, behind nginx.

/app/echo   the body comes back, with its length and SHA-256 in headers
/app/flow   a body of any size, none of it kept: PUT tells its length and SHA-256, GET sends
            `size` bytes, blocks of BLOCK one after another
/app/ws     WebSocket echo
/app/reply  an answer made to order by its query: status, size, delay_s, and
            any header as `h.Name=value`, `Date` too, for a clock that is wrong; the body
            tells how often it was made
any other   only asked for when the site has every path: an answer whose size
            and kind follow from the log, or else from a hash of the path
"""

import hashlib
import itertools
import json
import mimetypes
import random
import sys
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, urlsplit

from tests.simulator.office import websocket
from tests.simulator.office.site import CHANGED_S

LAST_MODIFIED = formatdate(CHANGED_S, usegmt=True)
ASSETS = frozenset(
    f".{ending}"
    for ending in (
        *("avif", "bmp", "gif", "ico", "jpeg", "jpg", "png", "svg", "webp"),
        *("css", "js", "json", "map", "xml", "eot", "otf", "ttf", "woff", "woff2"),
        *("mp3", "mp4", "pdf", "webm", "zip"),
    )
)
BLOCK = random.Random(1).randbytes(1 << 18)
"""What a large answer is made of."""

_made = itertools.count(1)


class Paths:
    """Status and size of every path: as in the log, else by hash."""

    def __init__(self, log: Path | None, dynamic_share: float):
        self._known: dict[str, tuple[int, int]] = json.loads(log.read_text()) if log else {}
        self._dynamic_share = dynamic_share

    def answer(self, target: str) -> tuple[int, int]:
        """Return status and size in bytes."""
        if target in self._known:
            status, size = self._known[target]
            return status, size
        # Most files of the web are small and few are large: 0.2 to 200 KB, log-uniform.
        return 200, int(200 * 1000 ** self._fraction(target, "size"))

    def kind(self, target: str) -> str:
        """Return `asset`, `page`, or `private` for what must not be cached."""
        path = urlsplit(target).path
        if PurePosixPath(path).suffix.lower() in ASSETS:
            return "asset"
        return "private" if self._fraction(path, "kind") < self._dynamic_share else "page"

    @staticmethod
    def _fraction(text: str, salt: str) -> float:
        digest = hashlib.sha256(f"{salt} {text}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64


class Handler(BaseHTTPRequestHandler):
    """One connection from nginx."""

    protocol_version = "HTTP/1.1"
    paths: Paths

    def _dispatch(self) -> None:
        path = urlsplit(self.path).path
        if path == "/app/flow":
            self._flow()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/app/ws" and self.headers.get("Upgrade", "").lower() == "websocket":
            self._websocket()
        elif path == "/app/echo":
            digest = hashlib.sha256(body).hexdigest()
            headers = {"Body-Length": str(len(body)), "Body-SHA256": digest}
            self._answer(200, body, {"Cache-Control": "no-store", **headers})
        elif path == "/app/reply":
            self._reply()
        else:
            self._any()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _dispatch  # noqa: N815

    def _reply(self) -> None:
        wanted = dict(parse_qsl(urlsplit(self.path).query))
        headers = {name[2:]: value for name, value in wanted.items() if name.startswith("h.")}
        time.sleep(float(wanted.get("delay_s", 0)))
        body = f"made {next(_made)}\n".encode().ljust(int(wanted.get("size", 0)), b".")
        self._answer(int(wanted.get("status", 200)), body, headers)

    def _flow(self) -> None:
        if self.command == "PUT":
            left, digest = int(self.headers.get("Content-Length") or 0), hashlib.sha256()
            while left and (block := self.rfile.read(min(left, len(BLOCK)))):
                digest.update(block)
                left -= len(block)
            self._answer(200, digest.hexdigest().encode(), {"Cache-Control": "no-store"})
            return
        left = int(dict(parse_qsl(urlsplit(self.path).query))["size"])
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left:
            left -= self.wfile.write(BLOCK[:left])

    def _any(self) -> None:
        status, size = self.paths.answer(self.path)
        kind = self.paths.kind(self.path)
        if kind == "private":
            headers = {"Cache-Control": "private, no-cache", "Set-Cookie": "session=1; HttpOnly"}
        else:
            headers = {"Last-Modified": LAST_MODIFIED}
            if kind == "asset":
                headers["Cache-Control"] = "max-age=3600"
                # nginx's default for what it does not know.
                name = urlsplit(self.path).path
                found, _ = mimetypes.guess_type(name)
                headers["Content-Type"] = found or "application/octet-stream"
            if self.headers.get("If-Modified-Since") == LAST_MODIFIED and status == 200:
                status, size = 304, 0
        self._answer(status, self.path.encode().ljust(size, b"\n")[:size], headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Date": self.date_time_string(), **headers}.items():
            self.send_header(name, value)
        if "Content-Type" not in headers:
            self.send_header("Content-Type", "text/html; charset=utf-8")
        bodiless = status in (204, 304)
        if not bodiless:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and not bodiless:
            self.wfile.write(body)

    def _websocket(self) -> None:
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = websocket.accept_key(self.headers.get("Sec-WebSocket-Key", ""))
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        while True:
            try:
                opcode, payload = websocket.read(self.rfile)
            except (EOFError, ConnectionError):
                return
            answer = websocket.PONG if opcode == websocket.PING else opcode
            self.wfile.write(websocket.frame(answer, payload, client=False))
            if opcode == websocket.CLOSE:
                return

    def log_message(self, *_: object) -> None:
        """Say nothing: nginx keeps the access log."""


class App(ThreadingHTTPServer):
    """A thread for each connection, as many waiting as nginx may open at once."""

    request_queue_size = 1024
    daemon_threads = True


def main() -> None:
    """`python -m tests.simulator.office.app PORT DYNAMIC_SHARE [PATHS.json]`."""
    port, share, *log = sys.argv[1:]
    Handler.paths = Paths(Path(log[0]) if log else None, float(share))
    App(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
