"""The paper's comparison: wget, curl, one channel, and the four algorithms over long lines.

Kosar, Alan, Bulut, "Energy-aware data throughput optimization for next generation internet", 2018,
figures 6 to 11, in the virtual office: its networks of 1 Gbit/s and more become 100 Mbit/s, its
sets, buffers and probes shrink with them. All is fetched by HTTPS, as streams of HTTP/2 where the
paper pipelines. See docs/transfer.md.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from naproxy.lab.transfer.fetch import Job, Report, fetch
from naproxy.lab.transfer.power import BOX, SERVER
from naproxy.lab.transfer.sla import Sla

from tests.bench.link import FAR, compiled, line
from tests.bench.result import goal, output_path, write
from tests.bench.terminators import cpu_s
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.namespace import Namespace

RTTS_S: Final = (0.040, 0.090, 0.240)
BYTES_S: Final = 12.5e6
BUFFER: Final = 1 << 20
"""TCP's receive buffer at most; half of it is on its way at a time."""

KINDS: Final = {"small": 10_000, "medium": 240_000, "large": 8_000_000}
"""Mean sizes: a tenth of the paper's pages and pictures; its films are smaller still."""

UNIT: Final = {"small": 60, "medium": 12, "large": 2}
UNITS: Final = {0.040: 2.0, 0.090: 1.0, 0.240: 0.5}
"""How much of the mixed set: each transfer is to last for seconds, but not for minutes."""

LONGER: Final = 14.0
"""So much of it, on each line, for those that probe: the search must be short beside it."""

SETS: Final = {
    "mixed": UNIT,
    "small": {"small": 120, "medium": 0, "large": 0},
    "large": {"small": 0, "medium": 0, "large": 3},
}
LIMITS: Final = (1, 2, 4, 8, 12)
EE_LIMITS: Final = (4, 8, 12)
"""Up to four channels EE tries one channel only."""

LEVELS: Final = (1, 3, 5, 9, 12)
FEW: Final = (4, 12)
SHARES: Final = (0.5, 0.7, 0.9)
PROBE_S: Final = 0.8
PORT: Final = 8090
CORES: Final = os.cpu_count() or 1


@dataclass(frozen=True)
class Run:
    """One transfer of one set."""

    who: str
    limit: int
    seconds: float
    mbit_s: float
    joules: float
    mb_a_joule: float
    steps: tuple[str, ...] = ()


class Bench:
    """A server at the end of a line, whose processor is looked at."""

    def __init__(self, office: Office, work: Path) -> None:
        self._client = office.client
        self._work = work
        self._root = work / "files"
        self._root.mkdir()
        self._sizes: dict[str, int] = {}
        chance = random.Random(18)
        for kind, mean in KINDS.items():
            for n in range(round(LONGER * UNIT[kind])):
                name = f"{kind}-{n}"
                self._sizes[name] = round(mean * chance.uniform(0.5, 1.5))
                (self._root / name).write_bytes(chance.randbytes(self._sizes[name]))
        self._trusted = work / "trusted.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec"),
                *("-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
                *("-subj", "/CN=far", "-addext", f"subjectAltName=IP:{FAR}"),
                *("-keyout", work / "key.pem", "-out", self._trusted),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        # What libcurl is told to trust.
        os.environ["SSL_CERT_FILE"] = str(self._trusted)
        (work / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.err;\n"
            "user root; events { worker_connections 1024; }\n"
            "http { access_log off; sendfile on; keepalive_requests 1000000;\n"
            f"client_body_temp_path {work}/body;\n"
            f"ssl_certificate {self._trusted}; ssl_certificate_key {work}/key.pem;\n"
            f"server {{ listen {PORT} ssl http2; root {self._root}; }} }}\n"
        )
        self._nginx = office.server.popen(["nginx", "-c", work / "nginx.conf"], log="nginx")
        pid = self._nginx.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        self._worker = int(wait_for(lambda: children.read_text().split(), "nginx")[0])

    def names(self, kinds: dict[str, int], units: float) -> list[str]:
        """Return the files of a set, in an order that mixes them."""
        found = [f"{kind}-{n}" for kind, each in kinds.items() for n in range(round(each * units))]
        random.Random(4).shuffle(found)
        return found

    def _joules(self, elapsed_s: float, server_s: float, client_s: float) -> float:
        return SERVER.energy_j(elapsed_s, server_s, CORES) + BOX.energy_j(
            elapsed_s, client_s, CORES
        )

    def _run(
        self, who: str, limit: int, size: int, spent: tuple[float, float], steps: Any = ()
    ) -> Run:
        seconds, joules = spent
        ratio = size / 1e6 / joules
        return Run(who, limit, seconds, size * 8e-6 / seconds, joules, ratio, tuple(steps))

    def ours(
        self, who: str, sla: Sla, limit: int, names: list[str], rtt_s: float, **options: Any
    ) -> Run:
        """Fetch with one of our algorithms."""
        jobs = [Job(f"https://{FAR}:{PORT}/{name}", self._sizes[name]) for name in names]
        with self._client.entered():
            energy = self._counter()
            report: Report = fetch(
                jobs, sla, most_channels=limit, energy=energy,
                probe_s=max(PROBE_S, 5 * rtt_s), **{"bandwidth_bytes_s": BYTES_S, **options},
            )  # fmt: skip
        bad = [str(file.problem or file.status) for file in report.files if not file.good]
        if bad:
            raise SystemExit(f"{who}: {bad[0]}")
        steps = [
            f"{s.t_s:.1f} s {s.bytes_s * 8e-6:.0f} Mbit/s {s.joules:.0f} J "
            + "/".join(map(str, s.channels.values()))
            for s in report.steps[:-1]
        ]
        return self._run(who, limit, report.bytes, (report.seconds, report.joules), steps)

    def _counter(self) -> Callable[[], float]:
        begun_s, mine_s, its_s = time.monotonic(), time.thread_time(), cpu_s(self._worker)
        return lambda: self._joules(
            time.monotonic() - begun_s, cpu_s(self._worker) - its_s, time.thread_time() - mine_s
        )

    def theirs(self, who: str, names: list[str]) -> Run:
        """Fetch with wget or curl: one file after the other, on a connection that is kept."""
        file = self._work / "list"
        urls = [f"https://{FAR}:{PORT}/{name}" for name in names]
        if who == "wget":
            file.write_text("\n".join(urls) + "\n")
            argv: list[str | Path] = [
                *("wget", "-q", "--ca-certificate", self._trusted),
                *("-O", "/dev/null", "-i", file),
            ]
        else:
            file.write_text("".join(f'url = "{url}"\noutput = /dev/null\n' for url in urls))
            argv = ["curl", "-s", "--cacert", self._trusted, "-K", file]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        its_s, begun_s = cpu_s(self._worker), time.monotonic()
        subprocess.run(self._client.argv(argv), check=True, timeout=300)
        seconds = time.monotonic() - begun_s
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        client_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        size = sum(self._sizes[name] for name in names)
        joules = self._joules(seconds, cpu_s(self._worker) - its_s, client_s)
        return self._run(who, 1, size, (seconds, joules))

    def all(self, names: list[str], rtt_s: float, limits: tuple[int, ...]) -> Iterator[Run]:
        """Everybody, over a set that is fetched in seconds."""
        yield self.theirs("wget", names)
        yield self.theirs("curl", names)
        # Without pipelining and parallelism: as if nothing were ever on its way.
        yield self.ours("untuned", Sla("fixed"), 1, names, rtt_s, bandwidth_bytes_s=1.0)
        for limit in limits:
            yield self.ours("MinE", Sla("mine"), limit, names, rtt_s)
            yield self.ours("MaxThr", Sla("maxthr"), limit, names, rtt_s)
        for limit in (n for n in EE_LIMITS if n in limits):
            yield self.ours("EE", Sla("ee"), limit, names, rtt_s)

    def longer(self, names: list[str], rtt_s: float) -> Iterator[Run]:
        """Those that probe, brute force, and shares of the highest throughput."""
        limit = max(LIMITS)
        top = self.ours("MaxThr", Sla("maxthr"), limit, names, rtt_s)
        top_bytes_s = top.mbit_s / 8e-6
        yield top
        yield self.ours("EE", Sla("ee"), limit, names, rtt_s)
        for level in LEVELS:
            yield self.ours("brute force", Sla("fixed"), level, names, rtt_s)
        for share in SHARES:
            sla = Sla("flexible", share)
            yield self.ours(
                f"FlexibleThr {share}", sla, limit, names, rtt_s, top_bytes_s=top_bytes_s
            )


def tuned(machine: Namespace) -> None:
    """Bound the buffers; no run learns from the one before it."""
    sysctl = [f"net.ipv4.tcp_rmem=4096 131072 {BUFFER}", "net.ipv4.tcp_no_metrics_save=1"]
    machine.run(["sysctl", "-qw", *sysctl])


def said(run: Run) -> Run:
    """Tell the person at the terminal that it goes on."""
    print(
        f"  {run.who:16} {run.limit:3} {run.seconds:6.2f} s {run.mbit_s:6.1f} Mbit/s"
        f" {run.joules:7.1f} J  {' | '.join(run.steps)}",
        flush=True,
    )
    return run


def best(runs: list[Run], who: str, key: Callable[[Run], float]) -> Run:
    """Return the run of somebody that is best at its limit."""
    return max((run for run in runs if run.who == who), key=key)


def efficiency(run: Run) -> float:
    """Return throughput over energy, the paper's ratio, in Mbit/s for each joule."""
    return run.mbit_s / run.joules


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    places: list[dict[str, Any]] = []
    load = os.getloadavg()
    with Office() as office:
        work = office.directory / "bench"
        work.mkdir()
        bench = Bench(office, work)
        program = compiled(work)
        tuned(office.client)
        for rtt_s in RTTS_S:
            near, far = office.client, office.server
            with line(program, near, far, rtt_s=rtt_s, bytes_s=BYTES_S) as ping_s:
                print(f"{rtt_s * 1e3:g} ms: by ping {ping_s * 1e3:.1f} ms", flush=True)
                sets = {}
                for name, kinds in SETS.items():
                    if name != "mixed" and rtt_s != statistics.median(RTTS_S):
                        continue
                    print(f" {name}", flush=True)
                    names = bench.names(kinds, UNITS[rtt_s])
                    limits = LIMITS if name == "mixed" else FEW
                    runs = [said(run) for run in bench.all(names, rtt_s, limits)]
                    sets[name] = runs
                print(" longer", flush=True)
                names = bench.names(UNIT, LONGER)
                sets["longer"] = [said(run) for run in bench.longer(names, rtt_s)]
                places.append({"rtt_s": rtt_s, "ping_s": ping_s, "sets": sets})
    goals = []
    for place in places:
        mixed, longer = place["sets"]["mixed"], place["sets"]["longer"]
        at = f"{place['rtt_s'] * 1e3:g} ms"
        wget = best(mixed, "wget", efficiency)
        mine = best(mixed, "MinE", lambda run: -run.joules)
        ee, most = (best(longer, who, efficiency) for who in ("EE", "brute force"))
        top = best(longer, "MaxThr", efficiency).mbit_s
        reached = {
            share: best(longer, f"FlexibleThr {share}", efficiency).mbit_s / (share * top) - 1
            for share in SHARES
        }
        goals += [
            goal(f"{at}: energy MinE saves against wget", 1 - mine.joules / wget.joules, 0.6, ">="),
            goal(
                f"{at}: EE's ratio over brute force's best",
                efficiency(ee) / efficiency(most), 0.92, ">=",
            ),
            *(
                goal(f"{at}: how far FlexibleThr {share} is off its target", abs(off), 0.1, "<=")
                for share, off in reached.items()
            ),
        ]  # fmt: skip
        place["flexible_over_target"] = reached
    raw = {
        "cores": CORES,
        "load_before": load,
        "load_after": os.getloadavg(),
        "bytes_s": BYTES_S,
        "buffer_bytes": BUFFER,
        "places": [
            {**place, "sets": {n: [asdict(r) for r in runs] for n, runs in place["sets"].items()}}
            for place in places
        ],
    }
    write(output, goals, raw)


if __name__ == "__main__":
    main()
