"""Pages that the box checks by itself and serves while the server sleeps.

Its hour takes a second here.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from naproxy.controller.learning import path_hash

from tests.e2e.clients import CRAWLER, PERSON, Answer, ask, visitor
from tests.e2e.conftest import settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office

CONFIG = {"server": {"cache": {"pages": "verified"}}}
HOST = "pages.office.example"
SETTLE_S = 1.0
CONTROLLER = f"""\
import sys
from naproxy.cli.__main__ import main
from naproxy.controller import checking
from naproxy.policy import verified, warming
warming.VISIT_S = 1.0
verified.SETTLE_S, verified.AGAIN_S = {SETTLE_S}, 0.2
checking.EVERY_S = checking.AFTER_WAKE_S = 0.05
sys.exit(main())
"""
NGINX = """
server {{
    listen 80; listen [::]:80;
    server_name {host};
    root {root};
    default_type text/html;
    add_header Cache-Control max-age=1;
    location = /clock {{ return 200 "$msec"; }}
    location = /language {{ return 200 "$http_accept_language"; }}
    location = /device {{ return 200 "$http_user_agent"; }}
    location = /theme {{ return 200 "theme:$http_x_theme"; }}
    location = /account {{ return 200 "for:$cookie_session"; }}
    location = /member {{
        add_header Cache-Control max-age=1;
        add_header Vary Cookie;
        return 200 "for:$cookie_session";
    }}
}}
"""
SLEPT_S = 1.5
"""Seconds; content that is fresh for one second is stale after them."""


class Pages:
    """A site and its visitors."""

    def __init__(self, office: Office):
        self.office = office
        self._root: Path = office.server.directory / "pages"
        self._root.mkdir()
        office.server.add_site("pages", NGINX.format(host=HOST, root=self._root))
        self._visitors = 0

    def write(self, path: str, text: str) -> None:
        """Put a page there that was edited long ago, as far as it says."""
        file = self._root / path.lstrip("/")
        file.write_text(text)
        long_ago_s = time.time() - 86400 - len(text)
        os.utime(file, (long_ago_s, long_ago_s))

    def get(self, path: str, **headers: str) -> Answer:
        """Load a page as somebody from another network."""
        self._visitors += 1
        sent = {**PERSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return ask(
            self.office.client, path, host=HOST, headers=sent, source=visitor(self._visitors)
        )

    def verified(self, path: str) -> bool:
        """Is Varnish told that a page may be answered?"""
        return path_hash(HOST, path) in set(self.office.box.page().verified[0])

    def verify(self, *paths: str) -> None:
        """Let people load these until they are verified."""
        for path in paths:
            for _ in range(3):
                assert self.get(path).status == 200
        wait_for(lambda: all(map(self.verified, paths)), "the pages to be verified", 30)

    def sleep(self) -> None:
        self.office.box.await_heard()
        self.office.box.sleep()
        time.sleep(SLEPT_S)

    def asleep(self, path: str) -> tuple[int, bytes]:
        """Ask as a robot, which wakes nobody."""
        answer = ask(self.office.client, path, host=HOST, headers=CRAWLER)
        return answer.status, answer.body if answer.status == 200 else b""

    def told(self, name: str) -> int:
        """Return what the box counted."""
        value = self.office.box.status()["pages"][name]
        assert isinstance(value, int)
        return value


@pytest.fixture(scope="module")
def pages(shared: Office) -> Pages:
    box, command = shared.box, shared.box.controller_command
    with pytest.MonkeyPatch.context() as patch:
        scaled: Callable[[], list[str | Path]]
        scaled = lambda: [sys.executable, "-c", CONTROLLER, *command()[1:]]  # noqa: E731
        patch.setattr(box, "controller_command", scaled)
        box.kill_controller()
        box.start_controller()
    # For so long Varnish serves what is past its time, by default 10 s.
    varnish: list[str | Path] = ["varnishadm", "-n", box.directory / "varnish"]
    box.run([*varnish, "param.set", "default_grace", "0.5"])
    settle_awake(shared)
    return Pages(shared)


def test_a_checked_page_is_answered_asleep_until_it_changes_by_itself(
    pages: Pages, office: Office
) -> None:
    pages.write("/hours", "From nine")
    pages.verify("/hours")
    pages.sleep()
    answer = pages.get("/hours")
    assert (answer.body, answer.headers["x-naproxy"]) == (b"From nine", "frozen")
    assert office.server.board.state == "off"
    office.box.await_heard()
    compared = pages.told("compared")
    office.box.wake()
    wait_for(lambda: pages.told("compared") > compared, "the comparison", 15)
    assert pages.told("differed") == 0
    pages.sleep()
    assert pages.asleep("/hours") == (200, b"From nine")
    # Like a page that shows the time, or another machine's data.
    pages.write("/hours", "Closed by now")
    office.box.await_heard()
    office.box.wake()
    wait_for(lambda: pages.told("differed") == 1, "the comparison", 15)
    for _ in range(3):
        pages.get("/hours")
    pages.sleep()
    assert pages.asleep("/hours") == (503, b"")


def test_pages_that_differ_are_not_answered_asleep(pages: Pages, office: Office) -> None:
    paths = ("/clock", "/language", "/device")
    pages.write("/steady", "From nine")
    for path in paths:
        for _ in range(3):
            assert pages.get(path).status == 200
    excluded = pages.told("excluded")
    pages.verify("/steady")
    wait_for(lambda: pages.told("excluded") > excluded, "the checks", 15)
    pages.sleep()
    assert [pages.asleep(path)[0] for path in (*paths, "/steady")] == [503, 503, 503, 200]
    assert office.server.board.state == "off"


def test_nobody_can_plant_a_page_for_others(pages: Pages, office: Office) -> None:
    pages.verify("/theme", "/account")
    pages.get("/theme", X_Theme="evil")
    assert b"ada" in pages.get("/account", Cookie="session=ada").body
    pages.sleep()
    assert pages.asleep("/theme") == (200, b"theme:")
    assert pages.asleep("/account") == (200, b"for:")
    assert office.server.board.state == "off"


def test_a_page_that_varies_by_cookie_is_answered_to_those_without_one(
    pages: Pages, office: Office
) -> None:
    assert b"for:ada" in pages.get("/member", Cookie="session=ada").body
    pages.verify("/member")
    pages.sleep()
    for harmless in ({}, {"Cookie": "_ga=GA1.1.1; CookieConsent=yes"}):
        answer = pages.get("/member", **harmless)
        assert (answer.body, answer.headers["x-naproxy"]) == (b"for:", "frozen")
    assert office.server.board.state == "off"
    answer = pages.get("/member", Cookie="_ga=GA1.1.1; session=ada")
    assert answer.headers["x-naproxy"] == "waiting_page"
    assert b"for:" not in answer.body
    office.box.await_state("awake")
    assert pages.get("/member", Cookie="session=ada").body == b"for:ada"
