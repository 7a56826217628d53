"""WordPress asleep, where the office says that its pages do not change by themselves."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.clients import PERSON, Answer, ask
from tests.patience import wait_for
from tests.recipes.place import CONFIG, Place
from tests.recipes.wordpress import HOST, Browser

ADA, BOB, CAROL = "198.18.1.1", "198.18.2.1", "198.18.3.1"
RULE = {"path": "/", "asleep": "yes", "keep_s": 1}
"""Kept for a second, so that whatever is shown later was frozen."""
_STYLE = re.compile(r"""href=["']http://[^/"']+(/wp-[^"']+\.css[^"']*)""")


class Visited:
    """The shop, of which the box has learned what visitors ask for."""

    def __init__(self, at: Place, admin: Browser):
        self._at = at
        self.admin = admin
        self.post = admin.publish(title="Hours", content="From nine", status="publish")
        self.style = self._found(self._first_page())
        self._visit()
        at.asleep()
        self._visit()
        # The box learns what visits were about when they are over.
        time.sleep(31)
        at.office.box.wake()

    def title(self, words: str) -> None:
        """Change the post's title so that the box cannot see it."""
        self._at.shop.query(f"update wp_posts set post_title = '{words}' where ID = {self.post}")

    def sleep(self) -> None:
        """Let the server sleep for longer than anything is kept."""
        self._at.asleep()
        time.sleep(2.5)

    def see(self, path: str = "/", source: str = BOB) -> Answer:
        """Ask as a visitor's browser does."""
        return ask(self._at.office.client, path, host=HOST, headers=PERSON, source=source)

    def _first_page(self) -> Answer:
        wait_for(lambda: self.see().status == 200, "the first page")
        return self.see()

    def _found(self, page: Answer) -> str:
        found = _STYLE.search(page.body.decode())
        assert found, page.body
        return found[1].replace("&#038;", "&")

    def _visit(self) -> None:
        self._first_page()
        assert self.see(self.style).status == 200


@pytest.fixture(scope="module")
def visited(shared: Place) -> Iterator[Visited]:
    box = shared.office.box
    box.wake()
    box.reconfigure(**CONFIG, cache_rule=[RULE])
    admin = Browser(shared.office, "author", ADA)
    assert "Dashboard" in admin.login()
    yield Visited(shared, admin)
    box.reconfigure(**CONFIG)


def test_visitors_get_the_first_page_and_its_style_from_a_sleeping_server(
    visited: Visited, awake: Place
) -> None:
    visited.title("Changed just before")
    visited.sleep()
    page, style = visited.see(), visited.see(visited.style)
    assert b"Changed just before" in page.body
    assert [each.headers["x-naproxy"] for each in (page, style)] == ["frozen", "frozen"]
    assert awake.office.server.board.state == "off"


def test_after_the_wake_nobody_gets_the_page_of_before(visited: Visited, awake: Place) -> None:
    visited.sleep()
    assert visited.see().headers["x-naproxy"] == "frozen"
    awake.office.box.wake()
    visited.title("New since the wake")
    assert b"New since the wake" in visited.see(source=CAROL).body


def test_who_is_logged_in_wakes_the_server_and_his_page_is_nobody_elses(
    visited: Visited, awake: Place
) -> None:
    visited.sleep()
    assert "wpadminbar" in visited.admin.get("/")[1]
    assert awake.office.server.board.state == "on"
    assert b"wpadminbar" not in visited.see().body
    visited.sleep()
    page = visited.see(source=CAROL)
    assert page.headers["x-naproxy"] == "frozen"
    assert b"wpadminbar" not in page.body
