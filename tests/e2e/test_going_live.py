"""Requests that count as visitors through the box: until the first, the server stays awake."""

import json
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest
from naproxy.cli.commands import describe

from tests.e2e.clients import CRAWLER, MONITOR, PERSON, PROGRAM, Answer, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.server import Site

CONFIG = {"server": {"armed": False}}
SITE = Site(https=(HOST,))


@pytest.fixture
def waiting(office: Office) -> Office:
    """A box that no visitor has come through yet."""
    box = office.box
    box.stop()
    (box.data_dir / "history.db").unlink()
    for page in ("page", "events"):
        (box.run_dir / page).unlink(missing_ok=True)
    box.start(**CONFIG)
    box.await_state("awake")
    return office


def counted(office: Office) -> int:
    """How many requests the box has counted, of whomever."""
    told = office.box.status()["counters"]["requests"]
    return sum(sum(outcomes.values()) for outcomes in told.values())


def seen(office: Office) -> bool:
    return office.box.status()["live"]["last_s"] is not None


def assert_no_visitor(office: Office, *answers: Answer) -> None:
    """They were counted as requests, and the box still waits."""
    wait_for(lambda: counted(office) >= len(answers), "the requests to be counted")
    # The page says so at once, the status with the next heartbeat.
    record = office.box.page().server[0]
    assert (record.visited_us, record.visited_tls_us) == (0, 0)
    assert office.box.status()["live"]["waits"]["params"]["name"] == HOST


def test_robots_and_requests_for_an_address_or_the_box_do_not_count_as_visitors(
    waiting: Office,
) -> None:
    client, headers = waiting.client, {"Accept": "application/json"}
    assert_no_visitor(
        waiting,
        ask(client, fresh(), headers=PERSON, host=ADDRESS),
        ask(client, fresh(), headers=PERSON, host="[2001:db8::1]"),
        ask(client, fresh(), headers=CRAWLER),
        ask(client, fresh(), headers=MONITOR),
        ask(client, "/.naproxy/status", headers=headers),
    )
    for machine in (waiting.box, waiting.server):
        argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {HOST}"]
        assert machine.run([*argv, f"http://{ADDRESS}{fresh()}"]).stdout == "200"
    assert_no_visitor(waiting)
    assert ask(client, fresh(), headers=PROGRAM).status == 200
    wait_for(lambda: seen(waiting), "a program, which is one")


def test_a_visitor_over_http_is_not_enough_where_the_server_answers_https_itself(
    waiting: Office,
) -> None:
    office, box = waiting, waiting.box
    box.start_edge()
    box.start_through()
    box.reconfigure(server={"armed": False, "https": {"mode": "box"}})
    box.give(main=pki.issue(office.authority, HOST))
    box.api("POST", "/v1/servers/web/look", {})
    assert ask(office.client, fresh()).status == 200
    code = "server.no_https_visitor_yet"
    wait_for(lambda: (box.status()["live"]["waits"] or {}).get("code") == code, "the wait")
    assert box.status()["live"]["last_s"] is None
    over = pki.context(office.authority)
    assert ask(office.client, fresh(), https=over).status == 200
    wait_for(lambda: seen(office), "the visitor over HTTPS")


def test_a_connection_that_is_passed_on_unopened_is_a_visitor(waiting: Office) -> None:
    office, box = waiting, waiting.box
    box.start_edge()
    box.start_through()
    box.reconfigure(server={"armed": False, "https": {"mode": "through"}})
    over = pki.context(office.authority)

    def asked() -> bool:
        return not ask(office.client, fresh(), https=over).error

    assert ask(office.client, fresh()).status == 200
    assert box.status()["live"]["waits"]["code"] == "server.no_https_visitor_yet"
    wait_for(asked, "the connection to be passed on")
    wait_for(lambda: seen(office), "the visitor over HTTPS")


DAY_S = 86400.0


def test_a_sleeping_server_is_woken_and_stays_on_when_no_visitor_came_for_days(
    waiting: Office,
) -> None:
    office, box = waiting, waiting.box
    assert ask(office.client, fresh()).status == 200
    wait_for(lambda: seen(office), "the first visitor")
    box.sleep()
    proven = subject(box.api("GET", "/v1/config")["server"][0])
    box.stop()
    silent_for(office, 4 * DAY_S, proven)
    for name in ("page", "events"):
        (box.run_dir / name).unlink(missing_ok=True)
    box.start(server={"armed": False, "https": {"mode": "unused"}})
    box.await_state("awake", 60)
    wait_for(lambda: box.status()["https"]["sight"] is None, "the look for visitors by HTTPS")
    status = box.status()
    assert (status["armed"], status["live"]["silent"]) == (False, True)
    assert status["not_armed"] == status["live"]["waits"]
    assert status["not_armed"]["code"] == "server.no_visitor_lately"
    assert status["not_armed"]["params"]["days"] == 4
    [line] = [each for each in described(status) if "STAYS ON" in each]
    assert "No visitor has come through the box for 4 days." in line
    assert ask(office.client, fresh()).status == 200
    wait_for(lambda: box.status()["armed"], "the visitor to end it")


def described(status: dict[str, Any]) -> list[str]:
    """Return the lines of `naproxy status`."""
    return describe(status, time.time())


def subject(server: dict[str, Any]) -> str:
    """Return the subject of a server's test, as its runner names it."""
    wakes = (rung["driver"] for rung in server["wake"])
    return " ".join((server["mac"], server["sleep"]["driver"], server["sleep"]["state"], *wakes))


def silent_for(office: Office, long_s: float, proven: str) -> None:
    """Let the last visitor be so long ago, of a server that has passed its test."""
    with closing(sqlite3.connect(office.box.data_dir / "history.db")) as db:
        [(text,)] = db.execute("SELECT value FROM saved WHERE key = 'arming.web'").fetchall()
        kept, then_s = json.loads(text), time.time() - long_s
        kept["live"] |= {"first_s": then_s, "http_s": then_s}
        kept["proven"] = proven
        db.execute("UPDATE saved SET value = ? WHERE key = 'arming.web'", (json.dumps(kept),))
        db.commit()
