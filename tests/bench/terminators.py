"""What can end TLS before Varnish: the box's haproxy as it renders it, and others beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.config import document
from naproxy.edge.render import CONFIGURATION, Here, render
from naproxy.edge.x509 import Openssl, Pair, Sent, read

from tests.patience import wait_for
from tests.siege.place import pss_mb
from tests.simulator.office import Namespace
from tests.simulator.office.box import EDGE_GROUP, HOST
from tests.simulator.office.namespace import OfficeError

HAPROXY, HITCH, LIGHTTPD, NGINX = "haproxy", "hitch", "lighttpd", "nginx"
PORTS: Final = {HAPROXY: 443, HITCH: 4441, LIGHTTPD: 4442, NGINX: 4443}
FILES: Final = 8192
"""Open files that the image allows haproxy, overlay/etc/service/edge/run."""

_LIMITS: Final = re.compile(r"^ *(tcp-request connection reject|maxsslrate) .*\n", re.MULTILINE)
_KEYS: Final = {
    "ecdsa": ("ec", "ec_paramgen_curve:prime256v1"),
    "rsa": ("rsa", "rsa_keygen_bits:2048"),
}
_CONFIG: Final = """\
[[server]]
id = "web"
address = "192.0.2.2"
mac = "02:00:00:00:00:01"
hosts = ["{host}"]
[server.https]
mode = "box"
{more}
"""
_MODULES: Final = Path("/usr/lib/lighttpd")


@dataclass(frozen=True, slots=True)
class Behind:
    """Where a terminator finds Varnish: by the PROXY protocol, or by HTTP."""

    run_dir: Path
    """`edge/jail/varnish.sock` in it speaks PROXY v2."""
    port: int = 80
    """Speaks HTTP, on this machine."""


@dataclass(frozen=True, slots=True)
class Running:
    """A terminator that runs on a machine."""

    name: str
    port: int
    process: subprocess.Popen[str]

    def pids(self) -> list[int]:
        """Return all its processes."""
        found, new = [], [self.process.pid]
        while new:
            pid = new.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    new += [int(each) for each in children.read_text().split()]
        return found

    def pss_mb(self) -> float:
        """Return the memory of all of them."""
        return sum(pss_mb(pid) for pid in self.pids())

    def cpu_s(self) -> float:
        """Return the processor's time that all of them have used."""
        return sum(cpu_s(pid) for pid in self.pids())

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def cpu_s(pid: int) -> float:
    """Return the processor's time of a process, with that of threads that have ended."""
    with contextlib.suppress(OSError):
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    return 0.0


_CPUCLOCK_SCHED: Final = 2
"""Of <linux/posix-timers.h>: a process' clock is made of this and its id."""


# ------------------------------------------------------------------------------- certificates


def _openssl(*words: object) -> None:
    argv = ["openssl", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OfficeError(f"openssl {words[0]}: {done.stderr}")


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority of the test's own, and what it has issued for the office's website."""

    folder: Path

    @property
    def root(self) -> Path:
        """Return the certificate to trust."""
        return self.folder / "root.pem"

    def chain(self, kind: str) -> Path:
        """Return the website's certificate with its issuer's."""
        return self.folder / f"{kind}.pem"

    def key(self, kind: str) -> Path:
        """Return its key."""
        return self.folder / f"{kind}.key"

    def both(self, kind: str) -> Path:
        """Return them in one file."""
        return self.folder / f"{kind}-both.pem"

    def pair(self, kind: str) -> Pair:
        """Return them as the controller keeps them."""
        sent = Sent(self.chain(kind).read_bytes(), self.key(kind).read_bytes())
        return asyncio.run(read(sent, Openssl()))


def authority(folder: Path, *names: str) -> Authority:
    """Make a root, one below it that issues, and an ECDSA and an RSA certificate for the names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Authority(folder)
    empty = folder / "empty.cnf"
    empty.write_text("[req]\ndistinguished_name=dn\n[dn]\n")
    signs = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")

    def issue(name: str, kind: str, days: int, by: str, *more: str) -> None:
        signed = ("-CA", folder / f"{by}.pem", "-CAkey", folder / f"{by}.key") if by else ()
        _openssl(
            *("req", "-x509", "-config", empty, "-newkey", _KEYS[kind][0]),
            *("-pkeyopt", _KEYS[kind][1], "-nodes", "-days", days, "-sha256", *more, *signed),
            *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"),
        )

    issue("root", "ecdsa", 3650, "", "-subj", "/CN=Naproxy test root", *signs)
    issue("below", "ecdsa", 1825, "root", "-subj", "/CN=Naproxy test issuer", *signs)
    listed = ",".join(f"DNS:{name}" for name in names or (HOST,))
    use = ("-addext", "keyUsage=digitalSignature", "-addext", "extendedKeyUsage=serverAuth")
    for kind in _KEYS:
        subject = ("-subj", f"/CN={(names or (HOST,))[0]}", "-addext", f"subjectAltName={listed}")
        issue(kind, kind, 90, "below", *subject, *use)
        with made.chain(kind).open("ab") as chain:
            chain.write((folder / "below.pem").read_bytes())
        made.both(kind).write_bytes(made.key(kind).read_bytes() + made.chain(kind).read_bytes())
    return made


# -------------------------------------------------------------------------------- terminators


def rendered(
    behind: Behind, own: bytes, pairs: dict[str, Pair], port: int, *, limits: bool
) -> dict[str, bytes]:
    """Return what the box would have haproxy start from.

    Without `limits` one address may come as often as it likes: a load generator is one.
    """
    config = document.parse(f"https.port = {port}\n" + _CONFIG.format(host=HOST, more=""))
    files = render(config, pairs, own, Here(behind.run_dir, EDGE_GROUP))
    if not limits:
        text, left_out = _LIMITS.subn("", files[CONFIGURATION].decode())
        if not left_out:
            raise OfficeError("haproxy's configuration has no limits to leave out")
        files[CONFIGURATION] = text.encode()
    return files


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a terminator is to be started."""

    box: Namespace
    work: Path
    behind: Behind
    issued: Authority
    kinds: tuple[str, ...] = ("ecdsa", "rsa")
    """The first is shown to who asks for no name."""
    core: int | None = None
    """The only core it may run on."""
    limits: bool = False


def haproxy(wanted: Wanted) -> Running:
    """Start it as the box does."""
    first, *_ = wanted.kinds
    pairs = {kind: wanted.issued.pair(kind) for kind in wanted.kinds}
    own = wanted.issued.both(first).read_bytes()
    folder = wanted.work / HAPROXY
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in rendered(
        wanted.behind, own, pairs, PORTS[HAPROXY], limits=wanted.limits
    ).items():
        (folder / name).write_bytes(data)
    # Not where the controller looks for it, which would end what it was not told to have run.
    pid_file = wanted.work / "haproxy.pid"
    return _start(wanted, HAPROXY, ["-W", "-p", pid_file, "-f", folder / CONFIGURATION])


def hitch(wanted: Wanted) -> Running:
    """Start it, before Varnish's socket as haproxy; it speaks HTTP/2 only if Varnish does."""
    conf = wanted.work / "hitch.conf"
    files = "\n".join(f'pem-file = "{wanted.issued.both(kind)}"' for kind in wanted.kinds[::-1])
    conf.write_text(
        f'frontend = "[*]:{PORTS[HITCH]}"\n'
        f'backend = "{wanted.behind.run_dir}/edge/jail/varnish.sock"\n'
        f'{files}\nuser = "{EDGE_GROUP}"\ngroup = "{EDGE_GROUP}"\nworkers = {_workers(wanted)}\n'
        'write-proxy-v2 = on\ntls-protos = TLSv1.2 TLSv1.3\nalpn-protos = "http/1.1"\n'
    )
    return _start(wanted, HITCH, [f"--config={conf}"])


def lighttpd(wanted: Wanted) -> Running:
    """Start it as a proxy; to Varnish it opens a connection for each request."""
    conf = wanted.work / "lighttpd.conf"
    first, *_ = wanted.kinds
    conf.write_text(
        'server.modules = ( "mod_openssl", "mod_proxy" )\n'
        f'server.document-root = "{wanted.work}"\nserver.port = {PORTS[LIGHTTPD]}\n'
        f'server.errorlog = "{wanted.work}/lighttpd.err"\nserver.max-fds = {FILES}\n'
        f"server.max-keep-alive-requests = 1000000\nserver.max-connections = {FILES // 2}\n"
        f'server.feature-flags = ( "server.h2proto" => "enable" )\n'
        "server.stream-response-body = 2\nserver.stream-request-body = 2\n"
        f'ssl.engine = "enable"\nssl.pemfile = "{wanted.issued.both(first)}"\n'
        'proxy.server = ( "" => (( "host" => "127.0.0.1", '
        f'"port" => {wanted.behind.port} )) )\n'
    )
    return _start(wanted, LIGHTTPD, ["-D", "-f", conf])


def nginx(wanted: Wanted) -> Running:
    """Start it as a proxy that keeps its connections to Varnish."""
    conf = wanted.work / "nginx-tls.conf"
    pems = "".join(
        f"ssl_certificate {wanted.issued.chain(kind)}; "
        f"ssl_certificate_key {wanted.issued.key(kind)};\n"
        for kind in wanted.kinds
    )
    conf.write_text(
        f"worker_processes {_workers(wanted)}; daemon off; pid {wanted.work}/nginx-tls.pid;\n"
        f"error_log {wanted.work}/nginx-tls.err; worker_rlimit_nofile {FILES};\n"
        f"events {{ worker_connections {FILES // 2}; }}\n"
        "http { access_log off; keepalive_requests 1000000; tcp_nopush on;\n"
        f"client_body_temp_path {wanted.work}/body; proxy_temp_path {wanted.work}/proxy;\n"
        "proxy_buffering off; proxy_request_buffering off;\n"
        "ssl_session_cache shared:s:10m; ssl_session_tickets off; ssl_protocols TLSv1.2 TLSv1.3;\n"
        f"upstream varnish {{ server 127.0.0.1:{wanted.behind.port}; keepalive 64;\n"
        "keepalive_requests 1000000; }\n"
        f"server {{ listen {PORTS[NGINX]} ssl http2;\n{pems}"
        "location / { proxy_pass http://varnish; proxy_http_version 1.1; proxy_set_header\n"
        'Connection ""; proxy_set_header Host $host; proxy_read_timeout 1h; } } }\n'
    )
    return _start(wanted, NGINX, ["-c", conf])


STARTS: Final[dict[str, Callable[[Wanted], Running]]] = {
    HAPROXY: haproxy,
    HITCH: hitch,
    LIGHTTPD: lighttpd,
    NGINX: nginx,
}


def _workers(wanted: Wanted) -> int:
    return 1 if wanted.core is not None else os.cpu_count() or 1


def _start(wanted: Wanted, name: str, words: Sequence[str | Path]) -> Running:
    pinned = [] if wanted.core is None else ["taskset", "-c", str(wanted.core)]
    argv = ["prlimit", f"--nofile={FILES}:{FILES}", "--", *pinned, name, *words]
    process = wanted.box.popen(argv, log=f"bench-{name}")
    port = PORTS[name]

    def listens() -> bool:
        with contextlib.suppress(OSError):
            wanted.box.connect("127.0.0.1", port, timeout_s=1.0).close()
            return True
        return False

    wait_for(lambda: listens() or process.poll() is not None, name)
    if process.poll() is not None:
        raise OfficeError(f"{name} ended with {process.returncode}: see bench-{name}.log")
    return Running(name, port, process)


def kilobytes(name: str) -> int:
    """Return the size of a program without its symbols, with its modules if they are files."""
    program = shutil.which(name)
    if program is None:
        raise OfficeError(f"{name} is not installed")
    of = [Path(program)]
    if name == LIGHTTPD:
        of += [_MODULES / f"{module}.so" for module in ("mod_openssl", "mod_proxy")]
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in of:
            bare = Path(folder) / file.name
            subprocess.run(["strip", "-o", bare, file], check=True)
            total += bare.stat().st_size
    return round(total / 1024)
