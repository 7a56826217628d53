"""The API of the page Now, with a real controller."""

from __future__ import annotations

import json
import time
from typing import Any

from box import Box
from fitted import fit
from flask import Flask
from flask.testing import FlaskClient
from naproxy.box.clock import zone_name
from naproxy.core.reason import Reason, own_words, plain
from naproxy.core.state import State
from naproxy.core.words import words
from naproxy_webui.pages.now import card as now
from naproxy_webui.pages.now.rates import Rates

from tests.patience import wait_for

HOSTILE = "<img src=x onerror=alert(1)>"


def card(client: FlaskClient, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/now", query_string=query).json
    assert answer
    assert answer["controller"]
    found: dict[str, Any] = answer["servers"][0]
    return found


def said(client: FlaskClient, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] | None = client.get(f"/api/now{query}").json
    assert found
    return found


def embedded(client: FlaskClient) -> dict[str, Any]:
    page = client.get("/").text
    begins = page.index(">", page.index('id="now"')) + 1
    found: dict[str, Any] = json.loads(page[begins : page.index("</script>", begins)])
    return found


def with_meter(box: Box, watts: str = "43.5") -> None:
    """Give the server a meter that reads a file."""
    file = box.directory / "watts"
    file.write_text(watts)
    text = box.file.read_text() + (
        '[[meter]]\nid = "plug"\nof = "web"\ndriver = "simulated"\ninterval_s = 0.2\n'
        f'file = "{file}"\n'
    )
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200


def test_it_says_what_the_server_does_and_why(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    found = card(client)
    assert (found["id"], found["state"], found["why"]) == ("web", "awake", ["It answers."])


def test_the_cards_actions_reach_the_controller(client: FlaskClient, box: Box) -> None:
    wait_for(lambda: box.status()["https"]["sight"] is None, "a look past the box", log=box.log)
    for action in ("arm", "leave", "live"):
        assert client.post(f"/api/servers/web/{action}", json={}).status_code == 200, action
    status = box.status()
    assert status["armed"] is True
    assert "sleep.itself" in [each["code"] for each in status["inhibitors"]]
    assert status["live"]["confirmed_s"] is not None


def test_a_server_that_is_not_there_is_not_woken(client: FlaskClient, box: Box) -> None:
    for name in ("nobody", "..", "%2e%2e%2fconfig", "w b"):
        assert client.post(f"/api/servers/{name}/wake", json={}).status_code in (404, 405), name


def test_without_a_controller_that_is_said(client: FlaskClient) -> None:
    answer = said(client)
    assert (answer["controller"], answer["servers"]) == (False, [])
    assert "controller does not run" in answer["error"]
    assert embedded(client)["controller"] is False
    assert client.get("/api/box").json["controller"] is False  # type: ignore[index]


def test_the_page_brings_what_is_now(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    found = embedded(client)["servers"][0]
    assert found["state"] == "awake"
    assert found["bands"][-1]["state"] == "awake"


def test_each_second_is_sent_once_with_its_measurement(client: FlaskClient, box: Box) -> None:
    with_meter(box)
    start_s = time.time() - 60
    wait_for(lambda: len(card(client, since_s=start_s)["seconds"]) >= 2, "two seconds")
    first = card(client, since_s=start_s)["seconds"]
    answer = said(client, f"?since_s={first[-1][0]}")
    assert first[0][1] == 43.5
    assert all(t_s > first[-1][0] for t_s, _ in answer["servers"][0]["seconds"])
    assert 0 <= answer["now_s"] - first[-1][0] < 10
    wait_for(lambda: (card(client)["power"] or {}).get("power_w") is not None, "a reading")
    assert card(client)["power"]["estimated"] is False


def test_without_a_meter_there_is_no_power(client: FlaskClient, box: Box) -> None:
    found = card(client, since_s=0)
    assert (found["power"], found["seconds"]) == (None, [])


def test_always_on_is_measured_or_else_assumed(client: FlaskClient, box: Box) -> None:
    assert card(client)["always_on"] == {"w": 43.3, "measured": False}
    for sure, expected in (
        (0.01, {"w": 40.5, "measured": True}),
        (0.3, {"w": 43.3, "measured": False}),  # the test says "too uncertain to use"
    ):
        report = {"fit": fit(40.5, 1.6, 170.7, sure=sure)}
        assert now.always_on(report, 43.3) == expected, sure


def test_the_card_has_the_last_waker(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    box.sleep()
    box.ask_for_wake()
    box.wait(State.AWAKE)
    wait_for(lambda: (card(client)["woken"] or {}).get("outcome") == "up", "the ledger")
    found = card(client)["woken"]
    assert (found["who"], found["path"], found["class"]) == ("192.0.2.17", "/news?id=3", "person")


def test_a_visitors_data_is_escaped(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    box.sleep()
    box.datagram(
        "naproxy-wake 1\nserver=web\nreason=page\nmethod=GET\nclass=person\n"
        f"client=192.0.2.17\nagent={HOSTILE}</script>\nhost=x\npath=/{HOSTILE}\n".encode()
    )
    agent = f"{HOSTILE}</script>"
    wait_for(lambda: (card(client)["woken"] or {}).get("agent") == agent, "the ledger")
    page = client.get("/").text
    assert HOSTILE not in page
    assert embedded(client)["servers"][0]["woken"]["agent"] == agent


UNPROVEN = Reason("server.not_commissioned", server="web")
WAITS = Reason("server.no_visitor_yet", name="www.example.org", server="web")
TRIPPED = Reason("server.tripped", why=own_words("no answer"), server="web")


def card_of(app: Flask, box: Box, **changes: Any) -> dict[str, Any]:
    """Return the card, in German, of a server of which the controller says so."""
    said = box.call("GET", "/v1/status")[1]
    with app.test_request_context(headers={"Accept-Language": "de"}):
        return now.server(said["servers"][0] | changes, said, 0.0, Rates())


def test_a_breaker_that_tripped_is_told_from_a_test_that_is_missing(app: Flask, box: Box) -> None:
    for why, tripped in ((None, False), (UNPROVEN, False), (TRIPPED, True)):
        assert card_of(app, box, not_armed=why and why.plain())["tripped"] is tripped, why


def test_silence_of_days_is_told_in_a_sentence_unless_something_else_keeps_it_awake(
    app: Flask, box: Box
) -> None:
    why = Reason("server.no_visitor_lately", name="www.example.org", days=3, server="web").plain()
    live = {"last_s": 1.0, "waits": why, "silent": True}
    silent = card_of(app, box, not_armed=why, live=live)["silent"]
    assert silent.startswith("Seit 3 Tagen ist kein Besucher durch die Box gekommen.")
    assert card_of(app, box, not_armed=TRIPPED.plain(), live=live)["silent"] is None
    assert card_of(app, box)["silent"] is None


def test_where_a_server_was_found_is_on_its_card_and_can_be_adopted_once(
    app: Flask, box: Box, client: FlaskClient
) -> None:
    there = {"address": "192.0.2.3", "mac": "02:00:00:00:00:09"}
    assert card_of(app, box, moved=there)["moved"] == there
    assert card_of(app, box)["moved"] is None
    answer = client.post("/api/servers/web/adopt", json=there)
    assert answer.status_code == 409


def test_a_server_that_waits_for_the_first_visitor_is_told_from_one_that_waits_for_its_test(
    app: Flask, box: Box
) -> None:
    live = {"first_s": None, "last_s": None, "confirmed_s": None, "waits": WAITS.plain()}
    live["silent"] = False
    waiting = card_of(app, box, not_armed=WAITS.plain(), live=live, inhibitors=[WAITS.plain()])
    assert waiting["waits"] is True
    assert "Die Box wartet auf den ersten Besucher" in waiting["inhibitors"][0]
    assert card_of(app, box, not_armed=UNPROVEN.plain(), live=live)["waits"] is False
    assert card_of(app, box, not_armed=None)["waits"] is False


def test_the_controllers_reasons_are_in_the_users_language(app: Flask, box: Box) -> None:
    fetching, kept = Reason("server.fetching", number=2), Reason("server.kept_awake")
    alert = Reason("server.still_not_up", why=own_words("no answer"))
    found = card_of(
        *(app, box),
        inhibitors=plain([fetching, kept]),
        alert=alert.plain(),
        reason=fetching.plain(),
    )
    assert found["inhibitors"] == [words(fetching, "de"), words(kept, "de")]
    assert found["why"] == [words(fetching, "de")]
    assert found["alert"] == "Er ist noch immer nicht da: no answer."


def test_a_servers_appointments_are_on_its_card(app: Flask, box: Box) -> None:
    coming = [{"t_s": 1.8e9, "name": "backup.timer"}]
    assert card_of(app, box, appointments=coming)["appointments"] == coming


def test_a_calendar_is_on_the_card_with_its_problem(app: Flask, box: Box) -> None:
    assert card_of(app, box)["calendar"] is None
    events = [{"t_s": 1.8e9, "end_s": 1.8e9 + 3600, "name": "Choir"}]
    wrong = Reason("server.calendar_status", status=404)
    told = {"events": events, "problem": wrong.plain(), "read_s": None}
    problem = words(wrong, "de")
    assert card_of(app, box, calendar=told)["calendar"] == {"events": events, "problem": problem}


def test_the_line_at_the_top_of_every_page(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    assert client.get("/api/box").json == {
        "controller": True,
        "history_error": None,
        "settings_refused": None,
        "servers": [{"id": "web", "state": "awake", "alert": None}],
    }


def test_a_question_that_cannot_be_is_refused(client: FlaskClient) -> None:
    for query in ("since_s=-1", "since_s=x", "since_s=nan", "other=1"):
        assert client.get(f"/api/now?{query}").status_code == 400, query


def test_states_of_the_last_minutes() -> None:
    changes = [
        {"t_s": 150.0, "from": "waking", "to": "awake"},
        {"t_s": 140.0, "from": "asleep", "to": "waking"},
    ]
    assert now.bands(changes, "awake", 100.0, 200.0) == [
        {"from_s": 100.0, "to_s": 140.0, "state": "asleep"},
        {"from_s": 140.0, "to_s": 150.0, "state": "waking"},
        {"from_s": 150.0, "to_s": 200.0, "state": "awake"},
    ]
    assert now.bands([], "asleep", 1.0, 2.0) == [{"from_s": 1.0, "to_s": 2.0, "state": "asleep"}]


def test_a_meter_that_is_silent_gives_way_to_one_that_is_not() -> None:
    common = {"estimated": False, "age_s": 1.0, "problem": None}
    meters = [
        {"id": "a", "of": "web", "power_w": None, **common},
        {"id": "b", "of": "web", "power_w": 5.0, **common},
    ]
    found = now.power("web", meters)
    assert found
    assert found["meter"] == "b"


def test_times_are_the_boxs_where_the_office_has_no_zone(client: FlaskClient) -> None:
    assert f'data-time-zone="{zone_name()}"' in client.get("/").text


def test_a_dismissed_line_of_the_checklist_is_so_for_everybody(
    client: FlaskClient, viewer: FlaskClient, box: Box
) -> None:
    box.wait(State.AWAKE)
    dismissed = client.post("/api/now/checklist/meter", json={"dismissed": True}).json
    for said in (dismissed, viewer.get("/api/now/checklist").json):
        assert said
        assert [each["name"] for each in said["lines"] if each["dismissed"]] == ["meter"]


def test_the_log_has_each_change_of_state_once_and_for_administrators_the_systems_lines(
    client: FlaskClient, viewer: FlaskClient, box: Box
) -> None:
    box.wait(State.AWAKE)

    def rows(who: FlaskClient) -> list[dict[str, str]]:
        found: Any = who.get("/api/now/log", query_string={"since_s": 0}).json
        return list(found["rows"])

    assert {"state", "system"} <= {row["kind"] for row in rows(client)}
    assert not [row for row in rows(client) if row["kind"] == "system" and "->" in row["words"]]
    assert "system" not in {row["kind"] for row in rows(viewer)}
