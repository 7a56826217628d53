"""The server never wakes: people are told, somebody is alerted, and it is called on and on."""

import pytest
from naproxy.core.reason import reason_of
from naproxy.lab.replay.replay_visit import became

from tests.e2e.clients import ASSET, PERSON, ask, fresh
from tests.e2e.conftest import settle_asleep
from tests.fixed import CONNECT_AT_ONCE
from tests.patience import wait_for
from tests.simulator.office import Office

CONFIG = {"server": {"wake": [{"spacing_s": 0.1}]}}
FIXED = {**CONNECT_AT_ONCE, "naproxy.drivers.wake.RungSettings": {"attempts": 5}}


def call_in_vain(office: Office) -> None:
    """Nobody answers the call."""
    office.server.board.configure(never_wake=True)
    office.box.api("POST", "/v1/servers/web/wake", {})
    office.box.await_state("trouble")


@pytest.fixture(scope="module")
def trouble(shared: Office) -> Office:
    """Stays until its last test ends it."""
    settle_asleep(shared)
    call_in_vain(shared)
    return shared


def test_it_is_called_on_and_on(trouble: Office) -> None:
    def called() -> int:
        return int(trouble.server.board.report()["counts"]["magic"])

    before = called()
    wait_for(lambda: called() >= before + 2, "two more magic packets")


def test_a_person_gets_a_clear_page_that_comes_back(trouble: Office) -> None:
    answer = ask(trouble.client, fresh(), headers=PERSON)
    assert answer.status == 503
    assert b"The server did not wake up" in answer.body
    assert int(answer.headers["retry-after"]) >= 1
    assert int(answer.headers["refresh"]) >= 1


def test_a_program_that_sends_something_is_told_to_check(trouble: Office) -> None:
    answer = ask(trouble.client, "/app/echo", method="POST", body=b"lost?")
    assert answer.status == 503
    assert b"check that before you send it again" in answer.body


def test_status_journal_and_log_say_why(trouble: Office) -> None:
    newest = trouble.box.transitions()[0]
    assert newest["to"] == "trouble"
    for told in (trouble.box.status()["reason"], newest["reason"]):
        reason = reason_of(told)
        assert (reason.code, reason.params["calls"]) == ("server.not_up", 5)
    wait_for(
        lambda: "The box called it 5 times in" in (trouble.logs / "controller.log").read_text(),
        "an alert in the log",
    )


def test_all_is_well_once_it_comes_back(trouble: Office) -> None:
    trouble.server.board.configure(never_wake=False)
    trouble.box.wake()
    assert ask(trouble.client, fresh(), headers=PERSON).status == 200


def test_cached_content_is_served_although_the_wake_fails(office: Office) -> None:
    path = "/css/base.css?trouble"
    ask(office.client, path, headers=ASSET)
    office.box.sleep()
    call_in_vain(office)
    assert became(ask(office.client, path, headers=ASSET).headers) == "hit"
