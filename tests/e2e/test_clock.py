"""The box's clock steps: what it does depends on time that has passed, not on what clocks say.

The machine's own clock belongs to everybody on it, so libfaketime lies to the controller and
to varnishd about CLOCK_REALTIME, and leaves CLOCK_MONOTONIC alone, as a real step does.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.clients import ASSET, ask, at_once
from tests.office import Office
from tests.office.namespace import wait_for

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
STEPS = ("+40d", "-40d")
DAY_S = 86400.0

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")


class Clock:
    """The wall clock of controller and varnishd."""

    def __init__(self, file: Path):
        self._file = file
        self.step("+0d")

    def step(self, offset: str) -> None:
        """From now on the clock differs from the true one by this, such as +1d."""
        new = self._file.with_suffix(".new")
        new.write_text(offset)
        new.chmod(0o644)
        new.rename(self._file)

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture(scope="module")
def clock(shared: Office) -> Clock:
    """Start the box again with a clock of its own."""
    shared.box.stop()
    clock = Clock(shared.directory / "clock")
    shared.box.start_controller(clock.environment())
    shared.box.start_varnish(clock.environment())
    return clock


@pytest.fixture(params=STEPS)
def step(request: pytest.FixtureRequest, clock: Clock, office: Office) -> Iterator[partial[None]]:
    yield partial(clock.step, request.param)
    clock.step("+0d")
    # Whatever the step did to the policy, the next test starts from here.
    office.box.await_state("awake")


def test_the_clock_that_steps_is_the_one_they_see(clock: Clock, office: Office) -> None:
    def date() -> str:
        return ask(office.client, "/.naproxy/status").headers["date"]

    before = date()
    clock.step("+400d")
    assert date().split()[3] != before.split()[3]
    clock.step("+0d")


def test_an_awake_server_stays_awake(step: partial[None], office: Office) -> None:
    step()
    assert ask(office.client, "/?awake").status == 200
    assert office.box.status()["state"] == "awake"
    assert [t["state"] for t in office.server.board.report()["transitions"]][-1] == "on"


def test_a_sleeping_server_stays_asleep_and_wakes_when_wanted(
    step: partial[None], office: Office
) -> None:
    office.box.sleep()
    step()
    assert office.box.status()["state"] == "asleep"
    assert office.server.board.state == "off"
    answer = ask(office.client, "/?asleep", headers=ASSET)
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "held")


def test_requests_are_held_on_over_a_step(step: partial[None], office: Office) -> None:
    office.box.sleep()
    office.server.board.configure(never_wake=True)
    with at_once([partial(ask, office.client, f"/?{n}", headers=ASSET) for n in range(5)]) as calls:
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


def test_the_server_can_be_put_to_sleep_after_a_step(step: partial[None], office: Office) -> None:
    step()
    office.box.sleep()
    assert office.server.board.state == "off"


def test_the_box_does_not_think_its_controller_dead(step: partial[None], office: Office) -> None:
    office.box.sleep()
    step()
    answer = ask(office.client, "/.naproxy/status")
    assert b'"trusted":true' in answer.body.replace(b" ", b"")


def test_a_wake_over_a_step_did_not_take_days(step: partial[None], office: Office) -> None:
    office.box.sleep()
    office.server.board.configure(wake_s=1.0)
    with at_once([partial(ask, office.client, "/?wake", headers=ASSET)]):
        office.box.await_state("waking")
        step()
        office.box.await_state("awake")
    assert 0 <= office.box.wakes()[0]["waited_s"] < DAY_S
