"""The first run: the changes by its steps, and the users who may see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from conftest import browser, speak
from fitted import commissioned, fit
from flask import Flask
from flask.testing import FlaskClient
from naproxy.api.shapes import check
from naproxy.core.reason import Reason, own_words
from naproxy.core.state import State
from naproxy.core.words import sentences
from naproxy.shm.page import monotonic_us
from naproxy_webui.http.control import Control
from naproxy_webui.pages.setup import page as setup_page
from naproxy_webui.pages.setup import proof as setup_proof
from naproxy_webui.pages.setup import routers as setting_routers
from naproxy_webui.pages.setup import steps as setting_up

from tests.patience import wait_for

CONFIG: dict[str, Any] = {
    "box": {"interface": "eth0"},
    "server": [
        {"id": "web", "interface": "", "sleep": {"driver": "none"}},
        {
            "id": "shop",
            "interface": "eth1",
            "sleep": {"driver": "ssh", "state": "ram", "command": "naproxy-sleep"},
        },
    ],
    "meter": [{"id": "a", "of": "web"}, {"id": "b", "of": "shop"}, {"id": "meter", "of": "web"}],
}
NEW: dict[str, Any] = {**CONFIG, "server": [], "meter": []}
FOUND = {"address": "192.0.2.9", "mac": "02:00:00:00:00:09", "port": 80, "interface": "eth0"}


def test_a_server_is_called_after_its_machine() -> None:
    for name, taken, made in (
        ("www.example.org", [], "www"),
        ("Büro-Server_2.local", [], "b-ro-server-2"),
        ("", [], "web"),
        ("<script>alert(1)</script>", [], "script-alert-1-script"),
        ("box", [], "web"),
        ("web", ["web"], "web-2"),
        ("web", ["web", "web-2"], "web-3"),
        ("-" * 99, [], "web"),
    ):
        assert setting_up.server_id(name, taken) == made, name


def test_the_first_server_serves_every_name_and_sets_the_boxs_wire() -> None:
    changes = setting_up.server(NEW, {**FOUND, "interface": "end0", "name": "nas.lan"}, None)
    assert changes[0] == setting_up.put("box.interface", "end0")
    made = changes[1]["value"]
    assert (made["id"], made["default"], made["address"]) == ("nas", True, "192.0.2.9")
    assert "interface" not in made


def test_another_server_on_another_wire_is_woken_there() -> None:
    [change] = setting_up.server(CONFIG, {**FOUND, "interface": "eth1"}, None)
    assert change["value"]["interface"] == "eth1"
    assert "default" not in change["value"]


def test_a_server_that_moved_keeps_everything_else() -> None:
    changes = setting_up.server(CONFIG, FOUND, "web")
    assert [c["where"] for c in changes] == [f"server.web.{k}" for k in ("address", "mac", "port")]
    assert all(change["op"] == "set" for change in changes)


def test_host_names_are_extracted_from_pasted_text() -> None:
    for typed, names in (
        (["https://www.example.org/start?x=1"], ["www.example.org"]),
        (["WWW.Example.org:8080", "www.example.org."], ["www.example.org"]),
        (["a.example b.example,c.example;\nd.example"], [f"{n}.example" for n in "abcd"]),
        (["http://user:secret@a.example/"], ["a.example"]),
        (["müller.example"], ["xn--mller-kva.example"]),
        (["Straße.example"], ["xn--strae-oqa.example"]),
        (["*.müller.example"], ["*.xn--mller-kva.example"]),
        (["name!"], ["name!"]),
        ([" ", "", "/"], []),
    ):
        assert setting_up.host_names(typed) == names, typed


def test_the_cache_gets_what_is_chosen_and_each_part_once() -> None:
    rules = [{"path": "/news/", "server": ""}, {"path": "/shop/", "server": "shop"}]
    server = {"id": "web", "cache": {"mode": "default", "pages": "rules"}}
    config = {"server": [server], "cache_rule": rules}
    paths = ["/news/", "/shop/", "/shop/"]
    chosen = {"mode": "frozen", "pages": "verified"}
    mode, pages, rule = setting_up.cache(config, "web", chosen, paths)
    assert mode == setting_up.put("server.web.cache.mode", "frozen")
    assert pages == setting_up.put("server.web.cache.pages", "verified")
    assert rule["where"] == "cache_rule"
    assert rule["value"] == {"path": "/shop/", "asleep": "yes", "server": "web"}


def test_only_another_way_to_sleep_replaces_the_old_ones_keys() -> None:
    way = {"driver": "ssh", "state": "off", "user": "root"}
    assert setting_up.sleep(CONFIG, "web", way) == [setting_up.put("server.web.sleep", way)]
    changes = setting_up.sleep(CONFIG, "shop", way)
    assert setting_up.put("server.shop.sleep.user", "root") in changes
    assert all(change["where"].startswith("server.shop.sleep.") for change in changes)


def test_command_of_one_s_own_is_a_login_and_the_agent_can_take_its_place_again() -> None:
    way = {"driver": "login", "state": "off", "user": "admin", "command": "/sbin/poweroff"}
    [change] = setting_up.sleep(CONFIG, "web", way)
    assert change["value"] == {**way, "driver": "ssh"}
    shop = {"id": "shop", "interface": "", "sleep": change["value"]}
    assert setting_up.way_now(shop["sleep"]) == "login"
    ssh = {"driver": "ssh", "state": "ram", "user": "naproxy"}
    changes = setting_up.sleep({**CONFIG, "server": [shop]}, "shop", ssh)
    assert setting_up.put("server.shop.sleep.command", "naproxy-sleep") in changes


def test_a_meter_replaces_those_of_its_server_and_no_others() -> None:
    chosen = {"kind": "found", "driver": "shelly", "keys": {"host": "192.0.2.30"}}
    *removed, added = setting_up.meter(CONFIG, "web", chosen)
    assert [change["where"] for change in removed] == ["meter.3", "meter.1"]
    assert added["value"] == {
        "id": "meter",
        "of": "web",
        "driver": "shelly",
        "host": "192.0.2.30",
    }


def test_without_a_meter_nothing_is_left_of_the_old_ones() -> None:
    changes = setting_up.meter(CONFIG, "shop", {"kind": "none"})
    assert changes == [{"op": "remove", "where": "meter.2"}]


def test_an_estimate_is_a_simulated_meter_and_sets_the_powers() -> None:
    changes = setting_up.meter(NEW, "web", {"kind": "estimate", "on_w": 40, "off_w": 2})
    assert setting_up.put("server.web.power.on_w", 40.0) in changes
    assert changes[-1]["value"]["driver"] == "simulated"


WEB: dict[str, Any] = {
    "id": "web",
    "hosts": ["www.a.example"],
    "https": {"mode": "none", "redirect": False, "hsts_s": 0},
}


MANY = [f"n{n}.example" for n in range(100)]


def looked(port: str, *names: str, to: str = "") -> dict[str, Any]:
    led = [{"to": to, "https": to.startswith("https")}] if to else []
    return {"look": {"port": port, "shown": [{"names": list(names)}], "led": led}}


def test_a_look_finds_https_and_unserved_names() -> None:
    for found, said in (
        ({"look": None}, (False, False, None, [])),
        (looked("unknown"), (False, False, None, [])),
        (looked("refused"), (True, False, None, [])),
        (looked("open"), (True, True, None, [])),
        (looked("silent", to="https://a.example"), (True, False, "https://a.example", [])),
        (looked("silent", to="http://a.example:81"), (True, False, None, [])),
        (
            looked("open", "WWW.a.example", "Shop.a.example", "*.a.example", "shop.a.example"),
            *((True, True, None, ["shop.a.example", "*.a.example"]),),
        ),
        (looked("open", *MANY), (True, True, None, MANY[: setting_up.MOST_NAMES])),
        (looked("open", "<script>", "", "a b", "x" * 300, "*"), (True, True, None, [])),
    ):
        seen = setting_up.seen(found, WEB)
        assert (seen["known"], seen["answers"], seen["leads"], seen["names"]) == said, found


def test_a_choice_of_https_is_written() -> None:
    for mode, silent, written in (
        ("box", True, "box"),
        ("box", False, "box"),
        ("later", False, "none"),
        ("unused", False, "unused"),
        ("unused", True, "none"),
        ("through", False, "through"),
    ):
        [change] = setting_up.https(WEB, mode, [], silent=silent)
        assert change == setting_up.put("server.web.https.mode", written), (mode, silent)


def test_names_of_a_certificate_are_added_to_those_there_are() -> None:
    names = ["www.a.example", "b.example"]
    [change] = setting_up.https(WEB, None, names, silent=False)
    assert change == setting_up.put("server.web.hosts", ["www.a.example", "b.example"])


def test_options_of_the_boxs_https_are_reset_without_it() -> None:
    served = {**WEB, "https": {"mode": "box", "redirect": True, "hsts_s": 60}}
    changes = setting_up.https(served, "later", [], silent=False)
    assert setting_up.put("server.web.https.redirect", False) in changes
    assert setting_up.put("server.web.https.hsts_s", 0) in changes


# With a real controller: one without a server, so that nothing is looked for in any network


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path)
    box.file.write_text(box.file.read_text().partition("[[server]]")[0])
    yield box.start()
    box.close()


@pytest.fixture
def admin(app: Flask, new: Box) -> FlaskClient:
    return browser(app, "mona", "admin")


def test_a_new_box_leads_to_the_guide(admin: FlaskClient) -> None:
    assert admin.get("/").location == "/setup"
    assert admin.get("/setup").location == "/setup/welcome"


def test_a_box_whose_controller_does_not_answer_yet_leads_there_once_it_does(
    admin: FlaskClient, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as silent:
        silent.setitem(app.extensions, "naproxy_control", Control("/nowhere/control.sock"))
        shown = admin.get("/")
        assert shown.status_code == 200
        assert int(shown.headers["Refresh"]) > 0
    assert admin.get("/").location == "/setup"
    monkeypatch.setitem(app.extensions, "naproxy_setup_done", True)
    assert "Refresh" not in admin.get("/").headers


def test_a_viewer_is_not_redirected_to_the_guide(app: Flask, new: Box) -> None:
    assert browser(app, "vera", "viewer").get("/").status_code == 200


def test_every_step_has_a_page_in_both_languages(admin: FlaskClient) -> None:
    for language in ("en", "de"):
        speak(admin, language)
        for step in setting_up.STEPS:
            page = admin.get(f"/setup/{step}")
            assert page.status_code == 200, (step, language)
            assert f'<html lang="{language}"' in page.text, (step, language)


def choose(admin: FlaskClient) -> Any:
    body = {"address": "127.0.0.1", "mac": "02:AB:00:00:00:09", "interface": "lo", "name": "nas"}
    return admin.post("/api/setup/server", json=body)


def test_a_chosen_machine_becomes_the_server(admin: FlaskClient, new: Box) -> None:
    assert choose(admin).json == {"server": "nas"}
    [server] = new.call("GET", "/v1/config")[1]["server"]
    assert (server["id"], server["mac"], server["default"]) == ("nas", "02:ab:00:00:00:09", True)
    assert admin.get("/setup/names").status_code == 200
    assert admin.get("/").location == "/setup"


def test_when_it_is_done_the_guide_is_gone_and_single_steps_stay(admin: FlaskClient) -> None:
    early = admin.post("/api/setup/names", json={"hosts": []})
    assert (early.status_code, "not chosen a server" in early.json["error"]) == (409, True)
    assert admin.put("/api/setup", json={"done": True}).status_code == 409
    choose(admin)
    assert admin.put("/api/setup", json={"done": True}).status_code == 200
    for path in ("/setup", *(f"/setup/{step}" for step in setting_up.STEPS)):
        assert admin.get(path).status_code == 404, path
    assert admin.get("/").status_code == 200
    assert "/setup/again/sleep?server=nas" in admin.get("/setup/again").text
    for step in setting_up.AGAIN:
        assert admin.get(f"/setup/again/{step}").status_code == 200
    assert admin.get("/setup/again/welcome").status_code == 404
    assert admin.get("/setup/again/sleep?server=nope").status_code == 404


def test_a_bad_step_is_refused_in_words_and_changes_nothing(admin: FlaskClient, new: Box) -> None:
    for path, body in (
        ("server", {"address": "127.0.0.1", "mac": "02:00"}),
        ("server", {"address": "http://x/", "mac": "02:00:00:00:00:09"}),
        ("server", {"address": "127.0.0.1", "mac": "02:00:00:00:00:09", "interface": "a/b"}),
        ("names", {"hosts": ["<b>"]}),
        ("https", {"mode": "through everything"}),
        ("https", {"names": ["<b>"]}),
        ("https", {"mode": "box", "server": "nope"}),
        ("https/look", {"server": "nope"}),
        ("cache", {"mode": "everything"}),
        ("cache", {"mode": "frozen", "pages": "all"}),
        ("cache", {"mode": "frozen", "paths": ["news"]}),
        ("sleep", {"driver": "command"}),
        ("sleep", {"driver": "login", "command": "poweroff\nssh-ed25519 AAAA evil"}),
        ("sleep", {"driver": "login", "command": ""}),
        ("sleep", {"driver": "ssh", "user": "-oProxyCommand=reboot"}),
        ("meter", {"kind": "found", "where": "/etc/passwd"}),
        ("meter", {"kind": "estimate", "on_w": 1, "off_w": 2}),
        ("look", {"address": "127.0.0.1", "path": "/admin"}),
        ("office", {"language": "fr"}),
    ):
        choose(admin)
        before = new.call("GET", "/v1/config")[1]
        answer = admin.post(f"/api/setup/{path}", json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.json["error"], (path, body)
        assert new.call("GET", "/v1/config")[1] == before, (path, body)


def test_a_guide_that_an_older_version_began_goes_on(admin: FlaskClient, new: Box) -> None:
    """It knew no step about HTTPS, and kept its place by the step's name."""
    choose(admin)
    for step in ("names", "sleep", "proof"):
        assert admin.put("/api/setup", json={"step": step}).status_code == 200
        assert admin.get("/setup").location == f"/setup/{step}"
        assert admin.get(f"/setup/{step}").status_code == 200
    assert 'href="/setup/https"' in admin.get("/setup/sleep").text


def test_of_a_server_that_sleeps_what_was_seen_last_is_said(client: FlaskClient, box: Box) -> None:
    box.wait(State.AWAKE)
    assert client.post("/api/setup/https/look", json={"server": "web"}).status_code == 200
    box.sleep()
    assert client.post("/api/servers/web/look", json={}).status_code == 409
    said = client.post("/api/setup/https/look", json={"server": "web"})
    assert said.status_code == 200
    assert said.json
    assert said.json["leads"] is None


def powers(box: Box) -> dict[str, float]:
    found: dict[str, float] = box.call("GET", "/v1/config")[1]["server"][0]["power"]
    return found


def test_powers_set_by_hand_are_replaced_only_on_request(admin: FlaskClient, new: Box) -> None:
    server = choose(admin).json["server"]
    estimate = {"kind": "estimate", "on_w": 18, "off_w": 1.6}
    assert admin.post("/api/setup/meter", json=estimate).status_code == 200
    commissioned(new, fit(51.23, 2.38, 201.04), server)
    refused = admin.post("/api/setup/power", json={})
    assert (refused.status_code, refused.json["where"]) == (409, "replace")
    assert powers(new)["on_w"] == 18
    assert admin.post("/api/setup/power", json={"replace": True}).status_code == 200
    assert powers(new)["on_w"] == 51.2


def test_without_a_proof_there_are_no_measured_powers(admin: FlaskClient, new: Box) -> None:
    choose(admin)
    assert admin.post("/api/setup/power", json={"replace": True}).status_code == 409
    assert powers(new)["on_w"] == 43.3


def test_a_server_that_there_is_not_is_not_asked_after(admin: FlaskClient) -> None:
    for server in ("nope", "../config"):
        answer = admin.get("/api/setup/check", query_string={"server": server})
        assert answer.status_code == 404
        assert admin.post("/api/setup/key", json={"server": server}).status_code == 404


def test_typical_powers_have_their_source(admin: FlaskClient) -> None:
    rows = json.loads(admin.get("/api/setup/typical").text)["typical"]
    assert all(row["source"] and row["on_w"] > row["off_w"] for row in rows)


def test_the_boxs_power_is_set_and_is_zero_on_a_machine_that_is_on_anyway(
    admin: FlaskClient, new: Box
) -> None:
    boards = json.loads(admin.get("/api/setup/typical").text)["boards"]
    assert [each["name"] for each in boards if each["w"] == 0] == ["on_anyway"]
    assert all(each["source"] for each in boards if each["w"] > 0)
    for watts in (0, 2.5):
        answer = admin.post("/api/setup/box", json={"proxy_w": watts})
        assert answer.status_code == 200, answer.text
        assert new.call("GET", "/v1/config")[1]["box"]["proxy_w"] == watts
    for bad in (-1, 5000, None, "much"):
        assert admin.post("/api/setup/box", json={"proxy_w": bad}).status_code == 400, bad
    assert new.call("GET", "/v1/config")[1]["box"]["proxy_w"] == 2.5


NO_WAY = Reason("server.cannot_sleep", why=Reason("sleep.no_way"))
RESTLESS = Reason("server.did_not_stay_asleep", times=3, why=own_words("<b>it</b>"))


def test_why_a_proof_ended_is_said_in_ones_language(admin: FlaskClient, new: Box) -> None:
    speak(admin, "de")
    server = choose(admin).json["server"]
    for reason, said in (
        (Reason("server.woke_every_time", times=5), "Er ist 5 Mal aufgewacht."),
        (Reason("server.in_cycle", cycle=2, cycles=5, why=NO_WAY), "In Runde 2 von 5: "),
        (Reason("server.in_cycle", cycle=1, cycles=5, why=RESTLESS), ": <b>it</b>."),
        (None, ""),
    ):
        commissioned(new, None, server, Reason("server.no_meter"), reason)
        answer = admin.get("/api/setup/proof").json
        check(answer, setup_proof.PROOF)
        assert answer["why"] == (" ".join(sentences(reason, "de")) if reason else "")
        assert said in answer["why"]


def test_a_proof_that_has_ended_is_read_with_an_armed_server(
    admin: FlaskClient, new: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    commissioned(new, None, choose(admin).json["server"])
    get, ended = Control.get, []

    def while_it_ends(self: Control, path: str, **rest: Any) -> Any:
        said = get(self, path, **rest)
        if path.endswith("/commission"):
            ended.append(said)
        for server in said["servers"] if path == "/v1/status" else ():
            server["armed"] = bool(ended)
        return said

    monkeypatch.setattr(Control, "get", while_it_ends)
    said = admin.get("/api/setup/proof").json
    assert said["report"]["ended"] is True
    assert said["server"]["armed"] is True


def test_the_guide_says_which_visitor_it_waits_for(admin: FlaskClient, new: Box) -> None:
    choose(admin)
    admin.post("/api/setup/names", json={"hosts": ["www.example.org"]})
    said = admin.get("/api/setup/live").json
    check(said, setup_proof.LIVE)
    assert said["first_s"] is None
    assert "www.example.org" in said["waits"]
    assert admin.get("/api/setup/proof").json["live"] == said
    new.record().visited_us = monotonic_us()
    wait_for(lambda: admin.get("/api/setup/live").json["first_s"] is not None, "the visitor")
    assert admin.get("/api/setup/live").json["waits"] == ""


def around(how: str, today: int) -> dict[str, Any]:
    counted = {"how": how, "today": today, "yesterday": 0, "total": today}
    return {"live": {}, "https": {"around": counted}}


def test_nobody_past_the_box_is_said_only_where_the_server_counts_all_visitors() -> None:
    assert setup_proof._past({"https": {"around": None}}) is None
    assert setup_proof._past(around("agent", 0)) == 0
    assert setup_proof._past(around("agent", 3)) == 3
    assert setup_proof._past(around("ssh", 0)) is None, "it looks only before a sleep"
    assert setup_proof._past(around("ssh", 2)) == 2


def test_a_router_gets_the_boxs_address_and_port_443_only_where_the_box_serves_it(
    box: Box, client: FlaskClient
) -> None:
    page = client.get("/setup/again/live?server=web").text
    for name in ("FRITZ!Box", "UniFi", "OPNsense", "TP-Link", "Speedport"):
        assert f"<summary>{name}</summary>" in page
    for mode, found in (
        ("none", (80,)),
        ("later", (80,)),
        ("box", (80, 443)),
        ("through", (80, 443)),
    ):
        assert setting_routers.ports({"https": {"mode": mode}}) == found, mode
    assert "192.0.2.1" in setting_routers.values("192.0.2.1", 443).values()


def test_a_step_that_was_left_out_has_no_check_mark(app: Flask, box: Box) -> None:
    config = {"meter": []}
    server = {"id": "web", "hosts": [], "default": False, "sleep": {"driver": "none"}}
    with app.test_request_context():
        left_out = setup_page.skipped(config, server)
        assert left_out >= {"names", "sleep", "meter"}
        full = {**server, "hosts": ["a.example"], "sleep": {"driver": "ssh"}}
        assert not setup_page.skipped({"meter": [{"of": "web"}]}, full) & {
            "names",
            "sleep",
            "meter",
        }
        assert "server" in setup_page.skipped(config, None)


def test_a_machine_that_sleeps_by_itself_is_a_way_of_the_guide() -> None:
    way = {"driver": "itself", "state": "ram", "user": "naproxy"}
    assert setting_up.sleep(CONFIG, "web", way) == [
        setting_up.put("server.web.sleep", {"driver": "itself"})
    ]
