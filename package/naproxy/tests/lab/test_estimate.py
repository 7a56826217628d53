import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from naproxy.cli import __main__ as cli
from naproxy.lab.estimate import estimate
from naproxy.lab.estimate.lineup import POLICIES, Choice, Promise, Row, Server, compare
from naproxy.lab.estimate.verdict import NO_VERDICT
from naproxy.lab.papers.numbers import FIGURES

START_S = 1_700_438_400  # a Monday
CHROME = "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"
KEYS = [
    "log",
    "cache",
    "counting",
    "promise",
    "policy",
    "energy_wh",
    "saving_gross",
    "saving_net",
    "share_of_reactive",
    "share_of_oracle",
    "delayed_fraction",
    "delay_mean_s",
    "delay_p95_s",
    "delay_p99_s",
    "cycles_per_day",
    "answered_asleep",
    "waits_per_day",
    "wait_mean_s",
    "wait_usual_s",
    "asleep_h_per_day",
]
ONE = ["--json", "--cache", "frozen", "--counting", "open", "--promise", "0.1:0.05"]


def line(t_s: float, path: str = "/", agent: str = CHROME, host: str = "192.0.2.1") -> str:
    when = datetime.fromtimestamp(START_S + int(t_s), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{host} - - [{when}] "GET {path} HTTP/1.1" 200 100 "-" "{agent}"\n'


def visits(seed: int, days: int, gap_s: float) -> Iterator[str]:
    chance = random.Random(seed)
    t_s = 0.0
    while (t_s := t_s + chance.expovariate(1 / gap_s)) < days * 86400:
        host = f"192.0.2.{chance.randrange(200)}"
        for n in range(chance.choice((1, 3))):
            yield line(t_s + n, f"/{chance.randrange(20)}" + (".css" if n else ""), host=host)


def write(path: Path, lines: list[str]) -> str:
    text = "".join(lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


class Said(NamedTuple):
    status: int
    out: str
    err: str


def estimated(*args: str, jobs: int = 1) -> Said:
    """Run the command."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = cli.main(["estimate", "--jobs", str(jobs), *args])
    return Said(status, out.getvalue(), err.getvalue())


def good(*args: str, jobs: int = 1) -> Said:
    said = estimated(*args, jobs=jobs)
    assert said.status == 0, said.err
    return said


def doubtful(*args: str) -> Said:
    """Run the command on a log that is too doubtful for a verdict."""
    said = estimated(*args)
    assert said.status == NO_VERDICT, said
    assert "uy it" not in said.out
    return said


def rows(*args: str, jobs: int = 1) -> list[Row]:
    found: list[Row] = json.loads(good(*args, jobs=jobs).out)
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("log") / "site.log", list(visits(1, 4, 900)))


class Told(NamedTuple):
    """What is printed for people, the report and the summary."""

    out: str
    html: str
    summary: dict[str, Any]


@pytest.fixture(scope="module")
def told(log: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All that is told of an easy promise."""
    report = tmp_path_factory.mktemp("report") / "report.html"
    options = ("--promise", "0.5:1", "--price", "0.3", "--html", str(report))
    found = summary(report.parent, log, *options)
    return Told((report.parent / "out").read_text(), report.read_text("utf-8"), found)


def test_every_row_has_the_keys_in_order(tmp_path: Path) -> None:
    everything = rows(write(tmp_path / "site.log", list(visits(1, 1, 3600))), "--json")
    assert all(list(row) == KEYS for row in everything)
    assert len(everything) == 5 * 2 * 2 * len(POLICIES) + 2
    assert [row["promise"]["f"] for row in everything[-2:]] == [0.01, 0.10]
    assert {row["log"] for row in everything} == {"site"}
    assert everything[0]["promise"] == {"f": 0.05, "delta_s": 1.0}


def test_options_narrow_the_rows(log: str) -> None:
    found = rows(log, *ONE, "--policy", "teacher", "--policy", "thesis")
    assert [row["policy"] for row in found] == ["teacher", "thesis"]
    assert {(row["cache"], row["counting"]) for row in found} == {("frozen", "open")}


def test_several_processes_find_the_same(log: str) -> None:
    assert rows(log, *ONE, jobs=3) == rows(log, *ONE)


def test_a_longer_wake_delays_more(log: str) -> None:
    only = [log, *ONE, "--policy", "timeout-5m"]
    quick = rows(*only, "--wake-s", "0.2")[0]
    slow = rows(*only, "--wake-s", "60")[0]
    assert slow["delayed_fraction"] >= quick["delayed_fraction"]
    assert slow["delay_mean_s"] > 10 * quick["delay_mean_s"]


def test_the_boxs_own_watts_are_in_the_net_saving(log: str) -> None:
    row = rows(log, *ONE, "--policy", "timeout-5m", "--on-w", "100", "--proxy-w", "10")[0]
    assert row["saving_gross"] - row["saving_net"] == pytest.approx(0.1)


def test_the_table_gives_advice(told: Told) -> None:
    out = told.out
    assert "site: " in out
    assert all(name in out for name in POLICIES)
    assert "Buy it: with at most 50 % of people's requests" in out
    assert "at 0.3 a kWh" in out
    assert "A log has no cookies" in out


def two_days(path: Path, first_s: int, second_s: int) -> str:
    """A request every `first_s` seconds on the first day, every `second_s` on the second.

    Each visitor sends two.
    """
    times = [*range(0, 86400, first_s), *range(86400, 2 * 86400, second_s)]
    lines = [line(t, host=f"192.0.{n // 500}.{n // 2 % 250}") for n, t in enumerate(times)]
    return write(path, lines)


@pytest.mark.parametrize(
    ("days_s", "broken"),
    [((3600, 60), False), ((60, 3600), True)],
    ids=["slept on the first day only", "slept on the second day"],
)
def test_the_promise_is_asked_for_from_the_second_day_on(
    tmp_path: Path, days_s: tuple[int, int], broken: bool
) -> None:
    asked = two_days(tmp_path / "two.log", *days_s)
    printed = good(asked, "--policy", "timeout-2m", "--cache", "none").out
    (row,) = (each for each in printed.splitlines() if "timeout-2m" in each)
    assert float(row.split()[6].rstrip("%")) > 1  # of both days
    assert ("breaks the promise" in row) is broken


def test_a_busy_site_is_told_not_to_buy(tmp_path: Path) -> None:
    times = range(0, 2 * 86400, 40)
    lines = [line(t, f"/{t}", host=f"192.0.2.{t // 40 % 200}") for t in times]
    busy = write(tmp_path / "busy.log", lines)
    out = good(busy, "--policy", "teacher", "--policy", "timeout-5m").out
    assert "Do not buy it" in out
    assert "leave too few pauses" in out


def test_a_log_that_cannot_be_trusted_is_reported(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd.log", [line(90_000), *map(line, range(10, 50))])
    said = good(odd)
    assert "odd: Parts of the log overlap: the time steps back 1 times" in said.err
    assert "read above why this log may mislead" in said.out


def test_an_empty_log_gets_no_verdict(tmp_path: Path) -> None:
    said = doubtful(write(tmp_path / "empty.log", []))
    assert "The file holds no request" in said.err
    assert "No verdict: The file holds no request" in said.out


def test_rotated_files_are_one_log_in_whatever_order(tmp_path: Path) -> None:
    lines = list(visits(2, 4, 900))
    cut = len(lines) // 3
    whole = write(tmp_path / "whole.log", lines)
    parts = [
        write(tmp_path / "site.log", lines[2 * cut :]),
        write(tmp_path / "site.log.1", lines[cut : 2 * cut]),
        write(tmp_path / "site.log.2.gz", lines[:cut]),
    ]
    only = [*ONE, "--policy", "teacher", "--policy", "thesis"]
    one = [{**row, "log": ""} for row in rows(whole, *only)]
    for order in (parts, parts[::-1]):
        assert [{**row, "log": ""} for row in rows(*order, *only)] == one


def test_the_order_of_logs_does_not_matter(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"{n}.log", list(visits(n, 3, 900))) for n in (3, 4)]
    only = [*ONE, "--policy", "teacher"]
    assert rows(*logs, *only) == rows(*logs[::-1], *only)[::-1]


def test_logs_of_the_same_name_keep_their_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    files = [write(tmp_path / name / "access.log", [line(0)]) for name in ("a", "b")]
    assert [name for name, _ in estimate.group(files)] == [
        file.removesuffix(".log") for file in files
    ]


def test_promises_are_read() -> None:
    for text, parsed in (
        ("0.01:1", (0.01, 1.0)),
        ("1%:1", (0.01, 1.0)),
        ("10%:50ms", (0.1, 0.05)),
    ):
        assert estimate.promise(text) == Promise(*parsed), text
    for text in ("", "1", "0:1", "2:1", "x:1", "0.1:-1", "0.1:nan", "-0.1:1"):
        with pytest.raises(argparse.ArgumentTypeError):
            estimate.promise(text)


def test_bad_input_is_named(log: str) -> None:
    for args, words in (
        (["missing.log"], "missing.log"),
        ([log, "--on-w", "1", "--off-w", "2"], "must draw less"),
        ([log, "--switch-j", "1"], "give --sleep-s or --switch-j as measured"),
    ):
        said = estimated(*args)
        assert said.status != 0, args
        assert words in said.err, args
    for option in ("--wake-s", "--on-w", "--price"):
        for value in ("-1", "x", "nan", "inf"):
            with pytest.raises(SystemExit):
                estimated(log, f"{option}={value}")


THESIS_FIGURES = ("4.2", "4.3", "4.4", "4.5", "4.6", "4.8", "4.9")


class Pictures(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href"):
                self.links.append(value or "")


def test_the_report_stands_alone_and_has_the_figures(told: Told) -> None:
    pictures = Pictures()
    pictures.feed(told.html)
    assert pictures.tags.count("svg") == len(THESIS_FIGURES) + 3
    assert not pictures.links
    assert "script" not in pictures.tags
    assert len(pictures.ids) == len(set(pictures.ids))
    titles = dict(re.findall(r'class="title"[^>]*>Figure (4[.][0-9]+): ([^<]+)<', told.html))
    assert list(titles) == list(THESIS_FIGURES)
    for number, title in titles.items():
        assert unescape(title) == FIGURES[number].title, number


def test_a_log_named_like_markup_is_only_text(tmp_path: Path) -> None:
    odd = write(tmp_path / "<script>x.log", [line(0), line(500)])
    report = tmp_path / "report.html"
    doubtful(odd, "--html", str(report))
    assert "<script>" not in report.read_text("utf-8")


def summary(tmp_path: Path, log: str, *args: str) -> dict[str, Any]:
    file = tmp_path / "summary.json"
    (tmp_path / "out").write_text(good(log, "--summary", str(file), *args).out)
    [found] = json.loads(file.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_summary_has_the_verdict_and_what_the_figures_show(told: Told) -> None:
    found = told.summary
    verdict = found["verdict"]
    assert verdict["buy"] is True
    assert verdict["money_a_year"] == pytest.approx(0.3 * verdict["kwh_a_year"])
    assert found["advice"].startswith("Buy it")
    assert [row["policy"] for row in found["rows"]] == list(POLICIES)
    people = found["requests"]["person"] + found["requests"]["api"]
    assert sum(n for _, n, _ in found["hours"]) == people
    assert sum(n for _, _, n in found["hours"]) == sum(found["requests"].values()) - people
    assert found["gaps"][0] == {
        "length_s": 1.0,
        "count_share": 1.0,
        "time_share": pytest.approx(1.0, abs=0.01),
    }


def test_the_summary_has_what_the_page_asks_the_promise_of(tmp_path: Path) -> None:
    asked = two_days(tmp_path / "two.log", 3600, 60)
    found = summary(tmp_path, asked, "--cache", "none", "--promise", "0.01:1")
    (row,) = (row for row in found["rows"] if row["policy"] == "timeout-2m")
    assert row["delayed_since_day_2"] < row["promise"]["f"] < row["delayed_fraction"]


def test_the_summary_says_what_is_wrong_with_a_log(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd.log", [line(90_000), *map(line, range(10, 50)), "<b>what</b>\n"])
    found = summary(tmp_path, odd)
    assert [p["code"] for p in found["problems"]] == ["log.short", "log.overlap", "log.malformed"]
    assert found["problems"][1]["params"] == {"count": 1, "most_s": 89_990}
    assert found["understood"][0]["code"] == "log.read_skipped"
    assert found["not_understood"] == [{"line": 42, "text": "<b>what</b>"}]


def test_a_file_that_is_no_log_has_a_summary_without_figures(tmp_path: Path) -> None:
    photo = write(tmp_path / "photo.jpg", ["\xff\xd8\xff\x00\n"] * 3)
    doubtful(photo, "--summary", str(tmp_path / "summary.json"))
    [found] = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert found["verdict"] is None
    assert [d["code"] for d in found["doubts"]] == ["log.empty", "log.malformed"]
    assert [p["code"] for p in found["problems"]] == ["log.empty", "log.malformed"]
    assert found["from_s"] is None
    assert found["hours"] == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_for_programs_grows_from_reading_to_comparing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], jobs: int
) -> None:
    lines = [line(t, f"/{t}", host=f"192.0.2.{t // 10 % 200}") for t in range(0, 90_000, 10)]
    many = write(tmp_path / "many.log.gz", lines)
    args = ["--policy", "thesis", "--policy", "timeout-5m", "--progress-json"]
    # Of several processes, another than this one says it.
    assert cli.main(["estimate", many, "--jobs", str(jobs), *args]) == 0
    said = [json.loads(text) for text in capfd.readouterr().err.splitlines()]
    stages = [each["stage"] for each in said if "stage" in each]
    assert stages == sorted(stages, reverse=True)
    assert set(stages) == {"reading", "comparing"}
    for stage in set(stages):
        shares = [each["share"] for each in said if each.get("stage") == stage]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
    assert "problem" in said[-1]
    assert {each["log"] for each in said} == {"many"}


# ------------------------------------------------- the thesis' claims, on a real log

BPGOV = Path(__file__).parents[5] / "shared" / "logs" / "bpgov.log.gz"


def claimed(classes: str, cache: str = "thesis") -> dict[str, Row]:
    if not BPGOV.exists():
        pytest.skip(f"the real logs are not here: {BPGOV.parent}")
    with estimate.traffic_of("bpgov", [str(BPGOV)], classes) as traffic:
        choice = Choice([cache], ["open"], [estimate.THESIS_PROMISE], ["thesis", "idealised"])
        return {row["policy"]: row for row in compare(traffic, Server(), choice, 2)}


@pytest.mark.long
def test_with_table_4_1_alone_the_thesis_rule_loses_energy() -> None:
    assert claimed("table-4.1")["thesis"]["saving_net"] < 0


@pytest.mark.long
def test_with_todays_robots_the_thesis_rule_nets_what_it_claims() -> None:
    made = claimed("declared")
    assert 0.25 <= made["thesis"]["saving_net"] <= 0.275
    assert made["thesis"]["delayed_fraction"] < 0.04
    assert 0.60 <= made["idealised"]["saving_net"] <= 0.735
    assert 0.60 <= claimed("declared", "none")["idealised"]["saving_net"] <= 0.735


SET = """
[[server]]
id = "web"
address = "192.0.2.9"
mac = "02:00:00:00:00:09"
[server.cache]
mode = "{mode}"
[[cache_rule]]
path = "/"
asleep = "yes"
"""


def mornings(path: Path) -> str:
    """Somebody asks for a page on a quiet evening, and again in the night."""
    times = [
        day * 86400 + hour * 3600 + n * 20
        for day in range(4)
        for hour in (20, 26)
        for n in range(5)
    ]
    return write(path, [line(t, "/news") for t in sorted(times)])


def answered(found: list[Row]) -> float | None:
    (row,) = found
    share: float | None = row["answered_asleep"]
    return share


def test_the_cache_is_as_the_box_is_set(tmp_path: Path) -> None:
    asked = [mornings(tmp_path / "a.log"), "--json", "--policy", "timeout-30s", "--cache", "box"]
    asked += ["--counting", "closed", "--promise", "0.1:1"]
    shares = {}
    for mode in ("default", "frozen"):
        file = tmp_path / f"{mode}.toml"
        file.write_text(SET.format(mode=mode))
        shares[mode] = answered(rows(*asked, "--config", str(file)))
    by_api = tmp_path / "told.json"
    by_api.write_text(json.dumps({"server": [{"id": "web", "cache": {"mode": "default"}}]}))
    assert shares["default"] == answered(rows(*asked, "--config", str(by_api)))
    assert shares["frozen"] is not None
    assert shares["default"] is not None
    assert shares["frozen"] > shares["default"]


def test_what_is_no_configuration_or_has_no_such_server_is_told(tmp_path: Path, log: str) -> None:
    file = tmp_path / "box.toml"
    for text in ("server = 3", '{"server": [{"id": "a", "cache": {"mode": 1}}]}', "{"):
        file.write_text(text)
        said = estimated(log, "--config", str(file))
        assert said.status == 2, text
        assert said.err.startswith("naproxy estimate: "), text
    file.write_text(SET.format(mode="frozen"))
    said = estimated(log, "--config", str(file), "--server", "mail")
    assert said.status == 2
    assert "has no server mail" in said.err
