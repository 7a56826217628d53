"""The cache answers while the server sleeps, with content from that moment and never older.

The box expects requests for `/robots.txt`. It learns other paths from visits, which are over when
no request has come for a while.
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.clients import ASSET, CRAWLER, Answer, ask, visitor
from tests.e2e.conftest import settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import HOST
from tests.simulator.office.server import APP_PORT

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
    {more}
}}
"""
DAY_S = 86400


def _made(now_s: float) -> str:
    """Return the path of a program's response, dated by a clock that shows `now_s`."""
    times = {"h.Date": now_s, "h.Expires": now_s + 1}
    said = {name: formatdate(t_s, usegmt=True) for name, t_s in times.items()}
    said["h.Content-Type"] = "text/css"
    return f"proxy_pass http://127.0.0.1:{APP_PORT}/app/reply?{urlencode(said)};"


_NOW_S = time.time()
ODD = {
    "/etag.css": 'add_header Cache-Control max-age=1; add_header Last-Modified "";',
    "/cookie.css": "if ($http_cookie) { return 200 $http_cookie; }"
    " add_header Cache-Control max-age=1;",
    "/to-cookie.css": "add_header Cache-Control max-age=1; add_header Vary Cookie;"
    " if ($http_cookie) { return 200 $http_cookie; }",
    "/to-language.css": "add_header Cache-Control max-age=1; add_header Vary Accept-Language;",
    "/fast.css": f"{_made(_NOW_S + DAY_S)} proxy_pass_header Date;",
    "/slow.css": f"{_made(_NOW_S - DAY_S)} proxy_pass_header Date;",
}
"""nginx's headers for files that need their own."""
KNOWN = "/robots.txt"
SLEPT_S = 1.2
"""Seconds. With the second of silence before a server counts as asleep, more than one second."""
VISIT_S = 2.0
"""In place of the half minute after which a visit is over."""
CONTROLLER = f"""\
import sys
from naproxy.cli.__main__ import main
from naproxy.policy import warming
warming.VISIT_S = {VISIT_S}
sys.exit(main())
"""


class Folder:
    """A site whose files somebody edits."""

    def __init__(self, office: Office, name: str):
        self.office = office
        self.host = f"{name}.office.example"
        self._root = office.server.directory / name
        self._root.mkdir()
        more = "".join(f"location = {path} {{ {rule} }}\n" for path, rule in ODD.items())
        office.server.add_site(name, NGINX.format(host=self.host, root=self._root, more=more))

    def write(self, path: str, text: str) -> None:
        """Put a file there. nginx tells two apart by size and second."""
        file: Path = self._root / path.lstrip("/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def date(self, path: str, at_s: float) -> None:
        """Say that a file was changed then."""
        os.utime(self._root / path.lstrip("/"), (at_s, at_s))

    def get(self, path: str, *, source: str | None = None, **headers: str) -> Answer:
        """Ask the box for one, as a page does that embeds it."""
        sent = {**ASSET, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return ask(self.office.client, path, host=self.host, headers=sent, source=source)

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


def edited(folder: Folder) -> Answer:
    """Let somebody ask for a file and somebody edit it; return what is shown in the sleep after."""
    folder.write(KNOWN, "before")
    assert folder.get(KNOWN).status == 200
    folder.office.box.await_heard()
    folder.write(KNOWN, "afterwards")
    folder.sleep()
    return folder.get(KNOWN)


def test_a_file_edited_just_before_the_sleep_is_shown_as_it_is(folder: Folder) -> None:
    answer = edited(folder)
    assert (answer.body, answer.headers["x-naproxy"]) == (b"afterwards", "frozen")
    assert int(answer.headers["age"]) >= 2
    assert folder.office.server.board.state == "off"


def test_after_the_wake_nobody_sees_what_was_there_before(folder: Folder) -> None:
    edited(folder)
    folder.write(KNOWN, "in the sleep, by night")
    folder.office.box.wake()
    assert folder.get(KNOWN).body == b"in the sleep, by night"


def fall_asleep(folder: Folder, meanwhile: Callable[[], object]) -> None:
    """Tell a server to sleep that takes its time, and do something `meanwhile`."""
    box, board = folder.office.box, folder.office.server.board
    board.configure(sleep_s=2.0)
    box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: board.state == "suspending", "the server to fall asleep")
    meanwhile()


def test_a_file_edited_while_it_falls_asleep_is_not_older_than_that_and_new_after_the_wake(
    folder: Folder,
) -> None:
    folder.write(KNOWN, "long before")
    assert folder.get(KNOWN).status == 200
    folder.office.box.await_heard()
    folder.write(KNOWN, "before")
    fall_asleep(folder, lambda: folder.write(KNOWN, "meanwhile"))
    folder.office.box.await_state("asleep")
    time.sleep(SLEPT_S)
    assert folder.get(KNOWN).body in (b"before", b"meanwhile")
    folder.office.box.wake()
    assert folder.get(KNOWN).body == b"meanwhile"


def made(body: bytes) -> int:
    """Return the how many-th answer this is that was made."""
    return int(body.split()[1])


def test_a_post_while_the_server_falls_asleep_invalidates_the_cache(folder: Folder) -> None:
    before = folder.get("/slow.css").body

    def send() -> Answer:
        return ask(folder.office.client, "/slow.css", method="POST", body=b"x", host=folder.host)

    fall_asleep(folder, send)
    answer = folder.get("/slow.css")
    # The server made three responses; the second went to the client that sent a POST.
    assert (answer.status, made(answer.body) - made(before)) == (200, 2)


def test_frozen_content_is_revalidated_after_the_wake_though_fresh_for_an_hour(
    folder: Folder,
) -> None:
    folder.write("/hour/logo.png", "before")
    folder.get("/hour/logo.png")
    folder.office.box.sleep()
    assert folder.get("/hour/logo.png").body == b"before"
    folder.office.box.await_heard()
    folder.office.box.wake()
    folder.write("/hour/logo.png", "since the wake")
    wait_for(lambda: folder.asked("/hour/logo.png") > 1, "the file to be asked after", 15)
    assert folder.get("/hour/logo.png").body == b"since the wake"


def test_each_sites_expected_paths_are_cached_before_the_first_request(office: Office) -> None:
    office.box.kill_child()
    wait_for(lambda: ask(office.client, "/.naproxy/status", timeout_s=2).status, "varnishd's child")
    office.box.sleep()
    office.box.wake()
    known = len(office.server.requests())

    def asked() -> bool:
        since = office.server.requests()[known:]
        return any((each["host"], each["target"]) == (HOST, "/favicon.ico") for each in since)

    wait_for(asked, "the box to ask for an icon", 15)
    office.box.sleep()
    answer = ask(office.client, KNOWN, headers=CRAWLER)
    assert (answer.status, office.server.board.state) == (200, "off")


def test_pages_and_files_that_need_revalidation_wake_the_server(folder: Folder) -> None:
    box, paths = folder.office.box, ("/page.html", "/checked/a.css", "/personal/a.css")
    # For so long Varnish serves what is past its time, by default 10 s.
    box.run(["varnishadm", "-n", box.directory / "varnish", "param.set", "default_grace", "0.5"])
    for path in paths:
        folder.write(path, "text")
        folder.get(path)
    box.sleep()
    folder.office.server.board.configure(wake_s=2.0)
    time.sleep(SLEPT_S)
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = list(pool.map(folder.get, paths))
    assert [answer.headers["x-naproxy"] for answer in answers] == ["held"] * len(paths)


class Site(Folder):
    """One whose files the box has learned to be wanted while the server sleeps."""

    PATHS = (
        *("/hour/style.css", "/etag.css", "/future.css", "/ranges.css", "/query.css?v=1"),
        *("/cookie.css", "/to-cookie.css", "/to-language.css", "/fast.css", "/slow.css"),
        "/login.css",
    )
    before: dict[str, bytes]

    def learn(self) -> None:
        """Let the box learn what visits ask for; edit it all, and sleep."""
        self.edit("before", _NOW_S + DAY_S)
        self.before = self._visit()
        self.office.box.sleep()
        self._visit()
        # The box learns what visits were about when they are over: at the next wake, so late.
        time.sleep(VISIT_S)
        self.office.box.wake()
        self.edit("afterwards", _NOW_S + DAY_S / 2)
        self.sleep()

    def edit(self, text: str, future_s: float) -> None:
        for path in self.PATHS:
            self.write(path.partition("?")[0], text)
        self.date("/future.css", future_s)

    def _visit(self) -> dict[str, bytes]:
        """Let each file be asked for by somebody else."""
        with ThreadPoolExecutor(len(self.PATHS)) as pool:
            sources = [visitor(n + 1) for n in range(len(self.PATHS))]
            answers = pool.map(lambda p, s: self.get(p, source=s), self.PATHS, sources)
            return {path: answer.body for path, answer in zip(self.PATHS, answers, strict=True)}


@pytest.fixture(scope="module")
def learned(shared: Office) -> Site:
    """The last tests are about it."""
    box, command = shared.box, shared.box.controller_command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            box, "controller_command", lambda: [sys.executable, "-c", CONTROLLER, *command()[1:]]
        )
        box.kill_controller()
        box.start_controller()
    settle_awake(shared)
    site = Site(shared, "odd")
    site.learn()
    return site


def test_an_edited_file_is_served_in_its_version_at_the_sleep(
    learned: Site, asleep: Office
) -> None:
    for path in ("/hour/style.css", "/etag.css", "/future.css", "/query.css?v=1", "/login.css"):
        assert learned.get(path).body == b"afterwards", path
        assert asleep.server.board.state == "off", path


def test_a_server_whose_clock_is_wrong_is_asked_all_the_same(learned: Site, asleep: Office) -> None:
    for path in ("/fast.css", "/slow.css"):
        answer = learned.get(path)
        assert answer.headers["x-naproxy"] == "frozen", path
        assert made(answer.body) > made(learned.before[path]), path
        assert asleep.server.board.state == "off", path


def test_a_range_of_a_file_is_of_its_version_at_the_sleep(learned: Site, asleep: Office) -> None:
    answer = learned.get("/ranges.css", Range="bytes=5-8")
    assert (answer.status, answer.body) == (206, b"ward")
    assert asleep.server.board.state == "off"


def test_a_visitor_with_a_session_gets_the_same_file_as_a_stranger(
    learned: Site, asleep: Office
) -> None:
    answer = learned.get("/cookie.css", Cookie="session=ada")
    assert (answer.body, answer.headers["x-naproxy"]) == (b"afterwards", "frozen")
    assert asleep.server.board.state == "off"


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/query.css?v=2", {}, b"afterwards"),
        ("/login.css", {"Authorization": "Basic YWRhOmFkYQ=="}, b"afterwards"),
        ("/to-language.css", {"Accept_Language": "de"}, b"afterwards"),
        ("/to-cookie.css", {"Cookie": "session=ada"}, b"session=ada"),
    ],
    ids=["query", "login", "language", "cookie"],
)
def test_a_request_whose_answer_may_differ_wakes_the_server(
    learned: Site, asleep: Office, path: str, headers: dict[str, str], body: bytes
) -> None:
    assert learned.get(path, **headers).body == body
    assert asleep.server.board.state == "on"


@pytest.mark.usefixtures("asleep")
def test_nobody_gets_what_was_made_for_another(learned: Site) -> None:
    asked = ("session=ada", "session=bob", "", "session=bob", "session=ada")
    said = [learned.get("/to-cookie.css", **({"Cookie": c} if c else {})).body for c in asked]
    assert said == [cookie.encode() or b"afterwards" for cookie in asked]


def test_the_status_shows_the_cost_of_warming(learned: Site) -> None:
    told = learned.office.box.status()["warming"]
    assert told["on"]
    assert told["fetches"] > 0
    assert told["took_s"] > 0
