"""Joules of a transfer by meters, what they change, and sweeps of its parameters."""

from __future__ import annotations

import math
import random
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from naproxy.cli.__main__ import main
from naproxy.core.reading import PowerSample
from naproxy.lab.transfer.metered import Joules
from naproxy.lab.transfer.parts import Link, Load, group_of
from naproxy.lab.transfer.sla import Reading, parse
from naproxy.lab.transfer.sweep import COMBINED, LEVELS, ONE, ROUNDS, Tuning, alone, sweep

BODY = b"x" * 2_000
LINK = Link(12.5e6, 0.04, 1 << 19)
FILES, SIZE = 4000, 100_000
"""What is left at first: files of medium size."""


class Server(NamedTuple):
    """Draws `idle_w`, and more for each channel; only `useful` of them make it faster."""

    idle_w: float
    channel_w: float
    useful: int = 9

    def bytes_s(self, channels: int) -> float:
        return 1e6 * min(channels, self.useful)

    def watts(self, channels: int) -> float:
        """By the square, as where cores are shared."""
        return self.idle_w + self.channel_w * channels**2


class Course(NamedTuple):
    """A transfer in virtual time."""

    seconds: float
    joules: float
    last: int  # channels at the end of the search


def transferred(sla: str, server: Server, most: int = 13) -> Course:
    """Let an algorithm fetch FILES in virtual time, by tenths of a second."""
    algorithm = parse(sla).make(LINK, most)
    now = Reading(0.0, 0, 0.0)
    algorithm.begin(now)
    last = 0
    while now.bytes < FILES * SIZE:
        if now.t_s >= algorithm.due_s:
            algorithm.read(now)
        files = math.ceil((FILES * SIZE - now.bytes) / SIZE)
        group = group_of(SIZE, LINK.bdp_bytes)
        channels = sum(algorithm.channels({group: Load(files, files * SIZE)}).values())
        last = channels if files > most else last
        moved = round(server.bytes_s(channels) / 10)
        now = Reading(now.t_s + 0.1, now.bytes + moved, now.joules + server.watts(channels) / 10)
    return Course(now.t_s, now.joules, last)


def test_mine_and_ee_take_less_than_maxthr_where_more_at_a_time_draw_more() -> None:
    server = Server(idle_w=4.0, channel_w=0.5)
    fast, frugal, efficient = (transferred(sla, server) for sla in ("maxthr", "mine", "ee"))
    assert frugal.joules < 0.7 * fast.joules
    assert efficient.joules < 0.8 * fast.joules
    assert fast.seconds < efficient.seconds < frugal.seconds
    assert efficient.last < fast.last == 13


def test_where_idling_is_all_that_draws_fast_is_frugal() -> None:
    server = Server(idle_w=43.3, channel_w=0.0)
    fast, frugal, efficient = (transferred(sla, server) for sla in ("maxthr", "mine", "ee"))
    assert fast.joules < frugal.joules
    assert efficient.last == 9  # more are no faster


class Handler(BaseHTTPRequestHandler):
    """Answers with the same file."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one: TCP would wait between them

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()

    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        self.do_HEAD()
        self.wfile.write(BODY)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def second(t_s: int, watts: float) -> PowerSample:
    return PowerSample(t_s, 1, round(watts * 1e3), 0, 0, round(watts * 1e3), 1000)


def test_meters_of_both_ends_add_up_second_by_second() -> None:
    joules = Joules(["server", "here"], 100.5)
    assert joules.silent == ["server", "here"]
    joules.add("server", second(100, 40.0))
    joules.add("other", second(100, 1000.0))
    assert joules.silent == ["here"]
    joules.add("here", second(99, 5.0))  # before it began: only says what it draws
    assert joules.silent == []
    assert joules.until(101.0) == pytest.approx(0.5 * 40 + 0.5 * 5)
    # What is not told yet goes on; then seconds that were missing count as the one before.
    assert joules.until(102.0) == pytest.approx(1.5 * 40 + 1.5 * 5)
    joules.add("server", second(103, 60.0))
    joules.add("here", second(101, 5.0))
    joules.add("here", second(101, 5.0))  # twice is once
    assert joules.until(104.0) == pytest.approx(0.5 * 40 + 2 * 40 + 60 + 3.5 * 5)


def test_a_counter_of_joules_never_goes_back() -> None:
    joules = Joules(["server"], 100.0)
    joules.add("server", second(100, 100.0))
    before = joules.until(105.0)
    joules.add("server", second(101, 10.0))
    joules.add("server", second(102, 10.0))
    assert joules.until(105.0) == before
    assert joules.until(1000.0) > before


class Done(NamedTuple):
    """A transfer that was made up."""

    seconds: float
    bytes: int
    joules: float


def made_up(tuning: Tuning) -> Done:
    """Up to 8 channels and 4 parts help; each channel draws, and more than 8 draw more each."""
    assert tuning.concurrency
    assert tuning.parallelism
    useful = min(tuning.concurrency, 8) * min(tuning.parallelism, 4)
    watts = 4.0 + tuning.concurrency + max(0, tuning.concurrency - 8) ** 1.5 + tuning.parallelism
    return Done(100 / useful, 1_000_000, 100 / useful * watts)


def test_a_sweep_tries_each_level_alone_and_then_the_best_of_both_with_all_channels() -> None:
    tried: list[Tuning] = []

    def transfer(tuning: Tuning) -> Done:
        tried.append(tuning)
        return made_up(tuning)

    order = random.Random(1)
    for name in ("pipelining", "parallelism", "concurrency"):
        tried.clear()
        [(parameter, levels)] = sweep(name, transfer, order)
        assert parameter == name
        assert (
            [getattr(level.tuning, name) for level in levels]
            == list(LEVELS)
            == [1, 2, 4, 8, 16, 32]
        )
        assert [level.tuning for level in levels] == alone(name)
        assert {level.runs for level in levels} == {ROUNDS}
        assert len(tried) == ROUNDS * len(LEVELS)
        assert tried[: len(LEVELS)] != alone(name)
    found = dict(sweep(COMBINED, transfer, order))
    assert list(found) == ["pipelining", "parallelism", COMBINED]
    combined = found[COMBINED]
    assert {level.tuning.parallelism for level in combined} == {4}
    at = {level.tuning.concurrency: level for level in combined}
    assert at[8].bytes_s == pytest.approx(1_000_000 / made_up(Tuning(1, 4, 8)).seconds)
    assert at[8].bytes_j == pytest.approx(1_000_000 / made_up(Tuning(1, 4, 8)).joules)
    assert at[32].watts > at[8].watts > at[1].watts
    assert at[8].bytes_j > max(at[1].bytes_j, at[32].bytes_j)
    assert Tuning(1, 1, 1) == ONE


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(["fetch", *argv])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_sweeps_channels(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"{url}/{n}" for n in range(4)]
    status, out, _ = told(capsys, "--sweep", "concurrency", *files)
    assert status == 0
    rows = [line.split() for line in out.splitlines() if re.match(r" +1 +1 +\d", line)]
    assert [row[2] for row in rows] == [str(level) for level in LEVELS]
    assert all(len(row) == 8 and float(row[5]) > 0 for row in rows)
    assert "3 runs of each level" in out
    assert "no HTTP/2 was spoken, so pipelining did nothing" in out
    status, _, err = told(capsys, "--sweep", "concurrency", f"{url}/missing")
    assert (status, "status 404" in err) == (1, True)
    status, _, err = told(capsys, "--sweep", "concurrency", "--out", ".", files[0])
    assert (status, "leave --out away" in err) == (1, True)


CONFIG = """
[[server]]
id = "web"
address = "127.0.0.1"
mac = "02:00:00:00:00:01"

[[meter]]
id = "here"
of = "web"
driver = "model"
source = "local"
interval_s = 0.2
base_w = 1000.0
cpu_w = 0.0

[[meter]]
id = "there"
of = "web"
driver = "model"
source = "local"
interval_s = 0.2
base_w = 3000.0
cpu_w = 0.0
"""


def test_the_command_takes_joules_from_the_meters_of_both_ends(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "naproxy.toml"
    config.write_text(CONFIG)
    known = ("--config", str(config), "--socket", str(tmp_path / "none"))
    for meters, watts in ((["here"], 1000), (["here", "there"], 4000)):
        chosen = [word for each in meters for word in ("--meter", each)]
        status, out, err = told(capsys, *chosen, *known, *[f"{url}/{n}" for n in range(300)])
        assert status == 0, err
        found = re.search(r"in ([\d.]+) s: .*, about (\d+) J \((.*)\)", out)
        assert found, out
        # Seconds are printed to a tenth.
        assert float(found[2]) == pytest.approx(watts * float(found[1]), abs=0.08 * watts)
        assert found[3] == ", ".join(meters)
    status, _, err = told(capsys, "--meter", "nobody", *known, f"{url}/1")
    assert (status, "there is no meter nobody, only here, there" in err) == (1, True)
