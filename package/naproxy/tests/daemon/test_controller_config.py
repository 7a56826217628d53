"""Changing single settings through the control API of a real controller."""

import json
import threading
from pathlib import Path
from typing import Any

import naproxy
import pytest
from box import Box
from web_server import WebServer, serving

from tests.patience import wait_for


@pytest.fixture(scope="module")
def more_settings() -> str:
    return '# ours\n[mqtt]\nhost = "192.0.2.5"\npassword = "hush" # do not tell\n'


@pytest.fixture
def box(shared: Box) -> Box:
    return shared


def get(box: Box) -> dict[str, Any]:
    status, answer = box.call("GET", "/v1/config")
    assert status == 200
    found: dict[str, Any] = answer
    return found


def patch(box: Box, *changes: dict[str, Any], version: str | None = None) -> tuple[int, Any]:
    body = {"changes": changes, "version": get(box)["version"] if version is None else version}
    return box.call("PATCH", "/v1/config", json.dumps(body).encode())


def put(where: str, value: Any) -> dict[str, Any]:
    return {"op": "set", "where": where, "value": value}


def test_a_change_is_in_force_at_once_and_the_rest_of_the_file_stays(box: Box) -> None:
    before = box.file.read_text()
    status, answer = patch(box, put("server.web.port", box.server.port), put("box.notice", "Hi"))
    assert status == 200
    assert answer["box"]["notice"] == "Hi"
    assert bytes(box.layout().notice).startswith(b"Hi")
    lines = set(before.splitlines()) - {'notice = ""'}
    assert lines <= set(box.file.read_text().splitlines())


def test_a_secret_is_not_shown_survives_and_is_named(box: Box) -> None:
    answer = get(box)
    assert "password" not in answer["mqtt"]
    assert answer["secrets"] == ["mqtt.password"]
    status, answer = patch(box, put("mqtt", {"host": "192.0.2.5", "topic": "box"}))
    assert (status, answer["mqtt"]["topic"]) == (200, "box")
    assert 'password = "hush" # do not tell' in box.file.read_text()


def test_an_api_for_carbon_dioxide_is_asked_at_once_and_forgotten_at_once(box: Box) -> None:
    def told() -> Any:
        return box.call("GET", "/v1/status")[1]["box"]["co2"]

    assert told() is None
    assert box.call("POST", "/v1/co2/look", b"{}")[0] == 409
    grid = WebServer(b'{"carbonIntensity": 118.4}')
    with serving(grid):
        assert patch(box, put("office.co2_url", f"http://127.0.0.1:{grid.server_port}/"))[0] == 200
        wait_for(lambda: told()["co2_g_per_kwh"] == 118.4, "an answer", log=box.log)
    status, answer = box.call("POST", "/v1/co2/look", b"{}")
    assert (status, answer["co2"]["problem"]["code"]) == (200, "co2.unreachable")
    assert patch(box, put("office.co2_url", ""))[0] == 200
    assert told() is None


def test_a_bad_change_is_refused_where_it_is_wrong_and_changes_nothing(box: Box) -> None:
    before, version = box.file.read_bytes(), get(box)["version"]
    changes: list[tuple[str, Any, str]] = [
        ("server.web.promise.fraction", 2, "must be 0 to 1"),
        ("server.web.promise.fraction", "a", "must be a number"),
        ("server.web.promise.fractoin", 0.1, "did you mean fraction"),
        ("server.web.sleep.driver", "magic", "must be one of"),
        ("server.web.awake.hours", ["someday"], "must look like"),
        ("server.web.address", "nowhere", "must be an IPv4 or IPv6 address"),
        ("server.web", 7, "must be a section"),
        ("server.web.power.on_w", 1, "must be more than the power asleep"),
        *(
            (f"box.{argument}", value, "no request may change it")
            for argument, value in (
                *(("run_dir", "/elsewhere"), ("data_dir", "/elsewhere"), ("helper", "/bin/sh")),
                *(("platform", "naproxy"), ("system_dir", "/etc")),
            )
        ),
        ("box.notice", "x" * 600, "must be at most 511 bytes long"),
        ("nothing", {}, "is not known"),
        ("server.shop.port", 80, "there is no server shop"),
    ]
    for where, value, words in changes:
        status, answer = patch(box, put("box.notice", "Hi"), put(where, value))
        said = [problem["error"] for problem in answer.get("problems", ())]
        assert status == 422, where
        assert any(words in each for each in said), said
        assert answer["problems"][0]["where"].startswith(where.split(".", maxsplit=1)[0])
        assert box.file.read_bytes() == before, where
        assert (get(box)["version"], get(box)["box"]["notice"]) == (version, ""), where


def test_a_request_of_the_wrong_form_is_refused(box: Box) -> None:
    for body, where in (
        (b"[]", None),
        (b"{", None),
        (b"{}", "version"),
        (b'{"version": 7, "changes": []}', "version"),
        (b'{"version": "x"}', "changes"),
        (b'{"version": "x", "changes": [], "force": true}', "force"),
        (b'{"version": "x", "changes": [{"op": "set", "where": "a"}]}', "changes[0].value"),
        (b'{"version": "x", "changes": [{"op": "set", "where": "a", "value": NaN}]}', None),
    ):
        status, answer = box.call("PATCH", "/v1/config", body)
        assert (status, answer["where"]) == (400, where), body


def test_a_change_of_settings_that_were_changed_meanwhile_is_refused(box: Box) -> None:
    version = get(box)["version"]
    assert patch(box, put("box.notice", "one"), version=version)[0] == 200
    status, answer = patch(box, put("box.notice", "two"), version=version)
    assert (status, answer["where"]) == (409, "version")
    assert get(box)["box"]["notice"] == "one"


def test_of_changes_at_the_same_moment_one_is_made(box: Box) -> None:
    version = get(box)["version"]
    said: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: said.append(patch(box, put("box.notice", n), version=version)[0])
        )
        for n in "abcdefgh"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [200] + [409] * 7


def test_a_file_changed_by_hand_is_not_overwritten_until_it_is_read_again(box: Box) -> None:
    box.file.write_text(box.file.read_text().replace("# ours", "# theirs"))
    status, answer = patch(box, put("box.notice", "Hi"))
    assert status == 409
    assert "by hand" in answer["error"]
    assert box.call("POST", "/v1/config/reload", b"{}")[0] == 200
    assert patch(box, put("box.notice", "Hi"))[0] == 200
    assert "# theirs" in box.file.read_text()


def test_a_bad_file_is_not_read_again_and_says_why(box: Box) -> None:
    good = box.file.read_bytes()
    box.file.write_bytes(good + b"[nonsense]\n")
    status, answer = box.call("POST", "/v1/config/reload", b"{}")
    assert (status, answer["where"]) == (422, "nonsense")
    box.file.write_bytes(good)


def test_a_rule_comes_and_goes_by_its_number(box: Box) -> None:
    rule = {"kind": "path", "text": "/feed", "treat_as": "feed"}
    status, answer = patch(box, {"op": "add", "where": "rule", "value": rule})
    assert (status, len(answer["rule"])) == (200, 1)
    status, answer = patch(box, {"op": "remove", "where": "rule.1"})
    assert (status, answer["rule"]) == (200, [])


def test_the_keys_are_those_of_the_list_for_the_web_interface(box: Box) -> None:
    listed = Path(naproxy.__file__).with_name("keys.json").read_text()
    assert box.call("GET", "/v1/config/keys") == (200, json.loads(listed))


def test_missing_things_are_reported(box: Box) -> None:
    for method, path, status in (
        ("DELETE", "/v1/config", 405),
        ("PATCH", "/v1/config/keys", 405),
        ("GET", "/v1/config/reload", 405),
        ("GET", "/v1/config/other", 404),
        ("PATCH", "/v1/status", 405),
    ):
        assert box.call(method, path, b"{}")[0] == status, (method, path)


BMC = {
    "driver": "ipmi",
    "host": "192.0.2.7",
    "user": "naproxy",
    "password_file": {"secret": "it's ours"},
}


def kept(box: Box) -> dict[str, str]:
    folder = box.file.with_name("secrets")
    return {path.name: path.read_text() for path in folder.glob("*")}


def test_a_password_is_kept_in_a_file_of_root_and_shown_nowhere(box: Box) -> None:
    status, answer = patch(box, put("server.web.sleep", BMC))
    assert status == 200
    file = Path(answer["server"][0]["sleep"]["password_file"])
    assert file.read_text() == "it's ours\n"
    about, folder = file.stat(), file.parent.stat()
    assert (about.st_uid, about.st_mode & 0o777, folder.st_mode & 0o777) == (0, 0o600, 0o700)
    [held] = [each for each in answer["held"] if each["where"].endswith("sleep.password_file")]
    assert (held["set_s"], held["own"]) == (about.st_mtime, True)
    assert "it's ours" not in json.dumps(answer) + box.file.read_text() + box.log()


def test_a_password_that_is_replaced_or_no_longer_named_is_gone(box: Box) -> None:
    patch(box, put("server.web.sleep", BMC))
    by_hand = box.file.with_name("secrets") / "by-hand"
    by_hand.write_text("theirs")
    patch(box, put("server.web.sleep.password_file", {"secret": "another"}))
    assert sorted(kept(box).values()) == ["another\n", "theirs"]
    patch(box, put("server.web.sleep", {"driver": "none"}))
    assert kept(box) == {"by-hand": "theirs"}
    by_hand.unlink()


def test_a_password_that_the_settings_of_before_name_is_kept_for_them(box: Box) -> None:
    patch(box, put("server.web.sleep", BMC))
    worked = box.file.with_name("naproxy.worked-0.toml")
    worked.write_bytes(box.file.read_bytes())
    patch(box, put("server.web.sleep", {"driver": "none"}))
    assert list(kept(box).values()) == ["it's ours\n"]
    worked.unlink()
    patch(box, put("box.notice", "Hi"))
    assert kept(box) == {}


def test_an_invalid_secret_is_rejected_and_nothing_is_kept(box: Box) -> None:
    before = box.file.read_bytes()
    cases: list[tuple[str, Any, str, str]] = [
        *(
            ("sleep", BMC | {"password_file": {"secret": secret}}, "password_file", words)
            for secret, words in (
                *(("two\nlines", "one line"), ("", "one line"), ("\0", "one line")),
                *(("\ud800", "one line"), ("x" * 21, "20 bytes"), (7, "must be a text")),
            )
        ),
        ("sleep.host", {"secret": "a"}, "host", "host name or an address"),
        ("id", {"secret": "a"}, "", "must be"),
        (
            *("sleep", {"driver": "agent", "key_file": {"secret": "ab" * 31}}),
            *("key_file", "64 hex digits"),
        ),
        ("sleep.driver", {"secret": "none"}, "driver", "must be one of"),
        ("../../etc/x", {"secret": "a"}, "", "the path of a key"),
        ("ready.path", {"secret": "a"}, "", "for a setting that has none"),
    ]
    for where, value, field, words in cases:
        status, answer = patch(box, put(f"server.web.{where}", value))
        assert status in (400, 422), (where, value)
        assert words in json.dumps(answer), answer
        assert (answer["where"] or "").endswith(field), (where, value)
        assert kept(box) == {}, (where, value)
        assert box.file.read_bytes() == before, (where, value)


def test_a_folder_that_leads_elsewhere_is_not_written_to(box: Box, tmp_path: Path) -> None:
    box.file.with_name("secrets").rmdir()
    box.file.with_name("secrets").symlink_to(tmp_path)
    try:
        status, answer = patch(box, put("server.web.sleep", BMC))
        assert (status, answer["code"]) == (422, "config.path_in")
        assert list(tmp_path.iterdir()) == []
        box.file.with_name("secrets").unlink()
        box.file.with_name("secrets").symlink_to(box.directory)
        status, answer = patch(box, put("server.web.sleep", BMC))
        assert (status, answer["code"]) == (409, "config.secret_folder")
    finally:
        box.file.with_name("secrets").unlink()


def test_a_name_that_would_lead_elsewhere_is_harmless(box: Box) -> None:
    meter = {"id": "m", "of": "web", "driver": "shelly", "host": "192.0.2.8"}
    meter |= {"password_file": {"secret": "../../up"}, "interval_s": 5.0}
    status, answer = patch(box, {"op": "add", "where": "meter", "value": meter})
    assert status == 200, answer
    [name] = kept(box)
    assert "/" not in name
    assert kept(box)[name] == "../../up\n"
