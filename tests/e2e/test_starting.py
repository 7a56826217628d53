"""nginx and Apache before a Python program that starts late: waiting visitors see only the site.

Both serve the site's name only. For other names nginx closes the connection without a response
(444) and Apache answers 503.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.clients import ASSET, PERSON, PROGRAM, Answer, ask, fresh
from tests.e2e.conftest import settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import HOST

PROGRAM_PORT, APACHE_PORT = 9000, 8088
READY = {"kind": "http", "path": "/ready", "interval_s": 0.5}
CONFIG = {"server": {"ready": READY}}

_NGINX = f"""
server {{ listen 80 default_server; server_name _; return 444; }}
server {{
    listen 80;
    server_name {HOST};
    location / {{ proxy_pass http://127.0.0.1:{PROGRAM_PORT}; }}
}}
"""

_APACHE = """\
ServerRoot {directory}
PidFile {directory}/apache.pid
ErrorLog {logs}/apache-error.log
Listen {port}
ServerName localhost
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
<VirtualHost *:{port}>
    ServerName nobody.invalid
    Redirect 503 /
</VirtualHost>
<VirtualHost *:{port}>
    ServerName {host}
    ProxyPass / http://127.0.0.1:{program}/ retry=0
</VirtualHost>
"""

# Like systemd with Restart=always.
_SUPERVISED = 'while :; do "$@"; done'


class Site:
    """The program on the server, and how late it is after the next wake."""

    def __init__(self, office: Office):
        self.office, self.port = office, 80
        self._late = office.server.directory / "late"
        self.be_late(0, 0)
        program = Path(__file__).with_name("slow_program.py")
        argv = (sys.executable, program, str(PROGRAM_PORT), self._late)
        office.server.popen_inside(["sh", "-c", _SUPERVISED, "sh", *argv], log="program")
        wait_for(lambda: office.server.listens(PROGRAM_PORT), "the program")
        office.server.add_site("site", _NGINX)
        self._config = config = office.server.directory / "apache.conf"
        values = {"directory": office.server.directory, "logs": office.logs, "host": HOST}
        config.write_text(_APACHE.format(port=APACHE_PORT, program=PROGRAM_PORT, **values))
        self.apache = self.start_apache()

    def start_apache(self) -> subprocess.Popen[str]:
        """Start it on the server, and wait until it listens."""
        server = self.office.server
        argv: list[str | Path] = ["apache2", "-D", "FOREGROUND", "-f", self._config]
        process = server.popen_inside(argv, log="apache")
        wait_for(lambda: server.listens(APACHE_PORT), "Apache")
        return process

    def be_late(self, listens_s: float, ready_s: float, status: float = 503) -> None:
        """Say how late it is when it starts next."""
        self._late.write_text(f"{listens_s} {ready_s} {status}")

    def behind(self, port: int) -> None:
        """Have the box ask the web server at this port."""
        self.office.box.reconfigure(server={"port": port, "ready": READY})
        self.office.box.await_state("awake")

    def asleep(self) -> None:
        """Put the server to sleep; when it wakes, its program starts again."""
        self.office.box.await_state("awake")
        self.office.box.sleep()
        assert self.office.server.freezer
        for pid in self.office.server.freezer.pids():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(b"slow_program.py") for word in words[:2]):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def made(shared: Office) -> Site:
    settle_awake(shared)
    return Site(shared)


@pytest.fixture
def site(made: Site) -> Iterator[Site]:
    yield made
    made.be_late(0, 0)


def visit(site: Site) -> list[Answer]:
    """A program, a picture and a form, all at once."""
    client = site.office.client
    with ThreadPoolExecutor(3) as pool:
        answers = [
            pool.submit(ask, client, fresh(), headers=PROGRAM, timeout_s=60),
            pool.submit(ask, client, fresh("/a.png"), headers=ASSET, timeout_s=60),
            pool.submit(ask, client, "/order", method="POST", body=b"one", timeout_s=60),
        ]
        return [each.result() for each in answers]


def test_a_visitor_waiting_for_a_late_program_gets_only_the_site(
    site: Site,
) -> None:
    for port, *late in (
        (80, 1.0, 0, 0),
        (80, 0, 1.0, 404),
        (APACHE_PORT, 0, 1.0, 503),
    ):
        site.behind(port)
        site.asleep()
        site.be_late(*late)
        for answer in visit(site):
            assert (answer.status, answer.body) == (200, b"the site"), (port, late)
        page = ask(site.office.client, "/page", headers=PERSON)
        assert (page.status, page.body) == (200, b"the site"), (port, late)


def test_nothing_of_the_start_is_in_the_cache(site: Site) -> None:
    """The probe sees only its own path, and that is there at once: another one is not."""
    site.behind(80)
    site.asleep()
    site.be_late(0, 1.5, 404)
    assert ask(site.office.client, fresh(), headers=PROGRAM, timeout_s=60).status == 200
    path = "/kept"
    assert ask(site.office.client, path, headers=ASSET).body == b"the site"
    site.office.box.sleep()
    again = ask(site.office.client, path, headers=ASSET)
    assert again.headers["x-naproxy"] == "held", "kept though it came just after a start"


def test_a_web_service_that_is_stopped_is_not_said_to_sleep(site: Site) -> None:
    """Only Apache stops: the server is on all the time."""
    site.behind(APACHE_PORT)
    site.apache.terminate()
    site.apache.wait(20)
    site.office.box.await_state("waking")
    page = ask(site.office.client, fresh(), headers=PERSON)
    assert (page.status, page.headers["x-naproxy"]) == (503, "waiting_page")
    assert b"does not answer at the moment" in page.body
    assert b"sleeps" not in page.body
    assert b"woken" not in page.body
    site.apache = site.start_apache()
    site.office.box.await_state("awake")
    assert ask(site.office.client, fresh(), headers=PERSON).body == b"the site"


def test_a_probe_uses_the_sites_name_not_the_address(site: Site) -> None:
    """Both web servers turn those away who ask by the address, as the box did."""
    for port in (80, APACHE_PORT):
        site.behind(port)
        server = site.office.server
        url = f"http://127.0.0.1:{port}/ready"
        done = server.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], check=False)
        assert done.stdout in ("000", "503"), port
        assert site.office.box.status()["state"] == "awake"
