import argparse
import asyncio
import json
import os
import re
import signal
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from certificates import Authority, Issued
from hypothesis import given
from hypothesis import strategies as st
from naproxy.cli.__main__ import main
from naproxy.core.page_h import SAID
from naproxy.core.state import Klass
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.replay import replay_visit
from naproxy.lab.replay.replay import add_parser, replay, run, target_of
from naproxy.lab.replay.replay_report import NAMES, delays, distribution, summarise
from naproxy.lab.replay.replay_slice import Planned
from naproxy.lab.replay.replay_visit import LOST, Target, Visit, request_bytes, visit

BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"
PAGE = Entry(1_706_313_600, "198.18.0.7", "GET", "/page?q=1", 200, 10, "", BROWSER)
WAITING = (
    b"HTTP/1.1 503 Service Unavailable\r\nX-Naproxy: waiting_page\r\nRefresh: 1\r\n"
    b"Content-Length: 4\r\n\r\nwait"
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Request = tuple[str, dict[str, str], bytes]
Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server on loopback that reads requests properly and answers as told."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.requests: list[Request] = []
        self.clients: list[str] = []
        self._behaviour = behaviour
        self.target = Target("127.0.0.1", 0, "www.example.org", timeout_s=5.0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.append(writer.get_extra_info("peername")[0])
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers.get("Content-Length", 0)))
        self.requests.append((first, headers, body))
        try:
            await self._behaviour(self.requests[-1], writer)
        finally:
            writer.close()


def says(*answers: bytes) -> Behaviour:
    """Answer with these in turn, the last again and again."""
    left = list(answers)

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return behave


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[Server]:
    server = Server(behaviour)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server.target = replace(server.target, port=port)
    try:
        yield server
    finally:
        listener.close()


def visiting(behaviour: Behaviour, entry: Entry = PAGE, **target: Any) -> tuple[Visit, Server]:
    async def run() -> tuple[Visit, Server]:
        async with serving(behaviour) as server:
            return await visit(replace(server.target, **target), 1, entry), server

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _impatient_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_visit, "POLL_S", 0.01)


# ------------------------------------------------------------------ what is sent


def test_each_outcome_has_a_name_for_people() -> None:
    assert set(SAID) < set(NAMES)


def test_request_carries_what_the_log_knows() -> None:
    for changes, header, value in (
        ({}, "Host", "www.example.org"),
        ({}, "User-Agent", BROWSER),
        ({"referer": "http://www.example.org/"}, "Referer", "http://www.example.org/"),
        ({"agent": "curl/8.0"}, "Accept", "*/*"),
        ({"agent": ""}, "User-Agent", None),
        ({"status": 304}, "If-Modified-Since", "Sat, 27 Jan 2024 00:00:00 GMT"),
    ):
        _, server = visiting(says(OK), PAGE._replace(**changes), forwarded=True)
        first, headers, _ = server.requests[0]
        assert first == "GET /page?q=1 HTTP/1.1"
        assert headers["X-Forwarded-For"] == "198.18.0.7"
        assert headers.get(header) == value, changes


def test_browser_navigates_with_accept_html_but_not_for_assets() -> None:
    for path, wants_page in (("/p1", True), ("/p1.html?x=.png", True), ("/p1.PNG?v=2", False)):
        _, server = visiting(says(OK), PAGE._replace(path=path))
        assert server.requests[0][1]["Accept"].startswith("text/html") == wants_page


def test_post_has_the_same_body_each_time_and_another_for_each_request() -> None:
    post = PAGE._replace(method="POST")
    target = Target("127.0.0.1", 80, "www.example.org")
    assert request_bytes(target, post, "a-1") == request_bytes(target, post, "a-1")
    body = request_bytes(target, post, "a-1").partition(b"\r\n\r\n")[2]
    assert 100 <= len(body) <= 2000
    assert body not in request_bytes(target, post, "a-2")


def test_source_address_is_the_clients_if_it_is_in_the_network() -> None:
    visited, server = visiting(
        says(OK), PAGE._replace(host="127.9.8.7"), bind=ip_network("127.0.0.0/8")
    )
    assert (visited.status, server.clients) == (200, ["127.9.8.7"])
    # Of another client it is always the same one of the network.
    entry, network = PAGE._replace(host="host.example.net"), ip_network("127.3.0.0/24")
    first, again = (visiting(says(OK), entry, bind=network)[1].clients for _ in range(2))
    assert first == again
    assert first[0].startswith("127.3.0.")


def test_address_that_is_not_ours_is_an_error_and_no_request() -> None:
    visited, server = visiting(says(OK), bind=ip_network("198.18.0.0/15"))
    assert visited.why_lost == "no connection: cannot assign requested address"
    assert server.requests == []


@given(st.text(st.characters(max_codepoint=255)), st.text(st.characters(max_codepoint=255)))
def test_a_hostile_log_writes_neither_headers_nor_second_requests(path: str, agent: str) -> None:
    target = Target("127.0.0.1", 80, "www.example.org")
    sent = request_bytes(target, PAGE._replace(path=f"/{path}", agent=agent), "x")
    lines = sent.split(b"\r\n")
    assert sent.endswith(b"\r\n\r\n")
    assert lines[0].count(b" ") == 2
    names = [line.split(b":")[0] for line in lines[1:-2]]
    assert set(names) <= {b"Host", b"Connection", b"User-Agent", b"Accept", b"X-Request-Id"}
    assert not any(c in line for line in lines for c in b"\r\n\0")


# ------------------------------------------------------------ what became of it


def test_outcome_is_what_the_box_says() -> None:
    for answer, outcome in (
        (OK, "direct"),
        (OK.replace(b"\r\n\r\n", b"\r\nX-Varnish: 32770 3\r\n\r\n"), "hit"),
        (OK.replace(b"\r\n\r\n", b"\r\nX-Varnish: 32770\r\n\r\n"), "direct"),
        (OK.replace(b"\r\n\r\n", b"\r\nX-Vinyl: 32770 3\r\n\r\n"), "hit"),
        (OK.replace(b"\r\n\r\n", b"\r\nX-Vinyl: 32770\r\n\r\n"), "direct"),
        (OK.replace(b"\r\n\r\n", b"\r\nx-naproxy: held\r\n\r\n"), "held"),
        (OK.replace(b"\r\n\r\n", b"\r\nX-Naproxy: \x1b[31mevil\r\n\r\n"), "other"),
    ):
        assert visiting(says(answer))[0].outcome == outcome, answer


def test_whole_answers() -> None:
    for answer, size in (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100000, 100000),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 13),
        (b"HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n", 0),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
            13,
        ),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 2),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 0),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000_000, 5_000_000),
    ):
        visited = visiting(says(answer))[0]
        assert (visited.lost, visited.size) == (False, size), answer


def test_answer_to_head_has_no_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    visited = visiting(says(answer), PAGE._replace(method="HEAD"))[0]
    assert (visited.status, visited.size) == (200, 0)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_broken_answer_is_lost_and_says_why() -> None:
    for answer, why in (
        (b"", "no answer"),
        (b"HTTP/1.1 200 OK\r\nConte", "the answer was cut"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx", "the answer was cut"),
        (CHUNKED + b"5\r\nab", "the answer was cut"),
        (CHUNKED + b"5\r\nabcde\r\n", "the answer was cut"),
        (CHUNKED + b"zz\r\n", "the answer's chunks are broken"),
        (CHUNKED + b"-1\r\n", "the answer's chunks are broken"),
        (CHUNKED + b"1\r\nabc\r\n", "the answer's chunks are broken"),
        (CHUNKED + b"f" * 70000, "the answer's head is longer than 65536 bytes"),
        (CHUNKED.replace(b"chunked", b"br"), "the answer's Transfer-Encoding is not known"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP/1.1"),
        (b"\x16\x03\x01\r\n\r\n", "the answer is not HTTP/1.1"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "the answer is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "the answer has a line among its headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "the answer's Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n", "the answer's Content-Length"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "the server switched protocols"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000, "the answer's head is longer than 65536 bytes"),
    ):
        visited = visiting(says(answer))[0]
        assert visited.outcome == LOST, answer
        assert visited.why_lost.startswith(why), answer


def by_https(issued: Issued, root: Path) -> Visit:
    """Ask a server that shows this certificate, and trust this authority."""
    shows = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shows.load_cert_chain(issued.file, issued.key_file)

    async def run() -> Visit:
        server = Server(says(OK))
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=shows)
        port = listener.sockets[0].getsockname()[1]
        tls = ssl.create_default_context(cafile=root)
        try:
            return await visit(replace(server.target, port=port, tls=tls), 1, PAGE)
        finally:
            listener.close()

    return asyncio.run(run())


def test_a_visit_by_https_trusts_who_has_the_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ours = by_https(authority.issue("www.example.org", by=authority.root), authority.root.file)
    assert (ours.status, ours.size, ours.why_lost) == (200, 2, "")
    other = by_https(authority.issue("other.example", by=authority.root), authority.root.file)
    assert (other.outcome, other.why_lost) == (LOST, "no connection: certificate verify failed")


async def silent(_: Request, writer: asyncio.StreamWriter) -> None:
    await writer.wait_closed()


async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def drip(_: Request, writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def interim(_: Request, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()


def test_answer_without_an_end_is_lost_after_the_timeout() -> None:
    for behaviour in (silent, endless, drip, interim):
        visited = visiting(behaviour, timeout_s=0.2)[0]
        assert visited.why_lost == "no whole answer within 0.2 s", behaviour


# ------------------------------------------------------------- the waiting page


def box(*status: bytes, then: bytes = OK) -> Behaviour:
    """Show the waiting page until the status path has said all of `status`."""
    left = [json_answer(said) for said in status]

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        if request[0].startswith("GET /.naproxy/status "):
            writer.write(left.pop(0))
        else:
            writer.write(WAITING if left else then)

    return behave


def json_answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


WAKING = b'{"available": false, "state": "waking", "eta_s": 1}'
AWAKE = b'{"available": true, "state": "awake"}'


def test_waiting_page_polls_and_returns_to_the_same_url() -> None:
    visited, server = visiting(box(WAKING, WAKING, AWAKE))
    assert visited.outcome == "waiting_page"
    assert visited.returned
    assert (visited.returned.outcome, visited.returned.status) == ("direct", 200)
    assert [request[0].split()[1] for request in server.requests] == [
        "/page?q=1",
        *["/.naproxy/status"] * 3,
        "/page?q=1",
    ]
    ids = [request[1].get("X-Request-Id") for request in server.requests]
    assert ids == ["replay-1", None, None, None, "replay-1.1"]
    assert visited.wait_s >= visited.delay_s
    assert not visited.lost


def test_waiting_page_again_after_the_reload_is_waited_on_again() -> None:
    answers = [WAITING, json_answer(AWAKE), WAITING, json_answer(AWAKE), OK]
    visited, _ = visiting(says(*answers))
    assert visited.returned
    assert visited.returned.reloads == 2


def test_without_a_status_path_the_refresh_header_is_obeyed() -> None:
    for status in (b"<html>", b"[]", b"null", b'{"available": 0}', b"\xff\xfe", b"[" * 100000):
        answers = [WAITING.replace(b"Refresh: 1", b"Refresh: 0"), json_answer(status), OK]
        visited, _ = visiting(says(*answers))
        assert visited.returned, status
        assert visited.returned.status == 200, status


def test_server_that_never_wakes_loses_the_waiting_visitor() -> None:
    visited, _ = visiting(box(*[WAKING] * 10000), timeout_s=3)
    assert visited.lost
    assert visited.why_lost == "waiting page: no whole answer within 3 s"


def test_answer_cut_after_the_wait_is_lost() -> None:
    visited, _ = visiting(box(AWAKE, then=OK[:-1]))
    assert visited.lost
    assert visited.why_lost == "waiting page: the answer was cut"


# ------------------------------------------------------------------- the replay


def planned(*at_s: float) -> list[Planned]:
    return [Planned(i + 1, at_s, PAGE) for i, at_s in enumerate(at_s)]


def replaying(behaviour: Behaviour, due: list[Planned], speed: float = 1.0) -> list[Visit]:
    async def run() -> list[Visit]:
        async with serving(behaviour) as server:
            # A busy machine may stand still for longer than a visitor waits.
            return await replay(due, replace(server.target, timeout_s=600), speed=speed)

    return asyncio.run(run())


def test_requests_are_sent_when_due_not_after_the_answer_before() -> None:
    arrived: list[float] = []

    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        arrived.append(time.monotonic())
        while len(arrived) < 3:
            await asyncio.sleep(0.001)
        writer.write(OK)

    begun = time.monotonic()
    visits = replaying(slow, planned(0, 1, 2), speed=4)
    # The first is answered only once the third has come.
    assert [v.status for v in visits] == [200] * 3
    # On a machine that stalls they come later, but never before they are due.
    assert [at - begun >= due for at, due in zip(arrived, (0, 0.25, 0.5), strict=True)] == [
        True
    ] * 3


def test_many_are_held_at_once() -> None:
    # Both ends are in this process, and the usual limit is 1,024 open files.
    all_here = asyncio.Barrier(300)

    async def hold(_: Request, writer: asyncio.StreamWriter) -> None:
        await all_here.wait()
        writer.write(OK)

    visits = replaying(hold, planned(*[0.0] * 300))
    assert sum(v.status == 200 for v in visits) == 300


def test_stop_sends_no_more_and_lets_the_rest_end() -> None:
    async def run() -> list[Visit]:
        stop = asyncio.Event()

        async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
            stop.set()
            writer.write(OK)

        async with serving(answer) as server:
            return await replay(planned(0, 100), server.target, stop=stop)

    assert [v.status for v in asyncio.run(run())] == [200]


# ------------------------------------------------------------------- the report


def ended(outcome: str, status: int | None = 200, delay_s: float = 0.1) -> Visit:
    return Visit(1, PAGE, outcome, status, 10, delay_s)


def person(_: str) -> Klass:
    return Klass.PERSON


def test_rows_of_table_4_3() -> None:
    back = replay_visit.Returned("hit", 200, 2.5, 1)
    gave_up = replay_visit.Returned(LOST, None, 60.0, 3)
    figures = summarise(
        [
            ended("hit"),
            ended("stale", 404),
            ended("fetch"),
            ended("held", 200, 3.0),
            ended("refused", 503),
            replace(ended("waiting_page", 503), returned=back),
            replace(ended("waiting_page", 503), returned=gave_up),
            replace(ended(LOST, None), why_lost="no answer"),
        ],
        person,
    )
    assert figures["requests"] == 8
    assert figures["served_by_cache"] == 2
    assert figures["served_by_backend"] == 2
    assert figures["status"] == {"200": 3, "404": 1, "503": 3}
    assert figures["crawler_503"] == 1
    assert figures["held"] == 1
    assert figures["lost"] == 2
    assert figures["lost_why"]["no answer"] == 1
    assert figures["waiting_pages"]["gave_up"] == 1
    assert figures["waiting_pages"]["returned"] == 1
    assert figures["waiting_pages"]["after"]["max_s"] == 2.5
    assert figures["delays"]["by_outcome"]["waiting_page"]["max_s"] == 2.5
    assert figures["delays"]["by_class"]["person"]["requests"] == 5


def test_quick_refusals_do_not_make_the_delays_look_short() -> None:
    figures = summarise([ended("held", 200, 3.0), ended("refused", 503, 0.001)], person)
    assert figures["delays"]["served"]["mean_s"] == 3.0
    assert figures["delays"]["by_outcome"]["refused"]["max_s"] == 0.001
    assert sum(bucket["requests"] for bucket in figures["delay_distribution"]) == 1


def test_percentiles_are_delays_that_occurred() -> None:
    found = delays([0.4, 0.1, 0.3, 0.2])
    assert (found["p50_s"], found["p99_s"], found["max_s"]) == (0.2, 0.4, 0.4)
    assert found["mean_s"] == pytest.approx(0.25)


def test_distribution_counts_each_delay_once() -> None:
    found = {b["up_to_s"]: b["requests"] for b in distribution([0.0, 0.001, 0.0011, 5, 5000])}
    assert (found[1e-4], found[0.001], found[0.002], found[5.0], found[None]) == (1, 1, 1, 1, 1)
    assert sum(n or 0 for n in found.values()) == 5


# ------------------------------------------------------------------ the command


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["replay", *arguments])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    line = '198.18.0.7 - - [27/Jan/2024:00:00:0%d +0000] "GET /%d HTTP/1.1" 200 5 "-" "%s"\n'
    path.write_text("".join(line % (i // 2, i, BROWSER) for i in range(4)) + "junk\n")
    return path


@contextmanager
def server_beside(behaviour: Behaviour) -> Iterator[Server]:
    """A server in a thread of its own: the command wants the main one, for Ctrl-C."""
    ready: Queue[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def run() -> None:
        end = asyncio.Event()
        async with serving(behaviour) as server:
            ready.put((server, asyncio.get_running_loop(), end))
            await end.wait()

    thread = Thread(target=asyncio.run, args=(run(),))
    thread.start()
    server, loop, end = ready.get(timeout=10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def running(log: Path, *arguments: str, behaviour: Behaviour | None = None) -> tuple[int, Server]:
    with server_beside(behaviour or says(OK)) as server:
        to = f"http://127.0.0.1:{server.target.port}"
        return run(options(str(log), "--to", to, "--speed", "50", *arguments)), server


def test_command_replays_and_reports(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    status, server = running(log, "--host", "shop.example", "--json", str(report))
    assert status == 0
    assert {r[1]["Host"] for r in server.requests} == {"shop.example"}
    figures = json.loads(report.read_text())
    assert (figures["requests"], figures["served_by_backend"], figures["lost"]) == (4, 4, 0)
    assert figures["log"]["malformed"] == 1
    printed = capsys.readouterr().out
    assert f'{log}, line 5: no "request" in quotes' in printed
    assert "delay up to" in printed


def test_command_takes_a_slice(log: Path) -> None:
    status, server = running(log, "--slice", "1+1")
    assert [r[0].split()[1] for r in server.requests] == ["/2", "/3"]
    assert status == 0


def test_ctrl_c_ends_the_replay_with_a_report(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupt(_: Request, writer: asyncio.StreamWriter) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
        writer.write(OK)

    # Of the four the last two are an hour away.
    status, server = running(log, "--speed", "0.0003", "--slice", "0+2", behaviour=interrupt)
    assert status == 0
    assert len(server.requests) == 1
    assert re.search(r"^requests +1$", capsys.readouterr().out, re.MULTILINE)


def test_command_fails_when_a_request_was_lost(log: Path) -> None:
    assert run(options(str(log), "--to", "http://127.0.0.1:1", "--speed", "50")) == 1


def test_command_says_why_it_did_not_run(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--to", "https://127.0.0.1"], "not of the form http://"),
        (["--to", "http://127.0.0.1:99999"], "Port out of range"),
        (["--to", "http://127.0.0.1", "--slice", "9d+1"], "no request in this slice"),
    ):
        assert run(options(str(log), *arguments)) == 2
        assert words in capsys.readouterr().err
    assert main(["replay", "/does/not/exist", "--to", "http://127.0.0.1"]) == 1
    said = capsys.readouterr().err
    assert said == "naproxy replay: /does/not/exist: No such file or directory\n"
    for wrong in (["--speed", "0"], ["--speed", "nan"], ["--slice", "x"]):
        with pytest.raises(SystemExit):
            options("log", "--to", "http://127.0.0.1", *wrong)
        assert f"argument {wrong[0]}" in capsys.readouterr().err


def test_ipv6_url() -> None:
    target = target_of("http://[::1]:8080")
    assert (target.address, target.port, target.host) == ("::1", 8080, "[::1]:8080")
