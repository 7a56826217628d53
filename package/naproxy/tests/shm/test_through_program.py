"""The program naproxy-through alone, with a page that the tests write."""

import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from free_port import free_port
from naproxy.core.page_h import F_PROXY, F_WOL, Listen
from naproxy.core.state import State
from naproxy.shm.datagram import parse
from naproxy.shm.page import Page, fnv, monotonic_us

SOURCE = Path(__file__).parents[3] / "naproxy-through"
LOCALHOST = socket.inet_aton("127.0.0.1")
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def proxied(kind: int, family: int, rest: bytes, length: int | None = None) -> bytes:
    """A header of PROXY v2 as the edge sends it, or nearly so."""
    length = len(rest) if length is None else length
    return SIGNATURE + bytes([kind, family]) + struct.pack("!H", length) + rest


def ends_of(source: str, destination: str = "", more: bytes = b"") -> bytes:
    """The header of a connection between two addresses of one family."""
    family, size = (socket.AF_INET6, 16) if ":" in source else (socket.AF_INET, 4)
    ends = socket.inet_pton(family, source)
    ends += socket.inet_pton(family, destination) if destination else bytes(size)
    ends += struct.pack("!HH", 40000, 443) + more
    return proxied(0x21, 0x21 if size == 16 else 0x11, ends)


HEADER = ends_of("192.0.2.17", "127.0.0.1")
UNKNOWN = proxied(0x20, 0, b"")
SOON_S = 10.0
AHEAD_US = 3600 * 1_000_000


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("through")
    subprocess.run(["make", "-s", "-C", SOURCE, "asan", f"BUILD={built}/p"], check=True)
    return built / "p-asan" / "naproxy-through"


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < end_s, "it does not happen"
        time.sleep(0.005)


class Upstream:
    """A server on 127.0.0.1. `answer` is called with each connection, in a thread."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._answer = answer
        self.taken = self.ended = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.taken += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            self._answer(connection)
        self.ended += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def echo(connection: socket.socket) -> None:
    with suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


class Setting:
    """A page, the program, and what it is connected to."""

    def __init__(self, run_dir: Path, program: Path, stack: ExitStack) -> None:
        self.run_dir = run_dir
        self.program = program
        self.stack = stack
        (run_dir / "edge/jail/through").mkdir(parents=True)
        self.page = Page(run_dir)
        self.socket = run_dir / "edge/jail/through/web.sock"
        self.wakes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wakes.bind(str(run_dir / "wake.sock"))
        self.wakes.settimeout(SOON_S)
        self.magic = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.magic.bind(("127.0.0.1", 0))
        self.magic.settimeout(SOON_S)
        self.process: subprocess.Popen[str] | None = None
        self.upstream: Upstream | None = None

    @property
    def service(self) -> Any:
        return self.page.layout.service[0]

    def counted(self) -> dict[str, int]:
        names = ("passed", "held", "refused", "limit", "gone", "failed")
        return {name: number for name in names if (number := getattr(self.service, name))}

    def serve(self, answer: Callable[[socket.socket], None]) -> Upstream:
        self.upstream = Upstream(answer)
        self.stack.callback(self.upstream.close)
        return self.upstream

    def configure(
        self,
        state: State,
        *,
        answer: Callable[[socket.socket], None] = echo,
        port: int | None = None,
        reach_ms: int = 0,
        flags: int = 0,
        listen_port: int = 0,
        **limits: int,
    ) -> None:
        if port is None:
            port = (self.upstream or self.serve(answer)).port
        self.page.layout.nservers = 1
        with self.page.configure(0) as server:
            server.id = b"server"
            server.family = 4
            server.address[:4] = LOCALHOST
            server.wol_address[:4] = LOCALHOST
            server.wol_port = self.magic.getsockname()[1]
            server.mac[:] = bytes(range(6))
            server.flags = flags
            server.connect_timeout_ms = 1000
            server.reach_ms = reach_ms
        with self.page.serving(0) as service:
            service.id = b"web"
            service.listen = Listen.TCP if listen_port else Listen.EDGE
            service.listen_family = 4
            service.listen_address[:4] = LOCALHOST
            service.listen_port = listen_port
            service.server = 0
            service.port = port
            usual = {"hold_limit_ms": 20000, "most_held": 8, "most_open": 32}
            for name, value in (usual | limits).items():
                setattr(service, name, value)
        self.state(state, since_us=1)
        self.page.heartbeat(monotonic_us() + 900_000)

    def state(self, state: State, since_us: int | None = None) -> None:
        self.page.set_state(0, state, since_us or monotonic_us())

    def trusted_for_long(self) -> None:
        self.page.layout.heartbeat_max_ms = AHEAD_US // 1000

    def start(self) -> None:
        self.trusted_for_long()
        self.process = subprocess.Popen(
            [self.program, self.run_dir], stderr=subprocess.PIPE, text=True
        )
        self.stack.callback(self.stop)

    def begin(self, state: State, **settings: Any) -> None:
        self.configure(state, **settings)
        self.start()

    def said(self) -> str:
        assert self.process
        assert self.process.stderr
        return self.process.stderr.readline()

    def stop(self) -> None:
        assert self.process
        assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
        self.process.terminate()
        assert self.process.wait(SOON_S) == -signal.SIGTERM

    def connect(self, header: bytes = HEADER) -> socket.socket:
        until(self.socket.exists)
        client = socket.socket(socket.AF_UNIX)
        self.stack.callback(client.close)
        client.settimeout(SOON_S)

        until(lambda: client.connect_ex(str(self.socket)) == 0)
        client.sendall(header)
        return client


@pytest.fixture
def setting(tmp_path: Path, program: Path) -> Iterator[Setting]:
    with ExitStack() as stack:
        yield Setting(tmp_path, program, stack)


@pytest.fixture
def asleep(setting: Setting) -> Setting:
    """The program runs, and the server sleeps."""
    setting.begin(State.ASLEEP)
    return setting


@pytest.fixture
def awake(setting: Setting) -> Setting:
    """The program runs, and the server is awake: an echo."""
    setting.begin(State.AWAKE)
    return setting


def refuses(address: tuple[str, int] | str) -> bool:
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        return client.connect_ex(address) == errno.ECONNREFUSED


def ends(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_connection_to_a_server_that_is_awake_is_joined_at_once(awake: Setting) -> None:
    client = awake.connect(HEADER + b"hello")
    assert client.recv(100) == b"hello"
    assert awake.counted() == {"passed": 1}
    assert awake.service.accepted == 1
    until(lambda: awake.service.open_now == 1)
    client.close()
    until(lambda: awake.service.open_now == 0)


def test_a_connection_waits_until_the_server_is_awake(asleep: Setting) -> None:
    client = asleep.connect(HEADER + b"hello")
    until(lambda: asleep.service.held_now == 1)
    assert asleep.upstream
    assert asleep.upstream.taken == 0
    asleep.state(State.WAKING)
    asleep.state(State.AWAKE)
    assert client.recv(100) == b"hello"
    assert asleep.counted() == {"held": 1}
    until(lambda: asleep.service.held_now == 0)


def test_the_controller_is_asked_again_and_again_for_the_wake(asleep: Setting) -> None:
    asleep.connect()
    first, second = (parse(asleep.wakes.recv(2000)) for _ in range(2))
    assert first == second
    server, asked = first
    assert server == "server"
    assert asleep.upstream
    assert (asked.who, asked.reason, asked.klass, asked.host, asked.path) == (
        *("192.0.2.17", "pass", "person"),
        *("web", f"port {asleep.upstream.port}"),
    )


def test_a_magic_packet_is_sent_where_the_page_says_so(setting: Setting) -> None:
    setting.begin(State.ASLEEP, flags=F_WOL)
    setting.connect()
    assert setting.magic.recv(200) == b"\xff" * 6 + bytes(range(6)) * 16


def test_with_a_stale_heartbeat_it_connects_at_once_and_wakes(asleep: Setting) -> None:
    asleep.page.heartbeat(1)
    asleep.page.layout.heartbeat_max_ms = 1
    assert asleep.connect(HEADER + b"hello").recv(100) == b"hello"
    assert asleep.magic.recv(200).startswith(b"\xff" * 6)
    assert asleep.counted() == {"passed": 1}


def test_with_a_malformed_page_it_goes_on_and_holds_nobody(asleep: Setting) -> None:
    asleep.connect().close()
    bad = asleep.run_dir / "bad"
    bad.write_bytes(os.urandom(asleep.page.path.stat().st_size))
    bad.rename(asleep.page.path)
    asleep.page.layout.magic = 0
    assert asleep.connect(HEADER + b"hello").recv(100) == b"hello"


def test_a_new_page_is_taken_up(asleep: Setting) -> None:
    client = asleep.connect(HEADER + b"hello")
    until(lambda: asleep.service.held_now)
    asleep.page.path.unlink()
    asleep.page = Page(asleep.run_dir)
    asleep.trusted_for_long()
    asleep.configure(State.AWAKE)
    assert client.recv(100) == b"hello"
    until(lambda: asleep.service.open_now == 1)


def test_who_hangs_up_while_held_is_gone(asleep: Setting) -> None:
    client = asleep.connect()
    until(lambda: asleep.service.held_now)
    client.close()
    until(lambda: asleep.service.held_now == 0)
    assert asleep.counted() == {"gone": 1}
    assert asleep.service.open_now == 0


def test_a_client_that_is_gone_at_once_wakes_nothing(asleep: Setting) -> None:
    """A ClientHello and a reset cost nothing, and would wake a server as often as it sleeps."""
    asleep.wakes.setblocking(False)
    for number in range(1, 9):
        asleep.connect(HEADER + b"\x16\3\1").close()
        until(lambda number=number: asleep.counted() == {"gone": number})
    with pytest.raises(BlockingIOError):
        asleep.wakes.recv(2000)


def test_who_has_used_up_a_share_wakes_nothing_and_is_closed(setting: Setting) -> None:
    setting.configure(State.ASLEEP)
    over = {
        "192.0.2.17": fnv(b"\4\xc0\0\2\x11"),
        "2001:db8::5": fnv(b"\6\x20\1\x0d\xb8" + bytes(4)),
        "198.51.100.9": fnv(b"n\4\xc6\x33\x64"),
    }
    for slot, who in zip(setting.page.layout.spent, over.values(), strict=False):
        slot.who, slot.servers = who, 1
    others = setting.page.layout.spent[len(over)]
    # At another server, and by its robots alone.
    others.who, others.servers, others.programs = fnv(b"\4\xcb\0\x71\1"), 2, 1
    setting.start()
    for number, address in enumerate(over, 1):
        assert ends(setting.connect(ends_of(address))), address
        assert setting.counted() == {"refused": number}
    setting.wakes.setblocking(False)
    with pytest.raises(BlockingIOError):
        setting.wakes.recv(2000)
    setting.wakes.settimeout(SOON_S)
    setting.connect(ends_of("203.0.113.1"))
    assert parse(setting.wakes.recv(2000))[1].who == "203.0.113.1"
    # Also one that waits.
    others.servers = 1
    until(lambda: setting.counted() == {"refused": len(over) + 1})
    # The office's own has no share.
    setting.page.layout.spent[0].who = fnv(b"\4\xc0\xa8\0\2")
    setting.connect(ends_of("192.168.0.2"))
    until(lambda: setting.service.held_now == 1)
    # Once it is awake, everybody is served.
    setting.state(State.AWAKE)
    assert setting.connect(ends_of("198.51.100.9") + b"hello").recv(100) == b"hello"


def test_more_than_may_be_held_are_closed(setting: Setting) -> None:
    setting.begin(State.ASLEEP, most_held=2)
    for held in (1, 2):
        setting.connect(ends_of(f"192.0.2.{held}"))
        until(lambda held=held: setting.service.held_now == held)
    assert ends(setting.connect(ends_of("192.0.2.3")))
    assert setting.counted() == {"refused": 1}
    assert setting.service.held_now == 2


def test_clients_that_hold_many_leave_room_for_whoever_comes_new(setting: Setting) -> None:
    setting.begin(State.ASLEEP, most_held=9)
    for _ in range(9):
        for many in ("192.0.2.1", "192.0.2.2"):
            setting.connect(ends_of(many))
    until(lambda: setting.counted() == {"refused": 12})
    until(lambda: setting.service.held_now == 6)
    setting.connect(ends_of("192.0.2.3"))
    until(lambda: setting.service.held_now == 7)


def test_a_network_of_ipv6_counts_as_one_client(setting: Setting) -> None:
    setting.begin(State.ASLEEP, most_held=8)
    for number in range(8):
        setting.connect(ends_of(f"2001:db8::{number:x}:{number:x}"))
    until(lambda: setting.counted() == {"refused": 4})
    until(lambda: setting.service.held_now == 4)
    setting.connect(ends_of("2001:db8:0:1::1"))
    until(lambda: setting.service.held_now == 5)


def test_who_has_many_open_leaves_room_for_whoever_comes_new(setting: Setting) -> None:
    setting.begin(State.AWAKE, most_open=4)
    for _ in range(4):
        setting.connect()
    until(lambda: setting.counted() == {"passed": 2, "refused": 2})
    assert setting.connect(ends_of("192.0.2.3") + b"hello").recv(100) == b"hello"


def test_nobody_is_held_for_longer_than_the_limit(setting: Setting) -> None:
    setting.begin(State.ASLEEP, hold_limit_ms=100)
    assert ends(setting.connect())
    assert setting.counted() == {"limit": 1}


def test_a_half_that_the_client_closes_is_closed_at_the_server(setting: Setting) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(all_of(connection).upper())

    setting.begin(State.AWAKE, answer=answer)
    client = setting.connect(HEADER + b"hello")
    client.shutdown(socket.SHUT_WR)
    assert all_of(client) == b"HELLO"


def test_a_half_that_the_server_closes_is_closed_at_the_client(setting: Setting) -> None:
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"that is all")
        connection.shutdown(socket.SHUT_WR)
        heard.append(all_of(connection))

    setting.begin(State.AWAKE, answer=answer)
    client = setting.connect()
    assert all_of(client) == b"that is all"
    client.sendall(b"still here")
    client.close()
    until(lambda: heard)
    assert heard == [b"still here"]


def test_a_megabyte_goes_both_ways_at_once(setting: Setting) -> None:
    sent = os.urandom(1 << 20)
    setting.begin(State.AWAKE)
    client = setting.connect()

    def send() -> None:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    assert all_of(client) == sent
    sender.join()
    assert (setting.service.bytes_in, setting.service.bytes_out) == (len(sent), len(sent))
    assert setting.service.last_active_us


def test_what_only_the_client_sends_is_no_use_of_the_server(setting: Setting) -> None:
    def answer(connection: socket.socket) -> None:
        with suppress(ConnectionResetError):
            all_of(connection)

    setting.begin(State.AWAKE, answer=answer)
    client = setting.connect(HEADER + bytes(16000))
    until(lambda: setting.service.bytes_in == 16000)
    assert setting.service.last_active_us == 0
    client.sendall(bytes(1000))  # an upload, by now
    until(lambda: setting.service.last_active_us)


def test_what_the_server_sends_is_use_of_it(setting: Setting) -> None:
    setting.begin(State.AWAKE, answer=lambda connection: connection.sendall(connection.recv(1)))
    assert setting.connect(HEADER + b"x").recv(1) == b"x"
    until(lambda: setting.service.last_active_us)


def test_who_does_not_read_stops_the_other_side(setting: Setting) -> None:
    setting.begin(State.AWAKE, answer=lambda connection: connection.sendall(bytes(64 << 20)))
    client = setting.connect()
    assert client.recv(1)
    until(lambda: setting.service.bytes_out > 0)
    assert setting.service.bytes_out < 32 << 20
    assert len(all_of(client)) == (64 << 20) - 1


def test_a_server_that_refuses_is_not_tried_again(setting: Setting) -> None:
    port = free_port()
    setting.begin(State.AWAKE, port=port)
    assert ends(setting.connect())
    assert setting.counted() == {"failed": 1}


class Silent:
    """A port that takes no connection, as that of a machine that sleeps."""

    def __init__(self, stack: ExitStack) -> None:
        self.listener = stack.enter_context(socket.socket())
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port: int = self.listener.getsockname()[1]
        # With its queue full, the kernel answers nobody else.
        full = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), SOON_S))
        self._full = full.getsockname()

    def wake(self) -> socket.socket:
        """Return the first connection that is not ours."""
        while True:
            taken, address = self.listener.accept()
            if address != self._full:
                return taken
            taken.close()


def test_a_server_that_fell_asleep_by_itself_is_woken_and_waited_for(setting: Setting) -> None:
    silent = Silent(setting.stack)
    setting.begin(State.AWAKE, port=silent.port, flags=F_WOL, reach_ms=2000)
    client = setting.connect(HEADER + b"hello")
    server, asked = parse(setting.wakes.recv(2000))
    assert (server, asked.silent, asked.who) == ("server", True, "192.0.2.17")
    assert setting.magic.recv(200).startswith(b"\xff" * 6)
    until(lambda: setting.service.held_now == 1)
    setting.state(State.WAKING)
    setting.state(State.AWAKE)
    with silent.wake() as taken:
        assert taken.recv(100) == b"hello"
        until(lambda: setting.counted() == {"held": 1})
        client.close()


def test_no_more_are_held_for_a_server_that_is_silent(setting: Setting) -> None:
    setting.begin(State.AWAKE, port=Silent(setting.stack).port, reach_ms=2000, most_held=1)
    setting.connect(ends_of("192.0.2.1"))
    until(lambda: setting.service.held_now == 1)
    assert ends(setting.connect(ends_of("192.0.2.2")))
    assert setting.counted() == {"refused": 1}


def test_a_port_that_stays_silent_is_not_told_of_again_and_again(setting: Setting) -> None:
    setting.begin(State.AWAKE, port=Silent(setting.stack).port, reach_ms=1)
    setting.connect()
    assert parse(setting.wakes.recv(2000))[1].silent
    setting.state(State.WAKING)
    setting.state(State.AWAKE)
    setting.wakes.settimeout(0.75)
    with pytest.raises(TimeoutError):
        setting.wakes.recv(2000)


def test_a_server_that_just_woke_is_tried_until_it_takes_the_connection(setting: Setting) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        setting.begin(State.ASLEEP, port=reserved.getsockname()[1])
        client = setting.connect(HEADER + b"hello")
        until(lambda: setting.service.held_now)
        setting.state(State.AWAKE)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        reserved.listen()
        taken, _ = reserved.accept()
        with taken:
            assert taken.recv(100) == b"hello"


def test_what_the_server_cuts_off_is_cut_off(setting: Setting) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    port = free_port()
    setting.begin(State.AWAKE, listen_port=port, answer=answer)
    until(lambda: not refuses(("127.0.0.1", port)))
    client = socket.create_connection(("127.0.0.1", port), SOON_S)
    setting.stack.callback(client.close)
    client.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_response_arrives_whole_though_the_server_resets_the_connection(
    setting: Setting,
) -> None:
    """It closes with bytes unread: the goodbye of TLS, say, or the rest of an upload."""
    reply = bytes(range(256)) * 400
    ready = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(1)
        ready.wait(SOON_S)
        connection.sendall(reply)

    setting.begin(State.AWAKE, answer=answer)
    client = setting.connect(HEADER + b"ask")
    until(lambda: setting.service.bytes_in == 3)
    assert setting.process
    for more in (b"", b"goodbye"):
        if more:
            ready.clear()
            client = setting.connect(HEADER + b"ask")
            until(lambda: setting.service.bytes_in == 6)
        setting.process.send_signal(signal.SIGSTOP)
        client.sendall(more)
        client.shutdown(socket.SHUT_WR)
        ready.set()
        assert setting.upstream
        until(lambda: setting.upstream and setting.upstream.ended == setting.upstream.taken)
        setting.process.send_signal(signal.SIGCONT)
        assert all_of(client) == reply, more


def test_python_s_own_server_refuses_an_upload_without_reading_it(
    setting: Setting, tmp_path: Path
) -> None:
    port = free_port()
    log = tmp_path / "log"
    with log.open("w") as said:
        argv = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        server = subprocess.Popen(argv, stderr=said, cwd=tmp_path)
    setting.stack.callback(server.wait)
    setting.stack.callback(server.terminate)
    until(lambda: not refuses(("127.0.0.1", port)))
    setting.begin(State.AWAKE, port=port)
    upload = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + bytes(50000)
    server.send_signal(signal.SIGSTOP)
    client = setting.connect(HEADER + upload)
    until(lambda: setting.service.bytes_in == len(upload))
    assert setting.process
    setting.process.send_signal(signal.SIGSTOP)
    server.send_signal(signal.SIGCONT)
    until(lambda: '"POST / HTTP/1.1" 501' in log.read_text())
    # Until it has closed the connection: then its listener is its only socket.
    until(lambda: sum(map(Path.is_socket, Path(f"/proc/{server.pid}/fd").iterdir())) == 1)
    setting.process.send_signal(signal.SIGCONT)
    assert all_of(client).startswith(b"HTTP/1.0 501 ")


def test_a_service_may_have_a_port_of_its_own(setting: Setting) -> None:
    port = free_port()
    setting.begin(State.ASLEEP, listen_port=port)
    until(lambda: not refuses(("127.0.0.1", port)))
    setting.stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    while setting.wakes.recv(2000).find(b"client=127.0.0.1\n") < 0:
        pass


def test_a_server_that_falls_asleep_has_no_connection_any_more(awake: Setting) -> None:
    client = awake.connect(HEADER + b"hello")
    assert client.recv(100) == b"hello"
    awake.state(State.ASLEEP)
    assert ends(client)
    until(lambda: awake.service.open_now == 0)


def test_a_service_that_is_given_up_is_open_no_more(awake: Setting) -> None:
    client = awake.connect(HEADER + b"hello")
    assert client.recv(100) == b"hello"
    with awake.page.serving(0) as service:
        service.listen = Listen.NONE
    until(lambda: refuses(str(awake.socket)))
    client.sendall(b"still joined")
    assert client.recv(100) == b"still joined"


def test_what_is_no_header_of_the_edge_is_closed(asleep: Setting) -> None:
    for header in (
        b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        proxied(0x31, 0x11, bytes(12)),
        proxied(0x22, 0x11, bytes(12)),
        proxied(0x21, 0x11, bytes(11)),
        proxied(0x21, 0x21, bytes(12)),
        proxied(0x21, 0x11, bytes(1000), length=0xFFFF),
    ):
        assert ends(asleep.connect(header)), header
        assert (asleep.service.accepted, asleep.service.held_now) == (0, 0), header


def test_who_the_client_is_stands_in_the_header(asleep: Setting) -> None:
    for header, who in (
        (UNKNOWN, ""),
        (ends_of("2001:db8::7", more=b"\x04\0\0"), "2001:db8::7"),
        (proxied(0x21, 0x31, bytes(216)), ""),
        (ends_of("::ffff:192.0.2.10"), "192.0.2.10"),
    ):
        client = asleep.connect(header)
        # The client before may be in some of the datagrams still.
        until(lambda who=who: parse(asleep.wakes.recv(2000))[1].who == who)
        client.close()
        until(lambda: asleep.service.held_now == 0)


def test_a_server_that_wants_it_is_told_of_the_client_first(setting: Setting) -> None:
    setting.begin(State.AWAKE, flags=F_PROXY)
    for header, line in (
        (HEADER, b"PROXY TCP4 192.0.2.17 127.0.0.1 40000 443\r\n"),
        (
            ends_of("2001:db8::7", "2001:db8::1"),
            b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n",
        ),
        (
            ends_of("::ffff:192.0.2.17", "::ffff:127.0.0.1"),
            b"PROXY TCP4 192.0.2.17 127.0.0.1 40000 443\r\n",
        ),
        (UNKNOWN, b"PROXY UNKNOWN\r\n"),
    ):
        client = setting.connect(header + b"hello")
        client.shutdown(socket.SHUT_WR)
        assert all_of(client) == line + b"hello", header


def test_a_server_without_an_address_is_nobodys(setting: Setting) -> None:
    setting.configure(State.AWAKE)
    with setting.page.configure(0) as server:
        server.family = 0
    setting.start()
    assert "an unknown address family" in setting.said()


def test_a_place_that_is_taken_is_said_once_and_tried_again(setting: Setting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        setting.begin(State.AWAKE, listen_port=port)
        assert setting.said() == "naproxy-through: web: Address already in use\n"
    until(lambda: not refuses(("127.0.0.1", port)))


def test_who_finds_no_room_wakes_the_server_all_the_same(setting: Setting) -> None:
    setting.begin(State.ASLEEP, most_held=0)
    assert ends(setting.connect())
    assert parse(setting.wakes.recv(2000))[0] == "server"


def test_a_header_may_come_in_pieces(awake: Setting) -> None:
    client = awake.connect(HEADER[:3])
    until(lambda: awake.service.open_now)
    for piece in (HEADER[3:17], HEADER[17:], b"hello"):
        client.sendall(piece)
    assert client.recv(100) == b"hello"


def test_a_page_with_nonsense_is_refused(setting: Setting) -> None:
    setting.configure(State.AWAKE)
    with setting.page.serving(0) as service:
        service.server = 5
    setting.start()
    assert setting.said() == "naproxy-through: page: a service of no server\n"
    assert not setting.socket.exists()


def test_it_says_how_it_is_called(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: naproxy-through RUN_DIR\n")
