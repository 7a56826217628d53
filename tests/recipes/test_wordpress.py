"""WordPress with MariaDB behind the box, across sleeps: its people, its cron, its orders."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.clients import Answer
from tests.patience import wait_for
from tests.recipes.clients import github, order, stripe
from tests.recipes.place import Place
from tests.recipes.wordpress import HOST, Browser

ADA, BOB, CAROL = "198.18.1.1", "198.18.2.1", "198.18.3.1"


@pytest.fixture(scope="module")
def admin(shared: Place) -> Browser:
    browser = Browser(shared.office, "admin", ADA)
    assert "Dashboard" in browser.login()
    return browser


def state(at: Place) -> str:
    return at.office.server.board.state


def test_who_is_logged_in_stays_so_over_a_sleep_and_publishes(
    asleep: Place, admin: Browser
) -> None:
    number = admin.publish(title="News", content="From a sleeping server", status="publish")
    assert state(asleep) == "on"
    _, text = Browser(asleep.office, "bob", BOB).get(f"/?p={number}")
    assert "From a sleeping server" in text


def test_nobody_gets_the_page_of_another(asleep: Place, admin: Browser) -> None:
    bob = Browser(asleep.office, "bob-2", BOB)
    for _ in range(2):
        assert "wpadminbar" in admin.get("/")[1]
        for _ in range(2):
            status, text = bob.get("/")
            assert status == 200
            assert "wpadminbar" not in text
        asleep.asleep()


def test_a_comment_that_waits_is_shown_to_its_writer_alone(asleep: Place, admin: Browser) -> None:
    bob, words = Browser(asleep.office, "bob-3", BOB), "A question about prices"
    form = {"author": "Bob", "email": "bob@office.example", "comment": words}
    status, text = bob.post("/wp-comments-post.php", comment_post_ID="1", **form)
    assert status == 200
    assert words in text
    assert state(asleep) == "on"
    asleep.asleep()
    assert words not in Browser(asleep.office, "carol", CAROL).get("/?p=1")[1]
    assert words in admin.get("/wp-admin/edit-comments.php")[1]
    written = "select comment_author_IP from wp_comments where comment_author = 'Bob'"
    assert asleep.shop.query(written) == [BOB]


def test_a_post_whose_time_came_in_the_sleep_is_published_by_the_next_visit(
    awake: Place, admin: Browser
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=4)
    when = due.strftime("%Y-%m-%dT%H:%M:%S")
    number = admin.publish(title="Due", content="In time", status="future", date_gmt=when)
    awake.asleep()
    time.sleep(max(0.0, due.timestamp() - time.time()) + 1)
    assert state(awake) == "off"
    Browser(awake.office, "dave", CAROL).get("/?s=wake")
    status = f"select post_status from wp_posts where ID = {number}"
    wait_for(lambda: awake.shop.query(status) == ["publish"], "WP-Cron")
    agents = [
        request["agent"]
        for request in awake.office.server.requests()
        if "wp-cron.php" in request["target"]
    ]
    assert agents, "its own call to itself came through the box"
    assert all(HOST in agent for agent in agents)


def test_an_order_for_a_sleeping_shop_is_kept_once(asleep: Place) -> None:
    assert order(asleep.office, "first", BOB).status == 201
    assert asleep.shop.received("order").count("first") == 1


@pytest.mark.parametrize(("kind", "send"), [("stripe", stripe), ("github", github)])
def test_a_webhook_to_a_sleeping_shop_is_held_and_delivered_once(
    asleep: Place, kind: str, send: Callable[..., Answer]
) -> None:
    answer = send(asleep.office, "evt_1")
    assert (answer.status, answer.headers.get("x-naproxy")) == (200, "held")
    assert send(asleep.office, "evt_2", "another secret").status == 400
    assert [name for name in asleep.shop.received(kind) if name[:4] == "evt_"] == ["evt_1"]
