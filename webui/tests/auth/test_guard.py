"""Access rights by names, cookies, origins, tokens and roles, each with hostile input."""

from __future__ import annotations

import re
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from naproxy.api.routes import READS
from naproxy_webui.auth.guard import Keys
from naproxy_webui.http.access import access_of

OPEN = {
    "login.page",
    "login.log_in",
    "login.log_in_by_code",
    "claim.page",
    "claim.make_first_user",
    "static",
}
OPEN |= {"agent.program", "agent.key"}
ADMINISTRATORS_READ = {
    *(
        "agent.server_agent",
        "people.users",
        "pico.pico",
        "pico.pico_calibrate",
        "pico.pico_install",
    ),
    *("settings.refused", "settings_api.config_refused", "settings_box.backup_file"),
    *("settings_box.box_logs", "settings_box.diagnostics_file", "settings_https.certificates"),
    *("settings_https.certificate_renew", "setup.again", "setup.begin", "setup.choose"),
    *("setup.show", "setup_api.look", "setup_api.meter_search", "setup_api.scan"),
    *("setup_api.server_site", "setup_api.typical", "setup_api.where", "setup_proof.live"),
    *("setup_proof.proof", "setup_proof.server_doctor", "setup_proof.server_facts_script"),
    *("setup_proof.server_host_key", "pico.pico_install"),
}
OPEN |= {"offline.page", "offline.worker", "offline.manifest"}


def rules(app: Flask) -> list[tuple[str, str, str]]:
    """Return (endpoint, method, a path) of all there is."""
    found = []
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<int[^>]*>", "1", rule.rule)
        path = re.sub(r"<[^>]*>", "x", path)
        found += [(rule.endpoint, method, path) for method in sorted(rule.methods or ())]
    return found


def test_no_other_route_is_open_without_login(app: Flask, visitor: FlaskClient) -> None:
    for endpoint, method, path in rules(app):
        if endpoint in OPEN or endpoint == "health.health":
            continue
        answer = visitor.open(path, method=method, json={})
        to_login = answer.status_code == 303 and answer.location.startswith("/login")
        assert answer.status_code == 401 or to_login, (method, path, answer.status_code)


def test_no_change_without_the_csrf_token(app: Flask, client: FlaskClient) -> None:
    del client.environ_base["HTTP_X_CSRF_TOKEN"]
    for endpoint, method, path in rules(app):
        if method not in READS:
            answer = client.open(path, method=method, json={})
            assert answer.status_code == 403, (method, path, endpoint)


def test_a_viewer_changes_only_their_own_account(app: Flask, viewer: FlaskClient) -> None:
    own = {"login.log_out", "login.log_in", "claim.make_first_user"}
    for endpoint, method, path in rules(app):
        if method in READS or endpoint in own or path.startswith("/api/account/"):
            continue
        assert viewer.open(path, method=method, json={}).status_code == 403, (method, path)


def test_a_viewer_reads_all_but_administrators_routes(app: Flask, viewer: FlaskClient) -> None:
    reads = [(endpoint, path) for endpoint, method, path in rules(app) if method == "GET"]
    refused = {endpoint for endpoint, path in reads if viewer.get(path).status_code == 403}
    assert refused == ADMINISTRATORS_READ


def test_no_change_by_a_token_that_only_reads(app: Flask, program: Any) -> None:
    reader = program("read")
    for endpoint, method, path in rules(app):
        if method not in READS and endpoint != "claim.make_first_user":
            assert reader.open(path, method=method, json={}).status_code == 403, (method, path)


def test_own_things_are_declared_for_viewers_only_where_they_are_own(app: Flask) -> None:
    for endpoint, method, path in rules(app):
        declared = access_of(app.view_functions[endpoint])
        if method not in READS and not declared.needs_admin(method) and not declared.open:
            assert path.startswith("/api/account/") or endpoint == "login.log_out", path


def test_a_change_asked_by_another_site_is_refused(client: FlaskClient) -> None:
    del client.environ_base["HTTP_ORIGIN"]
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "https://localhost"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "http://localhost@evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
        {},
    ):
        sent = {"headers": headers, "json": {"language": "de"}}
        assert client.post("/login", **sent).status_code == 403, headers
        assert client.put("/api/account/language", **sent).status_code == 403, headers
    assert client.get("/api/account").json["language"] is None


def test_a_fetch_site_of_our_own_pages_suffices(client: FlaskClient) -> None:
    del client.environ_base["HTTP_ORIGIN"]
    for site in ("same-origin", "none"):
        sent = {"headers": {"Sec-Fetch-Site": site}, "json": {"language": "de"}}
        assert client.put("/api/account/language", **sent).status_code == 200, site


def test_a_forged_csrf_token_is_refused(client: FlaskClient, viewer: FlaskClient) -> None:
    of_another = viewer.environ_base["HTTP_X_CSRF_TOKEN"]
    for token in (of_another, "", "x", "A" * 5000, "ä\x80", "' OR 1=1 --"):
        client.environ_base["HTTP_X_CSRF_TOKEN"] = token
        answer = client.put("/api/account/language", json={"language": "de"})
        assert answer.status_code == 403, token


# The name in Host, which differs in DNS rebinding


def test_a_name_that_is_not_the_boxs_is_misdirected(client: FlaskClient) -> None:
    for host in (
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "203.0.113.9",
        "[2001:db8::9]",
        "",
        ":80",
        "localhost:b",
        "localhost:80:80",
        "localhost/..",
        "localhost evil",
        "user@localhost",
        "<script>alert(1)</script>",
        "a" * 300,
        "[::1",
        "[::1]x",
        "localhost\tx",
        "localhost\r\nx",
        "localhost\n",
        "\u217cocalhost",
    ):
        for path in ("/login", "/api/account", "/api/health"):
            answer = client.get(
                path, environ_overrides={"HTTP_HOST": host.encode().decode("latin-1")}
            )
            assert answer.status_code == 421, path
            assert "<script>alert" not in answer.text, (host, path)


def test_the_boxs_own_names_are_known(client: FlaskClient) -> None:
    for host in (
        "localhost",
        "LOCALHOST:8443",
        "localhost.",
        "127.0.0.1:80",
        "[::1]:8443",
        "[0:0::1]",
    ):
        assert client.get("/api/health", headers={"Host": host}).status_code == 200, host


def test_names_of_the_configuration_are_known(app: Flask, box: Any, client: FlaskClient) -> None:
    text = box.file.read_bytes().replace(b"[box]\n", b'[box]\nui_names = ["proxy.office.test"]\n')
    assert box.call("PUT", "/v1/config", text)[0] == 200
    assert client.get("/api/health", headers={"Host": "proxy.office.test"}).status_code == 200
    assert client.get("/api/health", headers={"Host": "proxy.evil.test"}).status_code == 421


# Tokens


def test_a_token_may_what_its_scope_says(program: Any, box: Any) -> None:
    for scope, reads in (("metrics", 403), ("read", 200), ("change", 200)):
        client = program(scope)
        assert client.get("/metrics").status_code == 200, scope
        assert client.get("/api/openapi.json").status_code == reads, scope
        # No scope gives a token access to users.
        assert client.delete("/api/users/999").status_code == 403, scope


def test_no_token_makes_tokens_or_users(program: Any) -> None:
    client = program("change")
    user = {"name": "eve", "password": "a long enough one", "role": "admin"}
    for method, path, body in (
        ("POST", "/api/account/tokens", {"name": "x", "scope": "change"}),
        ("POST", "/api/users", user),
        ("GET", "/api/account", {}),
        ("PUT", "/api/pico/micropython", {"upload": "x"}),  # nor brings an unsigned program
    ):
        assert client.open(path, method=method, json=body).status_code == 403, path


def test_a_forged_token_is_nobody_even_in_a_browser_that_is_logged_in(client: FlaskClient) -> None:
    for header in (
        "Bearer ",
        "Bearer x",
        "Bearer naproxy_" + "A" * 43,
        "Bearer " + "A" * 8000,
        "Basic YW5uYTphbm5h",
        "bearer naproxy_é",
        "Bearer naproxy_' OR '1'='1",
        "naproxy_x",
    ):
        answer = client.get("/api/account", headers={"Authorization": header})
        assert answer.status_code == 401, header
        assert answer.headers["WWW-Authenticate"] == "Bearer", header


def test_a_token_ends_with_its_user_and_with_the_users_rights(
    app: Flask, keys: Keys, client: FlaskClient, box: Any
) -> None:
    with app.test_request_context():
        user = keys.users.add("ben", "a long enough one", "admin")
        _, secret = keys.tokens.make(user, "x", "change")
    sent = {"Authorization": f"Bearer {secret}"}
    program = app.test_client()
    wake = "/api/no-such-thing"
    assert program.get("/api/openapi.json", headers=sent).status_code == 200
    assert program.post(wake, headers=sent).status_code == 404
    assert client.patch(f"/api/users/{user.id}", json={"role": "viewer"}).status_code == 200
    assert program.get("/api/openapi.json", headers=sent).status_code == 200
    assert client.delete(f"/api/users/{user.id}").status_code == 200
    assert program.get("/api/openapi.json", headers=sent).status_code == 401


def test_a_viewer_has_no_token_that_changes(viewer: FlaskClient) -> None:
    answer = viewer.post("/api/account/tokens", json={"name": "x", "scope": "change"})
    assert (answer.status_code, answer.json["where"]) == (403, "scope")


def test_a_tokens_secret_is_not_kept(
    client: FlaskClient, settings: Any, visitor: FlaskClient
) -> None:
    made = client.post("/api/account/tokens", json={"name": "x", "scope": "read"})
    secret = made.json["secret"]
    assert secret not in client.get("/api/account").text
    for file in settings.state_dir.iterdir():
        assert secret.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0
    sent = {"Authorization": f"Bearer {secret}"}
    assert visitor.get("/api/openapi.json", headers=sent).status_code == 200


# Bodies


def test_a_body_that_is_not_what_was_declared_is_refused(client: FlaskClient) -> None:
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"language": NaN}',
        b'{"language": 1e999}',
        b'{"language": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"language": "de", "x": 1}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"language": ' + b"9" * 5000 + b"}",
    ):
        answer = client.put("/api/account/language", data=body, content_type="application/json")
        assert answer.status_code == 400, body
        assert answer.json["error"], body


def test_a_body_of_another_type_is_refused(client: FlaskClient) -> None:
    body = '{"language": "de"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.put("/api/account/language", data=body, content_type=kind)
        assert answer.status_code == 415


def test_a_body_of_more_than_a_mebibyte_is_refused(client: FlaskClient) -> None:
    answer = client.put("/api/account/language", data=b" " * ((1 << 20) + 1))
    assert answer.status_code == 413
    assert answer.json["error"]


def test_a_query_that_was_not_declared_is_refused(client: FlaskClient) -> None:
    answer = client.get("/api/account?user=2")
    assert (answer.status_code, answer.json["where"]) == (400, "user")
