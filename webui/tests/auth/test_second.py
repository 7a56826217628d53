"""Two-factor login: codes by time, recovery codes, and people who try to get round them.

The codes come from `oathtool` of the OATH Toolkit, which has nothing in common with ours.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyotp
import pytest
from conftest import CHEAP, COMPILED, PASSWORD, Clock, browser, stranger
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.app import create_app
from naproxy_webui.auth import user_backup
from naproxy_webui.auth.guard import Keys
from naproxy_webui.auth.second import RECOVERY_CODES, WAITS_S
from naproxy_webui.auth.users import User
from naproxy_webui.options import Settings
from werkzeug.test import TestResponse

TODAY_S = 1_795_903_200
RFC_6238 = {
    # Appendix B, SHA-1, the last six of its eight digits.
    59: "287082",
    1111111109: "081804",
    1111111111: "050471",
    1234567890: "005924",
    2000000000: "279037",
    20000000000: "353130",
}
RFC_6238_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


@pytest.fixture
def now() -> Clock:
    """The time of day."""
    made = Clock()
    made.now_s = TODAY_S
    return made


@pytest.fixture
def app(settings: Settings, clock: Clock, now: Clock) -> Flask:
    made = create_app(settings, clock=clock, now=now, cost=lambda: CHEAP)
    made.jinja_env.bytecode_cache = COMPILED
    return made


def oathtool(secret: str, at_s: float) -> str:
    """Return the code that the OATH Toolkit makes."""
    command = ["oathtool", "--totp", "--base32", f"--now=@{int(at_s)}", "-"]
    made = subprocess.run(command, input=secret, capture_output=True, text=True, check=True)
    return made.stdout.strip()


class Phone:
    """An authenticator app and a sheet of paper."""

    def __init__(self, client: FlaskClient, now: Clock) -> None:
        begun = client.post("/api/account/second", json={"password": PASSWORD})
        assert begun.status_code == 200, begun.text
        self.now, self.secret = now, begun.json["secret"]
        self.link: str = begun.json["link"]
        done = client.put("/api/account/second", json={"code": self.code()})
        assert done.status_code == 200, done.text
        self.recovery: list[str] = done.json["recovery"]
        now.now_s += 60

    def code(self, later_s: float = 0.0) -> str:
        return oathtool(self.secret, self.now.now_s + later_s)


@pytest.fixture
def phone(client: FlaskClient, now: Clock) -> Phone:
    return Phone(client, now)


@pytest.fixture
def anna(keys: Keys, client: FlaskClient) -> User:
    return keys.users.all()[0]


def first(client: FlaskClient, password: str = PASSWORD, address: str = "127.0.0.1") -> str:
    """Send name and password; return what the second step needs."""
    answer = client.post(
        "/login",
        data={"name": "anna", "password": password},
        environ_overrides={"REMOTE_ADDR": address},
    )
    assert answer.status_code == 200, answer.status_code
    found = re.search(r'name="step" value="([^"]+)"', answer.text)
    assert found
    return found[1]


def second(client: FlaskClient, step: str, code: str, address: str = "127.0.0.1") -> TestResponse:
    return client.post(
        "/login/code",
        data={"step": step, "code": code},
        environ_overrides={"REMOTE_ADDR": address},
    )


def is_in(client: FlaskClient) -> bool:
    return client.get("/api/account").status_code == 200


# Against what others made


@pytest.mark.parametrize("at_s", RFC_6238)
def test_codes_of_rfc_6238_are_taken(keys: Keys, anna: User, now: Clock, at_s: int) -> None:
    kept = {"secret": RFC_6238_SECRET, "used_step": 0, "on_since_s": 0.0, "recovery": []}
    keys.seconds.put_back(anna, kept)
    now.now_s = at_s
    assert oathtool(RFC_6238_SECRET, at_s) == RFC_6238[at_s]
    assert keys.seconds.take(anna, RFC_6238[at_s])


def test_a_phone_signs_in_with_password_and_code(visitor: FlaskClient, phone: Phone) -> None:
    step = first(visitor)
    assert not is_in(visitor)
    answer = second(visitor, step, phone.code())
    assert (answer.status_code, answer.location) == (303, "/")
    assert is_in(visitor)
    assert pyotp.parse_uri(phone.link).secret == phone.secret


def test_a_code_may_be_typed_as_the_app_shows_it(visitor: FlaskClient, phone: Phone) -> None:
    code = phone.code()
    assert second(visitor, first(visitor), f" {code[:3]}\u202f{code[3:]} ").status_code == 303


def test_clocks_may_differ_by_one_step(app: Flask, phone: Phone, now: Clock) -> None:
    for off_s, status in ((-60, 403), (60, 403), (-30, 303), (30, 303)):
        client = stranger(app)
        assert second(client, first(client), phone.code(off_s)).status_code == status, off_s


# Attacks


def test_a_code_counts_once(app: Flask, phone: Phone, now: Clock) -> None:
    code = phone.code()
    said = []
    for _ in range(2):
        client = stranger(app)
        said.append(second(client, first(client), code).status_code)
    assert said == [303, 403]
    client = stranger(app)
    # Nor does one of a step before the last that counted, though its time is not over.
    assert second(client, first(client), phone.code(-30)).status_code == 403
    now.now_s += 30
    assert second(client, first(client), phone.code()).status_code == 303


def test_a_code_that_is_sent_four_times_at_once_signs_in_once(app: Flask, phone: Phone) -> None:
    clients = [stranger(app) for _ in range(4)]
    steps, code = [first(each) for each in clients], phone.code()
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda n: second(clients[n], steps[n], code).status_code, range(4)))
    assert sorted(said) == [303, 403, 403, 403]
    assert [is_in(each) for each in clients].count(True) == 1


def test_the_code_that_turned_it_on_does_not_sign_in(app: Flask, phone: Phone, now: Clock) -> None:
    now.now_s -= 60
    client = stranger(app)
    assert second(client, first(client), phone.code()).status_code == 403


def test_without_the_first_step_no_code_counts(visitor: FlaskClient, phone: Phone) -> None:
    for step in ("", "x", "A" * 43, "\x00", "'; DROP TABLE users; --", "z" * 100_000):
        assert second(visitor, step, phone.code()).status_code == 403, step
    assert not is_in(visitor)
    # The code was not used up by it.
    assert second(visitor, first(visitor), phone.code()).status_code == 303


def test_the_first_step_alone_opens_nothing(app: Flask, visitor: FlaskClient, phone: Phone) -> None:
    step = first(visitor)
    for name in ("naproxy", "__Host-naproxy", "step"):
        visitor.set_cookie(name, step)
    assert not is_in(visitor)
    assert visitor.get("/account").location == "/login?next=/account"
    bearer = {"Authorization": f"Bearer {step}"}
    assert visitor.get("/api/account", headers=bearer).status_code == 401
    assert second(visitor, step, "").status_code == 403


def test_a_first_step_counts_once_and_not_for_long(
    app: Flask, visitor: FlaskClient, phone: Phone, clock: Clock, now: Clock
) -> None:
    step = first(visitor)
    assert second(visitor, step, phone.code()).status_code == 303
    now.now_s += 30
    assert second(stranger(app), step, phone.code()).status_code == 403
    other = stranger(app)
    late = first(other)
    clock.now_s += WAITS_S + 1
    answer = second(other, late, phone.code())
    assert answer.status_code == 403
    assert "too long" in answer.text
    assert not is_in(other)


def test_a_first_step_ends_with_the_password_and_with_the_user(
    app: Flask, client: FlaskClient, phone: Phone, keys: Keys, anna: User
) -> None:
    other = stranger(app)
    step = first(other)
    new = {"current": PASSWORD, "password": "quite another sentence"}
    assert client.put("/api/account/password", json=new).status_code == 200
    assert second(other, step, phone.code()).status_code == 403
    step = first(other, "quite another sentence")
    with app.test_request_context():
        keys.users.add("ben", PASSWORD, "admin")
        keys.users.remove(anna)
    assert second(other, step, phone.code()).status_code == 403
    assert not is_in(other)


def test_a_wrong_password_is_told_without_a_second_step(visitor: FlaskClient, phone: Phone) -> None:
    answer = visitor.post("/login", data={"name": "anna", "password": "no"})
    assert answer.status_code == 403
    assert "step" not in re.findall(r'name="(\w+)"', answer.text)


def test_codes_are_guessed_slowly_from_however_many_addresses(
    app: Flask, phone: Phone, clock: Clock
) -> None:
    tried = 0
    for n in range(1, 60):
        address = f"192.0.2.{n}"
        client = stranger(app)
        tried += (
            second(client, first(client, address=address), "000000", address).status_code == 403
        )
    assert tried == 5
    # In a day of guesses, each as soon as it is allowed, this few count.
    at, end_s = {"REMOTE_ADDR": "198.51.100.7"}, clock.now_s + 86400
    data, asked = {"name": "anna", "password": PASSWORD}, 0
    while clock.now_s < end_s and asked < 1000:
        asked += 1
        client = stranger(app)
        answer = client.post("/login", data=data, environ_overrides=at)
        if answer.status_code == 200:
            step = re.findall(r'name="step" value="([^"]+)"', answer.text)[0]
            answer = second(client, step, "000000", at["REMOTE_ADDR"])
        tried += answer.status_code == 403
        clock.now_s += float(answer.headers.get("Retry-After", 0.01))
    assert clock.now_s >= end_s
    assert tried < 60
    # And the right one has to wait too.
    client, at["REMOTE_ADDR"] = stranger(app), "203.0.113.9"
    step = first(client, address=at["REMOTE_ADDR"])
    second(client, step, "000000", at["REMOTE_ADDR"])
    assert second(client, step, phone.code(), at["REMOTE_ADDR"]).status_code == 429


def test_a_thief_of_the_password_locks_the_user_out_of_no_known_address(
    app: Flask, phone: Phone, now: Clock
) -> None:
    home = stranger(app)
    assert second(home, first(home), phone.code()).status_code == 303
    for n in range(1, 30):
        thief = stranger(app)
        second(thief, first(thief, address=f"192.0.2.{n}"), "000000", f"192.0.2.{n}")
    now.now_s += 30
    home = stranger(app)
    assert second(home, first(home), phone.code()).status_code == 303


def test_a_right_password_does_not_make_an_address_known(
    app: Flask, phone: Phone, clock: Clock
) -> None:
    at = "192.0.2.66"
    thief = stranger(app)
    for _ in range(5):
        step = first(thief, address=at)
    said = [second(thief, step, "000000", at).status_code for _ in range(7)]
    assert said == [403] * 5 + [429] * 2
    clock.now_s += 3600  # an address is forgotten after an hour, guesses at a user after a day
    step = first(thief, address=at)
    said = [second(thief, step, "000000", at).status_code for _ in range(3)]
    assert said == [403] + [429] * 2


def test_guesses_at_once_count_as_many(app: Flask, phone: Phone) -> None:
    clients = [stranger(app) for _ in range(12)]
    steps = [first(each) for each in clients]
    with ThreadPoolExecutor(6) as pool:
        said = list(
            pool.map(lambda n: second(clients[n], steps[n], "000000").status_code, range(12))
        )
    assert said.count(403) == 5


def test_codes_that_mean_harm_are_wrong(app: Flask, phone: Phone, clock: Clock) -> None:
    for code in (
        *("0" * 5, "0" * 7, "-00001", "1e5   ", "\u0661" * 6, "\x00" * 6, "' OR 1=1 --"),
        *("A" * 12, "2" * 12, "x" * 100_000, "\U0001f600" * 6, ""),
    ):
        clock.now_s += 86401
        client = stranger(app)
        assert second(client, first(client), code).status_code == 403, code


def test_a_session_from_before_is_not_the_one_after(app: Flask, phone: Phone) -> None:
    victim = stranger(app)
    victim.set_cookie("naproxy", "chosen-by-the-attacker")
    assert second(victim, first(victim), phone.code()).status_code == 303
    cookie = victim.get_cookie("naproxy")
    assert cookie
    assert cookie.value != "chosen-by-the-attacker"
    thief = stranger(app)
    thief.set_cookie("naproxy", "chosen-by-the-attacker")
    assert not is_in(thief)


def test_another_site_sends_no_code(visitor: FlaskClient, phone: Phone) -> None:
    step = first(visitor)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ):
        answer = visitor.post(
            "/login/code", data={"step": step, "code": phone.code()}, headers=headers
        )
        assert answer.status_code == 403, headers
    assert not is_in(visitor)
    assert second(visitor, step, phone.code()).status_code == 303


def test_no_change_of_it_without_the_csrf_token(client: FlaskClient, phone: Phone) -> None:
    del client.environ_base["HTTP_X_CSRF_TOKEN"]
    body = {"password": PASSWORD, "code": phone.code()}
    for path in ("/api/account/second/off", "/api/account/second/recovery"):
        assert client.post(path, json=body).status_code == 403, path
    assert client.delete("/api/account/sessions?others=true").status_code == 403


def test_a_stolen_session_neither_turns_it_off_nor_on(
    client: FlaskClient, viewer: FlaskClient, phone: Phone, clock: Clock
) -> None:
    for body, where in (
        ({"password": "no", "code": phone.code()}, "password"),
        ({"password": PASSWORD, "code": "000000"}, "code"),
    ):
        for path in ("/api/account/second/off", "/api/account/second/recovery"):
            answer = client.post(path, json=body)
            assert (answer.status_code, answer.json["where"]) == (422, where), path
    assert client.post("/api/account/second", json={"password": PASSWORD}).status_code == 409
    own = client.get("/api/users").json["users"][0]["id"]
    assert client.patch(f"/api/users/{own}", json={"second": "off"}).status_code == 409
    assert viewer.patch(f"/api/users/{own}", json={"second": "off"}).status_code == 403
    clock.now_s += 3600
    assert viewer.post("/api/account/second", json={"password": "no"}).status_code == 422
    assert client.get("/api/account").json["second"]["recovery_codes"] == RECOVERY_CODES


def test_it_is_off_until_a_code_has_come_back(app: Flask, client: FlaskClient) -> None:
    begun = client.post("/api/account/second", json={"password": PASSWORD})
    assert client.put("/api/account/second", json={"code": "000000"}).status_code == 422
    assert client.get("/api/account").json["second"] is None
    other = stranger(app)
    data = {"name": "anna", "password": PASSWORD}
    assert other.post("/login", data=data).status_code == 303
    assert begun.json["secret"] not in client.get("/account").text


def test_turning_it_on_ends_sessions_that_had_no_code(
    app: Flask, client: FlaskClient, now: Clock
) -> None:
    other = browser(app, "anna", "admin")
    Phone(client, now)
    assert is_in(client)
    assert not is_in(other)


# Recovery


def test_each_recovery_code_signs_in_once(
    app: Flask, client: FlaskClient, phone: Phone, clock: Clock
) -> None:
    assert len(set(phone.recovery)) == RECOVERY_CODES
    for number, code in enumerate(phone.recovery):
        clock.now_s += 86401 if number % 4 == 0 else 0
        other = stranger(app)
        typed = code.lower().replace("-", " ") if number % 2 else code
        assert second(other, first(other), typed).status_code == 303, code
        other = stranger(app)
        assert second(other, first(other), code).status_code == 403, code
    clock.now_s += 86401
    assert second(other, first(other), phone.code()).status_code == 303


def test_new_recovery_codes_make_the_old_ones_void(
    app: Flask, client: FlaskClient, phone: Phone, now: Clock
) -> None:
    body = {"password": PASSWORD, "code": phone.code()}
    made = client.post("/api/account/second/recovery", json=body).json["recovery"]
    other = stranger(app)
    assert second(other, first(other), phone.recovery[0]).status_code == 403
    assert second(other, first(other), made[0]).status_code == 303


def test_the_file_has_no_recovery_code(settings: Settings, phone: Phone) -> None:
    raw = b"".join(each.read_bytes() for each in settings.state_dir.iterdir())
    for code in phone.recovery:
        assert code.encode() not in raw
        assert code.replace("-", "").encode() not in raw
    assert {each.stat().st_mode & 0o077 for each in settings.state_dir.glob("webui.db*")} == {0}


def test_another_administrator_turns_it_off(
    app: Flask, client: FlaskClient, phone: Phone, anna: User
) -> None:
    other = browser(app, "ben", "admin")
    assert other.patch(f"/api/users/{anna.id}", json={"second": "off"}).json["second"] is False
    assert not is_in(client)
    data = {"name": "anna", "password": PASSWORD}
    assert stranger(app).post("/login", data=data).status_code == 303


def test_the_console_turns_it_off(
    app: Flask, client: FlaskClient, phone: Phone, settings: Settings
) -> None:
    def console(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(
                    sys.executable,
                    "-c",
                    "from naproxy_webui.main import main; raise SystemExit(main())",
                ),
                *("--state-dir", settings.state_dir, "--run-dir", settings.run_dir),
                *("--forget-second-factor", name),
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    assert console("nobody").returncode == 1
    done = console("Anna")
    assert (done.returncode, done.stderr) == (0, "")
    assert not is_in(client)
    data = {"name": "anna", "password": PASSWORD}
    assert stranger(app).post("/login", data=data).status_code == 303
    assert console("anna").returncode == 1


def test_tokens_work_as_before(app: Flask, client: FlaskClient, now: Clock) -> None:
    made = client.post("/api/account/tokens", json={"name": "t", "scope": "read"})
    Phone(client, now)
    bearer = {"Authorization": f"Bearer {made.json['secret']}"}
    assert stranger(app).get("/api/now", headers=bearer).status_code == 200
    body = {"password": PASSWORD}
    assert stranger(app).post("/api/account/second", json=body, headers=bearer).status_code == 403


def test_an_open_page_signs_in_again_in_two_steps(visitor: FlaskClient, phone: Phone) -> None:
    sent: Any = {"headers": {"Accept": "application/json"}}
    answer = visitor.post("/login", data={"name": "anna", "password": PASSWORD}, **sent)
    assert answer.json["csrf"] is None
    form = {"step": answer.json["step"], "code": "000000"}
    wrong = visitor.post("/login/code", data=form, **sent)
    assert (wrong.status_code, wrong.json["where"]) == (403, "code")
    right = visitor.post("/login/code", data={**form, "code": phone.code()}, **sent)
    assert right.status_code == 200, right.text
    visitor.environ_base["HTTP_X_CSRF_TOKEN"] = right.json["csrf"]
    assert visitor.put("/api/account/language", json={"language": "de"}).status_code == 200


# Sessions


def test_all_other_sessions_end_and_do_not_come_back(
    app: Flask, client: FlaskClient, viewer: FlaskClient
) -> None:
    other = browser(app, "anna", "admin")
    listed = client.get("/api/account").json["sessions"]
    assert [each["this"] for each in listed].count(True) == 1
    assert {"since_s", "seen_s", "address", "agent"} < set(listed[0])
    assert client.delete("/api/account/sessions?others=true").status_code == 200
    assert [is_in(each) for each in (client, other, viewer)] == [True, False, True]
    assert other.put("/api/account/language", json={"language": "de"}).status_code == 401
    assert len(client.get("/api/account").json["sessions"]) == 1


# Backup


def test_a_backup_puts_the_second_factor_back(
    app: Flask, phone: Phone, keys: Keys, anna: User
) -> None:
    kept = user_backup.export(keys)
    assert phone.recovery[0] not in str(kept)
    keys.seconds.turn_off(anna)
    assert user_backup.restore(keys, kept) == 1
    other = stranger(app)
    assert second(other, first(other), phone.code()).status_code == 303
    other = stranger(app)
    assert second(other, first(other), phone.recovery[3]).status_code == 303
    # A backup of before: no second factor, no key of it.
    old = [{k: v for k, v in row.items() if k != "second"} for row in kept]
    assert user_backup.restore(keys, old) == 1
    assert "second" not in user_backup.export(keys)[0]


def test_a_bad_second_factor_in_a_backup_changes_nothing(
    client: FlaskClient, phone: Phone, keys: Keys
) -> None:
    (row,) = user_backup.export(keys)
    good = row["second"]
    for bad in (
        *(None, [], "x", {}, {**good, "more": 1}, {**good, "secret": "abc"}),
        *(
            {**good, "secret": None},
            {**good, "secret": "A" * 31 + "1"},
            {**good, "secret": "A" * 999},
        ),
        *({**good, "used_step": each} for each in (-1, 1 << 63, 1.5, True, "1", None)),
        *({**good, "on_since_s": each} for each in (-1, float("nan"), None, "1", True)),
        *({**good, "recovery": each} for each in (None, {}, ["x"], [1], ["a" * 64] * 2)),
        {**good, "recovery": [f"{n:064x}" for n in range(11)]},
    ):
        assert user_backup.restore(keys, [{**row, "second": bad}]) == 0, bad
    assert user_backup.export(keys) == [row]


def test_a_box_of_before_gets_its_tables(settings: Settings, clock: Clock, tmp_path: Path) -> None:
    app = create_app(settings, clock=clock, cost=lambda: CHEAP)
    browser(app, "anna", "admin")
    keys: Keys = app.extensions["naproxy_keys"]
    for table in ("recovery_codes", "second_factors"):
        keys.users._db.write(f"DROP TABLE {table}")
    again = create_app(settings, clock=clock, cost=lambda: CHEAP)
    data = {"name": "anna", "password": PASSWORD}
    assert stranger(again).post("/login", data=data).status_code == 303
