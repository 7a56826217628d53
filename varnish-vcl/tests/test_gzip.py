"""Content that claims to be gzip arrives unchanged, even if it is cacheable and not gzip."""

import gzip
import itertools
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import pytest
from conftest import Box

from tests.patience import PATIENCE_S

TEXT = b"<html>" + b"words of a page " * 4000 + b"</html>"
WHOLE = gzip.compress(TEXT)
BODIES = {
    "whole": WHOLE,
    "two members": WHOLE + gzip.compress(b"more"),
    "zeros behind it": WHOLE + bytes(512),
    "a newline behind it": WHOLE + b"\n",
    "a page behind it": WHOLE + TEXT,
    "plain text": TEXT,
    "a few letters": b"plain",
    "one byte": b"\x1f",
    "cut short": WHOLE[: len(WHOLE) // 2],
    "a checksum that is wrong": WHOLE[:-8] + bytes(8),
    "nonsense behind gzip's head": WHOLE[:10] + TEXT,
}
KINDS = {
    "kept": "Cache-Control: max-age=60",
    "found to be private": "Cache-Control: private",
}


class Compressing(socketserver.StreamRequestHandler):
    """Sends /NUMBER-OF-BODY/NUMBER-OF-KIND/FRAMING as gzip."""

    def handle(self) -> None:
        url = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass
        number, kind, framing = url.split("?")[0].strip("/").split("/")
        body = list(BODIES.values())[int(number)]
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{list(KINDS.values())[int(kind)]}\r\n"
        )
        head += "Content-Encoding: gzip\r\nConnection: close\r\n"
        if framing == "length":
            said = f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        elif framing == "chunked":
            pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            said = b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        else:
            said = b"\r\n" + body
        self.wfile.write(head.encode() + said)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


@pytest.fixture(scope="module")
def compressing(box: Box) -> Iterator[Box]:
    server = Server(("127.0.0.1", 0), Compressing)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    port = server.server_address[1]
    box.set("state=awake", f"address=127.0.0.1:{port}", "flags=default,waiting_page,defer,frozen")
    yield box
    flags = "flags=default,waiting_page,defer"
    box.set("state=asleep", f"address=127.0.0.1:{box.server_port}", flags)
    server.shutdown()
    assert "not panicked" in box.adm("panic.show")


def ask(box: Box, url: str, *, packed: bool) -> tuple[bytes, str | None]:
    """Return the body and its Content-Encoding."""
    headers = {"Accept-Encoding": "gzip, br"} if packed else {}
    with closing(HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE_S)) as visitor:
        visitor.putrequest("GET", url, skip_accept_encoding=True)
        for name, value in headers.items():
            visitor.putheader(name, value)
        visitor.endheaders()
        response = visitor.getresponse()
        assert response.status == 200, url
        return response.read(), response.headers["Content-Encoding"]


def cases() -> Iterator[tuple[str, str, bytes]]:
    numbers = (range(len(BODIES)), range(len(KINDS)), ("length", "chunked", "closed"))
    for number, kind, framing in itertools.product(*numbers):
        what = f"{list(BODIES)[number]}, {list(KINDS)[kind]}, {framing}"
        yield what, f"/{number}/{kind}/{framing}", list(BODIES.values())[number]


def test_browsers_get_what_was_sent(compressing: Box) -> None:
    for what, url, body in cases():
        for time in ("first", "again"):
            got = ask(compressing, url, packed=True)
            assert got == (body, "gzip"), f"{what}, {time}"


def test_client_without_gzip_gets_a_readable_body(compressing: Box) -> None:
    """Stored and valid gzip is unpacked; the rest arrives as the server sent it."""
    for what, url, body in cases():
        kept = url.split("/")[2] == "0"
        for time in ("first", "again"):
            got = ask(compressing, f"{url}?plain", packed=False)
            expected = (TEXT, None) if kept and body == WHOLE else (body, "gzip")
            assert got == expected, f"{what}, {time}"


def test_both_get_it_from_the_cache_while_the_server_sleeps(compressing: Box) -> None:
    urls = [case for case in cases() if case[1].split("/")[2] == "0"]
    for _, url, _ in urls:
        ask(compressing, f"{url}?asleep", packed=True)
    compressing.set("state=asleep", "hold_limit_ms=1")
    try:
        for what, url, body in urls:
            assert ask(compressing, f"{url}?asleep", packed=True) == (body, "gzip"), what
            expected = (TEXT, None) if body == WHOLE else (body, "gzip")
            assert ask(compressing, f"{url}?asleep", packed=False) == expected, what
    finally:
        compressing.set("state=awake", "hold_limit_ms=60000")
