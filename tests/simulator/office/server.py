"""The web server's machine: nginx, a dynamic part, sshd, and a mainboard under them."""

import contextlib
import dataclasses
import errno
import functools
import gzip
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.patience import wait_for
from tests.simulator.office import pki, site
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.mainboard import Mainboard, Settings
from tests.simulator.office.namespace import Namespace, ip

ADDRESS = "192.0.2.2"
OTHER_ADDRESS = "192.0.2.3"
"""Free for the server to move to."""
ADDRESS_V6 = "2001:db8:2::2"
MAC = "02:00:5e:10:00:02"
APP_PORT = 8080
TURN_PORT = 8081
"""nginx answers here at once, and writes nothing down."""
SLEEP_COMMAND = Path(__file__).with_name("sleep_command.py")
ETHERTYPE_IP = 0x0800
ETHERTYPE_ARP = 0x0806

_NGINX = """\
user root;
daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {logs}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    include /etc/nginx/mime.types;
    log_format office escape=json '{{"t_s":$msec,"id":"$http_x_request_id",'
        '"client":"$remote_addr","server":"$server_addr","forwarded":"$http_x_forwarded_for",'
        '"scheme":"$scheme","proto":"$http_x_forwarded_proto","host":"$http_host",'
        '"method":"$request_method","target":"$request_uri","status":$status,'
        '"bytes":$request_length,"agent":"$http_user_agent"}}';
    access_log {logs}/access.log office;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_max_body_size 4g;
    map $http_upgrade $connection_header {{ default upgrade; '' close; }}
    map "$scheme $http_x_forwarded_proto" $leads {{ default 0; {leads} }}
    server {{
        listen 80 backlog=1024;
        listen [::]:80 backlog=1024;
        {https}
        if ($leads) {{ return 301 https://$host$request_uri; }}
        root {site};
        location ~* \\.(css|js|png|ico)$ {{ {fallback} add_header Cache-Control max-age=3600; }}
        location / {{ {fallback} }}
        location /app/ {{ try_files /dev/null @app; }}
        location /app/flow {{
            proxy_pass http://127.0.0.1:{port};
            proxy_http_version 1.1;
            proxy_read_timeout 600;
            proxy_request_buffering off;
            proxy_buffering off;
        }}
        location @app {{
            proxy_pass http://127.0.0.1:{port};
            proxy_http_version 1.1;
            proxy_next_upstream off;
            proxy_read_timeout 600;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_header;
        }}
    }}
    server {{ listen 127.0.0.1:{turn_port}; access_log off; return 204; }}
    include {dir}/sites/*.conf;
}}
"""

_HTTPS = """\
listen 443 ssl http2 backlog=1024;
        listen [::]:443 ssl http2 backlog=1024;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
"""

_LEADS = {
    "": "",
    "untold": '"http " 1; "http http" 1;',
    "all": "~^http\\x20 1;",
}
"""Who is sent to HTTPS: who did not come by it, or say so; or all who did not."""

_SSHD = """\
Port 22
HostKey {dir}/host_key
AuthorizedKeysFile {dir}/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin forced-commands-only
StrictModes no
"""

# What sshd expects of /run and of root's account, seen by it alone. Packages that this machine
# installs are not the server's.
_SSHD_START = """\
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
mount -t tmpfs tmpfs /var/lib/dpkg
mount --bind {dir}/shadow /etc/shadow
mount --bind {dir}/passwd /etc/passwd
exec /usr/sbin/sshd -D -f {dir}/sshd_config -E {logs}/sshd.log
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """What is there to be asked for."""

    every_path: bool = False
    """Answer any path, not only those that exist."""
    log: Path | None = None
    """An access log whose paths have the status and size they had then; implies every path."""
    dynamic_share: float = 0.2
    """Of the paths that are no assets, this share must not be cached (0 to 1)."""
    https: tuple[str, ...] = ()
    """Names for which the server itself answers by HTTPS, with the office's authority."""
    redirect: str = ""
    """Whom it sends from port 80 to HTTPS: "untold" who does not say `X-Forwarded-Proto: https`,
    as a site behind a proxy does it; "all"; nobody."""


class Server(Namespace):
    """The machine that sleeps. Its processes are in one control group, the board is not."""

    def __init__(
        self,
        name: str,
        directory: Path,
        logs: Path,
        addresses: tuple[str, ...] = (ADDRESS, OTHER_ADDRESS, ADDRESS_V6),
    ):
        super().__init__(name, logs)
        self.addresses = addresses
        self.directory = directory
        self.board = Mainboard(directory / "board.sock")
        self.private_key = directory / "id_ed25519"
        self.known_hosts = directory / "known_hosts"
        self.paths: list[str] = []
        self.freezer: Freezer | None = None
        self._every_path = False

    def start(self, freezer: Freezer, settings: Settings, contents: Site) -> None:
        """Start the board and what runs on it; returns when the site answers."""
        self.freezer = freezer
        self.directory.mkdir()
        self._start_board(settings)
        self._start_web(contents)
        self._start_sshd()
        for port in (80, APP_PORT, 22):
            wait_for(functools.partial(self.listens, port), f"port {port} of the server")

    def serve(self, certificate: pki.Issued | None, redirect: str = "") -> None:
        """Answer by HTTPS too, with this certificate, or no more; the server must be awake.

        `redirect` is that of `Site`. Returns when nobody is answered as before.
        """
        self._write_web(certificate, redirect)
        self._reload_web()

    def add_site(self, name: str, text: str) -> None:
        """Serve another site beside the office's: `text` is a `server` block of nginx."""
        sites = self.directory / "sites"
        sites.mkdir(exist_ok=True)
        (sites / f"{name}.conf").write_text(text)
        self._reload_web()

    def _reload_web(self) -> None:
        pid = int((self.directory / "nginx.pid").read_text())
        before = set(_children(pid))
        os.kill(pid, signal.SIGHUP)

        def taken() -> bool:
            now = set(_children(pid))
            return bool(now - before) and all(_leaves(each) for each in now & before)

        wait_for(taken, "nginx to take its new configuration")

    def add_address(self, address: str) -> None:
        """Let the server have this address too, and say so as hosts do (RFC 5227, 2.3).

        Else a machine that has just asked for it in vain takes nobody to be there for a second.
        """
        with self.entered():
            # Else the second goes with the first.
            Path("/proc/sys/net/ipv4/conf/eth0/promote_secondaries").write_text("1")
            ip("addr", "replace", f"{address}/24", "dev", "eth0")
            try:
                _announce(address)
            except OSError as error:
                # A server that sleeps says nothing.
                if error.errno != errno.ENOBUFS:
                    raise

    def drop_address(self, address: str) -> None:
        """Take an address away; other machines still think that it is there."""
        ip("-n", self.name, "addr", "del", f"{address}/24", "dev", "eth0")

    def popen_inside(self, argv: list[str | Path], log: str) -> subprocess.Popen[str]:
        """Start a process of the server, which sleeps with it."""
        assert self.freezer, "not started"
        return self.popen(self.freezer.argv([str(word) for word in argv]), log=log)

    def listens(self, port: int, host: str = "127.0.0.1") -> bool:
        """Whether something takes connections there, asked from within the server."""
        with contextlib.suppress(OSError):
            self.connect(host, port, timeout_s=1.0).close()
            return True
        return False

    def requests(self) -> list[dict[str, Any]]:
        """Return what nginx has answered: t_s, id (X-Request-Id), method, target, status, ...

        A request is written down when it has ended. Can be read while the
        server sleeps; if it is awake, all is there that has been answered
        whole, WebSockets excepted.
        """
        self._end_turn()
        with (self._logs / "access.log").open() as log:
            # The last line may be half written.
            return [json.loads(line) for line in log if line.endswith("\n")]

    def received(self) -> Counter[str]:
        """How often each X-Request-Id reached the server."""
        return Counter(request["id"] for request in self.requests() if request["id"])

    def _end_turn(self) -> None:
        """Wait until nginx takes something new.

        It sends the last of an answer and writes the request down in one turn of its only worker:
        who has the answer can be sooner.
        """
        if self.board.state == "on":
            # It may fall asleep now.
            with contextlib.suppress(OSError):
                line = self.connect("127.0.0.1", TURN_PORT, timeout_s=2.0)
                with line:
                    line.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    line.recv(1)

    def _start_board(self, settings: Settings) -> None:
        assert self.freezer
        self.popen(
            [
                *(sys.executable, "-m", "tests.simulator.office.mainboard"),
                *("eth0", self.freezer.path),
                *(self.board.control, json.dumps(dataclasses.asdict(settings))),
            ],
            log="mainboard",
        )
        wait_for(self.board.answers, "the mainboard")

    def _start_web(self, contents: Site) -> None:
        root = self.directory / "site"
        self.paths = site.generate(root)
        self._every_path = contents.every_path or contents.log is not None
        config = self._write_web(None, "")
        app: list[str | Path] = [sys.executable, "-m", "tests.simulator.office.app", str(APP_PORT)]
        app.append(str(contents.dynamic_share))
        if contents.log:
            known = self.directory / "paths.json"
            known.write_text(json.dumps(paths_of(contents.log)))
            app.append(known)
        self.popen_inside(app, log="app")
        self.popen_inside(
            ["nginx", "-e", self._logs / "nginx-error.log", "-c", config], log="nginx"
        )

    def _write_web(self, certificate: pki.Issued | None, redirect: str) -> Path:
        https = ""
        if certificate:
            https = _HTTPS.format(certificate=certificate.file, key=certificate.key_file)
        values = {
            "dir": self.directory,
            "logs": self._logs,
            "site": self.directory / "site",
            "port": APP_PORT,
            "turn_port": TURN_PORT,
            "fallback": f"try_files $uri $uri/index.html {'@app' if self._every_path else '=404'};",
            "https": https,
            "leads": _LEADS[redirect],
        }
        config = self.directory / "nginx.conf"
        config.write_text(_NGINX.format(**values))
        return config

    def _start_sshd(self) -> None:
        host_key = self.directory / "host_key"
        for key in (host_key, self.private_key):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key.name, "-f", key],
                check=True,
            )
        kind, public, *_ = host_key.with_suffix(".pub").read_text().split()
        hosts = ",".join(self.addresses)
        self.known_hosts.write_text(f"{hosts} {kind} {public}\n")
        command = self.directory / "naproxy-sleep"
        command.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' -IS '{SLEEP_COMMAND}' '{self.board.control}'\n"
        )
        command.chmod(0o755)
        allowed = self.private_key.with_suffix(".pub").read_text()
        (self.directory / "authorized_keys").write_text(f'restrict,command="{command}" {allowed}')
        # Root with a locked password, as some images have it, may not log in even with a key.
        (self.directory / "shadow").write_text("root:*:19000:0:99999:7:::\n")
        # Nor does it matter what this machine's root has his shell do at each login.
        (self.directory / "passwd").write_text(_with_plain_root(Path("/etc/passwd").read_text()))
        values = {"dir": self.directory, "logs": self._logs}
        (self.directory / "sshd_config").write_text(_SSHD.format(**values))
        start = _SSHD_START.format(**values)
        self.popen_inside(["unshare", "--mount", "sh", "-ec", start], log="sshd-start")


def _with_plain_root(passwd: str) -> str:
    others = [line for line in passwd.splitlines() if not line.startswith("root:")]
    return "\n".join(["root:x:0:0:root:/:/bin/sh", *others, ""])


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _leaves(pid: str) -> bool:
    """Whether this worker of nginx takes no connection any more."""
    try:
        return b"shutting down" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


_LINE = re.compile(r'"[A-Z]+ (/\S*) HTTP/[0-9.]+" (200|404) ([0-9]+|-)')


def paths_of(log: Path) -> dict[str, tuple[int, int]]:
    """Return status and size of each path in an access log, plain or gzip, as last seen.

    What was there once is there: 404 is only for what was never found.
    """
    known: dict[str, tuple[int, int]] = {}
    opener = gzip.open if log.suffix == ".gz" else open
    with opener(log, "rt", errors="replace") as lines:
        for line in lines:
            if seen := _LINE.search(line):
                path, status, size = seen.groups()
                if status == "200" or path not in known:
                    known[path] = (int(status), 0 if size == "-" else int(size))
    return known


def _announce(address: str) -> None:
    """Tell all on eth0 of the calling thread whose address this is."""
    mac, ours = bytes.fromhex(MAC.replace(":", "")), socket.inet_aton(address)
    everybody = b"\xff" * 6
    head = struct.pack("!HHBBH", 1, ETHERTYPE_IP, 6, 4, 1)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", ETHERTYPE_ARP))
        arp = head + mac + ours + bytes(6) + ours
        wire.send(everybody + mac + struct.pack("!H", ETHERTYPE_ARP) + arp)
