"""The box as the office sees it: lighttpd with TLS, the web interface behind it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from naproxy_webui.http.headers import SECURITY
from server import MOST_GUESSES, OVERLAY, PASSWORD, Lighttpd, WebUi, read_all


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lighttpd, WebUi]]:
    webui = WebUi(tmp_path_factory.mktemp("front"), unix=True)
    lighttpd = Lighttpd(webui)
    yield lighttpd, webui
    lighttpd.close()
    webui.close()


Front = tuple[Lighttpd, WebUi]


def ask(front: Front, request: str, body: bytes = b"", *, tls: bool = True) -> tuple[int, str, str]:
    """Send a request line and headers as they are; return status, head and body."""
    head = request if "\r\nHost:" in request else f"{request}\r\nHost: localhost"
    with front[0].connect(tls=tls) as sock:
        raw = head.encode("latin-1") + b"\r\nConnection: close\r\n"
        raw += b"Content-Length: %d\r\n" % len(body) if body else b""
        with suppress(OSError):  # a client that sends too much may be cut off
            sock.sendall(raw + b"\r\n" + body)
        answer = read_all(sock)
    top, _, rest = answer.partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.[01] (\d+)", top)
    return int(found[1]) if found else 0, top.decode("latin-1"), rest.decode("utf-8", "replace")


def header(head: str, name: str) -> str | None:
    found = re.search(rf"^{name}: (.*?)\r?$", head, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else None


def static_path(front: Front) -> str:
    found = re.search(r'"(/static/[0-9a-f]{12}/css/kit\.css)', ask(front, "GET /claim HTTP/1.1")[2])
    assert found
    return found[1]


def test_the_configuration_says_the_same_headers_as_the_application() -> None:
    text = (OVERLAY / "etc/lighttpd/naproxy-ui.conf").read_text()
    block = re.search(r"set-response-header = \((.*?)\n\)", text, re.DOTALL)
    assert block
    assert dict(re.findall(r'"([^"]+)" => "([^"]+)"', block[1])) == SECURITY


def test_every_answer_has_the_security_headers(front: Front) -> None:
    for line in ("GET /claim", "GET /nothing", "GET /api/account", "HEAD /claim", "GET /static/x"):
        _, head, _ = ask(front, f"{line} HTTP/1.1")
        assert {name: header(head, name) for name in SECURITY} == SECURITY, line
        assert header(head, "Server") is None, line


def test_static_files_are_kept_for_a_year_and_packed(front: Front) -> None:
    css = static_path(front)
    status, head, _ = ask(front, f"GET {css} HTTP/1.1\r\nAccept-Encoding: gzip")
    assert status == 200
    assert header(head, "Cache-Control") == "max-age=31104000"
    assert header(head, "Content-Encoding") == "gzip"
    assert header(head, "Content-Type") == "text/css; charset=utf-8"
    script = css.replace("css/kit.css", "js/kit/core.js")
    _, head, _ = ask(front, f"GET {script} HTTP/1.1")
    assert header(head, "Content-Type") == "text/javascript; charset=utf-8"


def test_pages_are_kept_by_nobody_and_not_packed(front: Front) -> None:
    _, head, _ = ask(front, "GET /claim HTTP/1.1\r\nAccept-Encoding: gzip")
    assert header(head, "Cache-Control") == "no-store"
    assert header(head, "Content-Encoding") is None


def test_nothing_outside_the_static_files_is_served(front: Front) -> None:
    for path in (
        "/static/../guard.py",
        "/static/0123456789ab/../../guard.py",
        "/static/0123456789ab/..%2f..%2fguard.py",
        "/static/%2e%2e/guard.py",
        "/static../guard.py",
        "/static/0123456789ab/%5c..%5c..%5cguard.py",
        "/static/0123456789ab//etc/passwd",
        "/static/0123456789ab/....//....//guard.py",
        "/static/0123456789ab/css/kit.css%00.html",
        "/../../../../etc/passwd",
    ):
        status, _, body = ask(front, f"GET {path} HTTP/1.1")
        assert status in (400, 403, 404, 303), path
        assert "import" not in body, path
        assert "root:" not in body, path


def test_folders_are_not_listed(front: Front) -> None:
    for path in ("/static/", "/static/0123456789ab/", "/static/0123456789ab/css/"):
        assert ask(front, f"GET {path} HTTP/1.1")[0] in (403, 404)


def test_the_other_port_only_leads_to_the_one_with_tls(front: Front) -> None:
    status, head, _ = ask(front, "GET /a?b=c HTTP/1.1", tls=False)
    assert (status, header(head, "Location")) == (
        308,
        f"https://localhost:{front[0].port}/a?b=c",
    )
    status, head, body = ask(front, "POST /login HTTP/1.1", b"name=a&password=b", tls=False)
    assert (status, body) == (308, "")


def test_the_redirection_is_made_of_a_name_only(front: Front) -> None:
    for host in ("evil.example/x", "a b", "a\tb", "x@evil.example", "-", ""):
        status, head, _ = ask(front, f"GET / HTTP/1.1\r\nHost: {host}", tls=False)
        assert status in (308, 400, 421), host
        location = header(head, "Location")
        assert location is None or re.fullmatch(r"https://[A-Za-z0-9._-]+:\d+/", location), host


def test_a_clients_claimed_address_and_scheme_are_ignored(front: Front) -> None:
    """With TLS the cookie is Secure, and guesses are counted by the address that connects."""
    lies = "X-Forwarded-For: 198.51.100.{n}\r\nX-Forwarded-Proto: http\r\nForwarded: for=1.2.3.4"
    form = b"code=x&name=anna&password=p&password_again=p"
    said: list[int] = []
    while 429 not in said and len(said) < MOST_GUESSES:
        head = (
            "POST /claim HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Origin: https://localhost\r\n{lies.format(n=len(said))}"
        )
        said.append(ask(front, head, form)[0])
    assert (said[:5], said[-1]) == ([403] * 5, 429)


def test_behind_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    webui = WebUi(tmp_path, unix=True)
    lighttpd = Lighttpd(webui)
    own = (lighttpd, webui)
    form = {"code": webui.claim_code(), "name": "anna"}
    form |= {"password": PASSWORD, "password_again": PASSWORD}
    head = (
        "POST /claim HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        "Origin: https://localhost\r\nX-Forwarded-Proto: http\r\nX-Forwarded-For: 10.9.8.7"
    )
    try:
        status, top, _ = ask(own, head, urlencode(form).encode())
        assert status == 303
        cookie = header(top, "Set-Cookie") or ""
        assert re.match(r"__Host-naproxy=[\w-]{43}; ", cookie)
        for part in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
            assert part in cookie
        logged_in = f"HTTP/1.1\r\nCookie: {cookie.partition(';')[0]}"
        status, _, body = ask(own, f"GET /api/account {logged_in}")
        assert (status, '"address":"127.0.0.1"' in body) == (200, True)
        fingerprint = (tmp_path / "tls/fingerprint").read_text().strip()
        assert fingerprint in ask(own, f"GET /account {logged_in}")[2]
    finally:
        lighttpd.close()
        webui.close()


def test_another_name_is_refused_here_too(front: Front) -> None:
    for request_ in (
        "GET / HTTP/1.1\r\nHost: evil.example",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost",
        "GET /login HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost",
    ):
        status, _, body = ask(front, request_)
        assert status in (400, 421), request_
        assert "csrf" not in body, request_


def test_invalid_http_is_refused_and_does_no_harm(front: Front) -> None:
    for request_ in (
        "GARBAGE",
        "GET / HTTP/9.9",
        "GET /\x00 HTTP/1.1",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example",
        "GET / HTTP/1.1\r\nX: " + "a" * 20_000,
        "GET /" + "a" * 20_000 + " HTTP/1.1",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "POST /login HTTP/1.1\r\nContent-Length: -1",
        "POST /login HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6",
        "GET / HTTP/1.1\r\nX : y",
        "GET / HTTP/1.1\r\n folded: y",
    ):
        assert ask(front, request_)[0] in (0, 400, 413, 414, 431, 505), request_
        assert ask(front, "GET /api/health HTTP/1.1")[0] == 200, request_


def test_a_body_that_is_too_large_is_refused(front: Front) -> None:
    head = "PUT /api/account/language HTTP/1.1\r\nContent-Type: application/json"
    status, _, body = ask(front, head, b" " * ((1 << 20) + 1))
    assert status == 413
    assert '"error"' in body
    assert ask(front, head, b" " * ((2 << 20) + 1))[0] in (0, 413)
    assert ask(front, head, b" " * (1 << 20))[0] in (401, 403)


def test_clients_that_say_nothing_do_not_keep_others_out(front: Front) -> None:
    silent = [front[0].connect(tls=False) for _ in range(40)]
    for sock in silent:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
    assert ask(front, "GET /api/health HTTP/1.1")[0] == 200
    for sock in silent:
        sock.close()


def test_a_body_that_never_ends_does_not_reach_the_web_interface(front: Front) -> None:
    slow = [front[0].connect() for _ in range(10)]
    for sock in slow:
        sock.sendall(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nname="
        )
    # Four threads answer; ten that wait for their bodies would hold them all.
    assert ask(front, "GET /api/health HTTP/1.1")[0] == 200
    for sock in slow:
        sock.close()


# The certificate


def certificate(folder: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["openssl", "x509", "-in", folder / "naproxy.pem", "-noout", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout


def make_certificate(folder: Path) -> None:
    subprocess.run([OVERLAY / "usr/sbin/naproxy-certificate", folder], check=True)


def test_the_certificate_is_made_once_with_its_fingerprint(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    first = (tmp_path / "naproxy.pem").read_bytes()
    make_certificate(tmp_path)
    assert (tmp_path / "naproxy.pem").read_bytes() == first
    assert (tmp_path / "naproxy.pem").stat().st_mode & 0o077 == 0
    said = certificate(tmp_path, "-fingerprint", "-sha256").strip()
    assert said.partition("=")[2] == (tmp_path / "fingerprint").read_text().strip()


def test_a_certificate_that_ends_soon_or_has_another_name_is_replaced(tmp_path: Path) -> None:
    for days, name in ((10, None), (800, "elsewhere")):
        make_certificate(tmp_path)
        host = name or subprocess.getoutput("hostname").split(".")[0]
        key = tmp_path / "naproxy.pem"
        made = subprocess.run(
            [
                *("openssl", "req", "-x509", "-key", key, "-days", str(days), "-subj", "/CN=x"),
                *("-addext", f"subjectAltName=DNS:{host}.local"),
            ],
            capture_output=True,
            check=True,
        )
        key.write_bytes(made.stdout)
        make_certificate(tmp_path)
        assert "CN = x" not in certificate(tmp_path, "-subject")
