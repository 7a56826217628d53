"""The box's firewall, in a namespace of its own: who opens too many connections, and restarts."""

import errno
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.image.standin import TOP
from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, ip

BOX, BOX6 = "192.0.2.50", "2001:db8::50"
CLIENTS = {"192.0.2.1", "192.0.2.2", "2001:db8:0:7::1", "2001:db8:0:7::2", "2001:db8:0:8::1"}
BURST, PER_S = 300, 60


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Namespace]:
    """The box with its firewall; `lan` is a client on its wire, with several addresses."""
    with ExitStack() as stack:
        box, lan = (Namespace(f"npfw-{name}", tmp_path) for name in ("box", "lan"))
        for net in (box, lan):
            ip("netns", "add", net.name)
            stack.callback(ip, "netns", "del", net.name)
        veth = ("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", lan.name)
        ip("-n", box.name, *veth)
        for net, addresses in ((box, {BOX, BOX6}), (lan, CLIENTS)):
            for address in addresses:
                part = [f"{address}/32", "nodad"] if ":" in address else [f"{address}/24"]
                ip("-n", net.name, "addr", "add", *part, "dev", "eth0")
        for net in (box, lan):
            ip("-n", net.name, "link", "set", "eth0", "up")
        box.run(["nft", "-f", TOP / "overlay/etc/nftables.conf"])
        yield box


def listener(box: Namespace, port: int = 80) -> socket.socket:
    with box.entered():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096
        )


def opening(tmp_path: Path, source: str = "192.0.2.1", port: int = 80) -> socket.socket:
    """A connection to the box that is begun, not waited for."""
    six = ":" in source
    with Namespace("npfw-lan", tmp_path).entered():
        sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    sock.bind((source, 0))
    sock.setblocking(False)
    with suppress(BlockingIOError):
        sock.connect((BOX6 if six else BOX, port))
    return sock


def opened(sockets: list[socket.socket]) -> int:
    count = 0
    for sock in sockets:
        with suppress(OSError):
            sock.getpeername()
            count += 1
    return count


def sent_again(sock: socket.socket) -> int:
    """How often what opens a connection was sent again: 0 says that it was answered at once."""
    told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(told[100:], sys.byteorder)  # tcpi_total_retrans


@pytest.mark.parametrize(
    ("many", "other"),
    [
        (("192.0.2.1",), "192.0.2.2"),
        (("2001:db8:0:7::1", "2001:db8:0:7::2"), "2001:db8:0:8::1"),
    ],
    ids=["an address", "a /64 of IPv6"],
)
@pytest.mark.parametrize("port", [80, 443])
def test_who_opens_too_many_connections_waits(
    box: Namespace, tmp_path: Path, many: tuple[str, ...], other: str, port: int
) -> None:
    with listener(box, port), ExitStack() as stack:
        first = [stack.enter_context(opening(tmp_path, source, port)) for source in many]
        wait_for(lambda: opened(first) == len(many), "the box to know its neighbours")
        begin = time.monotonic()
        sources = many * (2 * BURST // len(many))
        sockets = [stack.enter_context(opening(tmp_path, source, port)) for source in sources]
        time.sleep(0.3)  # what was dropped comes again after a second
        at_once = opened(sockets)
        took_s = time.monotonic() - begin
        assert BURST - len(many) <= at_once <= BURST + PER_S * took_s + 1
        others = stack.enter_context(opening(tmp_path, other, port))
        wait_for(lambda: opened([others]), "the other's connection")
        assert sent_again(others) == 0


def test_nobody_is_refused_while_varnish_starts_anew(box: Namespace, tmp_path: Path) -> None:
    with opening(tmp_path) as early:
        time.sleep(0.2)
        assert early.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        with listener(box):
            # What opens it is sent again: after a second, and if that came too early, once more.
            wait_for(lambda: opened([early]), "the connection")


def test_a_box_that_serves_no_https_says_so_at_once(box: Namespace, tmp_path: Path) -> None:
    with opening(tmp_path, port=443) as asked:
        error = wait_for(lambda: asked.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "a word")
        assert error == errno.ECONNREFUSED
        assert sent_again(asked) == 0


@pytest.mark.parametrize("to", [BOX, BOX6])
def test_names_are_told_to_the_own_network_only(box: Namespace, tmp_path: Path, to: str) -> None:
    """A router takes one from the 255 that a packet of mDNS begins with."""
    six = ":" in to
    family = socket.AF_INET6 if six else socket.AF_INET
    with box.entered():
        listener = socket.socket(family, socket.SOCK_DGRAM)
    with listener:
        listener.bind((to, 5353))
        listener.settimeout(60)
        with Namespace("npfw-lan", tmp_path).entered():
            asker = socket.socket(family, socket.SOCK_DGRAM)
        with asker:
            level = (
                (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS)
                if six
                else (socket.IPPROTO_IP, socket.IP_TTL)
            )
            for ttl in (254, 64, 255):
                asker.setsockopt(*level, ttl)
                asker.sendto(str(ttl).encode(), (to, 5353))
            assert listener.recv(100) == b"255"
