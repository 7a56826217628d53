"""The server's own timers: it is woken in time for them, and not put to sleep just before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clients import ASSET, ask, fresh
from tests.e2e.clock import Clock
from tests.patience import wait_for
from tests.simulator.office import Office

TELLS = """#!/bin/sh
echo "$SSH_ORIGINAL_COMMAND" >>'{log}'
case "$SSH_ORIGINAL_COMMAND" in
*appointments)
	sleep {takes_s}
	echo naproxy-appointments 1
	date '+now %s'
	echo 'timers [{{"unit": "backup.timer", "next": '$(($(date +%s) + {in_s}))'000000}}]'
	echo end
	exit ;;
esac
exec '{command}'
"""
ORDER = "naproxy-sleep watch 139/tcp 445/tcp 2049/tcp"
"""The command that the script receives, with the ports of shared folders."""
ASKED = f"{ORDER} appointments"
SOON_S = 240
LATER_S = 7200


class Server:
    """The office's, with a script for sleeping that tells."""

    def __init__(self, directory: Path):
        self._script = directory / "naproxy-sleep"
        self._before = directory / "naproxy-sleep.before"
        self._log = directory / "naproxy-sleep.log"
        self._before.write_text(self._script.read_text())
        self._before.chmod(0o755)
        self._log.write_text("")

    def has_a_timer(self, in_s: int, takes_s: int = 0) -> None:
        """Tell of one from now on."""
        told = {"log": self._log, "command": self._before, "in_s": in_s, "takes_s": takes_s}
        text = TELLS.format(**told)
        # A shell that still reads it goes on with the old one.
        self._script.unlink()
        self._script.write_text(text)
        self._script.chmod(0o755)

    def told(self) -> list[str]:
        """Return what this test's server was told."""
        return self._log.read_text().splitlines()

    def tells_nothing(self) -> None:
        self._script.write_text(self._before.read_text())


@pytest.fixture
def server(office: Office, clock: Clock) -> Iterator[Server]:
    server = Server(office.server.directory)
    yield server
    clock.step(0)
    server.tells_nothing()
    office.box.reconfigure()


def inhibited(office: Office) -> bool:
    codes = [each["code"] for each in office.box.status()["inhibitors"]]
    return "sleep.appointment" in codes


def test_a_server_that_sleeps_is_woken_for_its_timer_and_given_a_moment(
    office: Office, server: Server, clock: Clock
) -> None:
    server.has_a_timer(LATER_S)
    office.box.sleep()
    *_, order = server.told()
    alarm_s = int(order.removeprefix(f"{ORDER} alarm "))
    assert LATER_S - 60 < alarm_s < LATER_S
    assert office.server.board.state == "off"
    clock.step(LATER_S - 90)
    office.box.reconfigure()  # it reads its clock again
    assert office.box.status()["state"] == "asleep"
    clock.step(LATER_S - 30)
    office.box.reconfigure()
    office.box.await_state("awake")
    woken = office.box.wakes()[0]
    assert (woken["who"], woken["reason"]["code"]) == ("schedule", "sleep.appointment")
    assert inhibited(office)


def test_a_visitor_during_the_script_is_served_at_once(office: Office, server: Server) -> None:
    server.has_a_timer(LATER_S)
    office.box.sleep()
    office.box.wake()
    before = server.told()
    written = office.box.transitions()[0], office.box.wakes()[0]
    server.has_a_timer(LATER_S, takes_s=5)
    office.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: server.told() == [*before, ASKED], "the question")
    answer = ask(office.client, fresh("/images/001.png"), headers=ASSET)
    assert (answer.status, office.box.status()["state"]) == (200, "awake")
    assert answer.took_s < 3
    assert office.box.status()["reason"]["code"] == "server.wanted_before"
    # It did not sleep, and was not woken.
    assert (office.box.transitions()[0], office.box.wakes()[0]) == written
    # An order would come before what is asked for a later sleep.
    server.has_a_timer(LATER_S)
    office.box.sleep()
    assert server.told()[:-1] == [*before, ASKED, ASKED]


# The last test: the box remembers the timers it was told of until they have passed.


def test_a_server_with_something_to_do_soon_is_not_put_to_sleep(
    office: Office, server: Server
) -> None:
    server.has_a_timer(SOON_S)
    office.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: inhibited(office), "the refusal")
    office.box.await_state("awake")
    assert server.told() == [ASKED]
    assert [each["name"] for each in office.box.status()["appointments"]] == ["backup.timer"]
