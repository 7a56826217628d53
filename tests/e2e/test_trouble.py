"""The server never wakes: people are told, somebody is alerted, and it is called on and on."""

import pytest
from naproxy.core.reason import reason_of
from naproxy.lab.replay.replay_visit import became

from tests.e2e.clients import ASSET, PERSON, ask, fresh
from tests.simulator.office import Office
from tests.simulator.office.namespace import wait_for

CONFIG = {
    "server": {
        "wake": {"spacing_s": 0.1, "attempts": 5},
        "hold": {"limit_s": 4},
        "connect_timeout_s": 1,
    }
}


@pytest.fixture
def trouble(asleep: Office) -> Office:
    """Nobody answers the call."""
    asleep.server.board.configure(never_wake=True)
    asleep.box.api("POST", "/v1/servers/web/wake", {})
    asleep.box.await_state("trouble")
    return asleep


def test_a_person_gets_a_clear_page_that_comes_back(trouble: Office) -> None:
    answer = ask(trouble.client, fresh(), headers=PERSON)
    assert answer.status == 503
    assert b"The server did not wake up" in answer.body
    assert int(answer.headers["retry-after"]) >= 1
    assert int(answer.headers["refresh"]) >= 1


def test_a_program_gets_a_clear_answer(trouble: Office) -> None:
    answer = ask(trouble.client, fresh("/app/reply"))
    assert answer.status == 503
    assert b"did not wake up" in answer.body
    assert int(answer.headers["retry-after"]) >= 1


def test_a_program_that_sends_something_is_told_to_check(trouble: Office) -> None:
    answer = ask(trouble.client, "/app/echo", method="POST", body=b"lost?")
    assert answer.status == 503
    assert b"check that before you send it again" in answer.body


def test_nobody_waits_longer_than_half_a_minute(trouble: Office) -> None:
    assert ask(trouble.client, fresh()).took_s < 30


def test_a_request_that_was_held_is_told_at_the_limit(asleep: Office) -> None:
    asleep.server.board.configure(never_wake=True)
    answer = ask(asleep.client, fresh(), headers=ASSET)
    assert (answer.status, answer.took_s < 30) == (503, True)


def test_what_is_cached_is_served_all_the_same(office: Office) -> None:
    path = "/css/base.css?trouble"
    ask(office.client, path, headers=ASSET)
    office.box.sleep()
    office.server.board.configure(never_wake=True)
    office.box.api("POST", "/v1/servers/web/wake", {})
    office.box.await_state("trouble")
    assert became(ask(office.client, path, headers=ASSET).headers) == "hit"


def test_the_status_says_why(trouble: Office) -> None:
    reason = reason_of(trouble.box.status()["reason"])
    assert (reason.code, reason.params["calls"]) == ("server.not_up", 5)


def test_the_journal_says_why(trouble: Office) -> None:
    newest = trouble.box.transitions()[0]
    assert newest["to"] == "trouble"
    reason = reason_of(newest["reason"])
    assert (reason.code, reason.params["calls"]) == ("server.not_up", 5)


def test_the_controllers_log_alerts(trouble: Office) -> None:
    wait_for(
        lambda: "The box called it 5 times in" in (trouble.logs / "controller.log").read_text(),
        "an alert in the log",
    )


def test_it_is_called_on_and_on(trouble: Office) -> None:
    def called() -> int:
        return int(trouble.server.board.report()["counts"]["magic"])

    before = called()
    wait_for(lambda: called() >= before + 2, "two more magic packets")


def test_all_is_well_once_it_comes_back(trouble: Office) -> None:
    trouble.server.board.configure(never_wake=False)
    trouble.box.await_state("awake")
    assert ask(trouble.client, fresh(), headers=PERSON).status == 200


def test_a_server_that_hangs_on_resume_is_trouble_too(asleep: Office) -> None:
    asleep.server.board.configure(hang=True)
    asleep.box.api("POST", "/v1/servers/web/wake", {})
    asleep.box.await_state("trouble")
    wait_for(lambda: asleep.server.board.state == "hung", "the server to hang")
    asleep.server.board.power_on()
    asleep.box.await_state("awake")
