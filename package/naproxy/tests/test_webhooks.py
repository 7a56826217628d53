from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from naproxy.controller.webhooks import Webhooks
from naproxy.core.state import Klass
from naproxy.shm import page
from naproxy.shm.events import Event
from naproxy.shm.page import Outcome, Page

GET, POST = 0, 2
HOOK = 5
NEWS = Event(
    seq=1,
    t_us=1,
    client=77,
    path=HOOK,
    delay_ms=0,
    agent=0,
    server=1,
    klass=Klass.API,
    outcome=Outcome.PASS,
    flags=page.E_NEEDED,
    status=204,
    method=POST,
)


@pytest.fixture
def shared(tmp_path: Path) -> Page:
    return Page(tmp_path)


def told(shared: Page) -> list[int]:
    return [path for path in shared.layout.server[1].webhook if path]


def test_a_post_that_was_taken_makes_a_webhook(shared: Page) -> None:
    Webhooks(shared, 1).heard([NEWS])
    assert told(shared) == [HOOK]
    assert not any(shared.layout.server[0].webhook)


@pytest.mark.parametrize(
    "other",
    [
        {"method": GET},
        {"status": 404},
        {"status": 302},
        {"klass": Klass.PERSON},
        {"klass": Klass.SCANNER},
        {"klass": Klass.MONITOR},
        {"klass": 7},
        {"flags": page.E_NEEDED | page.E_OWN},
    ],
)
def test_nothing_else_does(shared: Page, other: dict[str, Any]) -> None:
    Webhooks(shared, 1).heard([replace(NEWS, **other)])
    assert told(shared) == []


def test_what_people_load_as_a_page_is_none(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    webhooks.heard([NEWS, replace(NEWS, path=6)])
    webhooks.heard([replace(NEWS, klass=Klass.PERSON, method=GET, flags=page.E_PAGE_LOAD)])
    assert told(shared) == [6]


def test_a_page_that_is_not_there_takes_no_webhook_away(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    webhooks.heard([NEWS])
    webhooks.heard([replace(NEWS, method=GET, status=405, flags=page.E_PAGE_LOAD)])
    assert told(shared) == [HOOK]


def test_of_more_than_the_page_holds_the_last_are_kept(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    webhooks.heard(replace(NEWS, path=n) for n in (*range(1, page.WEBHOOKS + 1), 1, 100))
    assert told(shared) == [*range(3, page.WEBHOOKS + 1), 1, 100]


def test_they_are_kept_over_a_restart(shared: Page, tmp_path: Path) -> None:
    webhooks = Webhooks(shared, 1)
    webhooks.heard([NEWS])
    (tmp_path / "anew").mkdir()
    anew = Page(tmp_path / "anew")
    Webhooks(anew, 1).take_up(webhooks.kept())
    assert told(anew) == [HOOK]


@pytest.mark.parametrize("saved", [{}, {"webhooks": 5}, {"webhooks": ["a", -1, 0, 1 << 64, None]}])
def test_what_makes_no_sense_is_left(shared: Page, saved: dict[str, Any]) -> None:
    Webhooks(shared, 1).take_up(saved)
    assert told(shared) == []
