import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naproxy.core.classify import Agents, Behaviour
from naproxy.core.reason import Reason
from naproxy.core.state import Klass
from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.traffic import CHUNK, Reader, Traffic, read_log
from naproxy.lab.estimate.trust import Trust

AGENTS = Agents()
CHROME = "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"
START = 1_700_000_040


def entry(t_s: int, path: str = "/", agent: str = CHROME, status: int = 200) -> Entry:
    return Entry(START + t_s, "192.0.2.1", "GET", path, status, 100, "", agent)


def read(entries: list[Entry], tmp_path: Path, *, learn: bool = True) -> Traffic:
    with (tmp_path / "records").open("w+b") as file:
        traffic = Traffic("test", file, tmp_path / "records")
        Reader(traffic, AGENTS, Behaviour() if learn else None).read(entries)
    return traffic


def times(traffic: Traffic) -> list[float]:
    return [t_s - START for chunk in traffic for t_s in chunk.t_s]


def test_records_are_classified_and_aged(tmp_path: Path) -> None:
    entries = [
        entry(0, "/a.css"),
        entry(10, "/a.css"),
        entry(11, "/"),
        entry(12, agent="Googlebot/2.1"),
    ]
    traffic = read(entries, tmp_path)
    (chunk,) = traffic
    assert traffic.requests[Klass.PERSON] == 3
    assert traffic.requests[Klass.CRAWLER] == 1
    assert list(chunk.awaited(CACHES["none"]).expires_s) == [-float("inf")] * 3
    frozen = chunk.awaited(CACHES["frozen"])
    assert frozen.expires_s[1] == START + 120 + 86400
    assert list(frozen.page_load) == [False, False, True]


def test_what_is_never_refused_needs_the_server_whoever_asks(tmp_path: Path) -> None:
    asks = entry(0, "/", agent="Googlebot/2.1")
    traffic = read([asks, asks._replace(method="POST")], tmp_path)
    assert traffic.requests[Klass.CRAWLER] == 1
    assert traffic.requests[Klass.API] == 1


def test_a_wordpress_that_calls_itself_is_no_visitor(tmp_path: Path) -> None:
    agent = "WordPress/6.4; https://www.example.org"
    calls = entry(0, "/wp-cron.php?doing_wp_cron=1", agent)._replace(method="POST")
    traffic = read([calls, entry(0, "/feed", agent)], tmp_path)
    assert traffic.requests[Klass.CRAWLER] == 1
    assert traffic.requests[Klass.API] == 1


def test_more_than_a_chunk_can_be_read_by_several(tmp_path: Path) -> None:
    traffic = read([entry(n) for n in range(CHUNK + 10)], tmp_path)
    first, second = iter(traffic), iter(traffic)
    assert len(next(first)) == CHUNK
    assert [len(chunk) for chunk in second] == [CHUNK, 10]
    assert [len(chunk) for chunk in first] == [10]


def test_small_steps_back_are_how_servers_log(tmp_path: Path) -> None:
    traffic = read([entry(100), entry(90), entry(101)], tmp_path)
    assert times(traffic) == [100, 100, 101]
    assert traffic.trust.steps_back == 0


def combined(at: Entry) -> str:
    when = datetime.fromtimestamp(at.t_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    asked = f"{at.method} {at.path} HTTP/1.1"
    return f'{at.host} - - [{when}] "{asked}" {at.status} {at.size} "-" "{at.agent}"\n'


def logged(tmp_path: Path, *files: list[Entry]) -> Traffic:
    """Read entries from files of one log."""
    names = [tmp_path / f"log.{n}" for n in range(len(files))]
    for name, entries in zip(names, files, strict=True):
        name.write_text("".join(map(combined, entries)), "latin-1")
    with (tmp_path / "records").open("w+b") as file:
        traffic = Traffic("test", file, tmp_path / "records")
        read_log(traffic, names, AGENTS, learn=False, progress=None)
    return traffic


def codes(traffic: Traffic) -> list[str]:
    return [each.code for each in traffic.trust.problems()]


def test_lines_that_are_far_out_of_order_are_sorted_and_reported(tmp_path: Path) -> None:
    traffic = logged(tmp_path, [entry(5000), entry(0), entry(100)])
    assert times(traffic) == [0, 100, 5000]
    assert Reason("log.overlap", count=1, most_s=5000) in traffic.trust.problems()


def test_a_log_with_the_newest_line_first_is_read_from_its_end(tmp_path: Path) -> None:
    entries = [entry(n * 400, f"/{n}") for n in range(50)]
    traffic = logged(tmp_path, entries[::-1])
    assert times(traffic) == [n * 400 for n in range(50)]
    assert "log.newest_first" in [each.code for each in traffic.understood]
    assert "log.overlap" not in codes(traffic)


def test_lines_of_files_that_overlap_count_once(tmp_path: Path) -> None:
    entries = [entry(n * 100, f"/{n}") for n in range(60)]
    # A request that was really sent twice in a second stays.
    entries.insert(31, entries[30])
    traffic = logged(tmp_path, entries[:40], entries[20:])
    assert sum(traffic.requests) == len(entries)
    assert Reason("log.twice", count=20) in traffic.trust.problems()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(steps=st.lists(st.integers(-10_000, 10_000), max_size=50))
def test_time_never_steps_back(tmp_path: Path, steps: list[int]) -> None:
    entries, t_s = [], 0
    for n, step in enumerate(steps):
        t_s += step
        entries.append(entry(t_s, f"/{n}"))
    written = times(logged(tmp_path, entries))
    assert written == sorted(written)
    assert len(written) == len(entries)


def trust(times_s: list[float]) -> Trust:
    made = Trust()
    for t_s in times_s:
        made.see(START + t_s)
    return made


WEEK = [float(t) for day in range(7) for t in range(day * 86400, day * 86400 + 40000, 37)]
PEOPLE = random.Random(1)
ORDINARY = sorted(PEOPLE.uniform(0, 7 * 86400) for _ in range(20_000))


def test_an_ordinary_log_is_trusted_and_an_empty_one_says_so() -> None:
    assert trust(ORDINARY).problems() == []
    assert trust([]).problems() == [Reason("log.empty")]


def test_a_short_log_says_so() -> None:
    [short] = trust([t for t in ORDINARY if t < 86400]).problems()
    assert short.code == "log.short"
    assert short.params["span_s"] == pytest.approx(86400, rel=0.01)


def test_a_hole_is_found() -> None:
    cut = [t for t in ORDINARY if not 3 * 86400 < t < 4 * 86400]
    [hole] = trust(cut).problems()
    assert (hole.code, hole.params["count"]) == ("log.holes", 1)
    assert hole.params["length_s"] == pytest.approx(86400, rel=0.01)


def test_a_quiet_night_is_no_hole() -> None:
    assert "log.holes" not in [each.code for each in trust(WEEK[::20]).problems()]


def test_times_of_no_visitors_are_found() -> None:
    assert Reason("log.minutes") in trust([t // 60 * 60 for t in ORDINARY]).problems()
    assert Reason("log.machine") in trust([t * 7.0 for t in range(90_000)]).problems()


def test_damage_is_passed_on() -> None:
    for cut, malformed, said in (
        (True, 0, Reason("log.cut")),
        (False, 900, Reason("log.malformed", count=900, lines=20_900)),
    ):
        made = trust(ORDINARY)
        made.cut, made.lines, made.malformed = cut, 20_900, malformed
        assert said in made.problems()
