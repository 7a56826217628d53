"""A new box in a virtual office: no configuration, the web interface unclaimed, a plug that meters.

The first run is tested without fakes: ARP finds real machines, ssh really logs in, and the server
really falls asleep.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Playwright

from tests.patience import wait_for
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import ADDRESS as BOX
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT, ip
from tests.simulator.office.plug import Plug
from tests.webui.conftest import launched

PORT = 8080
URL = f"http://{BOX}:{PORT}"
CODE = re.compile(r"claim code of this box is ([A-Z0-9-]+)")
# ssh's files are in /etc/naproxy on a box: here in one that only the controller sees.
_CONTROLLER = """\
mount -t tmpfs tmpfs /etc/naproxy
exec "$@"
"""
_SLEEPER = """\
mount -t tmpfs tmpfs /usr/local/bin
cp '{command}' /usr/local/bin/naproxy-sleep
"""
_SHELLY = """\
import http.server, json, sys

class Plug(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        watts = float(open(sys.argv[2]).read())
        known = {"id": "p", "gen": 2, "app": "PlusPlugS", "auth_en": False}
        pages = {
            "/": (b"<title>Shelly Plug S</title>", "text/html"),
            "/shelly": (json.dumps(known).encode(), "application/json"),
            "/rpc/Switch.GetStatus?id=0": (json.dumps({"apower": watts}).encode(), "text/json"),
        }
        body, kind = pages.get(self.path, (b"", ""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer((sys.argv[1], 80), Plug).serve_forever()
"""


_STRANGER = """\
import http.server, sys

class Stranger(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = sys.argv[2], ""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"<title>{sys.argv[2]}".encode() + b"\\x00\\xff" * 9999)

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer((sys.argv[1], 80), Stranger).serve_forever()
"""
STRANGER = "192.0.2.11"
PASSWORD = "Night watch 7 for the office"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script></title>"


class NewBox:
    """The office with a box that nobody has set up."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.box = office.box
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        box = self.box
        self._stack.enter_context(_folder(Path("/etc/naproxy")))
        for directory in (box.directory, box.run_dir, box.data_dir):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        box.config_file.write_text(toml({"box": {"interface": "eth0"}}))
        self.start_controller()
        box.start_varnish()
        self.start_webui()
        plug = Plug(self.office.server.board, self.office.directory / "watts")
        self._stack.enter_context(plug)
        self._add_stranger()
        program: list[str | Path] = [sys.executable, "-c", _SHELLY, "192.0.2.10", plug.file]
        self.office.client.popen(program, log="shelly")

    def _add_stranger(self) -> None:
        """Have a machine whose web server says of itself what it likes."""
        ip("-n", self.office.client.name, "addr", "add", f"{STRANGER}/24", "dev", "eth0")
        program: list[str | Path] = [sys.executable, "-c", _STRANGER, STRANGER, HOSTILE]
        self.office.client.popen(program, log="stranger")

    def start_controller(self) -> None:
        """Start it, and wait until its API answers."""
        command = self.box.controller_command()
        self.box.controller = self.box.popen(
            ["unshare", "--mount", "sh", "-ec", _CONTROLLER, "sh", *command], log="controller"
        )
        wait_for(self.box.healthy, "the controller")

    def start_webui(self) -> None:
        """Start it as on a box, but without TLS."""
        self.webui = self.box.start_webui(f"{BOX}:{PORT}")
        wait_for(lambda: CODE.search(self.said("webui")), "the claim code")

    def said(self, name: str) -> str:
        """Return what a program has said."""
        file = self.office.logs / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def claim_code(self) -> str:
        """Return the code that a person in front of the box can read."""
        found = CODE.search(self.said("webui"))
        assert found
        return found[1]

    def paste_on_server(self, line: str) -> None:
        """Do on the server what the guide asks for: the line, and the command it allows."""
        server = self.office.server
        (server.directory / "authorized_keys").write_text(f"{line}\n")
        # The listener, not an sshd of a session, which ends with the login.
        sshd = next(pid for pid in server.pids() if "[listener]" in _title(pid))
        command = _SLEEPER.format(command=server.directory / "naproxy-sleep")
        server.run(["nsenter", "-t", str(sshd), "--mount", "sh", "-ec", command])

    def fingerprint_on_server(self) -> str:
        """Return what the server's own console says of its key."""
        key = self.office.server.directory / "host_key.pub"
        said = self.office.server.run(["ssh-keygen", "-lf", key]).stdout
        return said.split()[1]

    def settings(self) -> Any:
        """Return the configuration in force."""
        return self.box.api("GET", "/v1/config")


def claim(page: Any, made: NewBox) -> None:
    """Make the box one's own."""
    page.goto("/")
    typed = {"code": made.claim_code(), "name": "mona"}
    for field, text in (typed | dict.fromkeys(("password", "password_again"), PASSWORD)).items():
        page.locator(f"[name={field}]").fill(text)
    page.locator("form button[type=submit], form button:not([type])").first.click()


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Have a folder to mount upon, and leave none behind."""
    new = not path.exists()
    path.mkdir(exist_ok=True)
    try:
        yield
    finally:
        # Other tests remove their own files.
        with contextlib.suppress(OSError):
            if new:
                path.rmdir()


def _title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@contextlib.contextmanager
def new_box(board: Settings) -> Iterator[NewBox]:
    """Make the office; its logs are kept in build/webui."""
    with Office(keep=ROOT / "build/webui/first_run", board=board) as office, NewBox(office) as made:
        yield made


@contextlib.contextmanager
def browser_of(playwright: Playwright, made: NewBox) -> Iterator[Browser]:
    """Start a Chromium on the client's machine."""
    client = made.office.client
    start = made.office.directory / "chromium"
    words = " ".join(json.dumps(word) for word in client.argv(["/usr/bin/chromium-headless-shell"]))
    start.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    start.chmod(0o755)
    with launched(playwright, start) as browser:
        yield browser
