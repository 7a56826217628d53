"""Speed and memory of `naproxy estimate` beside goaccess: build/bench/estimate.json.

The log has ten million lines: a real one (or, where that is not at hand, a made one) again and
again, each time later by its span, so that time goes on. Both programs read the same file in
the same run, one after the other; estimate runs every policy and bound, in as many processes as
there are cores. Memory is the proportional set size of all processes of a program together,
sampled, so what processes share counts once. A quarter of the lines shows how both grow.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.bench.result import goal, output_path, write

LOG = Path(__file__).parents[3] / "shared" / "logs" / "bpgov.log.gz"
LINES = int(os.environ.get("LINES", "10000000"))
SAMPLE_S = 0.1
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36"
_DAY = re.compile(r"\[(\d\d)/(...)/(\d{4})")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905


def pattern() -> list[str]:
    """Return the lines to repeat."""
    if LOG.exists():
        with gzip.open(LOG, "rt", encoding="latin-1") as file:
            return file.readlines()
    lines: list[str] = []
    chance, t_s = random.Random(1), 0.0
    while len(lines) < 400_000:
        t_s += chance.expovariate(1 / 3)
        day, second = divmod(int(t_s), 86400)
        when = f"{written(date(2024, 1, 1) + timedelta(day))}:{second // 3600:02}"
        when += f":{second // 60 % 60:02}:{second % 60:02} +0000"
        path = f"/{int(chance.paretovariate(0.8)) % 5000}{chance.choice(('', '.css', '.png'))}"
        host = f"192.0.2.{chance.randrange(256)}"
        lines.append(f'{host} - - [{when}] "GET {path} HTTP/1.1" 200 5000 "-" "{CHROME}"\n')
    return lines


def written(day: date) -> str:
    """Return a day as logs have it."""
    return f"{day.day:02}/{_MONTHS[day.month - 1]}/{day.year}"


def repeated(lines: Sequence[str], count: int) -> Iterator[str]:
    """Yield `count` lines, each round later by the days that all of them span."""
    days = {}
    for text in {line[line.find("[") : line.find("[") + 12] for line in lines}:
        match = _DAY.match(text)
        if match:
            days[text] = date(int(match[3]), _MONTHS.index(match[2]) + 1, int(match[1]))
    span = max(days.values()) - min(days.values()) + timedelta(1)
    made = 0
    for turn in range(count // len(lines) + 1):
        names = {text: f"[{written(day + turn * span)}" for text, day in days.items()}
        for line in lines:
            if made == count:
                return
            made += 1
            at = line.find("[")
            yield line[:at] + names.get(line[at : at + 12], line[at : at + 12]) + line[at + 12 :]


def measure(command: Sequence[str]) -> dict[str, Any]:
    """Run a program to its end; seconds of wall and CPU, and its peak memory."""
    # Both say how far they are, more than a pipe takes that nobody reads.
    with tempfile.TemporaryFile() as said:
        before, begun = os.times(), time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(_pss(pid) for pid in _tree(process.pid)))
            time.sleep(SAMPLE_S)
        wall_s, after = time.monotonic() - begun, os.times()
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{command[0]} failed: {said.read().decode()}")
    return {
        "wall_s": wall_s,
        "cpu_s": after.children_user
        - before.children_user
        + after.children_system
        - before.children_system,
        "peak_mb": peak / 1e6,
    }


def _tree(root: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def both(log: Path, folder: Path) -> dict[str, Any]:
    """Measure goaccess and estimate on the same file."""
    goaccess = measure(
        [
            "goaccess",
            str(log),
            "--log-format=COMBINED",
            "--no-global-config",
            "-o",
            str(folder / "report.json"),
        ]
    )
    ours = measure([sys.executable, "-m", "naproxy.cli", "estimate", str(log)])
    return {"goaccess": goaccess, "estimate": ours}


def main() -> None:
    """Measure, and write the file."""
    path = output_path()
    lines = pattern()
    found = {}
    with tempfile.TemporaryDirectory(prefix="naproxy-bench-") as name:
        folder = Path(name)
        log = folder / "big.log"
        for count in (LINES // 4, LINES):
            with log.open("w", encoding="latin-1") as file:
                file.writelines(repeated(lines, count))
            found[count] = both(log, folder)
            for program, made in found[count].items():
                rate = count / made["wall_s"]
                sys.stdout.write(
                    f"{count:,} lines, {program}: {made['wall_s']:.1f} s, {rate:,.0f} lines/s,"
                    f" {made['peak_mb']:.0f} MB\n"
                )
                made["lines_per_s"] = rate
    large, small = found[LINES], found[LINES // 4]
    ratio = large["estimate"]["wall_s"] / large["goaccess"]["wall_s"]
    growth = large["estimate"]["cpu_s"] / small["estimate"]["cpu_s"] / 4
    write(
        path,
        [
            goal("estimate's time over goaccess'", ratio, 5, "<="),
            goal("estimate's peak memory in MB", large["estimate"]["peak_mb"], 150, "<="),
            goal("CPU time a line, at all lines over at a quarter of them", growth, 1.2, "<="),
        ],
        {
            "log": LOG.name if LOG.exists() else "made",
            "lines": {str(count): made for count, made in found.items()},
            "cores": os.cpu_count(),
        },
    )


if __name__ == "__main__":
    main()
