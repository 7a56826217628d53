"""The web interface as it runs on the box: the process itself, and lighttpd before it."""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from tests.patience import PATIENCE_S, wait_for

sys.path.append(str(Path(__file__).parents[2] / "package/naproxy/tests"))

from free_port import free_port

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "overlay"
STATIC = ROOT / "webui/src/naproxy_webui/static"
MOST_GUESSES = 12
"""Until one has to wait, on however slow a machine: the wait doubles with each."""
PASSWORD = "correct horse battery"


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


class WebUi:
    """The command naproxy-webui, on loopback, or on a unix socket with `unix`."""

    def __init__(self, folder: Path, control: Path | None = None, *, unix: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self.socket = folder / "http.sock"
        run_dir, fingerprint = folder / "run-webui", folder / "tls/fingerprint"
        where = f"unix:{self.socket}" if unix else f"127.0.0.1:{self.port}"
        self.log = folder / "webui.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from naproxy_webui.main import main; main()"),
                    *(
                        "--listen",
                        where,
                        "--state-dir",
                        folder / "state",
                        "--data-dir",
                        folder / "data",
                    ),
                    *("--run-dir", run_dir, "--fingerprint", fingerprint),
                    *("--socket", control or folder / "no.sock"),
                ],
                stderr=log,
            )
        wait_for(self.socket.exists if unix else lambda: listens(self.port), "naproxy-webui")

    def claim_code(self) -> str:
        found = re.search(r"claim code of this box is (\S+)", self.log.read_text())
        assert found
        return found[1]

    def call(
        self, method: str, path: str, body: str | None = None, **headers: str
    ) -> http.client.HTTPResponse:
        """Return an answer that was read; a body is a form."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {"Origin": f"http://127.0.0.1:{self.port}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        answer.read()
        return answer

    def claim(self) -> str:
        """Claim the box as a browser does; return the cookie."""
        form = {"code": self.claim_code(), "name": "anna"}
        form |= {"password": PASSWORD, "password_again": PASSWORD}
        answer = self.call("POST", "/claim", urlencode(form))
        assert answer.status == 303
        return (answer.headers["Set-Cookie"] or "").partition(";")[0]

    def pss_kb(self) -> int:
        """Its private memory, and its part of shared memory."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        assert found
        return int(found[1])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Lighttpd:
    """lighttpd with the configuration of the image, before a WebUi on its unix socket."""

    def __init__(self, webui: WebUi) -> None:
        folder = webui.folder
        self.port, self.redirect_port = free_port(), free_port()
        self.log = folder / "lighttpd.log"
        for name in ("cache", "uploads"):
            (folder / name).mkdir()
        subprocess.run([OVERLAY / "usr/sbin/naproxy-certificate", folder / "tls"], check=True)
        modules = re.search(
            r"server\.modules = \([^)]*\)", (OVERLAY / "etc/lighttpd/lighttpd.conf").read_text()
        )
        assert modules
        file = folder / "lighttpd.conf"
        file.write_text(f"""
{modules[0]}
server.errorlog = "{self.log}"
server.upload-dirs = ("{folder}/uploads")
var.ui_conf = "{OVERLAY}/etc/lighttpd"
var.ui_port = {self.port}
var.ui_redirect_port = {self.redirect_port}
var.ui_static = "{STATIC}"
var.ui_socket = "{webui.socket}"
var.ui_certificate = "{folder}/tls/naproxy.pem"
var.ui_cache = "{folder}/cache"
include "{OVERLAY}/etc/lighttpd/naproxy-ui.conf"
""")
        self.process = subprocess.Popen(
            ["lighttpd", "-D", "-f", file], env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/bin"}
        )
        wait_for(lambda: listens(self.port) and listens(self.redirect_port), "lighttpd")

    def connect(self, *, tls: bool = True) -> socket.socket:
        port = self.port if tls else self.redirect_port
        plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        if not tls:
            return plain
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(plain)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def read_all(sock: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except (ConnectionError, ssl.SSLError, TimeoutError):
        pass
    return b"".join(parts)
