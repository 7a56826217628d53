"""What the cache answers while the server sleeps: what it had at that moment, and never older.

Of `/robots.txt` the box knows that it will be asked for; what else will, it learns, from visits
that are over when nothing has come for half a minute.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.clients import ASSET, Answer, ask
from tests.simulator.office import Office
from tests.simulator.office.namespace import wait_for

CONFIG = {"server": {"cache": {"mode": "frozen"}}}
NGINX = """
server {{
    listen 80; listen [::]:80;
    server_name {host};
    root {root};
    location / {{ add_header Cache-Control max-age=1; }}
    location /hour/ {{ add_header Cache-Control max-age=3600; }}
    location /checked/ {{ add_header Cache-Control "max-age=1, must-revalidate"; }}
    location /personal/ {{ add_header Cache-Control "max-age=60, private"; }}
}}
"""
KNOWN = "/robots.txt"
SLEPT_S = 2.5
"""Longer than what is fresh for a second."""


class Folder:
    """A site whose files somebody edits."""

    def __init__(self, office: Office, name: str):
        self.office = office
        self.host = f"{name}.office.example"
        self._root = office.server.directory / name
        self._root.mkdir()
        office.server.add_site(name, NGINX.format(host=self.host, root=self._root))

    def write(self, path: str, text: str) -> None:
        """Put a file there. nginx tells two apart by size and second."""
        file: Path = self._root / path.lstrip("/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def get(self, path: str) -> Answer:
        """Ask the box for one, as a page does that embeds it."""
        return ask(self.office.client, path, host=self.host, headers=ASSET)

    def asked(self, path: str) -> int:
        """How often the server was asked for one."""
        wanted = (self.host, path)
        return sum((r["host"], r["target"]) == wanted for r in self.office.server.requests())

    def sleep(self) -> None:
        """Let the server sleep for longer than a second."""
        self.office.box.sleep()
        time.sleep(SLEPT_S)


@pytest.fixture
def folder(office: Office, request: pytest.FixtureRequest) -> Folder:
    return Folder(office, f"site{abs(hash(request.node.name)) % 10**9}")


def edited(folder: Folder, moment: Callable[[], None]) -> Answer:
    """Let somebody ask for a file and somebody edit it; return what is shown in the sleep after."""
    folder.write(KNOWN, "before")
    assert folder.get(KNOWN).status == 200
    time.sleep(0.5)  # The box hears of it.
    moment()
    folder.write(KNOWN, "afterwards")
    folder.sleep()
    return folder.get(KNOWN)


def test_a_file_edited_just_before_the_sleep_is_shown_as_it_is(folder: Folder) -> None:
    answer = edited(folder, lambda: None)
    assert (answer.body, answer.headers["x-naproxy"]) == (b"afterwards", "frozen")
    assert int(answer.headers["age"]) >= 2
    assert folder.office.server.board.state == "off"


def test_after_the_wake_nobody_sees_what_was_there_before(folder: Folder) -> None:
    edited(folder, lambda: None)
    folder.write(KNOWN, "in the sleep, by night")
    folder.office.box.wake()
    assert folder.get(KNOWN).body == b"in the sleep, by night"


def test_what_was_served_meanwhile_is_asked_after_once_it_is_awake(folder: Folder) -> None:
    edited(folder, lambda: None)
    before = folder.asked(KNOWN)
    folder.office.box.wake()
    wait_for(lambda: folder.asked(KNOWN) > before, "the file to be asked after", 15)


def test_a_file_edited_before_its_time_was_over_is_asked_after(folder: Folder) -> None:
    folder.write("/hour/style.css", "before")
    folder.get("/hour/style.css")
    folder.office.box.sleep()
    assert folder.get("/hour/style.css").status == 200
    # The box learns what visits were about when they are over.
    time.sleep(31)
    folder.office.box.wake()
    folder.write("/hour/style.css", "afterwards")
    folder.sleep()
    assert folder.get("/hour/style.css").body == b"afterwards"


def test_pages_and_what_must_be_checked_wake_the_server(folder: Folder) -> None:
    paths = ("/page.html", "/checked/a.css", "/personal/a.css")
    for path in paths:
        folder.write(path, "text")
        folder.get(path)
    folder.office.box.sleep()
    # Longer than Varnish serves what is past its time.
    time.sleep(12)
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = list(pool.map(folder.get, paths))
    assert [answer.headers["x-naproxy"] for answer in answers] == ["held"] * len(paths)


def test_what_warming_has_cost_is_told(folder: Folder) -> None:
    edited(folder, lambda: None)
    told = folder.office.box.status()["warming"]
    assert told["on"]
    assert told["fetches"] > 0
    assert told["took_s"] > 0
