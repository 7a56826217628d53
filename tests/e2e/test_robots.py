"""Clients that must not wake the server: monitors, crawlers and others."""

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from naproxy.shm.events import Events

from tests.e2e.clients import CRAWLER, MONITOR, Answer, ask, fresh, visitor
from tests.e2e.conftest import settle_asleep
from tests.patience import wait_for
from tests.simulator.office import Office


def packets(office: Office) -> int:
    return int(office.server.board.report()["counts"]["magic"])


@pytest.fixture
def undisturbed(asleep: Office) -> Iterator[Office]:
    """A sleeping office; at its end the server must sleep still, and must not have been called."""
    before = packets(asleep)
    yield asleep
    assert packets(asleep) == before
    assert asleep.server.board.state == "off"
    assert asleep.box.status()["state"] == "asleep"


def test_the_status_path_wakes_nobody_whoever_asks(undisturbed: Office) -> None:
    for headers in [*[MONITOR] * 20, None]:
        answer = ask(undisturbed.client, "/.naproxy/status", headers=headers)
        assert answer.status == 200
    said = json.loads(answer.body)
    assert (said["state"], said["available"]) == ("asleep", False)


def test_crawlers_are_told_to_come_back_and_wake_nobody(undisturbed: Office) -> None:
    for _ in range(20):
        answer = ask(undisturbed.client, fresh(), headers=CRAWLER)
        assert (answer.status, answer.headers["x-naproxy"]) == (503, "refused")
        assert int(answer.headers["retry-after"]) == 3600


def test_malformed_requests_wake_nobody(undisturbed: Office) -> None:
    for lines in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"\0" * 500):
        with undisturbed.client.connect("192.0.2.1", 80, timeout_s=5) as line:
            line.sendall(lines)
            line.shutdown(1)
            while line.recv(4096):
                pass


def path_of_post(events: Events) -> int:
    """Return the hash of the path of the POST that ended since these events were read last."""
    # Its record is written after its answer.
    return wait_for(
        lambda: next((event.path for event in events.read() if event.method == 2), 0),
        "the record of the POST",
    )


def know(office: Office, path: int) -> None:
    """Have the controller know that news came there an hour ago, too."""
    office.box.kill_controller()
    with contextlib.closing(sqlite3.connect(office.box.data_dir / "history.db")) as database:
        key = "server.web"
        [[text]] = database.execute("SELECT value FROM saved WHERE key = ?", (key,))
        saved = json.dumps({**json.loads(text), "webhook_paths": [path]})
        database.execute("UPDATE saved SET value = ? WHERE key = ?", (saved, key))
        database.commit()
    office.box.start_controller()


def test_where_a_program_brought_news_a_crawler_is_not_refused(office: Office) -> None:
    hook = fresh("/app/echo").replace("?", "/")
    with contextlib.closing(Events(office.box.run_dir)) as events:
        list(events.read())
        brought = ask(office.client, hook, method="POST", body=b"news", source=visitor(1))
        assert brought.status == 200
        know(office, path_of_post(events))
    office.box.await_state("awake")
    office.box.sleep()
    assert ask(office.client, fresh(), headers=CRAWLER).headers["x-naproxy"] == "refused"
    answer = ask(office.client, f"{hook}?challenge=7", headers=CRAWLER, source=visitor(2))
    assert answer.headers["x-naproxy"] == "held"


LIMIT_S = 4
GOOGLE = visitor(3)
LIAR = visitor(4)


@pytest.fixture(scope="module")
def names(shared: Office) -> Iterator[Office]:
    """An office in which addresses have names, and search engines are refused for seconds only."""
    box = shared.box
    hosts = box.directory / "hosts"
    liar = "crawl-4.googlebot.com.evil.example"
    hosts.write_text(f"{GOOGLE} crawl-3.googlebot.com\n{LIAR} {liar}\n")
    command = box.controller_command
    mount = 'mount --bind "$0" /etc/hosts; exec "$@"'
    named: list[str | Path] = ["unshare", "-m", "sh", "-ec", mount, hosts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box, "controller_command", lambda: [*named, *command()])
        box.kill_controller()
        box.start_controller()
        box.reconfigure(server={"engine_refused_s": LIMIT_S})
        settle_asleep(shared)
        yield shared


def crawl(office: Office, source: str) -> Answer:
    return ask(office.client, fresh(), headers=CRAWLER, source=source)


def refused_since(office: Office) -> list[tuple[str, bool]]:
    engines = office.box.status()["engines"]
    return [(each["name"], each["refused_since_s"] is not None) for each in engines]


def refused_as_known(office: Office) -> bool:
    """Have the search engine refused, and say whether the box knows now."""
    assert crawl(office, GOOGLE).headers["x-naproxy"] == "refused"
    return refused_since(office) == [("Google", True)]


def test_a_false_search_engine_wakes_no_server(names: Office) -> None:
    end_s = time.monotonic() + 1.5 * LIMIT_S
    while time.monotonic() < end_s:
        assert crawl(names, LIAR).headers["x-naproxy"] == "refused"
        time.sleep(0.5)
    assert names.server.board.state == "off"


def held(answer: Answer) -> Answer | None:
    return answer if answer.headers["x-naproxy"] == "held" else None


def test_a_search_engine_is_refused_for_so_long_then_wakes_the_server_and_crawls(
    names: Office,
) -> None:
    # The controller hears of one refused request a second: the liar's may have been the last.
    wait_for(lambda: refused_as_known(names), "the box to know it")
    assert crawl(names, GOOGLE).headers["x-naproxy"] == "refused"
    answer = wait_for(lambda: held(crawl(names, GOOGLE)), "the engine to be let in")
    assert answer
    assert answer.status == 200
    wait_for(lambda: refused_since(names) == [("Google", False)], "the box to hear of it")
    [crawls] = names.box.status()["inhibitors"]
    assert crawls["code"] == "server.engine_crawls"
    assert names.box.wakes()[0]["class"] == "crawler"
    answers = [crawl(names, GOOGLE).headers["x-naproxy"] for _ in range(3)]
    assert answers == ["fetch", "refused", "refused"]  # at most one a second
