"""Who has used up a share: the server is not woken for him any more, and he is told why."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.clients import ASSET, PERSON, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.namespace import OfficeError

pytestmark = pytest.mark.long

CONFIG = {"server": {"share": {"wakes": 1}}}


@pytest.fixture
def spent(asleep: Office) -> Iterator[Office]:
    """The server sleeps again after the one wake that its visitor has in a day."""
    wait_for(lambda: over(asleep) or use_up(asleep), "the share to be used up", 120)
    before = packets(asleep)
    yield asleep
    assert packets(asleep) == before
    assert asleep.box.status()["state"] == "asleep"


def use_up(office: Office) -> bool:
    """Come once. On a busy machine the box hears of it after the order to sleep: it counts then."""
    ask(office.client, fresh(), headers=ASSET)
    office.box.sleep()
    with contextlib.suppress(OfficeError):
        return wait_for(lambda: over(office), "the share to be used up", 3)
    return False


def over(office: Office) -> bool:
    return bool(office.box.page().spent[0].who)


def packets(office: Office) -> int:
    return int(office.server.board.report()["counts"]["magic"])


def test_a_page_says_that_nobody_is_woken_for_it_and_waits_for_others(spent: Office) -> None:
    page = ask(spent.client, fresh("/"), headers=PERSON)
    assert (page.status, page.headers["x-naproxy"]) == (503, "spent")
    assert b"<script" in page.body


def test_anything_else_is_told_when_to_come_back(spent: Office) -> None:
    answer = ask(spent.client, fresh(), headers=ASSET)
    assert (answer.status, answer.headers["x-naproxy"]) == (503, "spent")
    assert int(answer.headers["retry-after"]) >= 1
