"""NTLM and Negotiate log a connection in, and nobody else's request may go over it."""

import http.client
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from conftest import Box


class Intranet(BaseHTTPRequestHandler):
    """As IIS: asks in three steps who it is, and then knows it on this connection."""

    protocol_version = "HTTP/1.1"
    challenged, name = False, ""

    def do_GET(self) -> None:
        """Say whose connection this is."""
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme == "NTLM" and value == "hello":
            self.challenged = True
            self.answer(401, "prove it", "NTLM challenge")
            return
        if scheme == "Negotiate" or (scheme == "NTLM" and self.challenged):
            self.name = value
        if self.name:
            self.answer(200, f"page of {self.name}", "")
        else:
            self.answer(401, "nobody", "NTLM")

    def answer(self, status: int, text: str, login: str) -> None:
        """Answer as one who wants everything cached."""
        self.send_response(status)
        self.send_header("Cache-Control", "public, max-age=60")
        self.send_header("Content-Length", str(len(text)))
        if login:
            self.send_header("WWW-Authenticate", login)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Client(http.client.HTTPConnection):
    """A connection from another machine, whose address the PROXY protocol says."""

    def __init__(self, box: Box, address: str, **headers: str) -> None:
        super().__init__("127.0.0.1", box.proxied, timeout=10)
        self.address, self.headers = address, headers

    def connect(self) -> None:
        """Connect, and say who it is."""
        super().connect()
        self.sock.sendall(f"PROXY TCP4 {self.address} 192.0.2.9 1111 80\r\n".encode())

    def page(self, login: str = "", url: str = "/") -> str:
        """GET a page, with this Authorization if there is one."""
        headers = self.headers | ({"Authorization": login} if login else {})
        self.request("GET", url, headers=headers)
        return self.getresponse().read().decode()


class EdgeClient(Client):
    """A connection over HTTPS; the client and the box agreed on the protocol `alpn`."""

    def __init__(self, box: Box, address: str, alpn: bytes) -> None:
        super().__init__(box, address)
        self.edge, self.alpn = box.edge, alpn

    def connect(self) -> None:
        """Connect, and send the client's address in version 2 of the PROXY protocol."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.edge))
        said = socket.inet_aton(self.address) + socket.inet_aton("192.0.2.9")
        said += struct.pack("!HH", 1111, 443)
        said += struct.pack("!BH", 1, len(self.alpn)) + self.alpn if self.alpn else b""
        head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(said))
        self.sock.sendall(head + said)


class Server6(socketserver.ThreadingTCPServer):
    """The same with IPv6."""

    address_family = socket.AF_INET6


@pytest.fixture(params=["127.0.0.1", "[::1]"])
def intranet(box: Box, request: pytest.FixtureRequest) -> Iterator[Box]:
    """The box in front of such a server; then in front of its own again."""
    host = str(request.param)
    kind = Server6 if host.startswith("[") else socketserver.ThreadingTCPServer
    server = kind((host.strip("[]"), 0), Intranet)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    box.set("state=awake", f"address={host}:{server.server_address[1]}")
    box.adm("param.set", "timeout_idle", "60")
    yield box
    box.adm("param.set", "timeout_idle", "2")
    box.set("state=asleep", f"address=127.0.0.1:{box.server_port}")
    server.shutdown()
    assert "not panicked" in box.adm("panic.show")


def log_in(client: Client, name: str) -> None:
    """Take the three steps."""
    assert client.page() == "nobody"
    assert client.page("NTLM hello") == "prove it"
    assert client.page(f"NTLM {name}") == f"page of {name}"


def test_a_stranger_does_not_get_a_logged_in_visitors_page(intranet: Box) -> None:
    alice, stranger = Client(intranet, "192.0.2.1"), Client(intranet, "192.0.2.2")
    assert alice.page("Negotiate alice", "/1") == "page of alice"
    assert [stranger.page(url="/1") for _ in range(5)] == ["nobody"] * 5


def test_a_login_by_ntlm_comes_about_and_holds_for_the_client_s_connection(intranet: Box) -> None:
    alice, bob = Client(intranet, "192.0.2.1"), Client(intranet, "192.0.2.2")
    stranger = Client(intranet, "192.0.2.3")
    log_in(alice, "alice")
    log_in(bob, "bob")
    for _ in range(3):
        assert alice.page() == "page of alice"
        assert stranger.page() == "nobody"
        assert bob.page() == "page of bob"


def test_another_connection_of_the_same_client_is_not_logged_in(intranet: Box) -> None:
    log_in(Client(intranet, "192.0.2.1"), "alice")
    assert Client(intranet, "192.0.2.1").page() == "nobody"


@pytest.mark.parametrize("said", [{"Via": "1.1 proxy"}, {"X-Forwarded-For": "198.51.100.7"}])
def test_a_proxy_s_connection_is_nobody_s(intranet: Box, said: dict[str, str]) -> None:
    proxy = Client(intranet, "192.0.2.1", **said)
    assert proxy.page("Negotiate alice", "/2") == "page of alice"
    assert proxy.page(url="/2") == "nobody"


def test_a_login_over_https_holds_for_the_clients_connection(intranet: Box) -> None:
    alice = EdgeClient(intranet, "192.0.2.1", b"http/1.1")
    stranger = EdgeClient(intranet, "192.0.2.1", b"http/1.1")
    log_in(alice, "alice")
    assert [alice.page(), stranger.page()] == ["page of alice", "nobody"]


@pytest.mark.parametrize("alpn", [b"h2", b""])
def test_over_http2_a_connection_is_nobody_s(intranet: Box, alpn: bytes) -> None:
    front = EdgeClient(intranet, "192.0.2.1", alpn)
    assert front.page("Negotiate alice", "/4") == "page of alice"
    assert front.page(url="/4") == "nobody"


def test_when_many_log_in_all_connections_stay_apart(intranet: Box) -> None:
    clients = {f"user{n}": Client(intranet, f"192.0.2.{n}") for n in range(100)}
    for name, client in clients.items():
        assert client.page(f"Negotiate {name}") == f"page of {name}"
    for name, client in clients.items():
        assert client.page(url="/3") in (f"page of {name}", "nobody")
