"""What HTTPS costs: hits beside hits in clear, handshakes, memory, and how fast a server wakes.

The box's haproxy, as the controller has it start, beside hitch, lighttpd and nginx, all before the
same Varnish. They take turns, round by round, and the ratio of each round is kept. A load
generator comes from one address, so haproxy's limits for an address are left out here.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench import h2, terminators
from tests.bench.proxy import files_script, full_load
from tests.bench.result import goal, output_path, summary, write
from tests.bench.terminators import HAPROXY, HITCH, NGINX, PORTS, STARTS, Behind, Running, Wanted
from tests.bench.tls_line import context
from tests.bench.wake import QUICK, Client, in_clear, one_cycle
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import OfficeError

CLEAR: Final = "clear"
TIMES: Final = int(os.environ.get("TIMES", "3"))
"""So often all are started anew."""
ROUNDS: Final = int(os.environ.get("ROUNDS", "7"))
ROUND_S: Final = 2.0
HANDSHAKES_S: Final = 3.0
KEPT: Final = 1000
CYCLES: Final = int(os.environ.get("CYCLES", "60"))
CORE, OTHER_CORE = 0, 1
SPEAKS_H2: Final = tuple(name for name in STARTS if name != HITCH)
HOLDER_PORT: Final = 8099
KINDS: Final = ("ecdsa", "rsa")


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """What one of them did under full load."""

    hits_per_s: float
    terminator_us: float
    """Of the processor's time, a hit."""
    varnish_us: float


@dataclasses.dataclass
class Bench:
    """The office, what is asked for, and where things are."""

    office: Office
    work: Path
    issued: terminators.Authority
    script: Path
    urls: Path

    def wanted(self, **how: Any) -> Wanted:
        """Return how a terminator before Varnish is to be started."""
        behind = Behind(self.office.box.run_dir)
        return Wanted(self.office.box, self.work, behind, self.issued, **how)

    def varnish_s(self) -> float:
        """Return the processor's time that Varnish's worker has used."""
        return terminators.cpu_s(self.office.box.child())


# ----------------------------------------------------------------------------------- hits


def h2load(bench: Bench, running: Running | None, seconds: float) -> float:
    """Hits a second as h2load has them: by HTTP/2, or in clear by HTTP/1.1; 32 at once."""
    scheme, port = ("https", running.port) if running else ("http", 80)
    base = f"{scheme}://{ADDRESS}:{port}"
    list_file = bench.work / f"urls-{port}"
    list_file.write_text("".join(f"{base}{path}\n" for path in bench.urls.read_text().split()))
    way = ["-c4", "-m8"] if running else ["--h1", "-c32", "-m1"]
    command: list[str | Path] = [
        "h2load", "-t1", *way, f"-D{seconds:g}", "--warm-up-time=100ms", "-i", list_file,
    ]  # fmt: skip
    out = bench.office.client.run(command, timeout_s=seconds + 30).stdout
    rate = re.search(r"^finished in .*, ([\d.]+) req/s", out, re.MULTILINE)
    bad = re.search(r"status codes: \d+ 2xx, 0 3xx, 0 4xx, 0 5xx", out) is None
    failed = re.search(r" 0 failed, 0 errored, 0 timeout", out) is None
    protocol = "h2" if running else "http/1.1"
    if rate is None or bad or failed or f"Application protocol: {protocol}" not in out:
        raise OfficeError(f"h2load at {base}:\n{out}")
    return float(rate[1])


def wrk(bench: Bench, running: Running | None, seconds: float) -> float:
    """Hits a second as wrk has them: by HTTP/1.1, in clear or not; 32 at once."""
    if running:
        return full_load(
            bench.office, bench.script, running.port, round(seconds), "https"
        ).hits_per_s
    return full_load(bench.office, bench.script, 80, round(seconds)).hits_per_s


def rate(bench: Bench, tool: str, running: Running | None) -> Rate:
    """Hits a second, and what they cost."""
    used_s, varnish_s = running.cpu_s() if running else 0.0, bench.varnish_s()
    begun_s = time.monotonic()
    hits_per_s = {"h1": wrk, "h2": h2load}[tool](bench, running, ROUND_S)
    hits = hits_per_s * (time.monotonic() - begun_s)
    used_s = (running.cpu_s() if running else 0.0) - used_s
    return Rate(hits_per_s, 1e6 * used_s / hits, 1e6 * (bench.varnish_s() - varnish_s) / hits)


def hits(bench: Bench) -> list[dict[str, Rate]]:
    """Rounds of full load on each, in turn; `h1 haproxy` is haproxy by HTTP/1.1."""
    rounds = []
    for _ in range(TIMES):
        running = {name: start(bench.wanted()) for name, start in STARTS.items()}
        asked: list[tuple[str, Running | None]] = [("h1", None), ("h2", None)]
        asked += [("h1", each) for each in running.values()]
        asked += [("h2", running[name]) for name in SPEAKS_H2]
        for tool, each in asked:
            rate(bench, tool, each)
        for n in range(ROUNDS):
            turn = n % len(asked)
            rounds.append(
                {
                    f"{tool} {each.name if each else CLEAR}": rate(bench, tool, each)
                    for tool, each in asked[turn:] + asked[:turn]
                }
            )
        for each in running.values():
            each.stop()
    return rounds


def over_clear(rounds: list[dict[str, Rate]]) -> dict[str, list[float]]:
    """The ratios of each round."""
    ratios: dict[str, list[float]] = {}
    for each in rounds:
        for name, seen in each.items():
            in_clear = each[f"{name.split()[0]} {CLEAR}"].hits_per_s
            ratios.setdefault(name, []).append(seen.hits_per_s / in_clear)
    return {name: values for name, values in ratios.items() if CLEAR not in name}


# ----------------------------------------------------------------------------- handshakes


def handshakes(bench: Bench) -> list[dict[str, Any]]:
    """How many each can do in a second of one core's time, with each kind of key."""
    rows = []
    for kind in KINDS:
        for name, start in STARTS.items():
            running = start(bench.wanted(kinds=(kind,), core=CORE))
            rows += [
                {"terminator": name, "key": kind, "handshake": how, **shaken(bench, running, how)}
                for how in ("full", "resumed")
            ]
            running.stop()
    return rows


def shaken(bench: Bench, running: Running, how: str) -> dict[str, Any]:
    """Shake hands for a while from the other core."""
    program = bench.office.client.popen(
        [
            *("taskset", "-c", str(OTHER_CORE), sys.executable, "-m", "tests.bench.handshakes"),
            *(str(running.port), str(HANDSHAKES_S), how),
        ],
        log="handshakes", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(1)  # it has its first session
    used_s = running.cpu_s()
    out, _ = program.communicate("go\n", timeout=60)
    used_s = running.cpu_s() - used_s
    if program.returncode:
        raise OfficeError(f"{running.name}, {how}: see handshakes.log")
    said = json.loads(out)
    return {
        "a_core_s": round(said["done"] / used_s),
        "seen_a_s": round(said["done"] / said["seconds"]),
        "reused": round(said["reused"] / said["done"], 3),
    }


# --------------------------------------------------------------------------------- memory


@contextmanager
def _program(machine: Any, *words: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "tests.bench.keepers", *words]
    program = machine.popen(argv, log="keepers", stdout=subprocess.PIPE)
    try:
        if program.stdout.readline() != "ready\n":
            raise OfficeError(f"keepers {' '.join(words)}: see keepers.log")
        yield
    finally:
        program.terminate()
        program.wait(timeout=30)


def memory(bench: Bench) -> list[dict[str, Any]]:
    """PSS in MB of each alone: with nobody, and with 1,000 connections."""
    run_dir = bench.work / "held"
    (run_dir / "edge/jail").mkdir(parents=True)
    holder = str(run_dir / "edge/jail/varnish.sock")
    rows = []
    with _program(bench.office.box, "hold", holder, str(HOLDER_PORT)):
        for name, start in STARTS.items():
            for alpn in ("http/1.1", "h2") if name in SPEAKS_H2 else ("http/1.1",):
                for what in ("idle", "held"):
                    wanted = dataclasses.replace(
                        bench.wanted(), behind=Behind(run_dir, HOLDER_PORT)
                    )
                    running = start(wanted)
                    row: dict[str, Any] = {"terminator": name, "alpn": alpn, "what": what}
                    row["nobody_mb"] = round(running.pss_mb(), 1)
                    client = bench.office.client
                    with _program(client, "keep", str(running.port), str(KEPT), alpn, what):
                        row["mb"] = round(running.pss_mb(), 1)
                    rows.append(row)
                    running.stop()
    return rows


# ----------------------------------------------------------------------------------- wake


def by_h1(client: socket.socket, path: str) -> float:
    """Shake hands, then ask by HTTP/1.1; when the hands were shaken."""
    with context("http/1.1").wrap_socket(client, server_hostname=HOST) as tls:
        return in_clear(tls, path)


def by_h2(client: socket.socket, path: str) -> float:
    """Shake hands and settle, then ask by HTTP/2; when all was settled."""
    with context("h2").wrap_socket(client, server_hostname=HOST) as tls:
        frames = h2.Frames()
        tls.sendall(h2.PREFACE + h2.settings())
        acknowledged = False
        while not acknowledged:
            for kind, flags, _, _ in frames.feed(tls.recv(65536)):
                acknowledged |= kind == h2.SETTINGS and bool(flags & h2.ACK)
        begun_s = time.time()
        tls.sendall(h2.get(1, h2.block(HOST, path, more=[("user-agent", "curl/8")])))
        while part := tls.recv(65536):
            for kind, flags, stream, payload in frames.feed(part):
                if kind == h2.HEADERS and b"held" not in payload and h2.status(payload) != 200:
                    raise SystemExit(f"not held: {payload!r}")
                if stream == 1 and kind in (h2.HEADERS, h2.DATA) and flags & h2.END_STREAM:
                    return begun_s
    raise SystemExit("the box hung up")


WAYS: Final[dict[str, Client]] = {"h1": by_h1, "h2": by_h2}


def wakes(bench: Bench) -> dict[str, Any]:
    """How fast the server is called, and who waits is answered, by HTTPS."""
    running = terminators.haproxy(bench.wanted())
    figures, numbers = {}, itertools.count()
    for way, ask in WAYS.items():
        cycles = [
            one_cycle(bench.office, next(numbers), PORTS[HAPROXY], ask) for _ in range(CYCLES)
        ]
        for name in ("first_packet_ms", "response_ms"):
            figures[f"{name}_{way}"] = summary([getattr(cycle, name) for cycle in cycles])
    running.stop()
    return figures


# ----------------------------------------------------------------------------------- main


def beside_nginx(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Haproxy's handshakes over nginx's."""
    found = {(row["terminator"], row["key"], row["handshake"]): row["a_core_s"] for row in rows}
    return {
        f"{kind} {how}": round(found[HAPROXY, kind, how] / found[NGINX, kind, how], 3)
        for kind in KINDS
        for how in ("full", "resumed")
    }


def table(raw: dict[str, Any]) -> str:
    """Return what was measured as docs/performance.md has it."""
    lines = [
        "| | hits over clear, HTTP/1.1 | HTTP/2 | its CPU a hit | handshakes a second of a core,"
        " ECDSA, full and resumed | RSA | 1,000 idle | 1,000 held | program |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in STARTS:
        cells = [name]
        for tool in ("h1", "h2"):
            ratio = raw["over_clear"].get(f"{tool} {name}")
            cells.append(f"{ratio['p50']:.2f}" if ratio else "no")
        cells.append(f"{raw['terminator_us_a_hit'][f'h1 {name}']['p50']:.0f} µs")
        for kind in KINDS:
            both = [
                row["a_core_s"]
                for how in ("full", "resumed")
                for row in raw["handshakes"]
                if (row["terminator"], row["key"], row["handshake"]) == (name, kind, how)
            ]
            cells.append(" and ".join(f"{each:,}" for each in both))
        for what in ("idle", "held"):
            of = {row["alpn"]: row for row in raw["memory"] if row["terminator"] == name
                  and row["what"] == what}  # fmt: skip
            cells.append(f"{of['http/1.1']['mb']:.0f} MB")
        cells.append(f"{raw['program_kb'][name]:,} kB")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def prepared(office: Office) -> Bench:
    """Start the box, and fill its cache for both schemes."""
    office.box.optimised = True
    office.box.start()
    office.box.await_state("awake")
    work = office.directory / "bench"
    work.mkdir(mode=0o755)
    paths = [path for path in office.server.paths if path.endswith((".css", ".js"))][:20]
    urls = work / "paths"
    urls.write_text("\n".join(paths) + "\n")
    issued = terminators.authority(work / "authority")
    return Bench(office, work, issued, files_script(work, paths), urls)


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    with Office(board=QUICK) as office:
        bench = prepared(office)
        rounds = hits(bench)
        shook = handshakes(bench)
        kept = memory(bench)
        woken = wakes(bench)
    ratios = over_clear(rounds)
    goals = [
        goal(
            f"hits a second by HTTPS over hits in clear, {by}, median of {len(rounds)} pairs",
            statistics.median(ratios[f"{tool} {HAPROXY}"]), 0.75, ">=",
        )
        for tool, by in (("h1", "HTTP/1.1"), ("h2", "HTTP/2"))
    ]  # fmt: skip
    for way, by in (("h1", "HTTP/1.1"), ("h2", "HTTP/2")):
        goals += [
            goal(f"request to magic packet after the handshake, {by}, p99 in ms",
                 woken[f"first_packet_ms_{way}"]["p99"], 5, "<="),
            goal(f"server ready to first held answer by HTTPS, {by}, p99 in ms",
                 woken[f"response_ms_{way}"]["p99"], 100, "<="),
        ]  # fmt: skip
    raw: dict[str, Any] = {
        "cores": os.cpu_count(),
        "rounds": [
            {name: dataclasses.asdict(seen) for name, seen in each.items()} for each in rounds
        ],
        "over_clear": {name: summary(values) for name, values in ratios.items()},
        "terminator_us_a_hit": {
            name: summary([each[name].terminator_us for each in rounds]) for name in ratios
        },
        "varnish_us_a_hit": {
            name: summary([each[name].varnish_us for each in rounds]) for name in rounds[0]
        },
        "handshakes": shook,
        "handshakes_over_nginx": beside_nginx(shook),
        "memory": kept,
        "program_kb": {name: terminators.kilobytes(name) for name in STARTS},
        "wake": {"cycles": CYCLES, **woken},
    }
    write(output, goals, raw)
    output.with_suffix(".md").write_text(table(raw))


if __name__ == "__main__":
    main()
