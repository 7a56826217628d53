"""Visitors who have logged in have no share: they wake a server even if theirs is used up.

The server is Debian's Apache: its form (mod_auth_form), its Basic and its WebDAV.
"""

import http.client
import itertools
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import pytest
from conftest import Box, free_port

from tests.patience import wait_for

MODULES: Final = (
    *("mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "request"),
    *("auth_form", "session", "session_cookie", "dir", "dav", "dav_fs"),
)
CONFIG: Final = """
ServerName www.example.org
ServerRoot {tmp}
PidFile {tmp}/apache.pid
ErrorLog {tmp}/error.log
Mutex fcntl:{tmp}
Listen 127.0.0.1:{port}
{modules}
DocumentRoot {tmp}/site
DavLockDB {tmp}/dav
<Location /private>
  AuthType form
  AuthName private
  AuthFormProvider file
  AuthUserFile {tmp}/users
  AuthFormLoginRequiredLocation /login.html
  Session On
  SessionCookieName session path=/
  Require valid-user
</Location>
<Location /dologin>
  SetHandler form-login-handler
  AuthType form
  AuthName private
  AuthFormProvider file
  AuthUserFile {tmp}/users
  AuthFormLoginRequiredLocation /login.html
  AuthFormLoginSuccessLocation /private/
  Require all granted
  Session On
  SessionCookieName session path=/
</Location>
<Location /basic>
  AuthType Basic
  AuthName basic
  AuthUserFile {tmp}/users
  Require valid-user
</Location>
<Location /dav>
  Dav On
  AuthType Basic
  AuthName dav
  AuthUserFile {tmp}/users
  Require valid-user
</Location>
"""
BROWSER: Final = {"User-Agent": "Mozilla/5.0 (X11) Firefox/128.0", "Accept": "text/html"}
PROGRAM: Final = {"User-Agent": "davfs2/1.6.1 neon/0.32.5"}
ANNA: Final = {"Authorization": "Basic YW5uYTpjb3JyZWN0LWhvcnNl"}
WRONG: Final = {"Authorization": "Basic YW5uYTp3cm9uZy1ob3JzZS0xMg=="}
SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that Apache's own user may read: pytest's are root's alone."""
    with tempfile.TemporaryDirectory(prefix="naproxy-apache-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def apache(place: Path) -> Iterator[int]:
    """Return its port."""
    tmp, port = place, free_port()
    for name in ("private", "basic", "dav"):
        (tmp / "site" / name).mkdir(parents=True)
        (tmp / "site" / name / "index.html").write_text(f"<title>{name}</title>")
    (tmp / "site/login.html").write_text("<form method=post action=/dologin></form>")
    (tmp / "site/index.html").write_text("<title>for everybody</title>")
    done = subprocess.run(
        ["openssl", "passwd", "-apr1", "correct-horse"], check=True, capture_output=True, text=True
    )
    users = ["anna", *(f"user{number}" for number in range(10, 99))]
    (tmp / "users").write_text("".join(f"{user}:{done.stdout}" for user in users))
    modules = "\n".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES
    )
    user = "User www-data\nGroup www-data\n" if os.geteuid() == 0 else ""
    (tmp / "conf").write_text(CONFIG.format(tmp=tmp, port=port, modules=modules) + user)
    process = subprocess.Popen(["apache2", "-f", tmp / "conf", "-D", "FOREGROUND"])
    try:
        wait_for(lambda: (tmp / "apache.pid").exists() or process.poll() is not None, "apache2")
        assert process.poll() is None, "apache2 ended"
        yield port
    finally:
        process.terminate()
        process.wait(SECONDS)


@dataclass
class Answer:
    status: int
    outcome: str
    cookies: dict[str, str]


_HOSTS = itertools.count(10)


def hash_of(address: str) -> int:
    """FNV-1a, as naproxy_page.h has it of an address."""
    found = 0xCBF29CE484222325
    for byte in b"\x04" + socket.inet_aton(address):
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


@dataclass
class Visitor:
    """Somebody at an address of his own who keeps the cookies that he gets."""

    box: Box
    address: str = field(default_factory=lambda: f"198.51.100.{next(_HOSTS)}")
    headers: dict[str, str] = field(default_factory=lambda: dict(BROWSER))
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, url: str, method: str = "GET", body: str = "", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.box.proxied, timeout=SECONDS)
        connection.connect()
        connection.sock.sendall(f"PROXY TCP4 {self.address} 192.0.2.9 1111 80\r\n".encode())
        sent = {"Host": "www.example.org", **self.headers, **headers}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, url, body or None, sent)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        pairs = [
            re.match(r"([^=;]+)=([^;]*)", each) for each in answer.headers.get_all("Set-Cookie", [])
        ]
        cookies = {pair[1]: pair[2] for pair in pairs if pair}
        self.cookies |= cookies
        return Answer(answer.status, answer.getheader("X-Naproxy", ""), cookies)

    def log_in(self, password: str = "correct-horse") -> Answer:
        user = f"user{self.address.rpartition('.')[2]}"
        return self.ask("/dologin", "POST", f"httpd_username={user}&httpd_password={password}")

    def logged_in(self) -> Self:
        self.log_in()
        assert self.ask("/private/").status == 200
        return self

    def is_exempt(self, url: str = "/private/?asleep") -> bool:
        """Its address has used up its share, and the server sleeps: is it woken?"""
        self.box.tool("spent", hex(hash_of(self.address)), "1")
        self.box.set("state=asleep", "hold_limit_ms=100")
        outcome = self.ask(url).outcome
        self.box.set("state=awake")
        assert outcome in ("spent", "waiting_page", "limit")
        return outcome != "spent"


@pytest.fixture
def site(box: Box, apache: int) -> Iterator[Box]:
    box.set("state=awake", f"address=127.0.0.1:{apache}", "hold_limit_ms=100")
    yield box
    box.set("state=asleep", f"address=127.0.0.1:{box.server_port}")
    assert "not panicked" in box.adm("panic.show")


def test_visitor_logged_in_by_form_is_exempt(site: Box) -> None:
    anna = Visitor(site)
    assert anna.ask("/private/").status == 302
    assert anna.log_in().status == 302
    assert anna.ask("/private/").status == 200
    assert anna.is_exempt()


def test_logged_in_visitor_is_exempt_at_another_address_too(site: Box) -> None:
    anna = Visitor(site).logged_in()
    assert Visitor(site, cookies=anna.cookies).is_exempt()


def test_cookie_of_a_login_that_nobody_has_used_does_not_count(site: Box) -> None:
    anna = Visitor(site)
    assert anna.log_in().cookies
    assert not anna.is_exempt()


def test_made_up_session_cookie_does_not_exempt(site: Box) -> None:
    anna = Visitor(site).logged_in()
    assert anna.is_exempt()
    stranger = Visitor(site, cookies={"session": "made-up-made-up-made-up-made-up"})
    stranger.ask("/")
    stranger.ask("/private/")
    assert not stranger.is_exempt()


def test_cookie_that_is_set_for_others_too_does_not_count(site: Box) -> None:
    """Apache keeps nothing: the cookie of the same login is the same at each address."""
    anna, other = Visitor(site).logged_in(), Visitor(site)
    assert anna.is_exempt()
    user = f"user{anna.address.rpartition('.')[2]}"
    other.ask("/dologin", "POST", f"httpd_username={user}&httpd_password=correct-horse")
    assert other.cookies == anna.cookies
    assert not anna.is_exempt()


def test_failed_login_does_not_exempt(site: Box) -> None:
    stranger = Visitor(site)
    stranger.log_in("wrong")
    stranger.cookies = {**stranger.cookies, "session": "made-up-made-up-made-up-made-up"}
    stranger.ask("/")
    assert not stranger.is_exempt()


def test_another_at_the_same_address_is_not_exempt(site: Box) -> None:
    anna = Visitor(site).logged_in()
    assert anna.is_exempt()
    assert not Visitor(site, address=anna.address).is_exempt()


def test_password_that_opens_what_was_closed_is_exempt(site: Box) -> None:
    anna = Visitor(site, headers=dict(PROGRAM))
    assert anna.ask("/basic/").status == 401
    assert anna.ask("/basic/", **ANNA).status == 200
    anna.headers |= ANNA
    assert anna.is_exempt("/basic/other")


def test_password_for_webdav_is_exempt_without_a_refusal_before(site: Box) -> None:
    anna = Visitor(site, headers=PROGRAM | ANNA)
    assert anna.ask("/dav/index.html", "PROPFIND", Depth="0").status == 207
    assert anna.is_exempt("/dav/index.html")


@pytest.mark.parametrize("url", ["/", "/login.html"])
def test_password_on_a_page_for_everybody_is_not_exempt(site: Box, url: str) -> None:
    stranger = Visitor(site, headers=BROWSER | {"Authorization": "Basic bm9ib2R5Om5vdGhpbmc="})
    assert stranger.ask(url).status == 200
    assert not stranger.is_exempt(url)


def test_wrong_password_is_not_exempt(site: Box) -> None:
    stranger = Visitor(site, headers=BROWSER | WRONG)
    assert stranger.ask("/basic/").status == 401
    assert stranger.ask("/").status == 200
    assert not stranger.is_exempt("/basic/")


def test_program_that_is_over_is_refused_and_a_person_at_its_address_is_not(site: Box) -> None:
    person = Visitor(site)
    site.tool("spent", hex(hash_of(person.address)), "0", "1")
    program = Visitor(site, address=person.address, headers=dict(PROGRAM))
    site.set("state=asleep")
    assert program.ask("/?program").outcome == "spent"
    assert person.ask("/?person").outcome == "waiting_page"
    site.set("state=awake")
