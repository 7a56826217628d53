"""Who is taken for a visitor that comes through the box: until one has, the server stays awake."""

import pytest

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


def test_requests_for_an_address_of_robots_and_for_the_box_itself_are_no_visitors(
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
