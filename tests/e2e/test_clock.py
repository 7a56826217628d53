"""The box's clock steps: the box goes by elapsed time, not by the time of day.

clock.py steps it.
"""

import re
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.clients import ASSET, ask, at_once, fresh
from tests.e2e.clock import Clock
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT

DAY_S = 86400
# Varnish's own limit: its waiter counts the milliseconds to the next timeout in an int. A step
# back by more than 24 days makes it panic while a connection is open.
STEPS = {"forward": 10 * DAY_S, "back": -10 * DAY_S}


@pytest.fixture(params=list(STEPS.values()), ids=list(STEPS))
def step(request: pytest.FixtureRequest, clock: Clock, office: Office) -> Iterator[partial[None]]:
    yield partial(clock.step, request.param)
    clock.step(0)


def test_the_clock_that_steps_is_the_one_they_see(clock: Clock, office: Office) -> None:
    def date() -> str:
        return ask(office.client, "/.naproxy/status").headers["date"]

    before = date()
    clock.step(20 * DAY_S)
    assert date()[:16] != before[:16]
    clock.step(0)


def test_varnish_survives_a_step_during_a_request(step: partial[None], office: Office) -> None:
    child = office.box.child()
    with at_once([partial(ask, office.client, f"{fresh('/app/reply')}&delay_s=0.5")]) as calls:
        wait_for(lambda: office.box.page().server[0].fetching_now, "the request")
        step()
    assert calls[0].result().status == 200
    assert ask(office.client, fresh()).status == 200
    assert office.box.child() == child


def test_a_box_without_a_battery_serves_before_its_clock_is_set_and_after(
    clock: Clock, office: Office
) -> None:
    started = re.search(r"date -s @(\d+)", (ROOT / "overlay/usr/lib/naproxy/clock.sh").read_text())
    assert started
    box = office.box
    box.stop()
    clock.step(int(started[1]) - int(time.time()))
    box.start_controller(clock.environment())
    box.start_varnish(clock.environment())
    assert ask(office.client, fresh()).status == 200
    child = box.child()
    clock.step(0)
    assert ask(office.client, fresh()).status == 200
    assert box.child() == child


def test_a_cached_response_expires_in_its_time(step: partial[None], office: Office) -> None:
    path = f"{fresh('/app/reply')}&h.Cache-Control=max-age%3D1"
    before = ask(office.client, path).body
    assert ask(office.client, path).body == before
    step()
    wait_for(lambda: ask(office.client, path).body != before, "what the server has now", 5)


def test_a_sleeping_server_stays_asleep_and_wakes_when_wanted(
    step: partial[None], office: Office
) -> None:
    office.box.sleep()
    step()
    assert office.box.status()["state"] == "asleep"
    assert office.server.board.state == "off"
    answer = ask(office.client, fresh(), headers=ASSET)
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "held")


def test_requests_are_held_on_over_a_step(step: partial[None], office: Office) -> None:
    office.box.sleep()
    office.server.board.configure(never_wake=True)
    with at_once([partial(ask, office.client, fresh(), headers=ASSET) for _ in range(5)]) as calls:
        wait_for(lambda: office.box.page().server[0].held_now == 5, "held requests")
        step()
        # Long enough for the box to ask itself whether the limit is reached.
        magic = office.server.board.report()["counts"]["magic"]
        wait_for(
            lambda: office.server.board.report()["counts"]["magic"] > magic + 1, "two more calls"
        )
        assert office.box.page().server[0].held_now == 5
        office.server.board.configure(never_wake=False)
    assert {call.result().status for call in calls} == {200}


def test_the_box_does_not_think_its_controller_dead(step: partial[None], office: Office) -> None:
    step()
    answer = ask(office.client, "/.naproxy/status")
    assert b'"trusted":true' in answer.body.replace(b" ", b"")


def test_a_wake_over_a_step_did_not_take_days(step: partial[None], office: Office) -> None:
    office.box.sleep()
    office.server.board.configure(wake_s=1.5)
    with at_once([partial(ask, office.client, fresh(), headers=ASSET)]):
        office.box.await_state("waking")
        step()
        office.box.await_state("awake")
    assert 0 <= office.box.wakes()[0]["waited_s"] < DAY_S
