"""A week in the office against real websites, whose pages the box checks by itself.

The week passes faster: an hour of the shop's clock takes `HOUR_S`, and so does what the controller
calls an hour. Visitors come while the server is awake; while it sleeps, every page is asked for,
and what the box answers is compared with what the server itself says right after the wake.
"""

import json
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naproxy.controller.learning import path_hash
from naproxy.policy.sameness import without_nonces

from tests.e2e.clients import CRAWLER, PERSON, Answer, ask, visitor
from tests.patience import wait_for
from tests.recipes.programs import (
    CODE,
    FORUM,
    MEMBER,
    NOTES,
    PASSWORD,
    SITE,
    TABLES,
    WIKI,
    Programs,
)
from tests.recipes.wordpress import HOST as SHOP
from tests.recipes.wordpress import Browser, Shop
from tests.simulator.office import Office

HOUR_S = 2.0
CONFIG: dict[str, Any] = {
    "server": {
        "sleep": {"timeout_s": 5.0},
        "ready": {"asleep_interval_s": 0.5},
        "cache": {"pages": "verified"},
    }
}
CONTROLLER = f"""\
import sys
from naproxy.cli.__main__ import main
from naproxy.controller import checking
from naproxy.policy import verified, warming
warming.VISIT_S = {HOUR_S / 3}
verified.SETTLE_S = verified._HOUR_S = {HOUR_S}
verified.AGAIN_S = {HOUR_S / 6}
verified.RECHECK_S = {6 * HOUR_S}
verified.EXCLUDED_S = {24 * HOUR_S}
checking.EVERY_S = 0.02
checking.AFTER_WAKE_S = 0.1
sys.exit(main())
"""

POSTS = {
    "about": "We sell chairs.",
    "hours": "From nine.",
    "price": "[price]",
    "day": "[day]",
    "open": "[open]",
    "device": "[device]",
    "language": "[language]",
    "order": "[order]",
    "quote": "[quote]",
    "basket": "[basket]",
}
"""Addresses of the shop, and what is there."""
PAGES = (
    (SHOP, "/"),
    (SHOP, "/sample-page/"),
    *((SHOP, f"/{name}/") for name in POSTS),
    (SHOP, "/?s=chairs"),
    (SHOP, "/wp-login.php"),
    (WIKI, "/wiki/Main_Page"),
    (WIKI, "/index.php?title=Special:UserLogin"),
    (NOTES, "/doku.php/start"),
    (TABLES, "/index.php"),
    (SITE, "/"),
    (SITE, "/hours/"),
    (SITE, "/contact/"),
    (CODE, "/"),
    (CODE, "/office/"),
    (FORUM, "/"),
    (FORUM, "/category/"),
    (FORUM, "/topic/1/hours/"),
    (FORUM, "/user/login/"),
    (FORUM, "/user/register/"),
)
NEVER = {
    *((SHOP, f"/{name}/") for name in ("price", "device", "language", "order", "quote", "basket")),
    (SHOP, "/?s=chairs"),
    (SHOP, "/wp-login.php"),
    (WIKI, "/index.php?title=Special:UserLogin"),
    (NOTES, "/doku.php/start"),
    (TABLES, "/index.php"),
    (CODE, "/"),
    (CODE, "/office/"),
    *((FORUM, path) for path in ("/", "/topic/1/hours/", "/user/login/", "/user/register/")),
}
"""Pages that are for one visitor, for one moment or for one device."""
PERSONAL = re.compile(rb"wpadminbar|Howdy|In your basket: [1-9]|evil\.example|" + MEMBER.encode())
Page = tuple[str, str]


@dataclass
class Counts:
    """What the week brought."""

    days: float = 0.0
    sleeps: int = 0
    asked: int = 0
    answered: int = 0
    fresh: int = 0
    """Answered because the server's own headers say for how long: no checks are needed for that."""
    wrong: int = 0
    uncaught: int = 0
    """Pages with a wrong answer that the box would use in the next sleep."""
    again: int = 0
    """Answers with a page that had been wrong in an earlier sleep."""
    personal: int = 0
    by_page: Counter[str] = field(default_factory=Counter)
    wrong_pages: Counter[str] = field(default_factory=Counter)
    box: dict[str, Any] = field(default_factory=dict)


class Week:
    """The office, and who comes."""

    def __init__(self, office: Office):
        """Install all websites; the server must be awake."""
        self.office = office
        self.counts = Counts()
        self.begin_s = time.time()
        self.shop = Shop(office)
        plugins = self.shop.directory / "www/wp-content/mu-plugins"
        clock = f"<?php\nconst SHOP_BEGIN_S = {self.begin_s};\nconst SHOP_HOUR_S = {HOUR_S};\n"
        (plugins / "clock.php").write_text(clock)
        (plugins / "pages.php").write_bytes(Path(__file__).with_name("pages.php").read_bytes())
        self.shop.query(
            "update wp_options set option_value = '/%postname%/'"
            " where option_name = 'permalink_structure'"
        )
        self.shop.query("delete from wp_options where option_name = 'rewrite_rules'")
        self.programs = Programs(office, self.shop)
        self.admin = Browser(office, "author", "198.18.1.1")
        assert "Dashboard" in self.admin.login()
        for slug, content in POSTS.items():
            self.admin.publish(title=slug, slug=slug, content=content, status="publish")
        self.member = Browser(office, "member", "198.18.1.2", FORUM)
        _, form = self.member.get("/user/login/")
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert found, form
        fields = {"username": MEMBER, "password": PASSWORD, "csrfmiddlewaretoken": found[1]}
        self.member.post("/user/login/", **fields)
        self._visitors = 0
        self._wrong: set[Page] = set()

    @property
    def hour(self) -> int:
        """What the shop's clock shows, from the begin of the week."""
        return int((time.time() - self.begin_s) / HOUR_S)

    def _ask(self, page: Page, headers: dict[str, str], **more: str) -> Answer:
        self._visitors += 1
        host, path = page
        source = visitor(self._visitors % 200 + 2)
        return ask(self.office.client, path, host=host, headers={**headers, **more}, source=source)

    def awake(self) -> None:
        """Let people come, one of them logged in and one with a full basket, and attackers."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._visit, PAGES))
        for path in ("/", "/hours/", "/wp-admin/x.css"):
            self.admin.get(path)
        for path in ("/", "/category/", "/topic/1/hours/"):
            _, text = self.member.get(path)
            # The list of categories is the same page for members.
            assert MEMBER in text or path == "/category/", path

    def _visit(self, page: Page) -> None:
        planted = ("X-Forwarded-Host", "X-Host", "X-Original-URL", "Forwarded")
        self._ask(page, PERSON, **dict.fromkeys(planted, "host=evil.example"))
        if page[1] in ("/", "/about/", "/basket/"):
            self._ask(page, PERSON, Cookie="shop_basket=7")
        self._ask(page, PERSON)
        self._ask(page, PERSON)

    def settle(self, hours: float = 2.5) -> None:
        """Wait until what is new can be verified."""
        end_s = time.time() + hours * HOUR_S
        wait_for(lambda: time.time() >= end_s, "the shop's clock", 60)

    def edit(self, text: str) -> None:
        """Change a page of the shop and the whole site, past the box."""
        self.shop.query(f"update wp_posts set post_content = '{text}' where post_name = 'about'")
        self.programs.hugo(text)

    def sleep(self) -> None:
        """Let the server sleep for some hours, and ask for everything meanwhile."""
        box = self.office.box
        box.sleep(60)
        self.counts.sleeps += 1
        table = set(box.page().verified[0])
        self.counts.uncaught += sum(path_hash(*page) in table for page in self._wrong)
        self.settle(2)
        got = {}
        for page in PAGES:
            self.counts.asked += 1
            answer = self._ask(page, CRAWLER)
            self.counts.fresh += answer.status == 200
            if answer.headers.get("x-naproxy") == "frozen":
                got[page] = answer, self.hour
                # A person does not wake it either.
                self._ask(page, PERSON)
        assert self.office.server.board.state == "off"
        box.await_heard()
        compared = box.status()["pages"]["compared"]
        box.wake()
        for page, (answer, hour) in got.items():
            self._judge(page, answer, hour)
        self.counts.fresh -= len(got)
        compared += len(got)
        wait_for(lambda: box.status()["pages"]["compared"] >= compared, "the comparison", 60)

    def _judge(self, page: Page, answer: Answer, hour: int) -> None:
        name = "".join(page)
        self.counts.answered += 1
        self.counts.by_page[name] += 1
        self.counts.personal += bool(PERSONAL.search(answer.body))
        self.counts.again += page in self._wrong
        if self._right(page, answer.body, hour):
            return
        self.counts.wrong += 1
        self.counts.wrong_pages[name] += 1
        self._wrong.add(page)

    def _right(self, page: Page, body: bytes, hour: int) -> bool:
        """Is it what the server would have said at that hour?"""
        expected = {
            "/price/": f"hour: {20 + hour % 24} EUR",
            "/day/": f"Day {hour // 24}<",
            "/open/": "We have opened" if hour % 24 < 9 else "We have closed",
        }
        if page[0] == SHOP and page[1] in expected:
            return expected[page[1]].encode() in body
        host, path = page
        resolve = ("--resolve", f"{host}:80:127.0.0.1")
        says = self.office.server.run(["curl", "-sS", *resolve, f"http://{host}{path}"]).stdout
        return without_nonces(says.encode()).strip() == without_nonces(body).strip()

    def finish(self, out: Path) -> Counts:
        """Write down what came of it."""
        self.counts.days = self.hour / 24
        self.counts.box = self.office.box.status()["pages"]
        out.write_text(json.dumps(vars(self.counts), indent=1) + "\n")
        return self.counts


def begin(office: Office) -> Week:
    """Start the box so that its hours pass as the shop's do."""
    box, command = office.box, office.box.controller_command
    box.start(**CONFIG)
    box.await_state("awake")
    week = Week(office)
    varnish: list[str | Path] = ["varnishadm", "-n", box.directory / "varnish", "param.set"]
    for name, value in (("default_ttl", "1"), ("default_grace", "0.3")):
        box.run([*varnish, name, value])
    scaled = [sys.executable, "-c", CONTROLLER, *command()[1:]]
    vars(box)["controller_command"] = lambda: scaled
    box.kill_controller()
    box.start_controller()
    box.await_state("awake")
    return week
