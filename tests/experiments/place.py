"""Two machines, a line between them, and nginx with the papers' websites."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from naproxy.api.command import CommandError
from naproxy.lab.measure.experimenting import execute
from naproxy.lab.papers import sites

from tests.bench.link import FAR, Line, compiled
from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, ip

SET_LINK: Final = "set-link"
"""This command changes the line; `Place.execute` carries it out itself."""

LOGIN: Final = "server"
BYTES_S: Final = 12.5e6
"""100 Mbit/s: at 1 Gbit/s the line's program, on the cores of both ends, loses frames."""

RTT_SLACK_S: Final = 0.5e-3
PINGS: Final = 20

_NGINX: Final = """\
daemon off;
user root;
worker_processes 1;
pid {work}/nginx.pid;
error_log {work}/error.log;
events {{ worker_connections 4096; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    client_body_temp_path {work}/body;
    proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi;
    scgi_temp_path {work}/scgi;
    keepalive_requests 1000000;
    http2_max_concurrent_streams 128;
    sendfile on;
    tcp_nopush on;
    server {{
        listen 80;
        listen 443 ssl http2;
        ssl_certificate {work}/certificate.pem;
        ssl_certificate_key {work}/key.pem;
        root {work}/www;
    }}
}}
"""


class Place:
    """The machines, while an experiment runs."""

    def __init__(self, work: Path, client: Namespace, server: Namespace, line: Line) -> None:
        """`place` makes one."""
        self.work = work
        self.client = client
        self.server = server
        self.line = line

    def set_link(self, rtt_ms: float, loss_percent: float) -> str:
        """Change the line and return what ping finds; CommandError if it is not what was asked.

        The round trip must be within 5 % and half a millisecond. The loss is each way's, so
        ping loses nearly twice as many; 20 pings only show that packets pass.
        """
        self.line.set(rtt_s=rtt_ms / 1e3, bytes_s=BYTES_S, loss=loss_percent / 100)
        found, lost = self.line.ping(PINGS, 0.02)
        middle_s = found[len(found) // 2] if found else float("inf")
        if abs(middle_s - rtt_ms / 1e3) > 0.05 * rtt_ms / 1e3 + RTT_SLACK_S:
            raise CommandError(f"the line has a round trip of {middle_s * 1e3:.2f} ms")
        return f"link: {middle_s * 1e3:.3f} ms, {100 * lost:.1f} %"

    async def execute(self, command: Sequence[str]) -> str:
        """Run a command on the client; the server's counters are those of its namespace."""
        if command[0] == SET_LINK:
            rtt_ms, loss_percent = map(float, command[1:])
            return await asyncio.to_thread(self.set_link, rtt_ms, loss_percent)
        if command[0] == "ssh":
            return await asyncio.to_thread(self.counters)
        return await execute(self.client.argv(["env", "-C", self.work, *command]))

    def counters(self) -> str:
        """Return /proc/stat with the time of the server's processes only, and its /proc/net/dev."""
        ticks = sum(map(_ticks, self.server.pids()))
        devices = self.server.run(["cat", "/proc/net/dev"]).stdout
        return f"cpu  {ticks} 0 0 0 0 0 0 0 0 0\n{devices}"


def _ticks(pid: int) -> int:
    """Return user and system time of a process (proc(5)); 0 if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except FileNotFoundError:
        return 0
    return int(words[11]) + int(words[12])


@contextlib.contextmanager
def place(work: Path) -> Iterator[Place]:
    """Make the machines and the server; nothing is left of them afterwards."""
    names = [f"naproxy-{role}-{os.getpid()}" for role in ("client", "server")]
    with contextlib.ExitStack() as stack:
        machines = []
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            machine = Namespace(name, work)
            stack.callback(machine.end)
            ip("-n", name, "link", "set", "lo", "up")
            machines.append(machine)
        client, server = machines
        line = Line(compiled(work), client, server)
        stack.callback(line.close)
        line.set(rtt_s=0, bytes_s=BYTES_S)
        _serve(work, server)
        wait_for(lambda: _answers(client), "nginx")
        yield Place(work, client, server, line)


def _serve(work: Path, server: Namespace) -> None:
    sites.write(work / "www")
    for name in ("gallery.txt", "pages.txt"):
        shutil.move(work / "www" / name, work / name)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=server", "-keyout", work / "key.pem", "-out", work / "certificate.pem"),
        ],
        check=True,
        capture_output=True,
    )
    (work / "nginx.conf").write_text(_NGINX.format(work=work))
    server.popen(["nginx", "-c", work / "nginx.conf", "-e", work / "error.log"], log="nginx")


def _answers(client: Namespace) -> bool:
    words = ["curl", "-s", "-k", "-o", os.devnull, "-m", "5", f"https://{FAR}/pages/200.html"]
    return client.run(words, check=False).returncode == 0
