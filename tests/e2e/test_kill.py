"""`kill -9` of a part of the box while the server sleeps: the next request is served."""

from functools import partial

import pytest

from tests.e2e.clients import ASSET, PERSON, ask, at_once, fresh
from tests.e2e.conftest import settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office

LIMIT_S = 30.0
"""Nothing may hang longer (issue 2)."""


def served_by_another(office: Office, killed: int) -> bool:
    """Whether a new child answers; connections to the old one's socket are reset."""
    answer = ask(office.client, "/.naproxy/status", timeout_s=2)
    return answer.status > 0 and office.box.child() != killed


def counted(office: Office) -> int:
    return sum(map(sum, office.box.page().server[0].requests))


@pytest.fixture(scope="module")
def killed(shared: Office) -> Office:
    """Child and controller, killed while the server slept, are back. Requests were counted before.

    The fault campaign kills each of them alone.
    """
    settle_awake(shared)
    ask(shared.client, fresh(), headers=ASSET)
    wait_for(lambda: counted(shared) > 0, "a count")
    shared.box.sleep()
    before = counted(shared)
    child = shared.box.kill_child()
    shared.box.kill_controller()
    shared.box.start_controller()
    wait_for(lambda: served_by_another(shared, child), "a new child")
    assert counted(shared) >= before, "counters go on"
    return shared


def test_a_killed_process_restarts_and_the_server_still_counts_as_asleep(killed: Office) -> None:
    killed.box.await_state("asleep")
    assert killed.server.board.state == "off"


def test_a_killed_process_restarts_and_the_next_request_is_served(killed: Office) -> None:
    answer = ask(killed.client, fresh(), headers=ASSET)
    assert (answer.status, answer.took_s < LIMIT_S) == (200, True)


def test_without_a_controller_a_request_wakes_the_server_all_the_same(asleep: Office) -> None:
    asleep.box.kill_controller()
    answer = ask(asleep.client, fresh(), headers=ASSET)
    assert (answer.status, answer.took_s < LIMIT_S) == (200, True)


def test_without_a_controller_a_persons_page_comes(asleep: Office) -> None:
    asleep.box.kill_controller()
    path = fresh()

    def status() -> int:
        return ask(asleep.client, path, headers=PERSON).status

    # Until the heartbeat is stale the box may still promise that the server comes.
    wait_for(lambda: status() == 200, "the page", LIMIT_S)


def test_requests_that_are_held_survive_the_controllers_death(asleep: Office) -> None:
    asleep.server.board.configure(never_wake=True)
    with at_once(partial(ask, asleep.client, fresh(), headers=ASSET) for _ in range(10)) as futures:
        wait_for(lambda: asleep.box.page().server[0].held_now == 10, "held requests")
        asleep.box.kill_controller()
        asleep.server.board.configure(never_wake=False)
        asleep.box.start_controller()
    assert {future.result().status for future in futures} == {200}
    assert max(future.result().took_s for future in futures) < LIMIT_S


def test_a_controller_that_stops_in_order_leaves_a_working_box(asleep: Office) -> None:
    assert asleep.box.controller
    asleep.box.controller.terminate()
    assert asleep.box.controller.wait(timeout=10) == 0
    assert ask(asleep.client, fresh(), headers=ASSET).status == 200
