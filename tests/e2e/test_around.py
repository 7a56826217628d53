"""Servers whose visitors come past the box: they are not put to sleep, until nobody does."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from naproxy.core.reason import Reason

from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.box import HOST, RefusedError
from tests.simulator.office.server import Site

SITE = Site(https=(HOST,))
ANSWERS = Reason("server.https_around", port=443)
LEADS = Reason("server.leads_around", name=HOST, to=f"https://{HOST}")
CIRCLE = Reason("server.leads_in_a_circle", name=HOST)


@pytest.fixture(scope="module")
def edge(shared: Office) -> None:
    """The TLS terminator starts as soon as it is configured."""
    shared.box.start_edge()


@pytest.fixture(autouse=True)
def as_before(office: Office) -> Iterator[None]:
    """The server answers over HTTPS, and the box's configuration does not mention it."""
    yield
    with contextlib.suppress(RefusedError):
        office.box.api("DELETE", "/v1/servers/web/commission")
    office.box.reconfigure()
    office.server.serve(pki.issue(office.authority, HOST))
    office.box.await_state("awake")
    look(office)


def visitors(mode: str) -> dict[str, Any]:
    """Change the configuration of how visitors connect over HTTPS."""
    return {"server": {"https": {"mode": mode}}}


def serve_here(office: Office) -> None:
    """Have the box serve HTTPS, with a certificate for its name."""
    office.box.reconfigure(**visitors("box"))
    office.box.give(main=pki.issue(office.authority, HOST))


def look(office: Office) -> dict[str, Any]:
    """Have the box look at the server now, and return what it says of it."""
    said: dict[str, Any] = office.box.api("POST", "/v1/servers/web/look", {})
    return said


def armed(office: Office) -> bool:
    return bool(office.box.status()["armed"])


def sight(office: Office) -> dict[str, Any] | None:
    """Why visitors may come past the box, as the status says it."""
    said: dict[str, Any] | None = office.box.status()["https"]["sight"]
    return said


def assert_stays_awake(office: Office, why: Reason) -> None:
    """The status says why, and so does the refusal of a proof."""
    said = office.box.status()
    assert (said["armed"], said["not_armed"], said["https"]["sight"]) == (
        False,
        why.plain(),
        why.plain(),
    )
    assert why.plain() in said["inhibitors"]
    with pytest.raises(RefusedError) as refused:
        office.box.api("POST", "/v1/servers/web/commission", {"cycles": 1})
    answer = refused.value.answer
    assert (refused.value.status, answer["code"], answer["error"]) == (409, why.code, str(why))


def assert_may_sleep(office: Office) -> None:
    """It is armed, and a proof begins."""
    said = office.box.status()
    assert (said["armed"], said["not_armed"], said["https"]["sight"]) == (True, None, None)
    begun = office.box.api("POST", "/v1/servers/web/commission", {"cycles": 1})
    assert begun["reason"] is None


def test_the_box_detects_an_https_server_that_is_not_configured(
    office: Office,
) -> None:
    wait_for(lambda: sight(office) == ANSWERS.plain(), "the look at the server")
    assert_stays_awake(office, ANSWERS)


def test_a_server_that_leads_no_visitor_past_the_box_is_armed(office: Office) -> None:
    office.server.serve(None)
    look(office)
    assert_may_sleep(office)


def test_a_server_that_redirects_to_https_is_not_armed(office: Office) -> None:
    office.server.serve(None, "untold")
    look(office)
    assert_stays_awake(office, LEADS)


@pytest.mark.usefixtures("edge")
def test_it_is_armed_once_the_box_serves_where_visitors_are_led(office: Office) -> None:
    office.server.serve(pki.issue(office.authority, HOST), "untold")
    look(office)
    assert_stays_awake(office, LEADS)
    serve_here(office)
    wait_for(lambda: armed(office), "the server to be armed")
    assert_may_sleep(office)


@pytest.mark.usefixtures("edge")
def test_a_server_that_redirects_https_to_https_is_not_armed(office: Office) -> None:
    serve_here(office)
    office.server.serve(None, "all")
    look(office)
    wait_for(lambda: sight(office) == CIRCLE.plain(), "the box to know what it serves")
    assert_stays_awake(office, CIRCLE)
