"""The server refuses to sleep: it is left alone, and its words reach a person."""

import pytest
from naproxy.core.reason import reason_of

from tests.e2e.clients import ask, fresh
from tests.simulator.office import Office
from tests.simulator.office.namespace import OfficeError, wait_for

WORDS = "a backup is running until 4:00"


@pytest.fixture(scope="module")
def refused(shared: Office) -> Office:
    shared.box.await_state("awake")
    shared.server.board.configure(refuse=WORDS)
    shared.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: WORDS in str(shared.box.status()["inhibitors"]), "the refusal in the status")
    return shared


def test_the_server_stays_awake_and_serves(refused: Office) -> None:
    refused.box.await_state("awake")
    answer = ask(refused.client, fresh())
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "fetch")


def test_its_words_are_in_the_journal(refused: Office) -> None:
    assert WORDS in str(reason_of(refused.box.transitions()[0]["reason"]))


def test_a_person_may_ask_again_at_once(refused: Office) -> None:
    before = len(refused.box.transitions())
    refused.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: len(refused.box.transitions()) == before + 2, "its answer")
    assert WORDS in str(reason_of(refused.box.transitions()[0]["reason"]))


def test_nothing_was_put_to_sleep(refused: Office) -> None:
    states = [t["state"] for t in refused.server.board.report()["transitions"]]
    assert states == ["on"]
    with pytest.raises(OfficeError, match=WORDS):
        refused.server.board.suspend()
