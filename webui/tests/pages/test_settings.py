"""/settings and /api/settings, before a real controller."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po
from box import Box
from conftest import speak
from flask import Flask
from flask.testing import FlaskClient
from naproxy.config import describe as configkeys
from naproxy.core.words import LANGUAGES
from naproxy_webui.auth import user_backup
from naproxy_webui.i18n.texts import FOLDER
from naproxy_webui.pages.settings import fields as setting_fields
from naproxy_webui.pages.settings.page import SUBPAGES

from tests.patience import wait_for

ROOT = Path(__file__).parents[3]
SECRET = "hush-hush-secret"
MORE = f"""
[mqtt]
host = "192.0.2.5"
password = "{SECRET}"
[notify]
webhook = "https://hooks.example.org/{SECRET}"
ntfy = "https://ntfy.example.org/{SECRET}"
[[rule]]
kind = "agent"
text = "<script>alert(1)</script>"
treat_as = "monitor"
[[meter]]
id = "plug"
of = "web"
driver = "simulated"
"""


def with_more(folder: Path) -> Box:
    """Start a controller with a bit of everything."""
    made = Box(folder)
    made.file.write_text(made.file.read_text() + MORE)
    return made.start()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = with_more(tmp_path_factory.mktemp("box"))
    yield made
    made.close()


def page(client: FlaskClient, name: str) -> str:
    answer = client.get(f"/settings/{name}" if name else "/settings")
    assert answer.status_code == 200, answer.text
    return answer.text


def told(answer: Any) -> Any:
    return answer.json


def version(client: FlaskClient) -> str:
    return str(told(client.get("/api/settings"))["version"])


def change(client: FlaskClient, *changes: dict[str, Any], of: str | None = None) -> Any:
    body = {"changes": list(changes), "version": version(client) if of is None else of}
    return client.patch("/api/settings", json=body)


def put(where: str, value: Any) -> dict[str, Any]:
    return {"op": "set", "where": where, "value": value}


def test_every_page_is_there_in_every_language(box: Box, client: FlaskClient) -> None:
    for language in LANGUAGES:
        assert change(client, put("office.language", language)).status_code == 200, language
        for name, _ in [("", ""), *SUBPAGES]:
            text = page(client, name)
            assert f'<html lang="{language}"' in text, language
            assert "settings." not in re.sub(
                r"<script.*?</script>|/js/pages/settings/|css/settings\.css",
                "",
                text,
                flags=re.DOTALL,
            ), language


def test_every_key_can_be_reached(box: Box, client: FlaskClient) -> None:
    found: set[str] = set()
    for name, _ in SUBPAGES:
        text = page(client, name)
        found |= {
            setting_fields.path_of(where) for where in re.findall(r'data-where="([^"]+)"', text)
        }
        chosen = re.findall(r'data-alternative="([^"]+)" data-selector="([^"]+)"', text)
        found |= {setting_fields.path_of(f"{where}.{key}") for where, key in chosen}
    described = configkeys.described()
    keys = {key["path"] for key in described["keys"]}
    # A certificate comes to be by sending it, not by a field.
    missing = {key for key in keys - found if not key.startswith("certificate[]")}
    assert missing == set()


def test_every_help_is_translated_into_german() -> None:
    """Above each translation is the English that it was made of: another one, and it may be old."""
    with (FOLDER / "de/LC_MESSAGES/naproxy_webui.po").open("rb") as file:
        texts = {each.id: " ".join(each.auto_comments) for each in read_po(file) if each.id}
    made_of = {key: text for key, text in texts.items() if key.startswith("settings.help.")}
    used = set()
    for key, choice in setting_fields.by_choice(configkeys.described()):
        names = setting_fields.help_names(key["path"], choice)
        found = [name for name in names if name in made_of]
        assert found, names[1]
        assert made_of[found[0]] == key["help"].removeprefix(f"{choice}: "), found[0]
        used.add(found[0])
    assert set(made_of) == used


def test_every_field_has_a_name_of_words(box: Box, client: FlaskClient) -> None:
    for name in (name for name, _ in SUBPAGES if name != "all"):
        for words in re.findall(
            r"<label for=[^>]*>([^<]*)</label>|<b>([^<]*)</b>", page(client, name)
        ):
            assert not re.fullmatch(r"[a-z0-9]+_[a-z0-9_]+", "".join(words)), (name, words)


def test_a_secret_is_never_shown(box: Box, client: FlaskClient) -> None:
    shown = [page(client, name) for name, _ in [("", ""), *SUBPAGES]]
    shown += [client.get(path).text for path in ("/api/settings", "/api/box/logs")]
    assert [text for text in shown if SECRET in text] == []
    assert "A password is set" in page(client, "connections")


def test_foreign_text_is_escaped(box: Box, client: FlaskClient) -> None:
    text = page(client, "rules")
    assert "<script>alert(1)</script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_a_change_is_in_force_and_shown(box: Box, client: FlaskClient) -> None:
    answer = change(client, put("server.web.promise.fraction", 0.05), put("office.name", "A & B"))
    assert answer.status_code == 200
    assert told(answer)["server"][0]["promise"]["fraction"] == 0.05
    assert "fraction = 0.05" in box.file.read_text()
    assert SECRET in box.file.read_text()
    assert "A &amp; B" in page(client, "office")


def test_an_error_names_its_field_in_both_languages(box: Box, client: FlaskClient) -> None:
    for where, value, words in (
        ("server.web.promise.fraction", 2, ("must be 0 to 100 %", "zwischen 0 und 100 % liegen")),
        (
            "server.web.awake.hours",
            ["never"],
            ('must look like "mon-fri', "muss aussehen wie „mon-fri"),
        ),
        ("office.time_zone", "Europe/Nowhere", ("no time zone", "zum Beispiel Europe/Berlin")),
        (
            "server.web.hold.limit_s",
            601,
            ("must be 0 s to 10 min (given: 601 s", "(angegeben: 601 s"),
        ),
        (
            "server.web.hold.limit_s",
            "soon",
            (
                "Longest wait: must be a length of time, such as 90 s",
                "Längste Wartezeit: muss eine Zeitdauer sein, wie 90 s",
            ),
        ),
        ("server.web.wake.1.spacing_s", 0, ("must be 0.05 s to 10 min", "0,05 s und 10 min")),
        ("server.web.promise.fraction", "x", ("must be a percentage", "ein Prozentsatz")),
        (
            "server.web.power.on_w",
            1,
            (
                "Power awake: must be more than the power asleep (given: 1 watts)",
                "Leistung wach: muss mehr sein als die Leistung im Schlaf (angegeben: 1 Watt)",
            ),
        ),
        ("server.web.mac", "00-11", ("0011.2233.4455 (given: “00-11”)", "(angegeben: „00-11“)")),
        ("rule.1.kind", "", ("(given: nothing)", "(angegeben: nichts)")),
        ("box.helper", "/bin/sh", ("no request may change it", "von --helper")),
    ):
        for language, expected in zip(("en", "de"), words, strict=True):
            speak(client, language)
            answer = change(client, put(where, value))
            assert answer.status_code == 422, (where, value, language)
            [problem] = told(answer)["problems"]
            assert problem["where"].startswith(where), (where, value, language)
            assert expected in problem["error"], (where, value, language)


def test_a_page_that_there_is_not_is_404(box: Box, client: FlaskClient) -> None:
    for path in ("nothing", "sleep?server=nope", "../account", "base"):
        assert client.get(f"/settings/{path}").status_code == 404


def test_a_controller_that_is_silent_is_said(client: FlaskClient) -> None:
    answer = client.get("/settings")
    assert answer.status_code == 503
    assert "controller does not run" in answer.text
    assert "control.sock" not in answer.text


# The waiting page


def test_the_preview_is_the_page_that_varnish_sends() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "varnish-vcl/generate.py")
    assert spec
    assert spec.loader
    generate = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generate  # dataclasses look their module up
    spec.loader.exec_module(generate)
    kept = ROOT / "webui/src/naproxy_webui/waiting_page"
    for language, text in generate.previews(ROOT / "varnish-vcl/pages").items():
        assert (kept / f"{language}.html").read_text("utf-8") == text, (
            "run: make -C varnish-vcl previews"
        )


def test_the_preview_shows_the_notice_as_text_and_may_run_nothing(client: FlaskClient) -> None:
    notice = '<script>alert(1)</script> & "x"'
    answer = client.get("/settings/waiting-page/preview", query_string={"notice": notice})
    assert "<script" not in answer.text
    assert notice in unescape(answer.text)
    policy = answer.headers["Content-Security-Policy"]
    assert "sandbox" in policy
    assert "script-src" not in policy
    assert "frame-ancestors 'self'" in policy
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"


def test_only_the_preview_may_be_framed(box: Box, client: FlaskClient) -> None:
    answer = client.get("/settings/waiting-page")
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "frame-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Frame-Options"] == "DENY"


# The box's own affairs


def test_a_backup_goes_to_the_browser_and_comes_back(
    box: Box, app: Flask, client: FlaskClient, keys: Any, waits: Callable[[], None]
) -> None:
    made = client.post("/api/box/backup", json={"history": True, "secrets": True})
    assert made.status_code == 200
    answer = client.get("/api/box/backup/file")
    assert len(answer.data) == told(made)["bytes"]
    assert told(made)["name"] in answer.headers["Content-Disposition"]
    assert client.get("/api/box/backup/file").status_code == 404
    assert change(client, put("office.name", "since")).status_code == 200
    with app.test_request_context():
        keys.users.add("since", "correct horse battery", "admin")
    for offset in range(0, len(answer.data), 1 << 19):
        part = answer.data[offset : offset + (1 << 19)]
        sent = client.put(
            f"/api/box/restore/part?offset={offset}",
            data=part,
            content_type="application/octet-stream",
        )
        assert sent.status_code == 200
    found = told(client.post("/api/box/restore/check", json={}))
    assert (found["users"], found["secrets"], found["servers"]) == (1, True, ["web"])
    done = client.post("/api/box/restore", json={"history": True, "secrets": True})
    assert (done.status_code, done.json) == (202, {"users": 1})
    waits()
    assert box.call("GET", "/v1/config")[1]["office"]["name"] == ""
    assert SECRET.encode() in box.file.read_bytes()
    assert b"since" not in box.file.read_bytes()
    assert [user.name for user in keys.users.all()] == ["anna"]
    # All users must log in again.
    assert client.get("/api/settings").status_code == 401


@pytest.fixture
def waits(box: Box) -> Callable[[], None]:
    """Return a function that waits until the controller has restarted."""
    began_s = box.call("GET", "/v1/status")[1]["box"]["started_s"]

    def again() -> bool:
        status, said = box.call("GET", "/v1/status")
        return status == 200 and said["box"]["started_s"] > began_s

    return lambda: wait_for(again, "another start", log=box.log)


GOOD_DIGEST = "scrypt$16384$8$5$" + "A" * 22 + "==$" + "B" * 86 + "=="
ANNA = {"name": "anna", "role": "admin", "password": GOOD_DIGEST, "language": None}


def test_an_encrypted_backup_comes_back_with_its_password_only(
    client: FlaskClient, box: Box
) -> None:
    asked = {"history": True, "secrets": True, "password": "a sentence for it"}
    assert client.post("/api/box/backup", json={**asked, "password": "short"}).status_code == 400
    made = client.post("/api/box/backup", json=asked)
    assert made.json["name"].endswith(".tar.gz.enc")
    data = client.get("/api/box/backup/file").data
    assert SECRET.encode() not in data
    sent = {"data": data, "headers": {"Content-Type": "application/octet-stream"}}
    assert client.put("/api/box/restore/part?offset=0", **sent).status_code == 200
    for password in ({}, {"password": "another sentence"}):
        refused = client.post("/api/box/restore/check", json=password)
        assert (refused.status_code, refused.json["where"]) == (422, "password"), refused.text
    found = client.post("/api/box/restore/check", json={"password": asked["password"]})
    assert (found.status_code, found.json["secrets"]) == (200, True), found.text


def test_bad_users_of_a_backup_leave_those_there_are(client: FlaskClient, keys: Any) -> None:
    for rows in (
        [],
        ["anna"],
        [{**ANNA, "role": "viewer"}],
        [{**ANNA, "role": "root"}],
        [{**ANNA, "name": "<b>"}],
        [{**ANNA, "name": ["a"]}],
        [{**ANNA, "password": "plain"}],
        [{**ANNA, "password": GOOD_DIGEST.replace("16384", "999983")}],
        [{**ANNA, "password": GOOD_DIGEST.replace("$8$", "$99$").replace("16384", "131072")}],
        [{**ANNA, "language": "xx"}],
        [{**ANNA, "language": []}],
        [{**ANNA, "id": 1}],
        [ANNA, {**ANNA, "name": "Anna"}],
        [ANNA] * 101,
    ):
        assert user_backup.restore(keys, rows) == 0, rows
        assert [user.name for user in keys.users.all()] == ["anna"], rows
        assert client.get("/api/users").status_code == 200, rows


def test_diagnostics_are_sent_without_secrets(box: Box, client: FlaskClient) -> None:
    assert client.post("/api/box/diagnostics", json={}).status_code == 200
    answer = client.get("/api/box/diagnostics/file")
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as tar:
        parts = [tar.extractfile(each) for each in tar.getmembers()]
        text = "".join(part.read().decode() for part in parts if part)
    assert "looks after web" in text
    assert SECRET not in text


def test_a_machine_of_its_own_is_said_to_be_one(box: Box, client: FlaskClient) -> None:
    text = page(client, "network")
    assert "timedatectl" in text
    assert 'data-box="PUT network"' not in text
    answer = client.post("/api/box/reboot", json={})
    assert (answer.status_code, told(answer)["error"]) == (
        409,
        "this is the machine's own setting; Naproxy does not change it",
    )


def test_json_in_a_page_is_escaped(box: Box, client: FlaskClient) -> None:
    name = "</script><b>\"'&"
    assert change(client, put("office.name", name)).status_code == 200
    text = page(client, "office")
    assert name not in text
    [initial] = re.findall(r'data-where="office\.name"[^>]*data-initial="([^"]*)"', text)
    assert json.loads(unescape(initial)) == name


def test_a_box_without_a_server_has_settings(tmp_path: Path, client: FlaskClient) -> None:
    made = Box(tmp_path)
    text = made.file.read_text()
    made.file.write_text(text[: text.index("[[server]]")])
    made.start()
    try:
        for name, _ in [("", ""), *SUBPAGES]:
            page(client, name)
        assert "No server is set up yet" in page(client, "sleep")
    finally:
        made.close()


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[Box]:
    """A controller that restarted after its file was edited."""
    made = with_more(tmp_path)
    made.end()  # the settings before the edit have worked
    made.file.write_text(made.file.read_text() + "[nonsense]\n</textarea><script>\n")
    yield made.start()
    made.close()


def test_settings_that_are_not_used_can_be_seen_without_their_secrets(
    refused: Box, client: FlaskClient, viewer: FlaskClient
) -> None:
    for language in LANGUAGES:
        client.put("/api/account/language", json={"language": language})
        text = page(client, "refused")
        assert f'<html lang="{language}"' in text
        shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        assert "settings.refused" not in shown, language
        assert "[nonsense]\n&lt;/textarea&gt;&lt;script&gt;" in text, language
        assert SECRET not in text, language
    assert 'href="/settings/refused"' in page(client, "sleep")
    assert 'href="/settings/refused"' not in page(viewer, "sleep")
    assert told(client.get("/api/box"))["settings_refused"]


def test_refused_settings_can_be_corrected(refused: Box, client: FlaskClient) -> None:
    said = told(client.get("/api/settings/refused"))
    body = {"version": said["version"], "text": said["text"]}
    assert client.put("/api/settings/refused", json=body).status_code == 422
    body["text"] = body["text"].partition("[nonsense]")[0]
    assert client.put("/api/settings/refused", json=body).status_code == 200
    assert SECRET in refused.file.read_text()
    assert 'href="/settings/refused"' not in page(client, "sleep")
    assert "<textarea" not in page(client, "refused")
    assert told(client.get("/api/box"))["settings_refused"] is None


def test_a_price_in_cents_is_questioned(client: FlaskClient, box: Box) -> None:
    for where, value, refused in (
        ("office.price_per_kwh", 31, True),
        ("office.price_per_kwh", 0.31, False),
        ("tariff", {"since": "2026-01-01", "price_per_kwh": 31.5}, True),
        (
            "tariff",
            {
                "since": "2026-01-01",
                "price_per_kwh": 0.3,
                "bands": ["mon-sun 22:00-06:00 24"],
            },
            True,
        ),
    ):
        version = client.get("/api/settings").json["version"]
        change = {"op": "add" if where == "tariff" else "set", "where": where, "value": value}
        answer = client.patch("/api/settings", json={"changes": [change], "version": version})
        assert answer.status_code == (422 if refused else 200), (where, value)
        if refused:
            assert "did you mean 0." in answer.json["error"], value
    version = client.get("/api/settings").json["version"]
    forints = [
        {"op": "set", "where": "office.currency", "value": "HUF"},
        {"op": "set", "where": "office.price_per_kwh", "value": 70},
    ]
    answer = client.patch("/api/settings", json={"changes": forints, "version": version})
    assert answer.status_code == 200
    version = client.get("/api/settings").json["version"]
    euros = {"op": "set", "where": "office.currency", "value": "EUR"}
    answer = client.patch("/api/settings", json={"changes": [euros], "version": version})
    assert answer.status_code == 422
