"""Measure the cost of one call: CPU time of varnishd's child with and without many calls.

    cost.py VMOD PAGETOOL [SECONDS]

For each function, a VCL calls it 300 times per request. The cost is the CPU time per
request beyond that of the same VCL without the calls, divided by 300: the least of
several rounds. CPU time rather than wall time, so that a busy machine changes little.
Needs varnishd and wrk.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PORT = 40080
CALLS = 300
ROUNDS = 4
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
FUNCTIONS = {
    "nothing": "",
    "select()": "naproxy.select(req.http.host);",
    "awake()": "if (naproxy.awake()) { }",
    "trusted()": "if (naproxy.trusted()) { }",
    "state()": 'if (naproxy.state() == "x") { }',
    "page_load()": "if (naproxy.page_load()) { }",
    "backend()": "set req.backend_hint = naproxy.backend();",
    "outcome()": "naproxy.outcome(hit);",
    "decide(), awake": "if (naproxy.decide()) { }",
    "eta()": "if (naproxy.eta() == 0) { }",
}
VCL = """
vcl 4.1;
import naproxy from "{vmod}";
backend none none;
sub vcl_init {{ naproxy.open("{run}"); }}
sub vcl_recv {{
	{select}
	{calls}
	return (synth(200));
}}
"""


def cpu_ticks(pid: int) -> int:
    """User and system time of a process and its threads, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def child_of(pid: int) -> int:
    """The manager's only child."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(tasks[-1])


def varnishadm(name: str, *words: str) -> None:
    """One command on varnishd's console."""
    subprocess.run(
        ["varnishadm", "-t", "60", "-n", name, *words], check=True, stdout=subprocess.DEVNULL
    )


def cpu_per_request_ns(child: int, seconds: float) -> float:
    """CPU time that a request costs the child while wrk asks."""
    before = cpu_ticks(child)
    done = subprocess.run(
        ["wrk", "-t1", "-c2", f"-d{seconds:.0f}", "-H", f"User-Agent: {AGENT}",
         f"http://127.0.0.1:{PORT}/"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    ticks = cpu_ticks(child) - before
    requests = re.search(r"(\d+) requests in", done.stdout)
    if requests is None or "Non-2xx" in done.stdout:
        sys.exit(done.stdout)
    return ticks / os.sysconf("SC_CLK_TCK") * 1e9 / int(requests[1])


def main() -> None:
    """Print a table of functions and nanoseconds."""
    vmod, pagetool = (str(Path(arg).resolve()) for arg in sys.argv[1:3])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory() as run:
        Path(run).chmod(0o755)
        subprocess.run([pagetool, run, "create"], check=True)
        subprocess.run(
            [pagetool, run, "set", "web", "state=awake", "address=127.0.0.1:1"], check=True
        )
        name = f"{run}/v"
        daemon = subprocess.Popen(
            ["varnishd", "-F", "-n", name, "-a", f"127.0.0.1:{PORT}", "-f", "",
             "-p", "vsl_mask=-VCL_call", "-s", "malloc,16m"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(2)
            for number, (function, call) in enumerate(FUNCTIONS.items()):
                select = "" if function == "select()" else FUNCTIONS["select()"]
                calls = "\n\t".join([call] * CALLS)
                file = Path(run) / f"{number}.vcl"
                file.write_text(VCL.format(vmod=vmod, run=run, select=select, calls=calls))
                varnishadm(name, "vcl.load", f"v{number}", str(file))
            varnishadm(name, "vcl.use", "v0")
            varnishadm(name, "start")
            time.sleep(1)
            child = child_of(daemon.pid)
            costs = [float("inf")] * len(FUNCTIONS)
            for _ in range(ROUNDS):
                for number in range(len(FUNCTIONS)):
                    varnishadm(name, "vcl.use", f"v{number}")
                    costs[number] = min(costs[number], cpu_per_request_ns(child, seconds))
            print(f"{'a request with select()':24} {costs[0]:8.0f} ns")
            for function, cost in list(zip(FUNCTIONS, costs, strict=True))[1:]:
                print(f"{function:24} {(cost - costs[0]) / CALLS:8.1f} ns a call")
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
