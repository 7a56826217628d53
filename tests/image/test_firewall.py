"""The box's firewall, in a namespace of its own: who opens too many connections, and restarts."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.image.standin import TOP
from tests.simulator.office.namespace import Namespace, ip

BOX, OTHER = "192.0.2.50", "192.0.2.2"
BURST, PER_S = 300, 60


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Namespace]:
    """The box with its firewall; `lan` is a client on its wire, with two addresses."""
    with ExitStack() as stack:
        box, lan = (Namespace(f"npfw-{name}", tmp_path) for name in ("box", "lan"))
        for net in (box, lan):
            ip("netns", "add", net.name)
            stack.callback(ip, "netns", "del", net.name)
        veth = ("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", lan.name)
        ip("-n", box.name, *veth)
        for net, address in ((box, BOX), (lan, "192.0.2.1"), (lan, OTHER)):
            ip("-n", net.name, "addr", "add", f"{address}/24", "dev", "eth0")
        for net in (box, lan):
            ip("-n", net.name, "link", "set", "eth0", "up")
        box.run(["nft", "-f", TOP / "overlay/etc/nftables.conf"])
        yield box


def listener(box: Namespace) -> socket.socket:
    with box.entered():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", 80))
        sock.listen(4096)
        return sock


def opening(tmp_path: Path) -> socket.socket:
    """A connection to the box that is begun, not waited for."""
    with Namespace("npfw-lan", tmp_path).entered():
        sock = socket.socket()
    sock.setblocking(False)
    with suppress(BlockingIOError):
        sock.connect((BOX, 80))
    return sock


def opened(sockets: list[socket.socket]) -> int:
    count = 0
    for sock in sockets:
        with suppress(OSError):
            sock.getpeername()
            count += 1
    return count


def test_an_address_that_opens_too_many_connections_waits(box: Namespace, tmp_path: Path) -> None:
    with listener(box), ExitStack() as stack:
        begin = time.monotonic()
        sockets = [stack.enter_context(opening(tmp_path)) for _ in range(2 * BURST)]
        at_once = opened(sockets)
        took_s = time.monotonic() - begin
        assert BURST <= at_once <= BURST + PER_S * took_s + 1
        with Namespace("npfw-lan", tmp_path).entered():
            other = stack.enter_context(socket.socket())
        other.bind((OTHER, 0))
        other.settimeout(0.5)
        other.connect((BOX, 80))


def test_nobody_is_refused_while_varnish_starts_anew(box: Namespace, tmp_path: Path) -> None:
    with opening(tmp_path) as early:
        time.sleep(0.2)
        assert early.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        with listener(box):
            time.sleep(1.3)
            assert opened([early]) == 1
