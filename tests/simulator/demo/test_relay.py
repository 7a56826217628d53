"""The way from this machine's browser into the box's namespace."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.demo.relay import Relay
from tests.simulator.office.namespace import Namespace, ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a namespace needs root")


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Namespace]:
    name = f"relay-{os.getpid()}"
    ip("netns", "add", name)
    ip("-n", name, "link", "set", "lo", "up")
    yield Namespace(name, tmp_path)
    ip("netns", "del", name)


@contextlib.contextmanager
def echo(inside: Namespace) -> Iterator[int]:
    """Somebody in there who says what was said once all of it has come."""
    with inside.entered():
        listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                asked, _ = listener.accept()
                with asked:
                    said = b""
                    while data := asked.recv(65536):
                        said += data
                    asked.sendall(said)

    threading.Thread(target=answer, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_what_is_sent_arrives_and_so_does_the_answer_and_both_ends(inside: Namespace) -> None:
    with echo(inside) as port, Relay(inside, port, 0) as relay:
        for number in range(3):
            said = os.urandom(300_000 + number)
            with socket.create_connection(("127.0.0.1", relay.port), 10) as outside:
                sending = threading.Thread(target=_send, args=(outside, said))
                sending.start()
                heard = b""
                while data := outside.recv(65536):
                    heard += data
                sending.join()
            assert heard == said


def _send(outside: socket.socket, said: bytes) -> None:
    outside.sendall(said)
    outside.shutdown(socket.SHUT_WR)


def test_a_port_in_use_is_left_alone_and_another_one_taken(inside: Namespace) -> None:
    with echo(inside) as port, socket.create_server(("127.0.0.1", 0)) as used:
        taken = used.getsockname()[1]
        with Relay(inside, port, taken) as relay:
            assert relay.port != taken


def test_where_nobody_listens_in_there_the_connection_ends(inside: Namespace) -> None:
    with (
        Relay(inside, 9, 0) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 10) as outside,
    ):
        assert outside.recv(1) == b""
