"""A real haproxy before a small HTTP server that speaks PROXY v2 as Varnish does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from free_port import free_port
from naproxy.edge.apply import Haproxy
from naproxy.edge.render import Here

from tests.patience import wait_for

needs_haproxy = [
    pytest.mark.skipif(os.geteuid() != 0, reason="haproxy's chroot needs root"),
    pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy not installed"),
]

BLOCK = 1 << 14
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_ALPN, _SSL = 1, 0x20
_ESTABLISHED = "01"
HAS_IPV6 = Path("/proc/net/if_inet6").exists()


class _Behind(socketserver.StreamRequestHandler):
    """Says who it was told is asking; /stream/N sends N blocks, the last of them if it may."""

    def handle(self) -> None:
        told = self._proxy()
        while request := self.rfile.readline():
            headers = {}
            while (line := self.rfile.readline().strip()) != b"":
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            path = request.split()[1].decode()
            if path.startswith("/stream/"):
                self._stream(int(path.removeprefix("/stream/")))
                continue
            said = {**told, "host": headers.get("host"), "request": request.decode().strip()}
            body = json.dumps(said).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _stream(self, blocks: int) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (blocks * BLOCK))
        for _ in range(blocks - 1):
            self.wfile.write(bytes(BLOCK))
            time.sleep(0.01)
        assert isinstance(self.server, _Server)
        self.server.may_end.wait()
        self.wfile.write(bytes(BLOCK))

    def _proxy(self) -> dict[str, Any]:
        head = self.rfile.read(16)
        assert head[:12] == _SIGNATURE, head
        rest = self.rfile.read(struct.unpack("!H", head[14:])[0])
        size = {1: 4, 2: 16}[head[13] >> 4]
        family = {4: socket.AF_INET, 16: socket.AF_INET6}[size]
        records = {}
        at = 2 * size + 4
        while at < len(rest):
            kind, length = struct.unpack("!BH", rest[at : at + 3])
            records[kind] = rest[at + 3 : at + 3 + length]
            at += 3 + length
        client = socket.inet_ntop(family, rest[:size])
        return {
            "client": client,
            "alpn": records.get(_ALPN, b"").decode(),
            "tls": _SSL in records,
        }


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: str, handler: type[_Behind]) -> None:
        super().__init__(address, handler)
        self.may_end = threading.Event()
        self.may_end.set()


@cache
def shared_authority() -> Authority:
    """The one for all boxes; making one takes as long as many a test."""
    return Authority(Path(_AUTHORITY.name))


_AUTHORITY = tempfile.TemporaryDirectory(prefix="naproxy-authority-")


class EdgeBox:
    """A box's folders, what stands behind the edge, and haproxy as its service starts it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "edge"
        self.here = Here(root / "run", "daemon", ipv6=HAS_IPV6)
        self.here.jail.mkdir(parents=True)
        self.port = free_port()
        self.authority = shared_authority()
        behind = self.here.jail / "varnish.sock"
        self._behind = _Server(str(behind), _Behind)
        self.streams_may_end = self._behind.may_end
        behind.chmod(0o666)
        threading.Thread(target=self._behind.serve_forever, args=(0.02,), daemon=True).start()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start haproxy with what is in force."""
        argv = (
            "haproxy",
            "-W",
            "-p",
            self.here.pid_file,
            "-f",
            self.folder / "current/haproxy.cfg",
        )
        log = (self.folder.parent / "haproxy.log").open("ab")
        self.process = subprocess.Popen(argv, stderr=log, start_new_session=True, cwd="/")
        wait_for(lambda: asyncio.run(Haproxy(self.here).info()), "haproxy", log=self.log)

    def log(self) -> str:
        """What haproxy said."""
        return (self.folder.parent / "haproxy.log").read_text()

    def log_if_any(self) -> str:
        """The same, also of one that never ran."""
        return self.log() if self.process else ""

    def workers(self) -> list[int]:
        """Return the processes of haproxy's that are not the master."""
        assert self.process
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(each) for each in found]

    def connections(self) -> int:
        """Count those that haproxy has with clients."""
        count = 0
        for table in ("tcp", "tcp6") if HAS_IPV6 else ("tcp",):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                count += local.endswith(f":{self.port:04X}") and state == _ESTABLISHED
        return count

    def close(self) -> None:
        """End both."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._behind.shutdown()
        self._behind.server_close()

    def curl(self, name: str, *more: str, path: str = "/") -> subprocess.CompletedProcess[bytes]:
        """Ask for a page by name."""
        at = f"{name}:{self.port}"
        return subprocess.run(
            [
                *("curl", "-sS", "--max-time", "20", "--cacert", self.authority.root.file),
                *("--resolve", f"{at}:127.0.0.1", *more, f"https://{at}{path}"),
            ],
            capture_output=True,
            check=False,
        )

    def ask(self, name: str, *more: str) -> Mapping[str, Any]:
        """Return what was told behind the edge."""
        done = self.curl(name, *more)
        assert done.returncode == 0, done.stderr
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer

    def shown(self, name: str | None, ciphers: str = "", newest: str = "TLSv1_3") -> str:
        """Return the SHA-256 of the certificate that is shown for a name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion[newest]
        if ciphers:
            context.set_ciphers(ciphers)
        with (
            socket.create_connection(("127.0.0.1", self.port), 5) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            return sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()


@contextlib.contextmanager
def edge_box(root: Path) -> Iterator[EdgeBox]:
    """A box with an edge."""
    made = EdgeBox(root)
    try:
        yield made
    finally:
        made.close()
