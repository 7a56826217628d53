"""A real varnishd with our VCL and VMOD on a loopback port, and a small server behind it."""

import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import wait_for

ROOT = Path(__file__).resolve().parents[2]
VMOD_DIR = ROOT / "build/libvmod-naproxy"

sys.path.insert(0, str(ROOT / "varnish-vcl"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Site(socketserver.StreamRequestHandler):
    """Answers whatever is asked with an empty page."""

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.rfile.read(length)  # closing before that would break the pipe
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store\r\n"
            b"Connection: close\r\n\r\n"
        )


class Box:
    """varnishd, and the page it reads."""

    def __init__(self, tmp: Path, server_port: int, *arguments: str, most: int = 400) -> None:
        """`most`: requests in flight; by default as on a small box."""
        self.run, self.name = tmp / "run", str(tmp / "varnish")
        self.edge = tmp / "edge.sock"
        self.server_port = server_port
        self.run.mkdir()
        self.tool("create")
        self.set("state=asleep", f"address=127.0.0.1:{server_port}")
        vcl = tmp / "vcl"
        subprocess.run(
            [
                *("make", "-s", "-C", ROOT / "varnish-vcl"),
                *(f"OUT={vcl}", f"RUN_DIR={self.run}", f"MOST={most}"),
            ],
            check=True,
        )
        # As root, varnishd would run its child as another user, which cannot read tmp.
        jail = ["-j", "none"] if os.geteuid() == 0 else []
        std = subprocess.run(
            ["pkg-config", "--variable=vmoddir", "varnishapi"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        self.process = subprocess.Popen(
            [
                *("varnishd", "-F", *jail, "-n", self.name, "-f", vcl / "naproxy.vcl"),
                *("-a", "127.0.0.1:0", "-s", "malloc,32m"),
                # For clients who seem to be on other machines.
                *("-a", "proxied=127.0.0.1:0,PROXY"),
                *("-a", f"edge={self.edge},PROXY"),
                *("-p", f"vmod_path={VMOD_DIR}:{std}", "-p", "timeout_idle=2"),
                *arguments,
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_for(lambda: "in state running" in self.adm("status"), "varnishd to start")
        lines = self.adm("debug.listen_address").splitlines()
        ports = [line.split()[-1] for line in lines if line]
        self.port, self.proxied = (int(port) for port in ports if port.isdecimal())

    def tool(self, *args: str) -> None:
        subprocess.run([VMOD_DIR / "pagetool", self.run, *args], check=True)

    def tool_output(self, *args: str) -> str:
        command = [VMOD_DIR / "pagetool", self.run, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def set(self, *pairs: str) -> None:
        self.tool("set", "web", *pairs)

    def adm(self, *command: str) -> str:
        done = subprocess.run(
            ["varnishadm", "-n", self.name, *command], capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def raw(self, request: bytes) -> bytes:
        """Send bytes, return all that comes back until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            answer = b""
            with suppress(ConnectionError):  # Varnish may close early if we send too much
                sock.sendall(request)
            with suppress(ConnectionError):
                while data := sock.recv(65536):
                    answer += data
            return answer

    def get(self, url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """GET a URL as a browser would. Returns status, headers in lower case, body."""
        headers = {
            "Host": "www.example.org",
            "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0",
            "Accept": "text/html,*/*;q=0.8",
            "Connection": "close",
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return parse(self.raw(f"GET {url} HTTP/1.1\r\n{lines}\r\n".encode()))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def parse(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Split the first response of a connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    match = re.match(r"HTTP/1\.[01] (\d{3})", status)
    assert match, answer[:200]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(match[1]), headers, body


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    if not (VMOD_DIR / "libvmod_naproxy.so").exists():
        pytest.fail("the VMOD is not built: make -C package/libvmod-naproxy")
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    box = Box(tmp_path_factory.mktemp("box"), server.server_address[1])
    yield box
    box.stop()
    server.shutdown()
