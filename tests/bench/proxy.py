"""What our VCL and VMOD cost: hits a second beside plain Varnish and nginx, and held requests.

All three proxies serve the same cached files on loopback. They take turns, round by round, and
the ratio of each round is kept, so that a machine whose speed drifts does not favour one of them.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.result import goal, output_path, summary, write
from tests.office.box import arguments as varnishd_arguments
from tests.office.box import vmods_of_varnish

ROOT = Path(__file__).resolve().parents[2]
VMOD_DIR = ROOT / "build/libvmod-naproxy"
ROUNDS = 11
ROUND_S = 4
HELD = (0, 1, 10, 100, 300, 1000)
ORIGIN, PLAIN, OURS, NGINX = 18080, 18081, 18082, 18083
# Both Varnishes run as the box's does, with room for a thousand waiters.
THREADS = ["-p", "thread_pool_max=1200"]


def wait_port(port: int) -> None:
    """Wait until something listens on a loopback port."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on 127.0.0.1:{port}")


@contextmanager
def running(arguments: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground that listens on `port`."""
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_port(port)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


@contextmanager
def nginx(work: Path, name: str, port: int, server: str, http: str = "") -> Iterator[None]:
    """An nginx of our own with one server block."""
    conf = work / f"{name}.conf"
    conf.write_text(
        f"worker_processes 2; daemon off; pid {work}/{name}.pid; error_log {work}/{name}.err;\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; keepalive_requests 1000000; sendfile on; tcp_nopush on;\n"
        f"client_body_temp_path {work}/{name}-body; proxy_temp_path {work}/{name}-proxy;\n"
        f"{http}\nserver {{ listen 127.0.0.1:{port}; {server} }} }}\n"
    )
    with running(["nginx", "-c", str(conf)], port, work / f"{name}.log"):
        yield


@contextmanager
def varnish(
    work: Path, name: str, port: int, source: list[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A varnishd of our own in the foreground."""
    arguments = ["varnishd", "-F", "-n", str(work / name), "-a", f"127.0.0.1:{port}"]
    arguments += ["-p", f"vmod_path={VMOD_DIR}:{vmods_of_varnish()}"]
    arguments += [*varnishd_arguments(), *THREADS, *source]
    with running(arguments, port, work / f"{name}.log") as process:
        yield process


def pagetool(run: Path, *words: str) -> str:
    """Write to, or read from, the page shared with the VMOD."""
    command = [str(VMOD_DIR / "pagetool"), str(run), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def our_vcl(work: Path) -> Path:
    """Our VCL, made for a run directory in `work`."""
    out = work / "vcl"
    subprocess.run(
        ["make", "-s", "-C", str(ROOT / "varnish-vcl"), f"OUT={out}", f"RUN_DIR={work / 'run'}"],
        check=True,
    )
    return out / "naproxy.vcl"


def hits_per_second(port: int, seconds: float) -> float:
    """Throughput of cached files, by wrk on one thread."""
    script = ROOT / "tests/bench/files.lua"
    command = ["wrk", "-t1", "-c32", f"-d{seconds}s", "-s", str(script), f"http://127.0.0.1:{port}"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"port {port}: wrk saw errors:\n{out}")
    for line in out.splitlines():
        if line.startswith("Requests/sec:"):
            return float(line.split()[1])
    raise SystemExit(f"wrk said nothing of requests a second:\n{out}")


def hit_latency_ms(port: int, count: int) -> list[float]:
    """How long single hits take, one after the other on a kept connection, in ms."""
    request = b"GET /file-7.html HTTP/1.1\r\nHost: bench.test\r\n\r\n"
    taken = []
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            start = time.perf_counter()
            s.sendall(request)
            answer = b""
            while b"</html>" not in answer:
                part = s.recv(65536)
                if not part:
                    raise SystemExit("the proxy hung up in the middle of a hit")
                answer += part
            taken.append((time.perf_counter() - start) * 1000)
    return taken


def child_of(pid: int) -> int:
    """The worker process of a varnishd."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def held_costs(run: Path, pid: int) -> list[dict[str, Any]]:
    """What N held requests cost: hits beside them, CPU while nothing happens, memory."""
    child = child_of(pid)
    rows = []
    for held in HELD:
        pagetool(run, "set", "web", "state=asleep")
        with ExitStack() as waiting:
            for n in range(held):
                s = waiting.enter_context(socket.create_connection(("127.0.0.1", OURS)))
                s.sendall(
                    b"POST /held-%d HTTP/1.1\r\nHost: bench.test\r\nContent-Length: 0\r\n\r\n" % n
                )
            while int(pagetool(run, "get", "web", "held_now")) < held:
                time.sleep(0.05)
            before = cpu_s(child)
            time.sleep(3)
            idle_cpu = (cpu_s(child) - before) / 3
            latency = hit_latency_ms(OURS, 2000)
            rate = hits_per_second(OURS, ROUND_S)
            rows.append(
                {
                    "held": held,
                    "hits_per_s": rate,
                    "hit_ms": summary(latency),
                    "cpu_while_only_holding": idle_cpu,
                    "rss_mb": rss_mb(child),
                }
            )
        while int(pagetool(run, "get", "web", "held_now")) > 0:
            time.sleep(0.05)
    return rows


def site(work: Path) -> Path:
    """Twenty pages of about 8 kB each."""
    folder = work / "site"
    folder.mkdir()
    for n in range(20):
        (folder / f"file-{n}.html").write_text(
            f"<html><body>{n} {'the quick brown fox ' * 400}</body></html>"
        )
    return folder


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    with tempfile.TemporaryDirectory(prefix="naproxy-bench-") as name, ExitStack() as stack:
        work = Path(name)
        work.chmod(0o755)
        run = work / "run"
        run.mkdir()
        pagetool(run, "create")
        pagetool(
            run, "set", "web", f"address=127.0.0.1:{ORIGIN}", "state=awake", "hold_cap=1100",
            "flags=default,aggressive,waiting_page,redirect", "hold_limit_ms=600000",
        )  # fmt: skip
        for file in run.iterdir():
            shutil.chown(file, group="varnish")
            file.chmod(0o660)
        stack.enter_context(
            nginx(
                work, "origin", ORIGIN,
                f"root {site(work)}; add_header Cache-Control 'max-age=86400';",
            )
        )  # fmt: skip
        stack.enter_context(
            nginx(
                work, "cache", NGINX,
                f"location / {{ proxy_pass http://127.0.0.1:{ORIGIN}; proxy_cache c; "
                "proxy_cache_valid 200 1d; }",
                f"proxy_cache_path {work}/cache keys_zone=c:10m max_size=128m;",
            )
        )  # fmt: skip
        plain = ["-b", f"127.0.0.1:{ORIGIN}"]
        stack.enter_context(varnish(work, "plain", PLAIN, plain))
        ours = stack.enter_context(varnish(work, "ours", OURS, ["-f", str(our_vcl(work))]))

        ports = {"plain": PLAIN, "ours": OURS, "nginx": NGINX}
        for port in ports.values():
            hits_per_second(port, 2)
        rounds = []
        for n in range(ROUNDS):
            order = list(ports)
            order = order[n % 3 :] + order[: n % 3]
            rounds.append({who: hits_per_second(ports[who], ROUND_S) for who in order})
        over_plain = [r["ours"] / r["plain"] for r in rounds]
        over_nginx = [r["ours"] / r["nginx"] for r in rounds]
        held = held_costs(run, ours.pid)
    write(
        output,
        [
            goal(
                "hits a second over plain Varnish, median of pairs",
                statistics.median(over_plain), 0.97, ">=",
            )
        ],
        {
            "cores": os.cpu_count(),
            "rounds": rounds,
            "ours_over_plain": summary(over_plain),
            "ours_over_nginx": summary(over_nginx),
            "held": held,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
