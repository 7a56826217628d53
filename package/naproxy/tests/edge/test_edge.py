"""The edge: what haproxy is told, and what a real one makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from certificates import openssl
from edge_box import BLOCK, EdgeBox, edge_box, needs_haproxy
from naproxy.config import document as config
from naproxy.edge.apply import Generations, Haproxy
from naproxy.edge.render import Here, digest_of, render, wanted
from naproxy.edge.store import Store
from naproxy.edge.x509 import Openssl, Pair, Sent, make_own, read

from tests.patience import wait_for

pytestmark = needs_haproxy

TEXT = """
[https]
port = {port}
oldest = "{oldest}"
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
[server.https]
mode = "{mode}"
"""


def text_of(port: int, oldest: str = "1.2", mode: str = "box") -> config.Config:
    return config.parse(TEXT.format(port=port, oldest=oldest, mode=mode))


PASSED = """
[[server]]
id = "shop"
address = "192.0.2.11"
mac = "02:00:00:00:00:02"
hosts = ["shop.example", "*.shop.example", "*.one.example"]
[server.https]
mode = "through"
"""


def passing(port: int, mode: str = "box") -> config.Config:
    """One server whose visitors are passed on, beside one whose TLS ends here, or does not."""
    served = TEXT.format(port=port, oldest="1.2", mode=mode)
    hosts = 'hosts = ["one.example", "box.one.example"]\n[server.https]'
    return config.parse(served.replace("[server.https]", hosts) + PASSED)


class Passed(socketserver.BaseRequestHandler):
    """In the place of naproxy-through: answers with a word of its own, and what comes."""

    def handle(self) -> None:
        head = self.request.recv(1 << 16)
        assert head.startswith(b"\r\n\r\n\0\r\nQUIT\n\x21")
        length = int.from_bytes(head[14:16], "big")
        self.request.sendall(b"PASSED" + head[16 + length :])
        while more := self.request.recv(1 << 16):
            self.request.sendall(more)


def hello_to(name: str | None) -> bytes:
    """Return what a client says first."""
    out = ssl.MemoryBIO()
    context = ssl._create_unverified_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def answer_to(said: bytes, port: int, address: str = "127.0.0.1") -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10, (address, 0)) as client:
        client.sendall(said)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(1 << 16):
                answer += more
                if not answer.startswith(b"PASSED") or len(answer) == 6 + len(said):
                    break
        return answer


@pytest.fixture
def behind(edge: Edge) -> Iterator[None]:
    folder = edge.box.here.jail / "through"
    folder.mkdir()
    path = folder / "shop.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Passed) as server:
        path.chmod(0o666)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield
        server.shutdown()


class Edge:
    """A box, and the pairs it was given."""

    def __init__(self, box: EdgeBox) -> None:
        self.box = box
        self.own = asyncio.run(make_own(Openssl()))
        self.haproxy = Haproxy(box.here)
        self.generations = Generations(box.folder, self.haproxy, 6.0)
        self.pairs: dict[str, Pair] = {}
        self.prints: dict[str, str] = {}

    def have(self, name: str, *names: str, kind: str = "ecdsa", days: int = 90) -> str:
        """Have a certificate for these names; its fingerprint."""
        issued = self.box.authority.issue(*names, kind=kind, days=days)
        sent = Sent(self.box.authority.chain(issued), issued.key)
        self.pairs[name] = asyncio.run(read(sent, Openssl()))
        der = openssl("x509", "-in", issued.file, "-outform", "DER")
        self.prints[name] = sha256(der).hexdigest()
        return self.prints[name]

    def files(self, oldest: str = "1.2") -> dict[str, bytes]:
        return render(text_of(self.box.port, oldest), self.pairs, self.own, self.box.here)

    def apply(self, oldest: str = "1.2") -> object:
        return asyncio.run(self.generations.apply(self.files(oldest)))

    def start(self, wanted_config: config.Config | None = None) -> None:
        """Start haproxy by this configuration."""
        new = wanted_config or text_of(self.box.port)
        files = render(new, self.pairs, self.own, self.box.here)
        assert asyncio.run(self.generations.apply(files)) is None
        self.box.start()


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    with edge_box(tmp_path) as box:
        yield Edge(box)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """One that serves one.example, for tests that apply something else to it."""
    with edge_box(tmp_path_factory.mktemp("running")) as box:
        made = Edge(box)
        made.have("one", "one.example")
        made.start()
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """One that serves many sites, for tests that leave it as it is."""
    with edge_box(tmp_path_factory.mktemp("shared")) as box:
        made = Edge(box)
        made.have("one", "one.example", "*.one.example")
        made.have("two", "two.example")
        made.have("rsa", "both.example", kind="rsa", days=400)
        made.have("ecdsa", "both.example")
        made.have("short", "twice.example", days=30)
        made.have("long", "twice.example", days=60)
        made.start()
        yield made


def test_two_sites_have_a_certificate_each_and_strangers_the_boxs_own(shared: Edge) -> None:
    box, one, two = shared.box, shared.prints["one"], shared.prints["two"]
    shown = [box.shown(name) for name in ("one.example", "www.one.example", "two.example")]
    assert shown == [one, one, two]
    assert box.shown("three.example") == box.shown(None)
    assert box.shown(None) not in shown
    for name in ("one.example", "two.example"):
        assert box.ask(name)["host"] == f"{name}:{box.port}"


def test_connections_are_passed_on_by_their_name(edge: Edge, behind: None) -> None:
    issued = edge.have("one", "one.example", "box.one.example")
    edge.start(passing(edge.box.port))
    for name in ("shop.example", "SHOP.example", "www.shop.example", "www.one.example"):
        said = hello_to(name)
        assert answer_to(said, edge.box.port) == b"PASSED" + said, name
    box_s_own = ("one.example", "box.one.example", "other.example", None)
    for name in ("two.levels.shop.example", *box_s_own):
        # 0x16: the next message of a handshake with us.
        assert answer_to(hello_to(name), edge.box.port)[0] == 0x16, name
    assert edge.box.shown("one.example") == issued
    told = edge.box.ask("one.example")
    assert (told["client"].removeprefix("::ffff:"), told["tls"]) == ("127.0.0.1", True)


def in_records(hello: bytes, *sizes: int, kind: int = 0x16) -> bytes:
    """Return it in records of these sizes, and one for what is left."""
    body, said = hello[5:], b""
    for size in (*sizes, len(body)):
        part, body = body[:size], body[size:]
        if part:
            said += bytes([kind]) + hello[1:3] + len(part).to_bytes(2, "big") + part
    return said


def large(hello: bytes, size: int) -> bytes:
    """Return it with so many bytes more, in an extension for padding (RFC 7685)."""
    message = hello[9:]
    at = 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    extensions = message[at + 2 :] + struct.pack("!HH", 21, size) + bytes(size)
    body = message[:at] + struct.pack("!H", len(extensions)) + extensions
    whole = b"\x01" + len(body).to_bytes(3, "big") + body
    return in_records(hello[:5] + whole, *[16384] * (len(whole) // 16384))


def test_nobody_else_gets_an_answer_where_no_tls_ends(edge: Edge, behind: None) -> None:
    edge.start(passing(edge.box.port, mode="none"))
    shop = hello_to("shop.example")
    # A name that is not said as browsers do is nobody's.
    odd = hello_to("shop.example.")
    for said in (hello_to("other.example"), hello_to(None), b"GET / HTTP/1.0\r\n", odd):
        assert answer_to(said, edge.box.port) == b"", said
    assert answer_to(shop, edge.box.port) == b"PASSED" + shop


def test_a_hello_may_be_split_anywhere_and_large(edge: Edge, behind: None) -> None:
    """RFC 8446, 5.1; at 20 kB it must be."""
    edge.start(passing(edge.box.port, mode="none"))
    shop = hello_to("shop.example")
    length = len(shop) - 5
    ways = {f"after {first} bytes": in_records(shop, first) for first in range(1, length)}
    ways |= {
        "in three": in_records(shop, 2, 1),
        "each byte alone": in_records(shop, *[1] * length),
        "of 16 kB": large(shop, 16384 - length - 4),
        "of 20 kB": large(shop, 20000),
        "of 20 kB, in small ones": in_records(
            b"\x16\3\1\0\0" + merged(large(shop, 20000)), *[500] * 50
        ),
    }
    for number, (way, said) in enumerate(ways.items()):
        # Of one address there may be 200 in ten seconds.
        address = f"127.0.0.{2 + number // 100}"
        assert answer_to(said, edge.box.port, address) == b"PASSED" + said, way


def merged(records: bytes) -> bytes:
    """Return what is in these records."""
    body = b""
    while records:
        end = 5 + int.from_bytes(records[3:5], "big")
        body, records = body + records[5:end], records[end:]
    return body


def test_a_hello_may_come_in_pieces(edge: Edge, behind: None) -> None:
    edge.start(passing(edge.box.port, mode="none"))
    said = in_records(hello_to("shop.example"), 100, 3)
    with socket.create_connection(("127.0.0.1", edge.box.port), 10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in said:
            client.sendall(bytes([byte]))
        assert client.recv(1 << 16)[:6] == b"PASSED"


def test_what_is_not_a_hello_is_refused_at_once(edge: Edge, behind: None) -> None:
    edge.start(passing(edge.box.port, mode="none"))
    shop = hello_to("shop.example")
    message = shop[5:]
    name = message.index(b"shop.example")
    twice = message[name - 9 : name + 12]
    doubled = large(shop, len(twice) - 4).replace(
        struct.pack("!HH", 21, len(twice) - 4) + bytes(len(twice) - 4), twice
    )
    hostile = {
        "an alert between": in_records(shop, 50)[:55]
        + b"\x15\3\3\0\2\2\0"
        + in_records(shop, 50)[55:],
        "an empty record": b"\x16\3\1\0\0" + shop,
        "a record too large": b"\x16\3\1\x40\1" + message,
        "another version": shop[:1] + b"\2" + shop[2:],
        "another message": shop[:5] + b"\2" + shop[6:],
        "a message too large": shop[:6] + b"\1\0\0" + shop[9:],
        "two names": doubled,
        "a list that ends early": shop.replace(twice[4:9], b"\0\5\0\0\x0c"),
        "a name that ends late": shop.replace(twice[4:9], b"\0\x0f\0\0\xff"),
        "another kind of name": shop.replace(twice[4:9], b"\0\x0f\1\0\x0c"),
        "nonsense": b"\x16\3\1\0\x30\1\0\0\x2c" + b"\xff" * 44,
    }
    for what, said in hostile.items():
        begun_s = time.monotonic()
        assert answer_to(said, edge.box.port) == b"", what
        # Not after the 5 s that an honest client has to send the rest.
        assert time.monotonic() - begun_s < 4, what
    assert answer_to(shop, edge.box.port) == b"PASSED" + shop


def test_limits_hold_at_the_front_only() -> None:
    text = render(passing(443), {}, b"", Here(Path("/run")))["haproxy.cfg"].decode()
    front, _, rest = text.partition("frontend edge")
    assert "sc0_conn_cur gt 128" in front
    assert "tcp-request connection" not in rest


def test_who_cannot_read_ecdsa_is_shown_rsa(shared: Edge) -> None:
    assert shared.box.shown("both.example") == shared.prints["ecdsa"]
    old = shared.box.shown("both.example", "ECDHE-RSA-AES128-GCM-SHA256", "TLSv1_2")
    assert old == shared.prints["rsa"]


def test_of_two_for_the_same_name_the_longest_is_shown(shared: Edge) -> None:
    assert shared.box.shown("twice.example") == shared.prints["long"]


def test_varnish_hears_who_it_is_and_by_which_protocol(shared: Edge) -> None:
    for flag, alpn in (("--http1.1", "http/1.1"), ("--http2", "h2")):
        told = shared.box.ask("one.example", flag)
        client = told["client"].removeprefix("::ffff:")
        assert (client, told["alpn"], told["tls"]) == ("127.0.0.1", alpn, True)
        assert told["request"] == "GET / HTTP/1.1"
    version = shared.box.curl("one.example", "--http2", "-o", "/dev/null", "-w", "%{http_version}")
    assert version.stdout == b"2"


def test_two_clients_never_share_what_varnish_is_told(shared: Edge) -> None:
    """HTTP/2 keeps connections to Varnish for the next request: only of the same client."""
    for _ in range(5):
        for client in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            told = shared.box.ask("one.example", "--http2", "--interface", client)
            assert told["client"].removeprefix("::ffff:") == client


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_session_is_resumed(shared: Edge, version: str) -> None:
    context = ssl.create_default_context(cafile=shared.box.authority.root.file)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    session, resumed = None, []
    for _ in range(2):
        with (
            socket.create_connection(("127.0.0.1", shared.box.port), 5) as plain,
            context.wrap_socket(plain, server_hostname="one.example", session=session) as secure,
        ):
            secure.sendall(b"GET / HTTP/1.1\r\nHost: one.example\r\n\r\n")
            assert secure.recv(1000).startswith(b"HTTP/1.1 200")  # by then the session has come
            session = secure.session
            resumed.append(secure.session_reused)
    assert resumed == [False, True]


def test_one_address_cannot_take_all_connections(shared: Edge) -> None:
    with contextlib.ExitStack() as held:
        at = ("127.0.0.1", shared.box.port)
        with contextlib.suppress(ConnectionResetError):  # refused while it still connects
            opened = []
            for _ in range(140):
                opened.append(held.enter_context(socket.create_connection(at, 5)))
            refused, _, _ = select.select(opened, [], [], 10)
            assert refused
        assert shared.box.curl("one.example").returncode != 0
        assert shared.box.ask("one.example", "--interface", "127.0.0.2")
    wait_for(lambda: connected(shared) == 0, "all to have gone")
    assert shared.box.ask("one.example")


def test_while_many_are_connected_one_network_leaves_room_for_others(shared: Edge) -> None:
    with contextlib.ExitStack() as stack:

        def come(source: str) -> socket.socket:
            at = ("127.0.0.1", shared.box.port)
            return stack.enter_context(socket.create_connection(at, 10, (source, 0)))

        for n in range(260):
            come(f"127.0.{n % 8}.{n // 8 + 1}")
        wait_for(lambda: connected(shared) >= 260, "the crowd")
        greedy = []
        for n in range(70):
            with contextlib.suppress(ConnectionResetError):  # refused while it still connects
                greedy.append(come(f"127.1.0.{n % 4 + 1}"))
        refused = 70 - len(greedy)
        wait_for(lambda: refused + len(hung_up(greedy)) == 6, "six to be too many")
        assert shared.box.curl("one.example", "--interface", "127.2.0.1").returncode == 0
        assert refused + len(hung_up(greedy)) == 6
    wait_for(lambda: connected(shared) == 0, "all to have gone")


def connected(edge: Edge) -> int:
    info = asyncio.run(edge.haproxy.info())
    return int(info["CurrConns"]) if info else 0


def hung_up(sockets: list[socket.socket]) -> list[socket.socket]:
    """Return those whose connection was ended: nothing else was said to any."""
    return select.select(sockets, [], [], 0)[0]


def test_tls_older_than_1_3_is_spoken_only_if_it_may_be(running: Edge) -> None:
    assert running.apply() is None
    assert running.box.shown("one.example", newest="TLSv1_2")
    assert running.apply("1.3") is None
    with pytest.raises((ssl.SSLError, OSError)):
        running.box.shown("one.example", newest="TLSv1_2")
    assert running.box.shown("one.example")


def test_a_download_goes_on_while_all_is_applied_anew(running: Edge) -> None:
    blocks = 100
    running.box.streams_may_end.clear()
    at = f"one.example:{running.box.port}"
    argv = ["curl", "-sS", "--cacert", str(running.box.authority.root.file), "--resolve"]
    argv += [f"{at}:127.0.0.1", f"https://{at}/stream/{blocks}"]
    downloads = [
        subprocess.Popen([*argv, flag], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for flag in ("--http1.1", "--http2")
    ]
    for number in range(2):
        renewed = running.have("one", "one.example", days=100 + number)
        assert running.apply() is None
        assert running.box.shown("one.example") == renewed
        assert running.box.ask("one.example")
    for each in downloads:
        assert each.poll() is None  # it was running all the time
    running.box.streams_may_end.set()
    for each in downloads:
        got, said = each.communicate(timeout=60)
        assert (each.returncode, len(got)) == (0, blocks * BLOCK), said


def test_who_reads_nothing_is_not_waited_for(edge: Edge) -> None:
    files = edge.files()
    told = files["haproxy.cfg"]
    assert told.count(b" tcp-ut 120s ") == 1
    files["haproxy.cfg"] = told.replace(b"tcp-ut 120s", b"tcp-ut 500")
    assert asyncio.run(edge.generations.apply(files)) is None
    edge.box.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", edge.box.port), 5) as plain,
        context.wrap_socket(plain) as secure,
    ):
        secure.sendall(b"GET /stream/2000 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: not edge.box.connections(), "haproxy to give up")


def test_what_haproxy_cannot_read_changes_nothing(running: Edge) -> None:
    before = running.generations.current, running.box.workers()
    broken = {**running.files(), "self.pem": b"no certificate"}
    broken["haproxy.cfg"] = broken["haproxy.cfg"].replace(b"mode tcp", b"mode nonsense")
    name = b"description " + b"0" * 64
    broken["haproxy.cfg"] = broken["haproxy.cfg"].replace(
        b"description " + digest_of(running.files()).encode(), name
    )
    wrong = asyncio.run(running.generations.apply(broken))
    assert wrong
    assert wrong.code == "https.not_good"
    assert (running.generations.current, running.box.workers()) == before
    assert running.box.ask("one.example")


def test_what_a_running_haproxy_does_not_take_is_taken_back(running: Edge) -> None:
    """As when the new port is somebody else's: no check of the file sees that."""
    before = running.generations.current
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        files = render(text_of(port), running.pairs, running.own, running.box.here)
        wrong = asyncio.run(running.generations.apply(files))
    assert wrong
    assert wrong.code == "https.not_taken"
    assert running.generations.current == before
    assert running.box.ask("one.example")
    assert running.apply() is None


def test_what_was_applied_while_nobody_told_haproxy_is_taken_later(running: Edge) -> None:
    """The controller may end between the switch and the signal."""
    renewed = running.have("one", "one.example", days=100)
    alone = Generations(running.box.folder, Haproxy(running.box.here, "nobody"))
    files = running.files()
    made = alone._write(digest_of(files), files)
    alone._switch(made.name.removeprefix("gen-"))
    assert running.box.shown("one.example") != renewed
    assert asyncio.run(running.generations.follow()) is None
    assert running.box.shown("one.example") == renewed


def test_a_master_that_just_writes_its_number_is_not_taken_for_gone(running: Edge) -> None:
    class Writing(Haproxy):
        looks = 0

        def master(self) -> int | None:
            self.looks += 1
            return None if self.looks == 1 else super().master()

    renewed = running.have("one", "one.example", days=101)
    generations = Generations(running.box.folder, Writing(running.box.here))
    assert asyncio.run(generations.apply(running.files())) is None
    assert running.box.shown("one.example") == renewed


def test_no_more_than_two_generations_are_kept(edge: Edge) -> None:
    for days in (10, 20, 30):
        edge.have("one", "one.example", days=days)
        assert edge.apply() is None
    kept = [path.name for path in edge.box.folder.iterdir() if path.name.startswith("gen-")]
    assert len(kept) == 2
    assert f"gen-{edge.generations.current}" in kept


def test_only_root_can_read_a_key(edge: Edge) -> None:
    store = Store(edge.box.folder / "keys")
    edge.have("one", "one.example")
    store.put("one", edge.pairs["one"].chain + edge.pairs["one"].key)
    edge.start()
    held = [path for path in edge.box.folder.rglob("*") if path.is_file()]
    keys = [path for path in held if b"PRIVATE KEY" in path.read_bytes()]
    assert len(keys) >= 3
    for path in keys:
        tried = subprocess.run(
            ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "cat", path],
            capture_output=True,
            check=False,
        )
        assert (tried.returncode, tried.stdout) == (1, b"")
        assert path.stat().st_mode & 0o777 == 0o600
    assert edge.box.folder.stat().st_mode & 0o777 == 0o700
    for pid in edge.box.workers():
        status = Path(f"/proc/{pid}/status").read_text()
        assert "\nUid:\t1\t1\t1\t1\n" in status
        assert Path(f"/proc/{pid}/root").readlink() == edge.box.here.jail


def test_without_haproxy_it_is_said(edge: Edge) -> None:
    nobody = Generations(edge.box.folder, Haproxy(edge.box.here, "/nowhere/haproxy"))
    wrong = asyncio.run(nobody.apply(edge.files()))
    assert wrong
    assert wrong.code == "https.no_haproxy"
    assert nobody.current == ""


def test_the_edge_is_wanted_by_servers_with_mode_box_or_through() -> None:
    assert wanted(text_of(443))
    assert wanted(passing(443))
    assert not wanted(text_of(443, mode="unused"))
    assert not wanted(text_of(443, mode="none"))


def test_no_value_can_mean_something_else_to_haproxy() -> None:
    for hostile in ("/a b", "/a\nglobal", '/a"', "/a#b", "/a\\", "/a$HOME", ""):
        with pytest.raises(ValueError, match="something else"):
            render(text_of(443), {}, b"", Here(Path("/run"), hostile))


def test_haproxy_waits_longer_than_varnish(edge: Edge) -> None:
    text = edge.files()["haproxy.cfg"].decode()
    # 600 held, an hour's silence of a stream, 10 to spare.
    assert "timeout server 4210s" in text
    assert "timeout tunnel 4210s" in text


def test_an_id_cannot_lead_out_of_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "keys")
    for name in ("../evil", "", "a/b", "A", "a" * 32, "a\n"):
        with pytest.raises(ValueError, match="no certificate's id"):
            store.put(name, b"")
    assert store.ids() == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
