"""/settings/https and /api/certificates, before a real controller: keys go in, and never out."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from certificates import Authority, Issued, encrypted
from conftest import speak
from flask import Flask
from flask.testing import FlaskClient
from history_past import as_declared
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy_webui.http.control import Control
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.office import certificates
from naproxy_webui.pages.settings import https

from tests.patience import wait_for

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A controller that has a folder of its own for certificates."""
    made = Box(tmp_path)
    named = made.file.read_text().replace('id = "web"', 'id = "web"\nhosts = ["one.example"]')
    made.file.write_text(named)
    made.arguments += [f"--edge-dir={tmp_path / 'edge'}", "--edge-user=daemon"]
    made.arguments.append("--acme-hook=/bin/true")
    made.start()
    yield made
    made.close()


def body(authority: Authority, issued: Issued) -> dict[str, str]:
    return {"pem": authority.chain(issued).decode(), "key": issued.key.decode()}


def send(client: FlaskClient, sent: dict[str, str], name: str = "main") -> Any:
    return client.put(f"/api/certificates/{name}", json=sent)


def page(client: FlaskClient) -> str:
    answer = client.get("/settings/https")
    assert answer.status_code == 200, answer.text
    return answer.text


def serve(box: Box, more: str = "") -> None:
    text = f'{box.file.read_text()}[server.https]\nmode = "box"\n{more}'
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200


def test_a_certificate_is_sent_and_removed(
    box: Box, client: FlaskClient, authority: Authority
) -> None:
    serve(box)
    assert "no certificate for one.example" in page(client)
    said = send(client, body(authority, authority.issue("one.example", days=20)))
    assert said.status_code == 200, said.text
    assert (said.json["names"], said.json["in_use_by"]) == (["one.example"], ["web"])
    assert any("ends on" in note for note in said.json["notes"])
    as_declared(client.application, "/api/certificates", client.get("/api/certificates").json)
    shown = page(client)
    assert 'data-certificate="main"' in shown
    assert "19 days left" in shown
    assert "no certificate for one.example" not in shown
    assert client.delete("/api/certificates/main").json == {}
    assert "There are none yet" in page(client)
    assert list((box.directory / "edge/keys").iterdir()) == []


def test_an_https_problem_is_shown_once(
    box: Box, client: FlaskClient, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(box)
    send(client, body(authority, authority.issue("one.example")))
    assert page(client).count("HTTPS is starting") == 1
    call = Control.call

    def told(self: Control, name: str, body: object = None, /, **asked: object) -> Any:
        answer = call(self, name, body, **asked)
        if name == "certificates":
            answer["edge"]["problem"] = Reason("https.not_running").plain()
        return answer

    monkeypatch.setattr(Control, "call", told)
    assert page(client).count("The part of the box that serves HTTPS does not run") == 1


def test_only_checked_nothing_is_kept(box: Box, client: FlaskClient, authority: Authority) -> None:
    sent = body(authority, authority.issue("one.example"))
    said = client.post("/api/certificates/check", json=sent)
    assert (said.status_code, said.json["names"]) == (200, ["one.example"])
    assert client.get("/api/certificates").json == {"certificates": []}
    assert not list(box.directory.glob("edge/keys/*"))


def test_no_answer_or_page_has_a_key(box: Box, client: FlaskClient, authority: Authority) -> None:
    serve(box)
    issued = authority.issue("one.example", kind="rsa")
    sent = body(authority, issued)
    answers = [
        client.post("/api/certificates/check", json=sent),
        send(client, sent),
        send(client, {**sent, "key": sent["key"][:-40]}, "other"),
        client.post("/api/certificates/check", json={"pem": sent["key"]}),
        client.get("/api/certificates"),
        client.get("/api/settings"),
        client.get("/settings/https"),
        client.get("/settings/all"),
        client.get("/api/now"),
        client.get("/api/box/logs"),
    ]
    lines = [line for line in issued.key.decode().splitlines() if len(line) > 30]
    assert len(lines) > 10
    shown = "".join(each.text for each in answers) + box.log()
    assert [line for line in lines if line in shown] == []


def test_a_refusal_has_words_and_its_field(
    box: Box, client: FlaskClient, authority: Authority
) -> None:
    good = authority.issue("one.example")
    sent, other = body(authority, good), authority.issue("x.example")
    locked = {**sent, "key": encrypted(good, "hush").decode()}
    packed = base64.b64encode(authority.pkcs12(good, "hush")).decode()
    table: list[tuple[dict[str, str], str, tuple[str, str]]] = [
        ({**sent, "key": other.key.decode()}, "key", ("does not belong", "gehört nicht")),
        ({"pem": sent["pem"]}, "key", ("no private key", "keinen privaten Schlüssel")),
        (locked, "password", ("protected by a password", "Passwort")),
        ({**locked, "password": "wrong"}, "password", ("password is wrong", "Passwort")),
        ({"pkcs12": packed, "password": "no"}, "password", ("password is wrong", "Passwort")),
        ({"pkcs12": "UEs="}, "pkcs12", ("PKCS #12", "PKCS-#12")),
        ({"pem": MARKUP}, "pem", ("not a certificate in PEM form", "kein Zertifikat")),
        (body(authority, other), "pem", ("is for x.example", "x.example")),
    ]
    for language in ("en", "de"):
        speak(client, language)
        for given, where, words in table:
            answer = client.post("/api/certificates/check", json=given)
            assert (answer.status_code, answer.json["where"]) == (422, where), answer.text
            assert words[language == "de"] in answer.json["error"], (language, where)
    for given, where, words in table:
        answer = send(client, given)
        assert (answer.status_code, answer.json["where"]) == (422, where), answer.text
        assert words[1] in answer.json["error"], where
    assert client.get("/api/certificates").json == {"certificates": []}


def test_hostile_bodies_are_refused_and_change_nothing(box: Box, client: FlaskClient) -> None:
    for name, given, status in (
        ("main", {"file": "/etc/shadow"}, 400),
        ("main", {"pem": "-" * (1 << 20)}, 413),
        ("main", {"pem": "\x00" * 1000}, 422),
        ("main", {"pkcs12": "%%%"}, 422),
        ("..%2fevil", {}, 404),
        ("Main", {}, 422),
    ):
        answer = client.put(f"/api/certificates/{name}", json=given)
        assert answer.status_code == status, answer.text
        assert client.get("/api/certificates").json == {"certificates": []}, (name, given)
        assert list(box.directory.rglob("*evil*")) == [], (name, given)


def test_a_certificates_names_are_text(box: Box, client: FlaskClient, authority: Authority) -> None:
    by = authority._make(MARKUP, None, "ecdsa", 90, ("basicConstraints=critical,CA:TRUE",))
    issued = authority.issue("one.example", by=by)
    sent = {"pem": (issued.pem + by.pem).decode(), "key": issued.key.decode()}
    assert send(client, sent).status_code == 200
    shown = page(client)
    assert MARKUP not in shown
    assert "&lt;img src=x" in shown


def test_a_server_leading_past_the_box_has_a_next_step(box: Box, client: FlaskClient) -> None:
    box.wait(State.AWAKE)
    box.server.leads = b"https://one.example/"
    assert client.post("/api/servers/web/look", json={}).status_code == 200
    shown = page(client)
    assert "sends visitors of one.example on to https://one.example" in shown
    assert "Next step" in shown


def test_findings_are_worded_without_names_of_settings(app: Flask) -> None:
    for language in ("en", "de"):
        with app.test_request_context(headers={"Accept-Language": language}):
            codes = ("https_around", "https_unserved", "leads_around", "leads_elsewhere")
            for code in (*codes, "leads_in_a_circle"):
                params = {"port": 443, "name": MARKUP, "to": "https://x/{name}"}
                said = plain({"code": f"server.{code}", "params": params})
                assert "server.https.mode" not in said, language
                assert ("Box" if language == "de" else "the box") in said.replace("The", "the"), (
                    language
                )


def test_an_issuer_is_called_by_its_name() -> None:
    for name, who in (
        (None, None),
        ("CN=R11,O=Let's Encrypt,C=US", "Let's Encrypt"),
        ("CN=Below", "Below"),
        ("CN=x,O=Muster\\, Söhne", "Muster, Söhne"),
        ("C=DE", "C=DE"),
        ("", ""),
        (",,=,", ",,=,"),
    ):
        assert https.issuer(name) == who, name


# Certificates that the box gets by itself

ISSUED: dict[str, Any] = {"id": "issued", "source": "acme"}
AGREED = {"op": "set", "where": "https.acme_terms", "value": True}
ADDED = {"op": "add", "where": "certificate", "value": ISSUED}


def renew(client: FlaskClient, sent: Any, name: str = "issued") -> Any:
    return client.post(f"/api/certificates/{name}/renew", json=sent)


def ended(client: FlaskClient, name: str = "issued") -> Any:
    """Wait for a renewal's end."""
    path = f"/api/certificates/{name}/renew"
    wait_for(lambda: client.get(path).json["state"] != "running", "its end")
    return client.get(path).json


def test_hostile_changes_are_not_even_tried(box: Box, client: FlaskClient) -> None:
    for changes, status in (
        ([AGREED], 404),
        ([{**ADDED, "value": {**ISSUED, "id": "../x"}}], 422),
        ([{**ADDED, "value": {**ISSUED, "hook": "../../bin/sh"}}], 422),
        ([{**ADDED, "value": {**ISSUED, "names": [MARKUP]}}], 422),
        ([{**ADDED, "value": {**ISSUED, "key_file": "/etc/shadow"}}], 422),
        ([{"op": "set", "where": "https.acme_email", "value": "-e x@y"}, ADDED], 422),
        ([{"op": "run", "where": "https", "value": 1}], 400),
    ):
        before = box.file.read_bytes()
        answer = renew(client, {"staging": True, "changes": changes})
        assert answer.status_code == status, answer.text
        assert client.get("/api/certificates/issued/renew").json["state"] == "never", changes
        assert box.file.read_bytes() == before, changes


def test_changes_are_only_ever_tried(box: Box, client: FlaskClient) -> None:
    before = box.file.read_bytes()
    assert renew(client, {"staging": False, "changes": [ADDED]}).status_code == 202
    assert "terms of use" in ended(client)["error"]["error"]
    assert box.file.read_bytes() == before


def test_a_row_has_a_certificates_source_and_problem(
    box: Box, client: FlaskClient, authority: Authority
) -> None:
    assert send(client, body(authority, authority.issue("one.example"))).status_code == 200
    serve(box, '[[certificate]]\nid = "issued"\nsource = "acme"\n')
    rows = [part.split("</tbody>")[0] for part in page(client).split("<tbody")[1:]]
    assert ["The box has it issued" in row for row in rows] == [True, False]
    assert ["Somebody sent it" in row for row in rows] == [False, True]
    assert ["data-renew-certificate" in row for row in rows] == [True, False]
    assert ["data-replace-certificate" in row for row in rows] == [False, True]
    assert "Somebody must have read the issuer" in rows[0]
    assert ['<span class="strong">one.example</span>' in row for row in rows] == [True, True]
    assert ["not there yet" in row for row in rows] == [True, False]


def test_a_certificate_is_renewed_at_once_where_that_is_allowed(app: Flask) -> None:
    for source, code, left_s, row in (
        ("acme", None, 60, (False, True)),
        ("acme", "https.acme_coming", 0, (True, True)),
        ("acme", "https.acme_not_seen", 60, (False, True)),
        ("acme", "https.acme_limited", 60, (False, False)),
        ("acme", "https.acme_limited", -60, (False, True)),
        ("server", "https.fetch_coming", 60, (True, True)),
        ("upload", "https.not_sent", 60, (False, False)),
        (None, "https.not_configured", 60, (False, False)),
    ):
        problem = {"code": code, "params": {"why": MARKUP, "day": "1"}} if code else None
        told = {"id": "a", "source": source, "problem": problem, "next_try_s": time.time() + left_s}
        about = {
            "names": ["xn--bro-hoa.example"],
            "issuer": None,
            "ends_in_days": None,
            "notes": [],
        }
        with app.test_request_context():
            names = {"xn--bro-hoa.example": "b\u00fcro.example"}
            made = https._row({**told, **about}, names, served=True)
        assert (made["comes"], made["renewable"]) == row, (source, code, left_s)
        assert made["names"] == ["b\u00fcro.example"], (source, code, left_s)


def test_the_next_step_is_worded_for_the_page(app: Flask) -> None:
    for code, hosts, said in (
        ("https.do_serve", ["a.example"], "Below, choose \u201cThe box serves it\u201d"),
        ("https.do_send", ["a.example"], "Below, get a certificate."),
        ("https.do_send", [], "Enter the website\u2019s names (Settings, Server)."),
        ("https.do_server", [], "switch it on below."),
        ("https.do_<b>", ["a.example"], "https.do_<b>"),
    ):
        with app.test_request_context():
            assert said.lower() in https._next(Reason(code), hosts).lower(), (code, hosts)


def test_https_passed_through_needs_no_certificate(box: Box, client: FlaskClient) -> None:
    assert "then-title" not in page(client)
    text = f'{box.file.read_text()}[server.https]\nmode = "through"\n'
    text += '[https]\nacme_terms = true\n[[certificate]]\nid = "issued"\nsource = "acme"\n'
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200
    said = page(client)
    assert ">Not used: the box serves no website" in said
    assert "no name to issue it for" not in said
    assert "data-renew-certificate" not in said
    assert "<p>In your router, send port 443" in said
    assert "<ol>" not in said


def test_a_certificate_for_nobody_is_wrong_where_the_box_serves(app: Flask) -> None:
    problem = {"code": "https.acme_no_names", "params": {}}
    told = {"id": "a", "source": "acme", "problem": problem, "next_try_s": None}
    about = {"names": [], "issuer": None, "ends_in_days": None, "notes": []}
    with app.test_request_context():
        assert not https._row({**told, **about}, {}, served=True)["idle"]


def configuration(*own: dict[str, Any], mode: str = "box") -> dict[str, Any]:
    server = {"id": "web", "hosts": ["a.example", "*.a.example"], "https": {"mode": mode}}
    blank = {"names": [], "hook": "", "source": "acme", "server": ""}
    https = {"acme_email": "", "acme_terms": False, "acme_directory": "letsencrypt"}
    return {
        "https": https,
        "server": [{**server, "sleep": {"driver": "ssh"}}],
        "certificate": [{**blank, **each} for each in own],
    }


def test_names_that_can_be_issued_are_chosen() -> None:
    for config, names, more in (
        (configuration(), [("a.example", True), ("*.a.example", False)], False),
        (configuration(mode="none"), [], False),
        (
            configuration({"id": "m", "hook": "dns"}),
            [("a.example", True), ("*.a.example", True)],
            False,
        ),
        (
            configuration({"id": "m", "names": ["b.example"]}),
            [("a.example", False), ("*.a.example", False), ("b.example", True)],
            True,
        ),
    ):
        said = certificates.issuing(config)
        assert (said["names"], said["more"]) == (names, more), names


def test_the_way_that_is_in_use_is_chosen() -> None:
    for own, way, servers in (
        ([], "acme", [("web", "")]),
        ([{"id": "a", "source": "upload"}], "upload", [("web", "")]),
        ([{"id": "a", "source": "server", "server": "web"}], "server", [("web", "a")]),
        ([{"id": "a", "source": "upload"}, {"id": "b"}], "acme", [("web", "")]),
    ):
        config = configuration(*own)
        assert (certificates.way(config), certificates.fetching(config)["servers"]) == (
            way,
            servers,
        ), own
        config["server"][0]["sleep"] = {"driver": "agent"}
        assert certificates.fetching(config)["servers"] == [], own


def test_a_server_that_has_a_certificate_needs_no_other() -> None:
    for own, there, hosts, said in (
        ({"id": "a"}, [], ["a.example"], True),
        ({"id": "a", "names": ["a.example"]}, [], ["a.example", "b.example"], True),
        ({"id": "a", "names": ["b\u00fcro.example"]}, [], ["xn--bro-hoa.example"], True),
        ({"id": "a", "names": ["b.example"]}, [], ["a.example"], False),
        ({"id": "a", "source": "server", "server": "web"}, [], ["a.example"], True),
        ({"id": "a", "source": "server", "server": "nas"}, [], ["a.example"], False),
        ({"id": "a", "source": "upload"}, ["*.example"], ["a.example"], True),
        ({"id": "a", "source": "upload"}, ["b.example"], ["a.example"], False),
        ({"id": "a", "source": "upload"}, [], ["a.example"], False),
        ({"id": "a", "source": "upload"}, ["b.example"], [], True),
    ):
        config = configuration(own)
        server = {**config["server"][0], "hosts": hosts}
        case = (own, there, hosts)
        assert certificates.cared_for(config, server, [{"id": "a", "names": there}]) is said, case
        assert not certificates.cared_for({**config, "certificate": []}, server, []), case
