import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from certificates import Authority
from naproxy import drivers
from naproxy.config import document as config
from naproxy.controller.probing import Prober
from naproxy.core.reason import Reason
from naproxy.drivers.ready import Observation, http, tcp
from naproxy.server.machine_io import Observed, Probe
from naproxy.server.seeing import Sign

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def target(port: int) -> drivers.Target:
    return drivers.Target("web", "127.0.0.1", port, "02:00:00:00:00:01", "lo")


def answering(words: bytes) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(words)
        writer.close()

    return peer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def seen_with(
    peer: Peer | None, timeout_s: float = 10.0, stranger: Reason | None = None, **options: Any
) -> list[Observed]:
    """What one probe by HTTP sees of a server that behaves like `peer`; None: nobody listens."""

    async def once() -> list[Observed]:
        seen: list[Observed] = []
        server = await asyncio.start_server(peer or silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if peer is None:
            server.close()
            await server.wait_closed()
        driver = http.Driver(replace(http.Settings(), **options), target(port))
        ended = asyncio.Event()

        def note(observed: Observed) -> None:
            if not ended.is_set():
                seen.append(observed)
            ended.set()

        prober = Prober(driver, timeout_s, note, print, lambda: stranger)
        prober.set(Probe(1))  # one whose process stood still says nothing: then another does
        async with asyncio.timeout(20):
            await ended.wait()
        prober.stop()
        server.close()
        return seen

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("sign", "statuses"),
    [(Sign.READY, (200, 204, 301, 302, 401, 403, 404)), (Sign.UNFIT, (500, 502, 503))],
)
def test_any_answer_below_500_is_ready_and_no_other(sign: Sign, statuses: tuple[int, ...]) -> None:
    for status in statuses:
        [seen] = seen_with(answering(b"HTTP/1.1 %d Whatever\r\n\r\n" % status))
        assert (seen.sign, seen.detail) == (sign, Reason("ready.status", status=status))


def test_what_is_not_http_is_not_ready() -> None:
    for words in (
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 20x OK\r\n",
        b"HTTP/1.1 999 OK\r\n",
        b"HTTP/1.12000 OK\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16\n",
        b"x" * 10000,
        b"HTTP/1.1 200",
    ):
        assert seen_with(answering(words))[0].sign is Sign.UNFIT, words


def test_a_server_that_closes_or_says_nothing_is_refusing_or_silent() -> None:
    assert seen_with(answering(b""))[0].sign is Sign.REFUSING
    assert seen_with(silent, timeout_s=0.3)[0].sign is Sign.SILENT
    [seen] = seen_with(None)
    assert (seen.sign, seen.detail) == (Sign.REFUSING, Reason("ready.refused"))


def test_a_status_line_that_comes_in_pieces_is_put_together() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        await silent(reader, writer)

    assert seen_with(slowly)[0].sign is Sign.READY


def test_the_request_names_the_host_and_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    got: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    seen_with(peer, host="www.example.org", path="/robots.txt")
    lines = got[0].split(b"\r\n")
    assert lines[0] == b"GET /robots.txt HTTP/1.1"
    assert b"Host: www.example.org" in lines


def test_the_first_of_hosts_is_asked_for_and_what_visitors_come_by_is_said() -> None:
    server = """[[server]]
id = "web"
address = "192.0.2.1"
mac = "02:00:00:00:00:01"
hosts = {hosts}
[server.https]
{https}
"""
    inner = 'to_server_name = "in.example"'
    box, pin = 'mode = "box"', 'to_server = "https"\nto_server_check = "pin"\nto_server_pin = "{}"'
    for hosts, https, host, name, forwarded in (
        ("[]", "", "192.0.2.1", "", False),
        ('["shop.example", "www.shop.example"]', "", "shop.example", "shop.example", False),
        ('["bücher.example"]', box, "xn--bcher-kva.example", "xn--bcher-kva.example", True),
        ('["*.shop.example", "a.example"]', "", "www.shop.example", "www.shop.example", False),
        ('["shop.example"]', pin.format("a" * 64), "shop.example", "", False),
        ('["shop.example"]', f"{box}\n{inner}", "shop.example", "in.example", True),
    ):  # fmt: skip
        [made] = config.parse(server.format(hosts=hosts, https=https)).server
        there = config.target_of(made, "lo")
        driver: Any = http.Driver(http.Settings(), there)
        lines = driver._request.decode().split("\r\n")
        assert f"Host: {host}" in lines, hosts
        assert driver._web.name == name, hosts
        assert ("X-Forwarded-Proto: https" in lines) is forwarded, hosts


@pytest.mark.parametrize(
    ("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_tcp_is_ready_when_a_connection_is_accepted(
    address: str, family: socket.AddressFamily
) -> None:
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with listening:
        there = replace(target(listening.getsockname()[1]), address=address)
        assert asyncio.run(tcp.Driver(tcp.Settings(), there).probe()).sign is Sign.READY


def test_probes_that_hang_do_not_delay_the_one_that_is_answered() -> None:
    hanging: list[asyncio.StreamWriter] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(hanging) < 3:
            hanging.append(writer)
            await silent(reader, writer)
        else:
            await answering(b"HTTP/1.1 200 OK\r\n\r\n")(reader, writer)

    async def play() -> None:
        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        ready = asyncio.Event()

        def seen(observed: Observed) -> None:
            if observed.sign is Sign.READY:
                ready.set()

        driver = http.Driver(http.Settings(), target(server.sockets[0].getsockname()[1]))
        prober = Prober(driver, 600.0, seen, print)
        prober.set(Probe(0.01))
        # The hanging ones have 600 s; a benchmark measures how fast it is really.
        async with asyncio.timeout(20):
            await ready.wait()
        assert len(hanging) == 3
        prober.stop()
        server.close()

    asyncio.run(play())


def test_an_error_of_the_box_itself_is_no_sign_of_the_server() -> None:
    class Broken:
        async def probe(self, connected: Callable[[], None]) -> Any:
            raise OSError(24, "Too many open files")

    async def play() -> tuple[list[Observed], list[str]]:
        seen: list[Observed] = []
        failed: list[OSError] = []
        prober = Prober(Broken(), 1.0, seen.append, failed.append)
        prober.set(Probe(60))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        prober.stop()
        return seen, failed

    seen, failed = asyncio.run(play())
    assert seen == []
    assert "Too many open files" in str(failed[0])


def test_an_answer_of_another_machine_is_foreign_whatever_it_says() -> None:
    stranger = Reason("ready.stranger", other="b", address="1.2.3.4", mac="a")
    for words in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 500 No\r\n\r\n"):
        [seen] = seen_with(answering(words), stranger=stranger)
        assert (seen.sign, seen.detail) == (Sign.FOREIGN, stranger), words


# By HTTPS, and with the PROXY protocol


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A certificate that nobody trusts: the probe does not ask for trust."""
    issued = Authority(tmp_path_factory.mktemp("authority")).issue("shop.example", itself=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.file, issued.key_file)
    return context


def probed(peer: Peer, own: ssl.SSLContext | None, **options: Any) -> Observation:
    """What one probe of a target that is so sees."""

    async def once() -> Observation:
        async with await asyncio.start_server(peer, "127.0.0.1", 0, ssl=own) as server:
            at = replace(target(server.sockets[0].getsockname()[1]), **options)
            return await http.Driver(http.Settings(), at).probe()

    return asyncio.run(asyncio.wait_for(once(), 60))


def test_a_server_that_is_asked_by_https_is_probed_so(own: ssl.SSLContext) -> None:
    asked: list[str | None] = []
    own.sni_callback = lambda _, name, __: asked.append(name)
    peer = answering(b"HTTP/1.1 200 OK\r\n\r\n")
    assert probed(peer, own, tls=True, name="shop.example").sign is Sign.READY
    assert asked == ["shop.example"]


def test_a_server_that_speaks_no_https_there_is_not_ready() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    assert probed(plain, None, tls=True).detail.code == "ready.not_https"


def test_a_server_that_expects_the_proxy_protocol_hears_who_probes_it() -> None:
    heard: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        await answering(b"HTTP/1.1 200 OK\r\n\r\n")(reader, writer)

    assert probed(peer, None, proxied=True).sign is Sign.READY
    assert re.fullmatch(rb"PROXY TCP4 127\.0\.0\.1 127\.0\.0\.1 \d+ \d+\r\n", *heard)
