"""Strangers have cost as much as they may: the server is woken for people only."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.clients import ASSET, PERSON, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.namespace import OfficeError

pytestmark = pytest.mark.long

CONFIG = {"server": {"share": {"strangers_cost": 0.00001}}}
"""Less than one wake costs."""


@pytest.fixture
def spent(asleep: Office) -> Office:
    """The server sleeps again after the one wake that strangers have in a day."""
    wait_for(lambda: over(asleep) or use_up(asleep), "the budget to be used up", 120)
    return asleep


@pytest.fixture
def unwoken(spent: Office) -> Iterator[Office]:
    """Nobody wakes it."""
    before = packets(spent)
    yield spent
    assert packets(spent) == before
    assert spent.box.status()["state"] == "asleep"


def use_up(office: Office) -> bool:
    """Come once. On a busy machine the box hears of it after the order to sleep: it counts then."""
    ask(office.client, fresh(), headers=ASSET)
    office.box.sleep()
    with contextlib.suppress(OfficeError):
        return wait_for(lambda: over(office), "the budget to be used up", 3)
    return False


def over(office: Office) -> bool:
    return bool(office.box.page().server[0].spent_mask)


def packets(office: Office) -> int:
    return int(office.server.board.report()["counts"]["magic"])


def test_a_client_that_shows_nothing_of_a_browser_wakes_nobody(unwoken: Office) -> None:
    for _ in range(3):
        page = ask(unwoken.client, fresh("/"), headers=PERSON)
        assert (page.status, page.headers["x-naproxy"]) == (503, "spent")
        assert b"<script" in page.body
    answer = ask(unwoken.client, fresh(), headers=ASSET)
    assert (answer.status, answer.headers["x-naproxy"]) == (503, "spent")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_browser_that_follows_the_page_is_served(spent: Office) -> None:
    assert ask(spent.client, fresh("/"), headers=PERSON).headers["x-naproxy"] == "spent"
    ask(spent.client, "/.naproxy/status", headers={**PERSON, "Accept": "*/*"})

    def is_let_in() -> bool:
        again = ask(spent.client, fresh("/"), headers=PERSON)
        return again.headers.get("x-naproxy") != "spent"

    wait_for(is_let_in, "the box to take it for a person")
    wait_for(lambda: spent.box.status()["state"] == "awake", "the wake")
