"""The way from this machine's browser into the box's namespace."""

import os
import socket
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


def test_a_port_in_use_is_left_alone_and_another_one_taken(inside: Namespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        taken = used.getsockname()[1]
        with Relay(inside, 9, taken) as relay:
            assert relay.port != taken


def test_where_nobody_listens_in_there_the_connection_ends(inside: Namespace) -> None:
    with (
        Relay(inside, 9, 0) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 10) as outside,
    ):
        assert outside.recv(1) == b""
