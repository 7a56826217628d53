"""The warmer of one server, with Varnish's listener played by a socket of ours."""

import asyncio
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from naproxy.config import document as config
from naproxy.controller import warming
from naproxy.controller.learning import path_hash
from naproxy.controller.varnish import CHANNELS, Job, Varnish, askable
from naproxy.controller.warming import Warmer
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass, State
from naproxy.shm.events import Event
from naproxy.shm.stored import Stored
from samples import FETCH, server

from tests.patience import PATIENCE_S

EPOCH_S = 1_700_000_000.0


class Listener(BaseHTTPRequestHandler):
    """Says yes, to what it is told to; `asked` has paths and headers."""

    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "box"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        box: Any = self.server
        with box.lock:
            box.now += 1
            box.most = max(box.most, box.now)
        time.sleep(box.takes_s)
        if len(box.asked) >= box.answers:
            box.over.wait(PATIENCE_S)
        with box.lock:
            box.now -= 1
        box.asked.append((self.path, dict(self.headers)))
        self.send_response(box.status)
        self.end_headers()


class Box(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, Listener)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status = 200
        self.takes_s = 0.0
        self.answers = sys.maxsize  # the rest hangs until it is over
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.now = self.most = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who calls the fetching off hangs up."""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(str(tmp_path / "box.sock")) as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.over.set()
        served.shutdown()


def configured(mode: str = "frozen") -> config.Server:
    return server(f'[server.cache]\nmode = "{mode}"\n')


def warmer(tmp_path: Path, mode: str = "frozen", child_us: Callable[[], int] = lambda: 1) -> Warmer:
    return Warmer(
        configured(mode),
        Varnish(tmp_path / "box.sock"),
        epoch_s=EPOCH_S,
        child_us=child_us,
        wake_s=lambda: 5.0,
    )


@pytest.fixture
def made(tmp_path: Path) -> Warmer:
    return warmer(tmp_path)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "AFTER_WAKE_S", 0.0)


def stored(path: int, url: str, flags: int = page_h.S_FREEZES, host: str = "a.example") -> Stored:
    return Stored(1, 1_000_000, path, 100, 1, 200, 0, flags, "", host, url)


def event(path: int, outcome: Outcome, t_s: float = 0.0, **changes: Any) -> Event:
    t_us = round(t_s * 1e6)
    return replace(FETCH, path=path, outcome=outcome, t_us=t_us, flags=0, **changes)


def learned(made: Warmer, path: int = 5, url: str = "/logo.png") -> None:
    """Let it see that a file alone is what people ask for while the server sleeps."""
    made.stored(stored(path, url))
    made.observed(State.ASLEEP, 2.0)
    made.heard([event(path, Outcome.STALE, 10.0), event(99, Outcome.PASS, 100.0, client=8)])


async def test_before_a_sleep_wanted_content_is_fetched_again(made: Warmer, box: Box) -> None:
    learned(made)
    await made.before_sleep()
    assert {path for path, _ in box.asked} == {"/logo.png"}
    assert {said["Host"] for _, said in box.asked} == {"a.example"}
    expired = ["X-Naproxy-Expire" in said for _, said in box.asked]
    assert (expired[0], expired[-1]) == (True, False)
    assert expired == sorted(expired, reverse=True), "all that before all this"
    told = made.status()
    assert told["fetches"] == 1
    assert told["took_s"] == pytest.approx(made.last_s, abs=0.001)
    assert told["took_j"] == pytest.approx(told["took_s"] * 41.7, abs=0.1)


async def test_content_only_for_barred_classes_is_not_fetched(made: Warmer, box: Box) -> None:
    made.stored(stored(5, "/feed.xml"))
    made.observed(State.ASLEEP, 2.0)
    came = [
        event(5, Outcome.STALE, 10.0, klass=Klass.FEED),
        event(99, Outcome.PASS, 100.0, client=8),
    ]
    made.heard(came)
    await made.before_sleep()
    assert box.asked == []
    made.configure(replace(configured(), wake_classes=("person", "feed")))
    made.heard([event(5, Outcome.STALE, 200.0, klass=Klass.FEED), replace(came[1], t_us=300e6)])
    await made.before_sleep()
    assert {path for path, _ in box.asked} == {"/feed.xml"}


async def test_nothing_is_fetched_where_nothing_is_frozen(tmp_path: Path, box: Box) -> None:
    made = warmer(tmp_path, "default")
    learned(made)
    await made.before_sleep()
    assert box.asked == []


async def test_a_page_that_the_cache_rejects_is_not_a_gain(made: Warmer, box: Box) -> None:
    learned(made)
    box.status = 409
    await made.before_sleep()
    assert made.status()["fetches"] == 0


async def test_without_its_listener_the_server_sleeps_all_the_same(made: Warmer) -> None:
    learned(made)
    await made.before_sleep()
    assert made.status()["fetches"] == 0


async def test_a_cancelled_sleep_ends_the_fetching(made: Warmer, box: Box) -> None:
    for number in range(40):
        made.stored(stored(number, f"/{number}.png"))
    made.observed(State.ASLEEP, 2.0)
    made.heard(event(number, Outcome.STALE, 10.0) for number in range(40))
    made.heard([event(99, Outcome.PASS, 100.0, client=8)])
    box.takes_s = 0.2

    task = asyncio.ensure_future(made.before_sleep())
    while not box.asked:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert len(box.asked) < 40


async def test_an_empty_cache_is_filled_after_a_wake(
    tmp_path: Path, made: Warmer, box: Box
) -> None:
    learned(made)
    await made.before_sleep()
    kept = made.kept()
    for child_us, paths in ((lambda: 1, set()), (lambda: 2, {"/logo.png"})):
        box.asked.clear()
        again = warmer(tmp_path, child_us=child_us)
        again.take_up(kept)
        await after_wake(again, 200.0)
        assert {path for path, _ in box.asked} == paths, "only another cache is empty"


async def after_wake(made: Warmer, t_s: float) -> None:
    made.observed(State.AWAKE, t_s)
    assert made._task
    await made._task


async def test_content_served_during_a_sleep_is_revalidated(made: Warmer, box: Box) -> None:
    learned(made)
    made.stored(stored(6, "/other.png"))
    await after_wake(made, 200.0)
    expired = [(path, "X-Naproxy-Expire" in said) for path, said in box.asked]
    assert list(dict.fromkeys(expired)) == [("/logo.png", True), ("/logo.png", False)]


async def test_after_a_wake_each_sites_usual_files_are_fetched_once(
    tmp_path: Path, box: Box
) -> None:
    varnish_us = [1]
    made = warmer(tmp_path, child_us=lambda: varnish_us[0])
    made.configure(replace(configured(), hosts=("a.example", "*.a.example")))
    await after_wake(made, 200.0)
    asked = {(said["Host"], path) for path, said in box.asked}
    assert asked == {("a.example", "/robots.txt"), ("a.example", "/favicon.ico")}
    box.asked.clear()
    for path in ("/robots.txt", "/favicon.ico"):
        made.stored(stored(path_hash("a.example", path), path))
    made.observed(State.ASLEEP, 300.0)
    await after_wake(made, 400.0)
    assert box.asked == []
    varnish_us[0] = 2
    made.observed(State.ASLEEP, 500.0)
    await after_wake(made, 600.0)
    assert {path for path, _ in box.asked} == {"/robots.txt", "/favicon.ico"}


async def test_a_sites_files_are_asked_for_by_the_name_that_browsers_send(
    made: Warmer, box: Box
) -> None:
    made.configure(replace(configured(), hosts=("büro.example",)))
    await after_wake(made, 200.0)
    assert {said["Host"] for _, said in box.asked} == {"xn--bro-hoa.example"}


async def test_a_wait_has_its_price_where_waits_are_short(made: Warmer, box: Box) -> None:
    made.observed(State.ASLEEP, 0.0)
    made.observed(State.WAKING, 1000.0)
    assert made._costs().wait_j == 0.0
    made._spent = lambda: 0.5
    assert made._costs().wait_j == pytest.approx(0.5 * (1000 * 41.7 - 170.7))


def test_nonsense_on_the_disk_is_ignored(made: Warmer) -> None:
    file = {"path": 1, "host": "a", "url": "/", "accept": "", "https": False, "bytes": 1}
    several = [[{**file, **wrong}] for wrong in ({"url": "x"}, {"url": "/\r\nX: y"}, {"path": "1"})]
    for worth in (None, [1], [{"path": 1}], *several):
        made.take_up({"worth": worth, "warming": worth, "filled_us": "x"})
        assert made.kept()["worth"] == [], worth
    made.take_up({"worth": [file]})
    assert made.kept()["worth"]


def test_a_target_that_would_change_the_request_is_not_fetched() -> None:
    for url in ("relative", "/a b", "/a\r\nHost: evil", "/\x00", "http://other/", "/é"):
        assert not askable("a.example", url, ""), url
    assert askable("a.example", "/a?b=%20c", "image/webp, */*")


def test_variants_that_cannot_be_asked_for_are_left(made: Warmer) -> None:
    made.stored(stored(1, "/a.png", page_h.S_FREEZES | page_h.S_VARIES))
    made.stored(stored(2, "/page", 0))
    assert made._catalogue.of([1, 2]) == []


def test_both_schemes_of_an_address_are_asked_for(made: Warmer) -> None:
    made.stored(stored(1, "/a.png"))
    made.stored(stored(1, "/a.png", page_h.S_FREEZES | page_h.S_HTTPS))
    assert [job.https for job in made._catalogue.of([1])] == [False, True]


async def test_a_time_ends_the_fetching(tmp_path: Path, box: Box) -> None:
    box.answers = 3
    jobs = [Job(number, "a.example", f"/{number}") for number in range(1000)]
    done = await Varnish(tmp_path / "box.sock").fetch(jobs, most_s=2.0, expire=False)
    assert 0 < len(done.took_s) < 1000
    whole_s = sum(done.took_s.values())
    assert whole_s == pytest.approx(done.whole_s), "several are on their way at once"


async def test_an_address_is_asked_for_as_it_is_written(tmp_path: Path, box: Box) -> None:
    urls = ["/a{b}", "/a/../b", "/c?d=%20", "/e#f"]
    jobs = [Job(n, "a.example", url) for n, url in enumerate(urls)]
    done = await Varnish(tmp_path / "box.sock").fetch(jobs, most_s=5.0, expire=False)
    assert set(done.took_s) == set(range(len(urls)))
    assert sorted(path for path, _ in box.asked) == sorted(urls)


async def test_a_request_says_the_variant_and_the_scheme(tmp_path: Path, box: Box) -> None:
    job = Job(1, "a.example", "/a.png", "image/webp", https=True)
    await Varnish(tmp_path / "box.sock").fetch([job], most_s=5.0, expire=False)
    said = box.asked[0][1]
    assert (said["Host"], said["Accept"]) == ("a.example", "image/webp")
    assert said["X-Naproxy-Https"] == "1"


async def test_a_few_requests_are_under_way_at_a_time(tmp_path: Path, box: Box) -> None:
    box.takes_s = 0.02
    jobs = [Job(number, "a.example", f"/{number}") for number in range(40)]
    await Varnish(tmp_path / "box.sock").fetch(jobs, most_s=60.0, expire=False)
    assert 1 < box.most == CHANNELS


async def test_an_allowed_page_is_fetched_before_a_sleep_until_it_is_taken_back(
    made: Warmer, box: Box
) -> None:
    made.stored(stored(5, "/hours", flags=0))
    made.allow([Job(5, "a.example", "/hours")])
    made.observed(State.ASLEEP, 2.0)
    made.heard([event(5, Outcome.STALE, 10.0), event(99, Outcome.PASS, 100.0, client=8)])
    await made.before_sleep()
    assert {path for path, _ in box.asked} == {"/hours"}
    assert made.fetched == [Job(5, "a.example", "/hours")]
    made.allow([])
    box.asked.clear()
    await made.before_sleep()
    assert (box.asked, made.fetched) == ([], [])


def test_page_load_that_a_sleeping_server_would_not_get_is_spared(tmp_path: Path) -> None:
    load = replace(event(5, Outcome.FETCH, 500.0), flags=page_h.E_PAGE_LOAD)
    for mode, spared in (("frozen", True), ("default", False)):
        made = warmer(tmp_path, mode)
        made.stored(stored(5, "/hours", flags=0))
        assert not made.spares(load), "nobody said that this page stays valid in a sleep"
        made.allow([Job(5, "a.example", "/hours")])
        assert made.spares(load) is spared, mode
        assert not made.spares(replace(load, flags=0)), "a file"
        assert not made.spares(replace(load, path=6)), "not in the cache"
        assert not made.spares(replace(load, t_us=500_000)), "the load by which it got there"
