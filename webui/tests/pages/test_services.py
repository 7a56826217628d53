"""What else a server does: shown to everybody, chosen by administrators."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box
from flask.testing import FlaskClient
from naproxy.api.shapes import check
from naproxy_webui.pages.now.card import unanswered
from naproxy_webui.pages.setup import services as page

from tests.patience import wait_for

FACTS = "naproxy-facts 1\nlistens=flows 53/udp/named 445/tcp/smbd 5000/tcp/python3 5353/udp\n"
PATH = "/api/setup/services"


@pytest.fixture
def checked(client: FlaskClient, box: Box) -> FlaskClient:
    """The doctor was given what the script printed on the server, and names it."""
    if not listed(client):
        result = look(client, FACTS)["result"]
        [found] = [each for each in result["checks"] if each["name"] == "other_services"]
        assert found["verdict"] == "problem"
    return client


def look(client: FlaskClient, facts: str) -> dict[str, Any]:
    path = "/api/setup/check"
    body = {"server": "web", "facts": facts}
    wait_for(lambda: client.post(path, json=body).status_code != 429, "the check")
    wait_for(lambda: client.get(path, query_string={"server": "web"}).json["ended_s"], "its end")
    found: dict[str, Any] = client.get(path, query_string={"server": "web"}).json
    return found


def listed(client: FlaskClient) -> dict[str, dict[str, Any]]:
    said = client.get(PATH, query_string={"server": "web"}).json
    check(said, page.SERVICES)
    return {each["key"]: each for each in said["services"]}


def choose(client: FlaskClient, **choices: str) -> Any:
    chosen = [{"key": key, "choice": choice} for key, choice in choices.items()]
    return client.post(PATH, json={"server": "web", "choices": chosen})


def test_services_are_listed_in_words_with_a_proposal(checked: FlaskClient, box: Box) -> None:
    found = listed(checked)
    assert list(found) == ["dns", "smb", "system", "5000/tcp"]
    assert found["dns"]["name"] == "Answers for names (DNS)"
    assert found["dns"]["programs"] == ["named"]
    assert (found["dns"]["proposal"], found["dns"]["choice"]) == ("never", None)
    assert found["5000/tcp"]["name"] == "Runs python3"
    server = box.call("GET", "/v1/status")[1]["servers"][0]
    assert unanswered(server) == ["Answers for names (DNS)"]


def test_a_choice_is_configured_and_earlier_ones_stay(checked: FlaskClient, box: Box) -> None:
    choose(checked, smb="ignore", dns="never")
    answer = choose(checked, smb="used", **{"5000/tcp": "ignore"}).json
    config = box.call("GET", "/v1/config")[1]
    assert config["server"][0]["awake"]["services"] == ["dns never", "smb used", "5000/tcp ignore"]
    assert answer == {"server": "web", "version": config["version"]}
    assert listed(checked)["smb"]["choice"] == "used"
    server = box.call("GET", "/v1/status")[1]["servers"][0]
    assert unanswered(server) == []
    assert "server.never_sleeps" in [each["code"] for each in server["inhibitors"]]


def test_an_unknown_service_is_refused_and_changes_nothing(checked: FlaskClient, box: Box) -> None:
    for key in ("nothing", "0/tcp", "dns\nnever", "<b>", "70000/udp"):
        before = box.file.read_bytes()
        answer = choose(checked, **{key: "never"})
        assert answer.status_code in (400, 422), key
        assert box.file.read_bytes() == before, key


def test_ports_that_are_garbled_are_told_and_forgotten(client: FlaskClient, box: Box) -> None:
    before = listed(client)
    result = look(client, "naproxy-facts 1\nlistens=445/tcp/<b>\x1b[2J\n")["result"]
    [found] = [each for each in result["checks"] if each["name"] == "other_services"]
    assert found["verdict"] == "not seen"
    assert "bad word" in found["what"]
    assert found["what"].isprintable()
    assert listed(client) == before


def test_a_server_that_there_is_not_has_no_services(client: FlaskClient, box: Box) -> None:
    assert client.get(PATH, query_string={"server": "nas"}).status_code == 404
