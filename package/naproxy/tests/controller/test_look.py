"""The look at a server, against real sockets on loopback: honest, hostile and silent ones."""

import asyncio
import errno
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import AsyncMock

import pytest
from naproxy.controller import look as looking
from naproxy.controller.look import Streams, Wire
from naproxy.server import sight
from naproxy.server.sight import HTTPS_PORT, Led, Look
from samples import WEB, server

SERVER = WEB.replace("port = 1\n", "")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
Answer = Callable[[str, str, bool], bytes]
"""What is answered to: a method and path, the host asked for, told of HTTPS or not."""


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 301 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass
class Here(Wire):
    """Loopback: whatever port is asked for has another number here, or none."""

    ports: dict[int, int]
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def connect(self, address: str, port: int) -> Streams:
        self.asked.append((address, port))
        return await super().connect(address, self.ports.get(port, 1))

    async def _shaken(self, address: str, port: int, name: str, context: ssl.SSLContext) -> bytes:
        return await super()._shaken(address, self.ports[port], name, context)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "10", "-subj", "/CN=shop"),
            *("-addext", "subjectAltName=DNS:shop.example,DNS:*.Shop.example,IP:192.0.2.1"),
            *("-keyout", folder / "key", "-out", folder / "cert"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


@asynccontextmanager
async def serving(answer: Answer | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen; `answer` None: take connections and stay silent."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if answer is None:
                await asyncio.Event().wait()
            else:
                lines = head.split("\r\n")
                host = next(line[6:] for line in lines if line.startswith("Host: "))
                proxy = "X-Forwarded-Proto: https" in lines
                writer.write(answer(" ".join(lines[0].split()[:2]), host, proxy))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


def see(
    answer: Answer | None,
    *,
    hosts: tuple[str, ...] = ("shop.example",),
    tls: ssl.SSLContext | None = None,
    raw: Answer | None = None,
) -> tuple[Look, Here]:
    """Look at a server that answers so at its port 80, and at 443: `tls`, `raw`, or refuses."""

    async def inside() -> tuple[Look, Here]:
        async with AsyncExitStack() as stack:
            wire = Here({80: await stack.enter_async_context(serving(answer))})
            if tls or raw:
                port = await stack.enter_async_context(serving(raw, tls))
                wire.ports[HTTPS_PORT] = port
            names = ", ".join(f'"{host}"' for host in hosts)
            return await looking.look(server(f"hosts = [{names}]", SERVER), wire), wire

    return asyncio.run(inside())


@pytest.mark.parametrize("mode", ["box", "unused"])
async def test_a_server_asked_over_https_is_looked_at_there(
    mode: str, certificate: ssl.SSLContext
) -> None:
    """Its port 80 is shut; it leads those who came by HTTP to HTTPS, and within itself."""
    told: set[bool] = set()

    def answer(line: str, host: str, proxy: bool) -> bytes:
        told.add(proxy)
        if proxy and line == "HEAD /home":
            return OK
        return redirect(f"https://{host}/home")

    async with serving(answer, certificate) as port:
        text = f'{SERVER}hosts = ["shop.example"]\n[server.https]\nmode = "{mode}"\n'
        text += f'to_server = "https"\nto_server_port = {port}\n'
        seen = await looking.look(server(text=text), Here({HTTPS_PORT: port}))
    assert (seen.port, seen.whole, told) == ("open", True, {True, False})
    to = ("shop.example", "https://shop.example", "shop.example", True, True)
    assert seen.led == (Led(*to, through_proxy=False),)
    blind = sight.blind(seen, mode, ["shop.example"], ["shop.example"])
    assert (blind.code if blind else None) == (None if mode == "box" else "server.leads_around")


def always(answer: bytes) -> Answer:
    return lambda *_: answer


def test_a_server_that_only_serves_http_leads_nowhere() -> None:
    seen, _ = see(always(OK))
    assert (seen.port, seen.shown, seen.led, seen.whole) == ("refused", (), (), True)


def test_its_certificate_is_read_for_each_name(certificate: ssl.SSLContext) -> None:
    seen, _ = see(always(OK), tls=certificate)
    [shown] = seen.shown
    assert (seen.port, shown.name) == ("open", "shop.example")
    assert shown.names == ("shop.example", "*.shop.example")
    assert shown.not_after_s == pytest.approx(time.time() + 10 * 86400, abs=3600)
    assert shown.trusted is False


def test_a_server_without_names_is_asked_for_none(certificate: ssl.SSLContext) -> None:
    seen, _ = see(always(redirect("https://127.0.0.1/")), hosts=(), tls=certificate)
    assert [each.name for each in seen.shown] == [""]
    assert {(each.name, each.own_name) for each in seen.led} == {("127.0.0.1", True)}


def test_an_open_port_that_speaks_no_tls_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "STEP_S", 0.5)
    seen, _ = see(always(OK), raw=always(b"SSH-2.0-x\r\n"))
    assert (seen.port, seen.shown) == ("open", ())


def test_a_redirect_is_seen_with_and_without_a_proxy_before_it() -> None:
    for to, host, https, own_name, port in (
        ("https://shop.example", "shop.example", True, True, None),
        ("http://127.0.0.1", "127.0.0.1", False, True, None),
        ("http://shop.example:8080", "shop.example", False, True, 8080),
        ("http://other.example", "other.example", False, False, None),
    ):
        seen, wire = see(always(redirect(f"{to}/")))
        led = Led("shop.example", to, host, https, own_name, through_proxy=False, port=port)
        assert seen.led == (led, replace(led, through_proxy=True)), to
        assert {address for address, _ in wire.asked} == {"127.0.0.1"}, to
    assert sorted(wire.asked) == [("127.0.0.1", 80), ("127.0.0.1", 80), ("127.0.0.1", 443)]


def test_a_server_that_believes_a_proxy_leads_to_https_only_without_one() -> None:
    seen, _ = see(lambda _, host, proxy: OK if proxy else redirect(f"https://{host}/"))
    assert [led.through_proxy for led in seen.led] == [False]


def test_a_redirect_within_the_https_site_is_not_a_loop() -> None:
    """As WordPress does: it believes the proxy, and names itself in full."""

    def answer(line: str, host: str, proxy: bool) -> bytes:
        if line == "HEAD /start" and proxy:
            return OK
        return redirect(f"https://{host}/start")

    seen, _ = see(answer)
    assert [led.through_proxy for led in seen.led] == [False]
    assert sight.blind(seen, "box", ["shop.example"], ["shop.example"]) is None


def test_a_redirect_to_another_of_its_names_over_https_is_not_a_loop() -> None:
    def answer(_: str, host: str, proxy: bool) -> bytes:
        return OK if proxy and host == "www.shop.example" else redirect("https://www.shop.example/")

    seen, _ = see(answer, hosts=("shop.example", "www.shop.example"))
    assert [led.through_proxy for led in seen.led] == [False, False]


def test_a_redirect_loop_of_several_steps_over_https_is_found() -> None:
    def answer(line: str, host: str, _: bool) -> bytes:
        return redirect(f"https://{host}{'/' if line == 'HEAD /start' else '/start'}")

    seen, _ = see(answer)
    blind = sight.blind(seen, "box", ["shop.example"], ["shop.example"])
    assert blind
    assert blind.code == "server.leads_in_a_circle"


def test_a_redirect_past_the_box_is_not_followed_over_https() -> None:
    for to in ("https://127.0.0.1/", "https://shop.example:80/"):
        seen, wire = see(always(redirect(to)))
        assert (len(seen.led), len(wire.asked)) == (2, 3), to


def test_a_chain_is_followed_at_the_servers_own_address() -> None:
    def answer(line: str, host: str, _: bool) -> bytes:
        steps = {"HEAD /": "/start", "HEAD /start": "http://www.shop.example/home"}
        last = "https://shop.example:8443/" if host == "www.shop.example" else ""
        return redirect(last or steps[line])

    seen, wire = see(answer, hosts=("shop.example", "www.shop.example"))
    assert {(led.name, led.to) for led in seen.led} == {
        ("shop.example", "https://shop.example:8443"),
        ("www.shop.example", "https://shop.example:8443"),
    }
    assert {address for address, _ in wire.asked} == {"127.0.0.1"}


def test_names_are_asked_as_a_browser_would(certificate: ssl.SSLContext) -> None:
    hosts = ("bücher.example", "*.shop.example", *(f"n{n}.example" for n in range(20)))
    asked = set[str]()

    def answer(line: str, host: str, proxy: bool) -> bytes:
        asked.add(host)
        return redirect(f"https://{host}/")

    seen, _ = see(answer, hosts=hosts, tls=certificate)
    wanted = {"xn--bcher-kva.example", "www.shop.example", *hosts[2:]}
    assert (asked, seen.whole) == (wanted, True)
    assert {led.name for led in seen.led if led.own_name} == wanted


def test_a_server_that_knows_no_head_is_asked_by_get() -> None:
    def answer(line: str, *_: object) -> bytes:
        no = b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"
        return no if line.startswith("HEAD") else redirect("https://shop.example/")

    seen, _ = see(answer)
    assert len(seen.led) == 2


def test_a_way_without_an_end_ends() -> None:
    steps = iter(range(100))
    for answer, asked in (
        (always(redirect("/again")), 2),
        (lambda *_: redirect(f"/{next(steps)}"), 1 + looking.MOST_STEPS),
    ):
        seen, wire = see(answer)
        assert (seen.led, seen.whole) == ((), True)
        assert len(wire.asked) == 1 + 2 * asked


def test_any_spelling_that_a_browser_reads_as_https_is_https() -> None:
    for to in (
        *("https://[", "https:\\\\shop.example/", "HTTPS:shop.example", "ht\ttps://shop.example"),
        *("  https://shop.example", "https://a:b@shop.example:99999/", "https://"),
    ):
        seen, _ = see(always(redirect(to)))
        assert [led.https for led in seen.led] == [True, True], to


def test_a_redirect_that_no_browser_follows_is_ignored() -> None:
    for answer in (
        b"\xff" * 70000,
        b"HTTP/1.1 301 Moved\r\n\r\n",
        b"HTTP/1.1 999 What\r\nLocation: https://shop.example/\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nX: " + b"a" * 70000,
        b"HTTP/1.1 301 Moved\r\nLocation:\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
    ):
        seen, _ = see(always(answer))
        assert (seen.led, seen.whole) == ((), True), answer[:60]


def test_nothing_that_a_location_says_ends_the_line_of_the_next_question() -> None:
    lines: list[str] = []

    def answer(line: str, *_: object) -> bytes:
        lines.append(line)
        return OK if len(lines) > 2 else redirect("/a\tb\x00c d\x85")

    see(answer)
    assert set(lines) == {"HEAD /", "HEAD /abcd"}


def test_a_long_name_is_cut() -> None:
    seen, _ = see(always(redirect(f"https://{'a' * 5000}.example/")))
    assert all(len(led.to) <= 100 and len(led.host) <= 100 for led in seen.led)


def test_a_server_that_closes_without_an_answer_is_not_seen() -> None:
    seen, _ = see(always(b""))
    assert (seen.whole, seen.led) == (False, ())


def test_a_silent_server_is_not_seen_and_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "STEP_S", 0.5)
    seen, _ = see(None)
    assert (seen.port, seen.whole) == ("refused", False)


def test_a_look_ends_whatever_takes_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LONGEST_S", 0.05)
    seen, _ = see(None)
    assert (seen.port, seen.whole) == ("unknown", False)


async def test_how_a_connection_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, port in (
        (ConnectionRefusedError(), "refused"),
        (TimeoutError(), "silent"),
        (OSError(errno.EHOSTUNREACH, "a firewall says so"), "silent"),
        (OSError(errno.ENETUNREACH, "no network"), "unknown"),
    ):
        monkeypatch.setattr(Wire, "connect", AsyncMock(side_effect=error))
        seen = await looking.look(server(text=SERVER))
        assert (seen.port, seen.whole) == (port, False), error


async def test_an_invalid_certificate_has_no_names() -> None:
    assert await Wire().told(b"\x30\x82 no certificate") == ""
