"""docs/behind-the-box.md: Apache and nginx run its examples."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_for
from tests.simulator.office.namespace import ROOT

PAGE = (ROOT / "docs/behind-the-box.md").read_text()
BOX, VISITOR = "127.0.0.1", "203.0.113.7"
FORGED = "198.51.100.9"

APACHE = """\
ServerRoot {dir}
ServerName localhost
PidFile {dir}/apache.pid
Listen {box}:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule remoteip_module {modules}/mod_remoteip.so
LoadModule setenvif_module {modules}/mod_setenvif.so
ErrorLog {dir}/error.log
User nobody
Group nogroup
DocumentRoot {dir}/site
LogFormat "%a %{{HTTPS}}e" told
{snippet}
CustomLog {dir}/access.log combined
CustomLog {dir}/told.log told
<VirtualHost *:{port}>
    {proxy}
</VirtualHost>
"""
NGINX = """\
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{}}
http {{
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    {snippet}
    {map}
    log_format told '$remote_addr $behind_https';
    server {{
        {listen}
        root {dir}/site;
        access_log {dir}/access.log;
        access_log {dir}/told.log told;
    }}
}}
"""


def snippets(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return [each.replace("192.168.1.5", BOX) for each in found]


class Web:
    """A web server that runs in the foreground, with the page's configuration."""

    def __init__(self, folder: Path, kind: str, *, by_proxy: bool) -> None:
        folder.chmod(0o755)
        (folder / "site").mkdir()
        (folder / "site/index.html").write_text("page")
        with closing(socket.create_server((BOX, 0))) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        config = folder / "web.conf"
        config.write_text(getattr(self, f"_{kind}")(by_proxy))
        argv: list[str | Path] = ["nginx", "-e", folder / "error.log", "-c", config]
        if kind == "apache":
            argv = ["apache2", "-D", "FOREGROUND", "-f", config]
        self.process = subprocess.Popen(argv, start_new_session=True)

    def _apache(self, by_proxy: bool) -> str:
        by_header, by_line = snippets("apache")
        # The log's format stays as on the page; a PROXY line carries the client's address.
        snippet = by_header
        if by_proxy:
            snippet = snippet.replace("RemoteIPHeader X-Forwarded-For\n", "")
            snippet = snippet.replace(f"RemoteIPInternalProxy {BOX}\n", "")
        return APACHE.format(
            dir=self.folder,
            box=BOX,
            port=self.port,
            modules="/usr/lib/apache2/modules",
            snippet=snippet,
            proxy=by_line if by_proxy else "",
        )

    def _nginx(self, by_proxy: bool) -> str:
        by_header, told, by_line = snippets("nginx")
        listen = f"listen {BOX}:{self.port};"
        if by_proxy:
            listen = by_line.replace("listen 80", f"listen {BOX}:{self.port}")
        snippet = "" if by_proxy else by_header
        return NGINX.format(dir=self.folder, snippet=snippet, map=told, listen=listen)

    def ask(self, headers: str, before: str = "", source: str = BOX) -> None:
        """Ask as the box does, until it answers."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._ask(headers, before, source)
            except OSError:
                assert time.monotonic() < deadline_s, self.log("error.log")
                time.sleep(0.05)
            else:
                return

    def _ask(self, headers: str, before: str, source: str) -> None:
        with socket.create_connection((BOX, self.port), 30, (source, 0)) as sock:
            sock.sendall(
                f"{before}GET /index.html HTTP/1.1\r\nHost: www.example.org\r\n{headers}"
                "Connection: close\r\n\r\n".encode()
            )
            answer = b""
            while more := sock.recv(4096):
                answer += more
        assert b"200 OK" in answer, self.log("error.log")

    def log(self, name: str) -> str:
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    def logged(self, name: str) -> str:
        """The log's last line, when it has one."""
        wait_for(lambda: self.log(name).endswith("\n"), "the end of the log's last line")
        return self.log(name).splitlines()[-1]

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below pytest's own, which another run may shut to the servers' users meanwhile."""
    with tempfile.TemporaryDirectory(prefix="naproxy-web-") as made:
        yield Path(made)


@pytest.mark.parametrize("kind", ["apache", "nginx"])
def test_the_visitor_is_logged_and_https_is_known(kind: str, folder: Path) -> None:
    web = Web(folder, kind, by_proxy=False)
    try:
        web.ask(f"X-Forwarded-For: {FORGED}, {VISITOR}\r\nX-Forwarded-Proto: https\r\n")
        assert web.logged("access.log").startswith(f"{VISITOR} ")
        assert web.logged("told.log") == f"{VISITOR} on"
    finally:
        web.stop()


@pytest.mark.parametrize("kind", ["apache", "nginx"])
def test_nobody_else_is_believed(kind: str, folder: Path) -> None:
    web = Web(folder, kind, by_proxy=False)
    try:
        headers = f"X-Forwarded-For: {VISITOR}\r\nX-Forwarded-Proto: https\r\n"
        web.ask(headers, source="127.0.0.2")
        assert web.logged("access.log").startswith("127.0.0.2 ")
        assert web.logged("told.log").split(" ") in (["127.0.0.2", "-"], ["127.0.0.2", ""])
    finally:
        web.stop()


@pytest.mark.parametrize("kind", ["apache", "nginx"])
def test_the_proxy_protocol_tells_the_visitor_and_the_boxs_probes_are_answered(
    kind: str, folder: Path
) -> None:
    web = Web(folder, kind, by_proxy=True)
    try:
        web.ask("", f"PROXY TCP4 {BOX} {BOX} 1111 80\r\n")
        web.ask("X-Forwarded-For: 1.1.1.1\r\n", f"PROXY TCP4 {VISITOR} {BOX} 1111 80\r\n")
        assert web.logged("access.log").startswith(f"{VISITOR} ")
    finally:
        web.stop()
