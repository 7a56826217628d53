"""The checker of one server's pages, with a web server and Varnish's listener played by ours."""

import asyncio
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from naproxy.config import document as config
from naproxy.controller import checking
from naproxy.controller.checking import PageChecker
from naproxy.controller.learning import path_hash
from naproxy.controller.strangers import MOST_BYTES, parsed
from naproxy.controller.varnish import Job, Varnish
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass, State
from naproxy.policy import verified
from naproxy.shm.page import Page
from naproxy.shm.stored import Stored
from samples import FETCH, server

EPOCH_S = 1_700_000_000.0
HOST, URL = "a.example", "/hours"
PATH = path_hash(HOST, URL)
Made = tuple[int, dict[str, str], str]


def same(_: Any) -> Made:
    return 200, {}, "<h1>From nine</h1>"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        return "box"

    def do_GET(self) -> None:
        site: Any = self.server
        site.asked.append((self.path, dict(self.headers)))
        status, headers, text = site.make(self)
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())


class Site(ThreadingHTTPServer):
    """Answers as `make` says; `asked` has paths and headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.make: Callable[[Any], Made] = same

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A check that is called off hangs up."""


class Box(socketserver.ThreadingUnixStreamServer):
    """Varnish's listener: has a copy of what the site gives it."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.make: Callable[[Any], Made] = same


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path / "box.sock") as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "AFTER_WAKE_S", 0.0)
    monkeypatch.setattr(checking, "EVERY_S", 0.0)
    monkeypatch.setattr(verified, "SETTLE_S", 0.0)
    monkeypatch.setattr(verified, "AGAIN_S", 0.0)


class Checked:
    """A checker, and what it told the warmer."""

    def __init__(self, site: Site, shared: Page, directory: Path) -> None:
        self.shared = shared
        self.allowed: list[Job] = []
        self.server = replace(
            server('[server.cache]\npages = "verified"\n'), port=site.server_address[1]
        )
        self.it = PageChecker(
            self.server,
            0,
            shared,
            Varnish(directory / "box.sock"),
            epoch_s=EPOCH_S,
            allow=self._allow,
        )

    def _allow(self, jobs: Any) -> None:
        self.allowed = list(jobs)

    @property
    def table(self) -> list[int]:
        """What Varnish is told."""
        return [path for path in self.shared.layout.verified[0] if path]

    def visit(self, url: str = URL, flags: int = 0) -> None:
        """Let people of two networks load a page."""
        path = path_hash(HOST, url)
        self.it.stored(Stored(1, 1_000_000, path, 100, 120, 200, 0, flags, "", HOST, url))
        loaded = replace(FETCH, path=path, flags=page_h.E_PAGE_LOAD)
        self.it.heard([replace(loaded, network=network) for network in (1, 2)])

    async def check(self, times: int = 1) -> None:
        """Check what is due, so often."""
        for _ in range(times):
            self.it.look()
            task = self.it._task
            if task:
                await task

    async def awake(self, at_s: float = 5.0) -> None:
        self.it.observed(State.AWAKE, at_s)
        assert self.it._task
        await self.it._task

    async def sleep(self, *jobs: Job, answered: int = 1) -> None:
        """Let it sleep from 10 to 20 s, and visitors get the page."""
        self.it.observed(State.FALLING_ASLEEP, 10.0)
        await self.it.before_sleep(jobs or (Job(PATH, HOST, URL),))
        self.it.observed(State.ASLEEP, 11.0)
        hit = replace(FETCH, path=PATH, outcome=Outcome.STALE, t_us=15_000_000)
        self.it.heard([hit] * answered)

    async def wake(self) -> None:
        self.it.observed(State.WAKING, 20.0)
        await self.awake(21.0)


@pytest.fixture
def made(site: Site, shared: Page, tmp_path: Path) -> Checked:
    return Checked(site, shared, tmp_path)


@pytest.fixture
def good(made: Checked, loop: asyncio.Runner, box: Box) -> Checked:
    """One with a verified page."""

    async def verify() -> None:
        await made.awake()
        made.visit()
        await made.check(2)

    loop.run(verify())
    assert made.table == [PATH]
    return made


async def test_a_page_is_asked_for_as_two_visitors_who_have_nothing_in_common(
    made: Checked, site: Site
) -> None:
    await made.awake()
    made.visit()
    await made.check(2)
    assert made.table == [PATH]
    assert made.allowed == [Job(PATH, HOST, URL)]
    (path, one), (_, other), *_ = site.asked
    assert path == URL
    for name in ("User-Agent", "Accept-Language", "X-Forwarded-For", "Accept"):
        assert one[name] != other[name]
    assert "Mobile" in other["User-Agent"]
    for headers in (one, other):
        assert headers["Host"] == HOST
        assert not {"Cookie", "Authorization"} & set(headers)


@pytest.mark.parametrize(
    "make",
    [
        lambda asked: (200, {}, f"for {asked.headers['User-Agent']}"),
        lambda asked: (200, {}, "Hallo" if "de" in asked.headers["Accept-Language"] else "Hello"),
        lambda asked: (200, {}, f"from {asked.headers['X-Forwarded-For']}"),
        lambda asked: (200, {}, f"after {asked.headers.get('Referer')}"),
        lambda asked: (200, {"Set-Cookie": "id=1"}, "text"),
        lambda asked: (200, {}, '<input type="hidden" name="csrf" value="0123456789abcdef">'),
        lambda asked: (503, {}, "busy"),
        lambda asked: (302, {"Location": "/login"}, ""),
        lambda asked: (200, {"Content-Length": "99999"}, "cut off"),
    ],
    ids=["device", "language", "address", "referer", "cookie", "token", "busy", "leads", "cut"],
)
async def test_a_page_that_is_not_for_everybody_is_never_verified(
    made: Checked, site: Site, make: Callable[[Any], Made]
) -> None:
    site.make = make
    await made.awake()
    made.visit()
    await made.check(6)
    assert site.asked
    assert made.table == []


async def test_a_server_is_asked_only_while_it_is_awake_and_pages_are_wanted(
    made: Checked, site: Site
) -> None:
    made.visit()
    for state in (State.UNKNOWN, State.FALLING_ASLEEP, State.ASLEEP, State.WAKING, State.TROUBLE):
        made.it.observed(state, 1.0)
        await made.check()
    assert site.asked == []
    for changed in ({"pages": "rules"}, {"mode": "default"}, {"warm": False}):
        cache = replace(made.server.cache, **changed)
        made.it.configure(replace(made.server, cache=cache))
        made.it.observed(State.AWAKE, 2.0)
        made.visit()
        await made.check()
        assert site.asked == [], changed


async def test_checks_have_a_pause_between_them(
    made: Checked, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "EVERY_S", 1e6)
    await made.awake()
    for n in range(50):
        made.visit(f"/page/{n}")
    await made.check(50)
    assert len(site.asked) == 2


async def test_a_page_allowed_by_a_rule_is_not_checked(made: Checked, site: Site) -> None:
    await made.awake()
    made.visit(flags=page_h.S_FREEZES)
    await made.check(2)
    assert (site.asked, made.table) == ([], [])


async def test_pages_answered_asleep_are_compared_after_the_wake(good: Checked, site: Site) -> None:
    await good.sleep(answered=3)
    assert good.table == [PATH]
    site.asked.clear()
    await good.wake()
    assert len(site.asked) == 2
    told = good.it.status()
    assert [told[key] for key in ("answered", "compared", "differed")] == [3, 1, 0]
    assert good.table == [PATH]


async def test_a_page_that_changed_in_the_sleep_is_never_answered_again(
    good: Checked, site: Site
) -> None:
    await good.sleep()
    site.make = lambda _: (200, {}, "Closed")
    await good.wake()
    assert good.table == []
    good.visit()
    site.asked.clear()
    await good.check(3)
    assert (good.table, site.asked) == ([], [])
    told = good.it.status()
    assert told["excluded_pages"] == [{"url": URL, "why": "changed"}]
    assert (told["differed"], told["old"]) == (1, 1)


@pytest.mark.parametrize(
    ("event", "explains"),
    [
        ({"method": 2}, True),
        ({"method": 2, "status": 403}, False),
        ({"method": 2, "klass": Klass.API}, False),  # such as the site's own jobs, at each wake
        ({"method": 0}, False),
    ],
)
async def test_a_persons_post_during_the_wake_may_explain_a_change(
    good: Checked, site: Site, event: dict[str, Any], explains: bool
) -> None:
    await good.sleep()
    good.it.heard([replace(FETCH, path=9, t_us=19_000_000, outcome=Outcome.HELD, **event)])
    site.make = lambda _: (200, {}, "A comment")
    await good.wake()
    assert (good.it.status()["excluded_pages"] == []) == explains
    assert good.it.status()["edited"] == explains


async def test_a_page_that_varnish_has_otherwise_is_not_answered(good: Checked, box: Box) -> None:
    box.make = lambda _: (200, {}, "planted")
    await good.sleep()
    assert box.asked[0][0] == URL
    assert good.table == []


async def test_a_page_that_was_not_fetched_for_this_sleep_is_not_answered(good: Checked) -> None:
    await good.sleep(Job(5, HOST, "/other"))
    assert good.table == []
    await good.wake()
    assert good.table == [PATH]


async def test_a_check_under_way_is_called_off_when_the_server_is_to_sleep(
    good: Checked, site: Site
) -> None:
    waits = threading.Event()
    site.make = lambda _: (waits.wait(5), same(None))[1]
    good.visit("/other")
    good.it.look()
    task = good.it._task
    assert task
    await asyncio.sleep(0.05)
    await good.it.before_sleep(())
    with pytest.raises(asyncio.CancelledError):
        await task
    waits.set()


async def test_a_server_that_is_not_there_after_a_wake_leaves_nothing_to_answer(
    good: Checked, site: Site
) -> None:
    await good.sleep()
    site.make = lambda _: (503, {}, "")
    await good.wake()
    assert good.table == []
    assert good.it.status()["differed"] == 0


async def test_a_restart_amid_a_sleep_changes_nothing_for_visitors(
    good: Checked, site: Site, tmp_path: Path
) -> None:
    await good.sleep()
    good.shared.set_state(0, State.ASLEEP, 11_000_000)
    again = Checked(site, good.shared, tmp_path)
    again.it.take_up(json.loads(json.dumps(good.it.kept())))
    assert again.table == [PATH]
    site.make = lambda _: (200, {}, "Closed")
    again.it.observed(State.ASLEEP, 12.0)
    await again.wake()
    assert again.it.status()["excluded_pages"] == [{"url": URL, "why": "changed"}]


async def test_pages_that_are_not_wanted_any_more_are_taken_back_at_once(good: Checked) -> None:
    await good.sleep()
    good.it.configure(replace(good.server, cache=replace(good.server.cache, pages="rules")))
    assert good.table == []


def test_a_setting_is_needed() -> None:
    assert not config.Cache().verifies
    assert config.Cache(pages="verified").verifies


@pytest.mark.parametrize(
    ("came", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", b"ab"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", None),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nab", None),
        (b"HTTP/1.1 429 No\r\n\r\nab", None),
        (b"SSH-2.0\r\n\r\n", None),
        (b"", None),
    ],
)
def test_half_an_answer_is_discarded(came: bytes, body: bytes | None) -> None:
    answer = parsed(came, 0.0)
    assert (answer.body if answer else None) == body


def test_a_page_beyond_the_read_limit_is_not_whole() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"
    answer = parsed(head.ljust(MOST_BYTES, b"x"), 0.0)
    assert answer
    assert not answer.whole
