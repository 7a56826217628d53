"""What the history costs the card and how fast it answers: `python -m tests.bench.history OUT`.

A history of 400 days is made (two meters at 1 Hz, one server's traffic), then an hour is
written into it as the controller does: in batches, with transitions, decisions and what the
policies save. The hour runs fast, on an ext4 of its own on a loop device, and after each
batch the kernel is made to write all dirty pages back, as it does by itself within half a
minute; what reaches the disk is the device's own count.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason, own_words, together
from naproxy.core.state import Klass
from naproxy.history import block, tables, visits
from naproxy.history.read import queries
from naproxy.history.read.rows import Part, rows
from naproxy.history.tables import FILE
from naproxy.history.visits import BLOCK_S, NEEDED, TICKS, Visit, pack
from naproxy.history.write import gaps, stream
from naproxy.history.write.power import MINUTES_DAYS, SECONDS_DAYS
from naproxy.shm.events import Event

from tests.bench import result
from tests.powercut.writer import METERS, START_S, Run, second

HOURS: Final = 3
"""The first hour of a run also grows the side file; the mean is over all."""

SLEEPS_AN_HOUR: Final = 2
REASONS: Final = (
    Reason("policy.idle", idle_s=5),
    Reason("server.asked_again", why=own_words("a backup is running"), again_s=60),
    Reason("server.fetching", number=1),
)
REQUESTS_A_DAY: Final = 18_000
"""Of people and programs: those of `bpgov`, which has 37,000 with its robots."""

SAVED_BYTES: Final = 12500
"""What the policy `teacher` saves after 60000 requests by 300 clients, measured."""

ROBOTS_A_DAY: Final = 30
NOBODY: Final = 0xFFFFFFFF
"""The agent of an event whose client has no name in the list."""

_SECTOR_BYTES: Final = 512
_SYNC_FILE_RANGE_ALL: Final = 7
_RANGES_S: Final = {
    "15 min": 900,
    "1 h": 3600,
    "4 h": 4 * 3600,
    "8 h": 8 * 3600,
    "1 day": 86400,
    "1 week": 7 * 86400,
    "10 days": 10 * 86400,
    "30 days": 30 * 86400,
    "400 days": 400 * 86400,
}


# ------------------------------------------------------------------- 400 days


def fill(data_dir: Path, days: int, now_s: int) -> None:
    """Make the history of a box that has run for `days`, as its own code would have."""
    run = Run(data_dir, now_s)
    chosen = random.Random(1)
    minutes = []
    for n in range(64):
        seconds = [second("web", START_S + 60 * n + offset) for offset in range(60)]
        minutes.append((block.pack(seconds[0].t_s, seconds), block.merge(seconds)))

    def rows(length_s: int, since_days: int) -> Iterator[tuple[Any, ...]]:
        for t in range((now_s - 86400 * since_days) // length_s, now_s // length_s):
            for meter in range(1, len(METERS) + 1):
                s = chosen.choice(minutes)[1]
                times = length_s // 60
                yield (
                    *(tables.key(t, meter), s.count * times, s.mean_mw, s.min_mw, s.max_mw),
                    *(s.energy_mj * times, s.covered_ms * times),
                )

    def work(db: Any) -> None:
        for name in METERS:
            db.execute("INSERT INTO meters (name) VALUES (?)", (name,))
        db.execute("INSERT INTO servers (name) VALUES ('web')")
        values = "VALUES (?, ?, ?, ?, ?, ?, ?)"
        db.executemany(f"INSERT INTO minutes {values}", rows(60, min(days, MINUTES_DAYS)))
        db.executemany(f"INSERT INTO hours {values}", rows(3600, days))
        first = (now_s - 86400 * SECONDS_DAYS) // 60
        db.executemany(
            "INSERT INTO seconds VALUES (?, ?)",
            (
                (tables.key(t, meter), chosen.choice(minutes)[0])
                for t in range(first, now_s // 60)
                for meter in range(1, len(METERS) + 1)
            ),
        )
        for table, length_s, since_days in (
            ("traffic_minutes", 60, SECONDS_DAYS),
            ("traffic_hours", 3600, days),
        ):
            db.executemany(
                f"INSERT INTO {table} VALUES (?, 1, ?, ?, ?, ?)",
                (
                    (t * length_s, klass, outcome, chosen.randrange(1, 500), 0)
                    for t in range((now_s - 86400 * since_days) // length_s, now_s // length_s)
                    for klass in Klass
                    for outcome in (Outcome.HIT, Outcome.FETCH)
                ),
            )
        _fill_stream(db, now_s, chosen)
        _fill_agents(db, now_s, chosen)
        slept = together(
            Reason("policy.idle", idle_s=63), Reason("policy.budget_today", used=2, allowed=20)
        ).text()
        db.executemany(
            'INSERT INTO transitions (t_s, server, "from", "to", reason)'
            " VALUES (?, 'web', 'awake', 'asleep', ?)",
            ((now_s - n * 450.0, slept) for n in range(17280)),
        )
        db.executemany(
            "INSERT INTO wakes (t_s, server, who, host, path, method, agent, class, reason)"
            " VALUES (?, 'web', '192.0.2.17', 'www.example.org', ?, 'GET', ?, 'person', 'page')",
            ((now_s - n * 1800.0, "/news?id=3" * 4, "Mozilla/5.0 " * 8) for n in range(4320)),
        )
        waits = Reason("policy.idle_of", idle_s=5, least_s=60).text()
        db.executemany(
            "INSERT INTO decisions (t_s, server, sleep, reason) VALUES (?, 'web', 0, ?)",
            ((now_s - n * 120.0, waits) for n in range(21600)),
        )

    assert run.journal.store.batch(work), run.said
    run.journal.close()


def _fill_stream(db: Any, now_s: int, chosen: random.Random) -> None:
    """Make the request stream of 400 days, as far as its limit of bytes lets it reach back."""
    blocks = [_asked(chosen) for _ in range(64)]
    first = now_s // BLOCK_S - stream.DAYS * 86400 // BLOCK_S
    before, rows = 0, []
    for number in range(first, now_s // BLOCK_S):
        requests, blob = chosen.choice(blocks)
        key = number << visits.SERVER_BITS | 1
        rows.append((key, requests, 0, 0, float(BLOCK_S), before, blob))
        before += len(blob)
    kept = [row for row in rows if row[5] >= before - stream.MOST_BYTES]
    db.executemany("INSERT INTO request_blocks VALUES (?, ?, ?, ?, ?, ?, ?)", kept)
    hours = (
        (1, n * 3600, state, 1_800_000, 2)
        for n in range(now_s // 3600 - 9600, now_s // 3600)
        for state in ("asleep", "awake", "falling_asleep", "waking")
    )
    db.executemany("INSERT INTO state_hours VALUES (?, ?, ?, ?, ?)", hours)


def _fill_agents(db: Any, now_s: int, chosen: random.Random) -> None:
    """Make what is kept of robots by name, and of the pauses, for 400 days."""
    names = [(n, f"Example-Robot-{n}", Klass.CRAWLER) for n in range(1, 301)]
    db.executemany("INSERT INTO agents VALUES (?, ?, ?)", names)
    for day_s in range(now_s // 86400 * 86400 - 400 * 86400, now_s // 86400 * 86400, 86400):
        for name in chosen.sample(range(1, 301), ROBOTS_A_DAY):
            for outcome in (Outcome.HIT, Outcome.REFUSED):
                counted = (day_s, 1, name, outcome, chosen.randrange(1, 500), 0)
                db.execute("INSERT INTO agent_days VALUES (?, ?, ?, ?, ?, ?)", counted)
        for bucket in range(-1, gaps.BUCKETS):
            gap = (1, day_s, bucket, chosen.randrange(1, 5000), chosen.randrange(9000))
            db.execute("INSERT INTO gap_days VALUES (?, ?, ?, ?, ?)", gap)


def _asked(chosen: random.Random) -> tuple[int, bytes]:
    """Return the requests of ten minutes: visits with some requests close together."""
    visits: list[Visit] = []
    while len(visits) < REQUESTS_A_DAY * BLOCK_S // 86400:
        tick, client = chosen.randrange(BLOCK_S * TICKS - 200), chosen.randrange(1000)
        for _ in range(chosen.randrange(1, 24)):
            tick += chosen.randrange(8)
            flags = NEEDED if chosen.random() < 0.1 else 0
            visits.append(Visit(tick, flags, client, 0))
    return len(visits), pack(visits)


def heaviest(data_dir: Path, now_s: int) -> dict[str, float]:
    """Range of a chart -> milliseconds, the best of nine, each with a connection of its own."""
    found = {}
    for name, range_s in _RANGES_S.items():
        times = []
        for _ in range(9):
            begun = time.perf_counter()
            with closing(queries.open_history(data_dir)) as db:
                chart = queries.chart(db, "web", now_s - range_s, now_s)
            times.append(1000 * (time.perf_counter() - begun))
            assert chart.points
        found[name] = min(times)
    return found


# --------------------------------------------------------------------- the card


@contextmanager
def card(directory: Path, options: str) -> Iterator[tuple[Path, Path]]:
    """An ext4 on a loop device, mounted with `options`: (where, the device's statistics)."""
    image, where = directory / "image", directory / "card"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    where.mkdir(exist_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(image)], check=True)
    subprocess.run(["mount", "-o", f"loop,{options}", str(image), str(where)], check=True)
    try:
        source = ["findmnt", "-n", "-o", "SOURCE", str(where)]
        device = subprocess.run(source, check=True, capture_output=True, text=True).stdout.strip()
        yield where, Path("/sys/block") / Path(device).name / "stat"
    finally:
        subprocess.run(["umount", str(where)], check=True)
        image.unlink()


def written_bytes(statistics: Path) -> int:
    """What the device has been given to write."""
    return int(statistics.read_text().split()[6]) * _SECTOR_BYTES


def write_back(data_dir: Path) -> None:
    """Have the kernel write all dirty pages of the history, as it does by itself."""
    for name in (FILE, FILE + "-wal"):
        with (data_dir / name).open("rb") as file:
            ctypes.CDLL(None).sync_file_range(
                file.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), _SYNC_FILE_RANGE_ALL
            )


def hours(data_dir: Path, now_s: int, *, kernel: bool) -> None:
    """Live through HOURS as the controller does, the kernel's own writing included or not."""
    run = Run(data_dir, now_s)
    answers = [(Klass.PERSON, Outcome.HIT), (Klass.PERSON, Outcome.FETCH), (Klass.CRAWLER, 0)]
    for n in range(HOURS * 3600):
        if n % 3 == 0:
            klass, outcome = answers[n // 3 % 3]
            t_us = run.now_s * 1_000_000
            agent = n // 9 % ROBOTS_A_DAY if klass is Klass.CRAWLER else NOBODY
            run.history.request("web", Event(n, t_us, 1, 1, 0, agent, 0, klass, outcome, 0, 200, 0))
        if n % 170 == 0:
            run.journal.decision("web", float(run.now_s), False, REASONS[n // 170 % 3])
        changes = n % (3600 // SLEEPS_AN_HOUR // 4) == 77
        if changes:
            run.transition()
        if n % 1800 == 11 or (changes and n // 450 % 2):
            run.journal.save("server.web", {"policy": "x" * SAVED_BYTES})
        if run.step():
            if run.history.sync_due:
                run.history.sync()
            if kernel:
                write_back(data_dir)
    assert run.said == [], run.said
    # Without the checkpoint of a clean end: the controller does not end.
    os._exit(0)


def in_child(*arguments: str, trace: Path | None = None) -> None:
    """Run `hours` in a process of its own, under strace if `trace` is given."""
    traced = ["strace", "-f", "-o", str(trace), "-e", "trace=fsync,fdatasync"] if trace else []
    command = [*traced, sys.executable, "-m", "tests.bench.history", "hours", *arguments]
    subprocess.run(command, check=True)


def on_card(directory: Path, days: int, now_s: int, options: str) -> dict[str, float]:
    """Bytes an hour that reach the disk, in the steady state of a full history."""
    with card(directory, options) as (where, statistics):
        fill(where, days, now_s)
        # Once for the side file to get its size, then what counts.
        in_child(str(where), str(now_s), "kernel")
        os.sync()
        before = written_bytes(statistics)
        in_child(str(where), str(now_s + HOURS * 3600 + 120), "kernel")
        os.sync()
        return {"device_mb_an_hour": (written_bytes(statistics) - before) / HOURS / 1e6}


def main() -> None:
    """Measure, and write the figures."""
    out = result.output_path()
    days, now_s = MINUTES_DAYS, START_S
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data_dir = directory / "data"
        data_dir.mkdir()
        fill(data_dir, days, now_s)
        size_mb = (data_dir / FILE).stat().st_size / 1e6
        queries_ms = heaviest(data_dir, now_s)
        days_ms = energy_by_day(data_dir, now_s)
        trace = directory / "trace"
        in_child(str(data_dir), str(now_s), "alone", trace=trace)
        fsyncs = len(re.findall(r"f(?:data)?sync\(", trace.read_text())) / HOURS
        card_mb = {
            options: on_card(directory, days, now_s, options)["device_mb_an_hour"]
            for options in ("noatime,lazytime", "defaults")
        }
    worst = max(queries_ms.values())
    result.write(
        out,
        [
            result.goal("MB written to disk an hour", card_mb["noatime,lazytime"], 0.6, "<="),
            result.goal("fsyncs an hour", fsyncs, 10, "<="),
            result.goal(f"MB of {days} days", size_mb, 64, "<="),
            result.goal("ms of the heaviest chart", worst, 50, "<="),
        ],
        {
            "meters": len(METERS),
            "hours_measured": HOURS,
            "device_mb_an_hour_by_mount_options": card_mb,
            "chart_ms_by_range": queries_ms,
            "energy_by_day_ms_400_days": days_ms,
        },
    )


def energy_by_day(data_dir: Path, now_s: int) -> float:
    """Milliseconds for the energy of each of 400 days."""
    begun = time.perf_counter()
    with closing(queries.open_history(data_dir)) as db:
        assert list(rows(db, "energy", Part(now_s - 400 * 86400, now_s, "web")))
    return 1000 * (time.perf_counter() - begun)


if __name__ == "__main__":
    if sys.argv[1:2] == ["hours"]:
        hours(Path(sys.argv[2]), int(sys.argv[3]), kernel=sys.argv[4] == "kernel")
    main()
