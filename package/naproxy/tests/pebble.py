"""A real issuer of certificates by ACME, Pebble, with the DNS that it asks (challtestsrv)."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from free_port import free_port

from tests.patience import PATIENCE_S

needs_pebble = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a namespace for authorities needs root"),
    *(
        pytest.mark.skipif(not shutil.which(name), reason=f"{name} not installed")
        for name in ("pebble", "pebble-challtestsrv", "uacme")
    ),
]
_CHALLENGE = "/.well-known/acme-challenge/"
AUTHORITIES = "/etc/ssl/certs"
"""Debian's uacme 1.7.4 knows no other; in it ours is alone, in a namespace of uacme's own."""


class Pebble:
    """Issues to whom it sees on `http_port` of `seen`; listens at `address`."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        seen: str = "127.0.0.1",
        http_port: int = 0,
    ) -> None:
        """Start both; `settings` are laid over Pebble's."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.address = here = address
        self.authority = Authority(folder / "authority")
        own = self.authority.issue(more=(f"subjectAltName=IP:{address}",))
        (folder / "own.pem").write_bytes(self.authority.chain(own))
        self.port, self.manage_port, self.http_port, self.dns_port, self.dns_manage = (
            free_port() for _ in range(5)
        )
        self.http_port = http_port or self.http_port
        told: dict[str, Any] = {
            "listenAddress": f"{here}:{self.port}",
            "managementListenAddress": f"{here}:{self.manage_port}",
            "certificate": str(folder / "own.pem"),
            "privateKey": str(own.key_file),
            "httpPort": self.http_port,
            "tlsPort": 1,
            "certificateValidityPeriod": 90 * 86400,
            **(settings or {}),
        }
        (folder / "pebble.json").write_text(json.dumps({"pebble": told}))
        steady = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        self._processes = [
            self._start(
                *("pebble-challtestsrv", "-defaultIPv4", seen, "-defaultIPv6", ""),
                *("-dns01", f"{here}:{self.dns_port}", "-management", f"{here}:{self.dns_manage}"),
                *("-http01", "", "-https01", "", "-tlsalpn01", ""),
            ),
            self._start(
                *("pebble", "-config", str(folder / "pebble.json")),
                *("-dnsserver", f"{here}:{self.dns_port}"),
                environment={**steady, **(environment or {})},
            ),
        ]
        for port in (self.port, self.dns_manage):
            self._wait_for(port)

    @property
    def directory(self) -> str:
        return f"https://{self.address}:{self.port}/dir"

    def log(self) -> str:
        return (self.folder / "pebble.log").read_text()

    def _start(
        self, *argv: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{argv[0]}.log").open("ab")
        with log:
            return subprocess.Popen(
                argv, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
            )

    def _wait_for(self, port: int) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((self.address, port), 1).close()
                return
            assert time.monotonic() < end_s, self.log()
            time.sleep(0.02)

    def root(self) -> bytes:
        """Return the certificate of the root that it issues below; each start has another."""
        url = f"https://{self.address}:{self.manage_port}/roots/0"
        trusted = ssl.create_default_context(cafile=self.authority.root.file)
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=trusted) as answer:
            pem: bytes = answer.read()
        return pem

    def uacme(self, programs: Path) -> None:
        """Put a uacme into a folder that trusts this issuer alone."""
        programs.mkdir(exist_ok=True)
        script = programs / "uacme"
        real = shutil.which("uacme")
        trusted = self.authority.root.file
        inside = (
            f'mount -t tmpfs none {AUTHORITIES} && cp "$0" {AUTHORITIES}/ca-certificates.crt && '
            f'exec {real} "$@"'
        )
        words = shlex.join(["unshare", "-m", "sh", "-c", inside, str(trusted)])
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Port80(socketserver.ThreadingTCPServer):
    """Answers an issuer as Varnish does: from the page, which `layout` reads."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, layout: Callable[[], Any]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                path = self.rfile.readline().split()[1].decode()
                while self.rfile.readline().strip():
                    pass
                told = {each.token.decode(): each.answer for each in layout().challenge}
                found = told.get(path.removeprefix(_CHALLENGE), b"")
                status = b"200 OK" if found else b"404 Not Found"
                head = b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                self.wfile.write(head % (status, len(found)) + found)

        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


@contextlib.contextmanager
def pebble(folder: Path, **more: Any) -> Iterator[Pebble]:
    """An issuer, for a while."""
    made = Pebble(folder, **more)
    try:
        yield made
    finally:
        made.close()


def hook(folder: Path, commands: Path) -> Path:
    """Return a program as the image's naproxy-acme-hook; the office's own are in `commands`."""
    script = folder / "acme-hook"
    code = (
        "import sys; from pathlib import Path; from naproxy.cli.__main__ import main; "
        "from naproxy.drivers import own_command; "
        f"own_command.DIRECTORY = Path({str(commands)!r}); "
        "sys.exit(main(['acme-hook', '--', *sys.argv[1:]]))"
    )
    # A path may have spaces, and the first line of a script none.
    words = shlex.join([sys.executable, "-c", code])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return script
