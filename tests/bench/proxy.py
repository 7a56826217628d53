"""What our VCL and VMOD cost: hits beside plain Varnish and nginx, and held requests.

All three proxies run on the virtual office's box and serve the same cached files. They take
turns, round by round, and the ratio of each round is kept, so that a machine whose speed drifts
does not favour one of them.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from tests.bench.result import goal, output_path, summary, write
from tests.bench.terminators import cpu_s
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, VMOD, surroundings, vmod_path
from tests.simulator.office.box import arguments as varnishd_arguments
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.server import ADDRESS as ORIGIN

STARTS = 7
ROUNDS = 9
ROUND_S = 1
IDLE_S = 3
HELD = (0, 1, 10, 100, 200)  # one address has no more
PLAIN, OURS, NGINX = 8081, 8082, 8083


def nginx(office: Office, work: Path) -> subprocess.Popen[str]:
    """Start nginx as a caching proxy on the box."""
    conf = work / "nginx.conf"
    conf.write_text(
        f"worker_processes 2; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.err;\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; keepalive_requests 1000000; sendfile on; tcp_nopush on;\n"
        f"client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;\n"
        f"proxy_cache_path {work}/cache keys_zone=c:10m max_size=128m;\n"
        f"server {{ listen {NGINX}; location / {{ proxy_pass http://{ORIGIN};\n"
        "proxy_cache c; proxy_cache_valid 200 1d; } } }\n"
    )
    process = office.box.popen(["nginx", "-c", conf], log="bench-nginx")
    wait_for(lambda: office.box.listens(NGINX), "nginx")
    return process


def varnish(
    office: Office, work: Path, port: int, source: list[str | Path]
) -> subprocess.Popen[str]:
    """Start a varnishd on the box."""
    process = office.box.popen(
        [
            *("varnishd", "-F", "-n", work / f"varnish-{port}", "-a", f":{port}"),
            *("-p", f"vmod_path={vmod_path(work)}"),
            *varnishd_arguments(), *source,
        ],
        log=f"bench-varnish-{port}",
        env=surroundings(),
    )  # fmt: skip
    wait_for(lambda: office.box.listens(port), "varnishd")
    return process


def start_all(office: Office, work: Path, vcl: Path) -> dict[int, subprocess.Popen[str]]:
    """Start the three proxies, and with empty caches."""
    return {
        NGINX: nginx(office, work),
        PLAIN: varnish(office, work, PLAIN, ["-b", f"{ORIGIN}:80"]),
        OURS: varnish(office, work, OURS, ["-f", vcl]),
    }


def stop_all(processes: dict[int, subprocess.Popen[str]]) -> None:
    """End them."""
    for process in processes.values():
        process.terminate()
        process.wait(timeout=30)


def compare(office: Office, script: Path) -> list[dict[str, Load]]:
    """Rounds of full load on each, taking turns."""
    ports = {"plain": PLAIN, "ours": OURS, "nginx": NGINX}
    for port in ports.values():
        full_load(office, script, port, 2)
    rounds = []
    for n in range(ROUNDS):
        order = list(ports)
        order = order[n % 3 :] + order[: n % 3]
        rounds.append({who: full_load(office, script, ports[who], ROUND_S) for who in order})
    return rounds


def pagetool(run: Path, *words: str) -> str:
    """Write to, or read from, the page shared with the VMOD."""
    command = [str(VMOD / "pagetool"), str(run), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def our_vcl(work: Path) -> Path:
    """Our VCL, made for a run directory in `work`."""
    out = work / "vcl"
    subprocess.run(
        ["make", "-s", "-C", str(ROOT / "varnish-vcl"), f"OUT={out}", f"RUN_DIR={work / 'run'}"],
        check=True,
    )
    return out / "naproxy.vcl"


@dataclass(frozen=True)
class Load:
    """What a proxy did under a load generator's full load."""

    hits_per_s: float
    p50_ms: float
    p99_ms: float


_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def full_load(
    office: Office, script: Path, port: int, seconds: float, scheme: str = "http"
) -> Load:
    """Ask for cached files as fast as wrk can, on one thread of the client's machine."""
    url = f"{scheme}://{ADDRESS}:{port}"
    command: list[str | Path] = [
        "wrk", "-t1", "-c32", f"-d{seconds}s", "--latency", "-s", script, url,
    ]  # fmt: skip
    out = office.client.run(command, timeout_s=seconds + 30).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"port {port}: wrk saw errors:\n{out}")
    rate = re.search(r"^Requests/sec:\s+([\d.]+)$", out, re.MULTILINE)
    shares = re.findall(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s)$", out, re.MULTILINE)
    late = {int(percent): float(value) * _MS[unit] for percent, value, unit in shares}
    if rate is None or not {50, 99} <= late.keys():
        raise SystemExit(f"wrk did not say how fast it was:\n{out}")
    return Load(float(rate[1]), late[50], late[99])


def hit_latency_ms(office: Office, path: str, count: int) -> list[float]:
    """How long single hits take, one after the other on a kept connection, in ms."""
    request = f"GET {path} HTTP/1.1\r\nHost: bench.test\r\n\r\n".encode()
    taken = []
    with office.client.connect(ADDRESS, OURS) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            start = time.perf_counter()
            s.sendall(request)
            answer = HTTPResponse(s)
            answer.begin()
            answer.read()
            taken.append((time.perf_counter() - start) * 1000)
    return taken


def child_of(pid: int) -> int:
    """The worker process of a varnishd."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def holds(run: Path, count: int) -> bool:
    """Whether just so many requests are held."""
    return int(pagetool(run, "get", "web", "held_now")) == count


def held_costs(
    office: Office, run: Path, script: Path, path: str, manager: int
) -> list[dict[str, Any]]:
    """What N held requests cost: hits beside them, CPU while nothing happens, memory."""
    child = child_of(manager)
    rows = []
    for held in HELD:
        pagetool(run, "set", "web", "state=asleep")
        with ExitStack() as waiting:
            for n in range(held):
                s = waiting.enter_context(office.client.connect(ADDRESS, OURS))
                s.sendall(
                    b"POST /held-%d HTTP/1.1\r\nHost: bench.test\r\nContent-Length: 0\r\n\r\n" % n
                )
            wait_for(functools.partial(holds, run, held), "requests to be held")
            before = cpu_s(child)
            time.sleep(IDLE_S)
            idle_cpu = (cpu_s(child) - before) / IDLE_S
            rows.append(
                {
                    "held": held,
                    "hit_ms": summary(hit_latency_ms(office, path, 2000)),
                    "hits_per_s": full_load(office, script, OURS, ROUND_S).hits_per_s,
                    "cpu_while_only_holding": idle_cpu,
                    "rss_mb": rss_mb(child),
                }
            )
        wait_for(functools.partial(holds, run, 0), "waiters to go")
    return rows


def files_script(work: Path, paths: list[str]) -> Path:
    """Write what wrk asks for: these files in turn."""
    script = work / "files.lua"
    lines = "\n".join(f'"{path}",' for path in paths)
    script.write_text(
        f"local files = {{\n{lines}\n}}\nlocal n = 0\n"
        "function request()\n"
        "\tn = n % #files + 1\n"
        '\treturn wrk.format("GET", files[n], { Host = "bench.test" })\n'
        "end\n"
    )
    return script


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    with Office() as office:
        work = office.directory / "bench"
        run = work / "run"
        run.mkdir(parents=True)
        pagetool(run, "create")
        pagetool(
            run, "set", "web", f"address={ORIGIN}:80", "state=awake", "hold_cap=300",
            "flags=default,aggressive,waiting_page,defer", "hold_limit_ms=600000",
        )  # fmt: skip
        for file in run.iterdir():
            shutil.chown(file, group="varnish")
            file.chmod(0o660)
        paths = [path for path in office.server.paths if path.endswith((".css", ".js"))][:20]
        script = files_script(work, paths)
        vcl = our_vcl(work)
        rounds = []
        for start in range(STARTS):
            processes = start_all(office, work, vcl)
            rounds += compare(office, script)
            if start < STARTS - 1:
                stop_all(processes)
        over_plain = [r["ours"].hits_per_s / r["plain"].hits_per_s for r in rounds]
        over_nginx = [r["ours"].hits_per_s / r["nginx"].hits_per_s for r in rounds]
        tail_over_plain = [r["ours"].p99_ms / r["plain"].p99_ms for r in rounds]
        held = held_costs(office, run, script, paths[0], processes[OURS].pid)
    write(
        output,
        [
            goal(
                f"hits a second over plain Varnish, median of {STARTS * ROUNDS} pairs",
                statistics.median(over_plain), 0.97, ">=",
            ),
            goal(
                "99th percentile of a hit's time under full load over plain Varnish', median",
                statistics.median(tail_over_plain), 1.1, "<=",
            ),
        ],
        {
            "cores": os.cpu_count(),
            "rounds": [{who: asdict(load) for who, load in r.items()} for r in rounds],
            "p99_ms": {who: summary([r[who].p99_ms for r in rounds]) for who in rounds[0]},
            "p99_ours_over_plain": summary(tail_over_plain),
            "ours_over_plain": summary(over_plain),
            "ours_over_nginx": summary(over_nginx),
            "held": held,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
