"""Servers that are asked by HTTPS: by a real haproxy, with the certificates that they may show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from certificates import Issued, openssl
from edge_box import EdgeBox, edge_box, needs_haproxy
from free_port import free_port
from keeping import Memory
from naproxy.config import document as config
from naproxy.config.installation import Installation
from naproxy.edge import to_server
from naproxy.edge.keeper import Keeper
from naproxy.edge.render import render, serves, wanted
from naproxy.edge.to_server import Way

from tests.patience import wait_for

pytestmark = needs_haproxy
NAME = "shop.example"
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\x0b\5\0\x08"
"""PROXY v2 that says nothing, but for eight bytes that tell connections apart."""


def settings(port: int, *lines: str, address: str = "127.0.0.1", host: str = NAME) -> config.Config:
    text = f"""
[[server]]
id = "web"
address = "{address}"
mac = "02:00:00:00:00:01"
hosts = ["{host}"]
[server.https]
to_server = "https"
to_server_port = {port}
"""
    return config.parse(text + "\n".join(lines))


@dataclass
class Tls:
    """A server that speaks HTTPS, and keeps what it is sent."""

    issued: Issued
    chain: bytes
    proxied: bool = False
    port: int = field(default_factory=free_port)
    asked_by: list[str | None] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    ended: int = 0

    def __post_init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = self.issued.file.with_suffix(".chain")
        file.write_bytes(self.issued.pem + self.chain)
        self.context.load_cert_chain(file, self.issued.key_file)
        self.context.sni_callback = lambda _, name, __: self.asked_by.append(name)
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            told = b""
            while self.proxied and not told.endswith(b"\r\n"):
                told += plain.recv(1)
            with self.context.wrap_socket(plain, server_side=True) as sock:
                file = sock.makefile("rb")
                while line := file.readline():
                    lines = []
                    while (header := file.readline().strip()) != b"":
                        lines.append(header.decode())
                    self.heard.append(f"{told.decode()}{line.decode()}")
                    body = json.dumps(lines).encode()
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                    sock.sendall(head + body)
        self.ended += 1

    def close(self) -> None:
        self._listener.close()


class Place(Memory):
    """A box whose haproxy asks servers by HTTPS."""

    def __init__(self, box: EdgeBox, tmp: Path) -> None:
        super().__init__()
        self.box = box
        self.tmp = tmp
        self.authority = box.authority
        self.servers: list[Tls] = []
        self.ca = f'to_server_ca_file = "{self.authority.root.file}"'
        self.awake = True
        self.now_s = time.time()
        here = Installation(
            run_dir=str(box.here.run_dir),
            edge_dir=str(box.folder),
            edge_user="daemon",
            group="daemon",
        )
        self.keeper = Keeper(here, self, lambda: self.now_s, awake=lambda _: self.awake)

    def server(self, issued: Issued | None = None, *, proxied: bool = False) -> Tls:
        issued = issued or self.authority.issue(NAME)
        self.servers.append(Tls(issued, self.authority.below.pem, proxied))
        return self.servers[-1]

    def apply(self, new: config.Config) -> Any:
        """Live by it; what is told of the server."""
        self.keeper.take(new)
        asyncio.run(self.keeper.once())
        if not self.box.process:
            self.box.start()
        return self.told()

    def told(self) -> Any:
        [told] = self.keeper.status()["to_server"]
        return told["problem"]

    def connect(self, session: int = 0, said: bytes = b"") -> socket.socket:
        """Connect as Varnish does."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        sock.connect(str(self.box.here.run_dir / "edge/to-web.sock"))
        sock.sendall(said or LOCAL + struct.pack("Q", session))
        return sock

    def ask(self, sock: socket.socket | None = None, host: str = NAME) -> bytes:
        """Ask for a page; all that comes of it."""
        with contextlib.ExitStack() as held:
            if sock is None:
                sock = held.enter_context(self.connect())
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            return answer(sock)


def answer(sock: socket.socket) -> bytes:
    """Read one answer; nothing if the connection ends without one."""
    said = b""
    while b"\r\n\r\n" not in said or not said.endswith(b"]"):
        more = sock.recv(65536)
        if not more:
            return said
        said += more
    return said


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with edge_box(tmp_path) as box:
        made = Place(box, tmp_path)
        try:
            yield made
        finally:
            for server in made.servers:
                server.close()


def test_it_is_asked_by_its_name_and_the_box_listens_nowhere_else(place: Place) -> None:
    server = place.server()
    assert place.apply(settings(server.port, place.ca)) is None
    assert b"200 OK" in place.ask()
    assert server.asked_by[-1] == NAME
    assert server.heard == ["GET / HTTP/1.1\r\n"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", place.box.port), 5)


def test_a_connection_of_varnish_is_one_to_the_server_as_long_as_it_lasts(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    looks = len(server.asked_by)
    with place.connect(1) as one, place.connect(2) as two:
        for sock in (one, two, one, two):
            assert b"200 OK" in place.ask(sock)
        assert len(server.asked_by) == looks + 2
        ended = server.ended
    wait_for(lambda: server.ended == ended + 2, "both to end")


def test_each_name_of_the_server_is_asked_for(place: Place) -> None:
    server = place.server(place.authority.issue("*.example", NAME))
    place.apply(settings(server.port, place.ca, host="*.example"))
    with place.connect() as sock:
        for name in ("one.example", "two.example", "one.example"):
            assert b"200 OK" in place.ask(sock, name)
    assert {"one.example", "two.example"} <= set(server.asked_by)
    assert place.ask(host="other.invalid") == b""


def test_who_asks_by_an_address_is_served_under_the_first_name(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    assert b"200 OK" in place.ask(host="192.0.2.1")
    assert server.asked_by[-1] is None
    other = place.server(place.authority.issue("other.example"))
    place.apply(settings(other.port, place.ca))
    wait_for(lambda: place.ask(host="192.0.2.1") == b"", "the other")


def test_its_name_may_be_another_than_the_visitors(place: Place) -> None:
    server = place.server(place.authority.issue("intern.example"))
    place.apply(settings(server.port, place.ca, 'to_server_name = "intern.example"'))
    assert f"host: {NAME}".encode() in place.ask()
    assert server.asked_by[-1] == "intern.example"


def test_a_wrong_certificate_is_refused_at_once_and_said(place: Place) -> None:
    authority = place.authority
    for shown, code in (
        (authority.issue("other.example"), "shown_for_others"),
        (authority.issue(NAME, itself=True), "shown_issuer"),
        (authority.dated(NAME, 1.5e9, 1.6e9), "shown_expired"),
        (authority.dated(NAME, 4e9, 4.1e9), "shown_not_yet"),
    ):
        server = place.server(shown)
        assert place.apply(settings(server.port, place.ca))["code"] == f"https.{code}"
        begun_s = time.monotonic()
        assert place.ask() == b"", code
        assert time.monotonic() - begun_s < 5, code
        assert server.heard == [], code


def test_authorities_that_the_system_does_not_know_are_not_taken(place: Place) -> None:
    server = place.server()
    assert place.apply(settings(server.port))["code"] == "https.shown_issuer"
    assert place.ask() == b""
    assert server.heard == []


def test_a_pinned_certificate_is_learned_when_the_server_is_awake(place: Place) -> None:
    own = place.authority.issue("intranet", itself=True)
    server = place.server(own)
    pin = sha256(openssl("x509", "-in", own.file, "-outform", "DER")).hexdigest()
    colons = ":".join(pin[at : at + 2] for at in range(0, 64, 2)).upper()
    place.awake = False
    new = settings(server.port, 'to_server_check = "pin"', f'to_server_pin = "{colons}"')
    assert place.apply(new)["code"] == "https.pin_not_met"
    with pytest.raises(FileNotFoundError):
        place.connect()
    place.awake = True
    asyncio.run(place.keeper.once())
    asyncio.run(place.keeper.once())
    assert place.told() is None
    wait_for((place.box.here.run_dir / "edge/to-web.sock").exists, "the way")
    assert b"200 OK" in place.ask(host="anything.example")
    # Another that says it is the same.
    server.close()
    other = place.server(place.authority.issue("intranet", itself=True))
    place.now_s += 3601
    new = settings(other.port, 'to_server_check = "pin"', f'to_server_pin = "{pin}"')
    assert place.apply(new)["code"] == "https.shown_other"
    wait_for(lambda: place.ask() == b"", "the other to be refused")
    assert other.heard == []


def test_a_certificate_that_somebody_issued_cannot_be_pinned(place: Place) -> None:
    issued = place.authority.issue(NAME)
    server = place.server(issued)
    pin = sha256(openssl("x509", "-in", issued.file, "-outform", "DER")).hexdigest()
    new = settings(server.port, 'to_server_check = "pin"', f'to_server_pin = "{pin}"')
    assert place.apply(new)["code"] == "https.pin_of_issued"


def test_by_name_alone_the_box_only_looks(place: Place) -> None:
    server = place.server(place.authority.issue(NAME, itself=True))
    assert place.apply(settings(server.port, 'to_server_check = "name"')) is None
    assert b"200 OK" in place.ask()
    other = place.server(place.authority.issue("other.example", itself=True))
    told = place.apply(settings(other.port, 'to_server_check = "name"'))
    assert told["code"] == "https.shown_for_others"


def test_the_server_is_told_by_proxy_who_the_visitor_is(place: Place) -> None:
    server = place.server(proxied=True)
    new = settings(server.port, place.ca, "tell_client_by_proxy = true")
    assert place.apply(new) is None
    for said, told in (
        (b"PROXY TCP4 192.0.2.7 192.0.2.1 1111 80\r\n", "PROXY TCP4 192.0.2.7 192.0.2.1"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 1111 443\r\n", "PROXY TCP6 2001:db8::7 "),
    ):
        with place.connect(said=said) as sock:
            assert b"200 OK" in place.ask(sock)
        assert server.heard[-1].startswith(told)
        assert server.heard[-1].endswith("GET / HTTP/1.1\r\n")


def test_what_says_nothing_of_itself_gets_no_answer(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    for hostile in (b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", b"PROXY TCP4 x y 1 2\r\n"):
        with place.connect(said=hostile) as sock, contextlib.suppress(ConnectionError):
            assert sock.recv(100) == b""
    assert server.heard == []


def test_a_server_that_is_gone_is_one_that_is_down(place: Place) -> None:
    told = place.apply(settings(free_port(), place.ca))
    assert told["code"] == "https.server_no_https"
    begun_s = time.monotonic()
    assert place.ask() == b""
    assert time.monotonic() - begun_s < 5


def test_a_change_keeps_the_connections_and_new_ones_are_by_it(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    with place.connect() as kept:
        assert b"200 OK" in place.ask(kept)
        other = place.server()
        place.apply(settings(other.port, place.ca))
        assert b"200 OK" in place.ask(kept)
        wait_for(lambda: b"200 OK" in place.ask() and bool(other.heard), "the other")


def test_a_large_head_comes_through(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    with place.connect() as sock:
        cookie = "x" * 20000
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\nCookie: {cookie}\r\n\r\n".encode())
        assert cookie.encode() in answer(sock)


def test_authorities_that_cannot_be_read_cost_nobody_else_anything(place: Place) -> None:
    server = place.server()
    place.apply(settings(server.port, place.ca))
    bad = place.tmp / "bad.pem"
    for text in ("", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        bad.write_text(text)
        told = place.apply(settings(server.port, f'to_server_ca_file = "{bad}"'))
        assert told["code"] in ("https.ca_file", "https.no_certificate")
        assert place.keeper.status()["problem"] is None
    told = place.apply(settings(server.port, f'to_server_ca_file = "{place.tmp}/none.pem"'))
    assert told["code"] == "https.ca_file"


def test_haproxy_takes_every_way(place: Place) -> None:
    own = place.authority.issue(NAME, itself=True)
    pin = f'to_server_pin = "{"0" * 64}"'
    for way, lines in (
        (Way(), ()),
        (Way(own.pem), (place.ca, 'to_server_name = "bücher.example"')),
        (Way(own.pem), ('to_server_check = "pin"', pin)),
        (Way(own.pem), ('to_server_check = "pin"', pin, 'to_server_name = "a.example"')),
        (Way(), ('to_server_check = "name"', "tell_client_by_proxy = true")),
    ):
        for address in ("192.0.2.1", "2001:db8::1"):
            new = settings(443, *lines, address=address)
            files = render(new, {}, own.pem + own.key, place.keeper._here, {"web": way})
            assert asyncio.run(place.keeper._generations.check(files)) is None


def test_without_a_way_nobody_asks_the_server(tmp_path: Path) -> None:
    with edge_box(tmp_path) as box:
        new = settings(443)
        assert wanted(new)
        assert not serves(new)
        text = render(new, {}, b"", box.here)["haproxy.cfg"]
        assert b"to-web" not in text
        assert b"frontend" not in text


def test_a_server_that_is_asked_by_http_is_not_looked_at() -> None:
    place = to_server.ToServers(Path("/nowhere"), lambda _: True, lambda: 0.0)
    text = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
    new = config.parse(text)
    assert not asyncio.run(place.look(new))
    assert place.ways(new) == {}


def test_a_server_that_only_accepts_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_server, "_STEP_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        problem, shown = asyncio.run(to_server.look(settings(deaf.getsockname()[1]).server[0]))
    assert problem is not None
    assert (problem.code, shown) == ("https.server_silent", b"")
