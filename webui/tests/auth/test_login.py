"""Claiming a box, logging in and out, sessions, passwords; and attempts to bypass them."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from box import Box
from conftest import PASSWORD, Clock, browser, stranger
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.app import create_app
from naproxy_webui.auth import claim
from naproxy_webui.auth.guard import Keys
from naproxy_webui.auth.sessions import ABSOLUTE_S, IDLE_S
from naproxy_webui.options import Settings
from werkzeug.test import TestResponse

NEW = "quite another sentence"


@pytest.fixture
def newcomer(app: Flask) -> FlaskClient:
    """A browser on a box that nobody has claimed."""
    return stranger(app)


def form(settings: Settings, **changes: str) -> dict[str, str]:
    code = claim.code(settings.state_dir)
    return {
        "code": code,
        "name": "Anna",
        "password": PASSWORD,
        "password_again": PASSWORD,
        **changes,
    }


def log_in(
    client: FlaskClient,
    password: str = PASSWORD,
    name: str = "anna",
    address: str = "127.0.0.1",
    **more: str,
) -> TestResponse:
    return client.post(
        "/login",
        data={"name": name, "password": password, **more},
        environ_overrides={"REMOTE_ADDR": address},
    )


# The claim


def test_a_new_box_leads_to_the_claim(newcomer: FlaskClient) -> None:
    for path in ("/", "/account", "/login"):
        if (answer := newcomer.get(path)).status_code != 404:
            assert answer.location == "/claim", path
    assert newcomer.get("/claim").status_code == 200
    assert newcomer.get("/api/account").status_code == 401


def test_a_claim_makes_an_administrator_logged_in(
    newcomer: FlaskClient, settings: Settings
) -> None:
    answer = newcomer.post("/claim", data=form(settings))
    assert (answer.status_code, answer.location) == (303, "/")
    assert newcomer.get("/api/account").json["role"] == "admin"
    assert not (settings.state_dir / claim.FILE).exists()


def test_a_wrong_code_claims_nothing(newcomer: FlaskClient, settings: Settings) -> None:
    for code in ("", "AAAA-AAAA-AAAA", "ä" * 12, "\x00", "2" * 100_000):
        assert newcomer.post("/claim", data=form(settings, code=code)).status_code == 403, code
        assert newcomer.get("/login").location == "/claim", code


def test_the_code_may_be_typed_as_one_likes(newcomer: FlaskClient, settings: Settings) -> None:
    typed = claim.code(settings.state_dir).lower().replace("-", " ")
    assert newcomer.post("/claim", data=form(settings, code=typed)).status_code == 303


def test_codes_are_tried_slowly(newcomer: FlaskClient, settings: Settings, clock: Clock) -> None:
    wrong = form(settings, code="wrong")
    assert [newcomer.post("/claim", data=wrong).status_code for _ in range(6)] == [403] * 5 + [429]
    assert newcomer.post("/claim", data=form(settings)).status_code == 429
    clock.now_s += 2
    assert newcomer.post("/claim", data=form(settings)).status_code == 303


def test_guesses_from_many_addresses_do_not_prevent_claiming(
    newcomer: FlaskClient, settings: Settings
) -> None:
    wrong = form(settings, code="wrong")
    for number in range(1, 40):
        at = {"REMOTE_ADDR": f"192.0.2.{number}"}
        newcomer.post("/claim", data=wrong, environ_overrides=at)
    assert newcomer.post("/claim", data=form(settings)).status_code == 303


def test_a_claimed_box_is_not_claimed_again(visitor: FlaskClient, settings: Settings) -> None:
    assert visitor.get("/claim").location == "/login"
    assert visitor.post("/claim", data=form(settings)).status_code == 409


def test_of_two_who_claim_at_once_one_does(app: Flask, settings: Settings) -> None:
    given = [form(settings, name=name) for name in ("anna", "ben", "carl", "dora")]
    with ThreadPoolExecutor(4) as pool:
        said = pool.map(lambda each: stranger(app).post("/claim", data=each).status_code, given)
        assert sorted(said) == [303, 409, 409, 409]
    assert len(app.extensions["naproxy_keys"].users.all()) == 1


def test_a_refused_claim_keeps_the_code(newcomer: FlaskClient, settings: Settings) -> None:
    for changes, words in (
        ({"password": "short", "password_again": "short"}, "at least 10"),
        ({"password": "aaaaaaaaaaaa", "password_again": "aaaaaaaaaaaa"}, "easy to guess"),
        ({"password": "password2026", "password_again": "password2026"}, "easy to guess"),
        ({"password_again": "something else"}, "passwords differ"),
        ({"name": ""}, "Use 1 to 40"),
        ({"name": "<b>x</b>"}, "Use 1 to 40"),
        ({"name": "a\r\nSet-Cookie: x=y"}, "Use 1 to 40"),
        ({"name": "x" * 41}, "Use 1 to 40"),
    ):
        answer = newcomer.post("/claim", data=form(settings, **changes))
        assert answer.status_code == 422, changes
        assert words in answer.text, changes
        assert claim.code(settings.state_dir) in answer.text, changes
        assert PASSWORD not in answer.text, changes
        assert "Set-Cookie" not in answer.headers, changes


# Logging in


def test_login_sets_a_cookie_that_scripts_and_other_sites_do_not_see(visitor: FlaskClient) -> None:
    cookie = log_in(visitor).headers["Set-Cookie"]
    for part in ("naproxy=", "HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert "Domain" not in cookie
    assert "Secure" not in cookie  # plain http: a browser would not send it back


def test_with_https_the_cookie_is_bound_to_this_host(app: Flask, client: FlaskClient) -> None:
    answer = app.test_client().post(
        "/login",
        data={"name": "anna", "password": PASSWORD},
        base_url="https://localhost",
        headers={"Origin": "https://localhost"},
    )
    assert answer.status_code == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-naproxy=")
    assert "Secure" in cookie


def test_a_wrong_password_and_a_wrong_name_are_told_alike(visitor: FlaskClient) -> None:
    wrong = [log_in(visitor, "no"), log_in(visitor, PASSWORD, "nobody"), log_in(visitor, "", "")]
    texts = {re.sub(r'value="[^"]*"|autofocus', "", answer.text) for answer in wrong[:2]}
    assert [answer.status_code for answer in wrong] == [403] * 3
    assert len(texts) == 1
    assert all("Set-Cookie" not in answer.headers for answer in wrong)


def test_accents_may_be_typed_in_any_form(app: Flask, keys: Keys, visitor: FlaskClient) -> None:
    with app.test_request_context():
        keys.users.add("zoë", "caf\u00e9 au lait", "viewer")
    for password in ("caf\u00e9 au lait", "cafe\u0301 au lait"):
        visitor.delete_cookie("naproxy")
        assert log_in(visitor, password, " ZOE\u0308 ").status_code == 303, password


def test_names_that_mean_harm_are_nobody(visitor: FlaskClient) -> None:
    for name in ("' OR 1=1 --", "\x00", "a" * 100_000, "\U0001f600", "%s{}"):
        assert log_in(visitor, name=name).status_code == 403, name


def test_a_cookie_from_before_login_never_becomes_a_session(
    visitor: FlaskClient, client: FlaskClient
) -> None:
    visitor.set_cookie("naproxy", "chosen-by-the-attacker")
    log_in(visitor)
    cookie = visitor.get_cookie("naproxy")
    assert cookie
    assert cookie.value != "chosen-by-the-attacker"
    first = cookie.value
    account = visitor.get("/account")
    token = re.search(r'name="csrf-token" content="([^"]+)"', account.text)
    assert token
    visitor.post("/login", data={"name": "anna", "password": PASSWORD, "csrf_token": token[1]})
    again = visitor.get_cookie("naproxy")
    assert again
    assert again.value != first
    visitor.set_cookie("naproxy", first)
    assert visitor.get("/api/account").status_code == 401


def test_a_forged_cookie_is_nobody(visitor: FlaskClient) -> None:
    for value in ("", "x", "A" * 43, "A" * 5000, "'; DROP TABLE sessions; --"):
        visitor.set_cookie("naproxy", value)
        assert visitor.get("/api/account").status_code == 401, value


def test_a_cookie_that_is_not_text_is_nobody(visitor: FlaskClient) -> None:
    for raw in ("naproxy=\xff\xfe", "naproxy", "=;=;naproxy=;", "naproxy=a; naproxy=b"):
        assert visitor.get("/api/account", headers={"Cookie": raw}).status_code == 401


def test_login_leads_to_pages_of_the_box_only(visitor: FlaskClient) -> None:
    for goal in (
        *("//evil.example", "https://evil.example", "/\\evil.example", "/x\r\nSet-Cookie: a=b"),
        *("javascript:alert(1)", "/%0d%0aX: y\n", "\t//evil.example", ""),
    ):
        visitor.delete_cookie("naproxy")
        answer = log_in(visitor, next=goal)
        assert answer.location == "/", goal
        assert "Set-Cookie: a" not in str(answer.headers), goal


def test_login_leads_back_to_where_one_was(visitor: FlaskClient) -> None:
    assert visitor.get("/account").location == "/login?next=/account"
    assert log_in(visitor, next="/history?from=7d").location == "/history?from=7d"


# Guessing


def test_guesses_from_one_address_get_slower(visitor: FlaskClient, clock: Clock) -> None:
    assert [log_in(visitor, "no").status_code for _ in range(7)] == [403] * 5 + [429] * 2
    answer = log_in(visitor)
    assert (
        answer.status_code == 429
    )  # a right password too, so a client that must wait learns nothing
    assert int(answer.headers["Retry-After"]) >= 1
    clock.now_s += 1.1
    assert log_in(visitor, "no").status_code == 403
    clock.now_s += 1.1
    assert log_in(visitor).status_code == 429
    clock.now_s += 1.1
    assert log_in(visitor).status_code == 303


def test_an_own_account_gives_no_guesses(
    app: Flask, visitor: FlaskClient, viewer: FlaskClient
) -> None:
    said = []
    for _ in range(4):
        said += [log_in(visitor, "no").status_code, log_in(visitor, "no").status_code]
        log_in(stranger(app), name="vera")
    assert said.count(403) == 5


def test_one_name_is_not_guessed_from_many_addresses(visitor: FlaskClient, clock: Clock) -> None:
    said = [log_in(visitor, "no", address=f"192.0.2.{n}").status_code for n in range(1, 30)]
    assert said.count(403) == 20
    clock.now_s += 61
    assert log_in(visitor, "no", address="192.0.2.99").status_code == 403


def test_a_user_is_not_locked_out_of_a_known_address(visitor: FlaskClient, clock: Clock) -> None:
    assert log_in(visitor).status_code == 303
    visitor.delete_cookie("naproxy")
    for number in range(1, 30):
        log_in(visitor, "no", address=f"192.0.2.{number}")
    assert log_in(visitor).status_code == 303


def test_a_guesser_in_an_ipv6_network_locks_out_no_known_address(
    visitor: FlaskClient,
) -> None:
    def attempt(address: str, password: str) -> int:
        visitor.delete_cookie("naproxy")
        return log_in(visitor, password, address=f"2001:db8::{address}").status_code

    assert attempt("a", PASSWORD) == 303
    assert [attempt(f"bad:{n}", "no") for n in range(7)] == [403] * 5 + [429] * 2
    assert attempt("a", PASSWORD) == 303
    assert attempt("b", PASSWORD) == 429


def test_guesses_at_once_count_as_many(app: Flask, client: FlaskClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: log_in(stranger(app), "no").status_code, range(16)))
    assert said.count(403) == 5


# Sessions end


def test_a_session_ends_unused_or_after_a_week(
    app: Flask, client: FlaskClient, clock: Clock
) -> None:
    used, begun_s = browser(app, "anna", "admin"), clock.now_s
    while clock.now_s + IDLE_S - 1 < begun_s + ABSOLUTE_S:
        clock.now_s += IDLE_S - 1
        assert used.get("/api/account").status_code == 200, clock.now_s
        if clock.now_s - begun_s > IDLE_S:
            assert client.get("/api/account").status_code == 401, clock.now_s
    clock.now_s = begun_s + ABSOLUTE_S + 1
    assert used.get("/api/account").status_code == 401


def test_logging_out_ends_the_session_itself(client: FlaskClient, visitor: FlaskClient) -> None:
    cookie = client.get_cookie("naproxy")
    assert cookie
    answer = client.post("/api/logout", json={})
    assert answer.status_code == 200
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    visitor.set_cookie("naproxy", cookie.value)
    assert visitor.get("/api/account").status_code == 401


def test_logging_out_everywhere_ends_ones_own(
    app: Flask, client: FlaskClient, viewer: FlaskClient
) -> None:
    other = browser(app, "anna", "admin")
    assert client.delete("/api/account/sessions").status_code == 200
    assert client.get("/api/account").status_code == 401
    assert other.get("/api/account").status_code == 401
    assert viewer.get("/api/account").status_code == 200


def test_a_session_of_another_user_is_not_ended(client: FlaskClient, viewer: FlaskClient) -> None:
    number = client.get("/api/account").json["sessions"][0]["id"]
    assert viewer.delete(f"/api/account/sessions/{number}").status_code == 404
    assert client.get("/api/account").status_code == 200


def test_sessions_outlive_a_restart_but_not_a_boot(
    app: Flask, client: FlaskClient, settings: Settings, clock: Clock
) -> None:
    cookie = client.get_cookie("naproxy")
    assert cookie

    def again() -> int:
        made = create_app(settings, clock=clock).test_client()
        made.set_cookie("naproxy", cookie.value)
        return made.get("/api/account").status_code

    assert again() == 200
    with sqlite3.connect(settings.run_dir / "sessions.db") as db:
        db.execute("UPDATE boot SET id = 'the boot before'")
    assert again() == 401


# Passwords and users


def test_a_new_password_ends_all_other_sessions(app: Flask, client: FlaskClient) -> None:
    other = browser(app, "anna", "admin")
    answer = client.put("/api/account/password", json={"current": PASSWORD, "password": NEW})
    assert answer.status_code == 200
    assert other.get("/api/account").status_code == 401
    assert client.get("/api/account").status_code == 200
    fresh = stranger(app)
    assert log_in(fresh).status_code == 403
    assert log_in(fresh, NEW).status_code == 303


def test_a_password_that_is_not_taken_is_said_where(client: FlaskClient) -> None:
    for current, new, where in (
        ("wrong", NEW, "current"),
        (PASSWORD, "short", "password"),
        (PASSWORD, "a" * 30, "password"),
    ):
        answer = client.put("/api/account/password", json={"current": current, "password": new})
        assert (answer.status_code, answer.json["where"]) == (422, where), (current, new)


def test_the_present_password_is_not_guessed_by_a_stolen_session(client: FlaskClient) -> None:
    body = {"current": "no", "password": NEW}
    said = [client.put("/api/account/password", json=body).status_code for _ in range(7)]
    assert said == [422] * 5 + [429] * 2


def test_the_last_administrator_stays(client: FlaskClient) -> None:
    number = client.get("/api/users").json["users"][0]["id"]
    assert client.delete(f"/api/users/{number}").status_code == 409
    assert client.patch(f"/api/users/{number}", json={"role": "viewer"}).status_code == 409
    assert client.get("/api/account").json["role"] == "admin"


def test_a_user_who_is_removed_is_out_at_once(client: FlaskClient, viewer: FlaskClient) -> None:
    number = next(u["id"] for u in client.get("/api/users").json["users"] if not u["this"])
    assert viewer.get("/api/account").status_code == 200
    assert client.delete(f"/api/users/{number}").status_code == 200
    assert viewer.get("/api/account").status_code == 401


def test_a_new_user_is_never_taken_for_one_who_was_removed(app: Flask, client: FlaskClient) -> None:
    # A login that was under way when its user was removed begins a session of nobody.
    keys: Keys = app.extensions["naproxy_keys"]
    with app.test_request_context():
        gone = keys.users.add("gone", PASSWORD, "viewer")
        keys.users.remove(gone)
        late, _ = keys.sessions.begin(gone.id, "192.0.2.1", "Firefox")
        keys.users.add("next", PASSWORD, "admin")
        assert keys.users.get(late.user) is None


def test_names_that_look_the_same_are_the_same(client: FlaskClient) -> None:
    for name in ("Anna", "\uff21\uff2e\uff2e\uff21", "anna "):
        answer = client.post("/api/users", json={"name": name, "password": NEW, "role": "viewer"})
        assert (answer.status_code, answer.json["where"]) == (409, "name"), name


def test_a_password_set_by_another_logs_the_user_out(
    client: FlaskClient, viewer: FlaskClient
) -> None:
    number = next(u["id"] for u in client.get("/api/users").json["users"] if not u["this"])
    assert client.patch(f"/api/users/{number}", json={"password": NEW}).status_code == 200
    assert viewer.get("/api/account").status_code == 401


def test_forgetting_all_users_makes_the_box_new(app: Flask, client: FlaskClient) -> None:
    app.extensions["naproxy_keys"].forget_all()
    assert client.get("/api/account").status_code == 401
    assert client.get("/login").location == "/claim"


def test_the_language_is_ones_own(client: FlaskClient) -> None:
    assert "Ihr Konto" not in client.get("/account").text
    client.put("/api/account/language", json={"language": "de"})
    assert "Ihr Konto" in client.get("/account").text


def test_without_login_the_browsers_language_counts(visitor: FlaskClient) -> None:
    assert "Anmelden" in visitor.get("/login", headers={"Accept-Language": "de-CH,en;q=0.5"}).text
    for odd in ("xx", "", "*", "de;q=oops", "\x01" * 100, "de" * 5000):
        assert visitor.get("/login", headers={"Accept-Language": odd}).status_code == 200


def test_the_office_language_is_for_those_who_chose_none(client: FlaskClient, box: Box) -> None:
    text = box.file.read_bytes() + b'\n[office]\nlanguage = "de"\n'
    assert box.call("PUT", "/v1/config", text)[0] == 200
    assert "Ihr Konto" in client.get("/account", headers={"Accept-Language": "en"}).text
    client.put("/api/account/language", json={"language": "en"})
    assert "Ihr Konto" not in client.get("/account", headers={"Accept-Language": "de"}).text


def test_a_page_that_is_open_begins_a_new_session(
    visitor: FlaskClient, client: FlaskClient
) -> None:
    sent = {"headers": {"Accept": "application/json"}}
    wrong = visitor.post("/login", data={"name": "anna", "password": "not this one"}, **sent)
    assert (wrong.status_code, visitor.get("/api/box").status_code) == (403, 401)
    right = visitor.post("/login", data={"name": "anna", "password": PASSWORD}, **sent)
    assert right.status_code == 200
    visitor.environ_base["HTTP_X_CSRF_TOKEN"] = right.json["csrf"]
    answer = visitor.put("/api/account/language", json={"language": "de"})
    assert answer.status_code == 200
