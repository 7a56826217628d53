"""Experiments declared in TOML: reading, refusing, running and the findings."""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from naproxy.api.command import CommandError
from naproxy.cli import __main__ as cli
from naproxy.core import inference
from naproxy.core.inference import cohens_d, holm
from naproxy.lab.measure import declared, findings
from naproxy.lab.measure.experiments import PRESETS
from naproxy.lab.measure.trial import Journal, Runner, Trial, counted, ends_s
from naproxy.lab.papers import sites

DECLARED = r"""
name = "photos"
repeats = 4
settle_s = 0

[variables]
server = "192.0.2.5"
quiet = ["-s", "-S"]

[[factor]]
name = "protocol"
levels = [{ name = "h1", options = ["--h1"] }, { name = "h2", options = ["--h2", "-k"] }]

[[factor]]
name = "streams"
levels = [1, 10, 50]

[[skip]]
protocol = "h1"
streams = [10, 50]

[workload]
command = ["load", "{protocol.options}", "-m{streams}", "{quiet}", "http://{server}/"]
units_from = '(\d+) done'
unit = "request"
metric.wait_ms = 'wait (\S+) ms'

[[workload.check]]
pattern = '(\d+) done'
equals = 240
"""


def read(text: str = DECLARED, **variables: str) -> declared.Experiment:
    return declared.read(text.encode(), variables)


def test_a_skipped_combination_is_left_out() -> None:
    assert read().cells == [
        {"protocol": "h1", "streams": 1.0},
        {"protocol": "h2", "streams": 1.0},
        {"protocol": "h2", "streams": 10.0},
        {"protocol": "h2", "streams": 50.0},
    ]


def test_placeholders_become_levels_words_and_variables() -> None:
    what = read(server="192.0.2.9")
    assert what.words(what.command, what.cells[2]) == [
        *("load", "--h2", "-k", "-m10", "-s", "-S", "http://192.0.2.9/")
    ]


def test_a_words_variables_are_filled_in() -> None:
    text = DECLARED.replace('["--h2", "-k"]', '["{quiet}", "--to={server}"]')
    what = read(text)
    assert what.words(["{protocol.options}"], what.cells[2]) == ["-s", "-S", "--to=192.0.2.5"]


REFUSED = {
    "not TOML": ('name = "photos', "not valid TOML"),
    "deep": ("x = " + "[" * 5000, "not valid TOML"),
    "no name": (DECLARED.replace('name = "photos"', ""), "name: is missing"),
    "a path for a name": (DECLARED.replace('"photos"', '"../x"'), "name: must be a name"),
    "two repeats": (DECLARED.replace("repeats = 4", "repeats = 2"), "repeats: must be"),
    "endless settling": (DECLARED.replace("settle_s = 0", "settle_s = inf"), "settle_s"),
    "unknown key": ("colour = 1\n" + DECLARED, "colour: is not a known key"),
    "unknown key of the workload": (
        DECLARED.replace("unit =", "units ="),
        "workload.units: is not a known key",
    ),
    "no such placeholder": (DECLARED.replace("{server}", "{sever}"), "stands for nothing"),
    "no such word": (DECLARED.replace("{protocol.options}", "{protocol.x}"), "stands for nothing"),
    "skipped all": (
        DECLARED.replace('protocol = "h1"\nstreams = [10, 50]', "streams = [1, 10, 50]"),
        "no combination",
    ),
    "skip by no factor": (DECLARED.replace("streams = [10", "stream = [10"), "no factor stream"),
    "the same level twice": (
        DECLARED.replace("[1, 10, 50]\n\n[[skip", "[1, 1]\n\n[[skip"),
        "different levels",
    ),
    "pattern without group": (DECLARED.replace(r"'(\d+) done'", r"'\d+ done'"), "with a group"),
    "broken pattern": (DECLARED.replace(r"'wait (\S+) ms'", "'wait ('"), "regular expression"),
    "check without bounds": (DECLARED.replace("equals = 240", ""), "needs equals"),
    "command as one text": (
        DECLARED.replace(
            '["load", "{protocol.options}", "-m{streams}", "{quiet}", "http://{server}/"]', '"load"'
        ),
        "a list of texts",
    ),
    "too many": (
        DECLARED.replace("[1, 10, 50]\n\n[[skip", f"{list(range(900))}\n\n[[skip"),
        "are too many",
    ),
}


def test_a_bad_declaration_is_refused_where_it_is_wrong() -> None:
    for name, (text, words) in REFUSED.items():
        with pytest.raises(CommandError) as error:
            read(text)
        assert words in str(error.value), name


def test_random_bytes_are_read_or_refused_in_words() -> None:
    chance = random.Random(4)
    for _ in range(200):
        raw = bytearray(DECLARED.encode())
        for _ in range(chance.randrange(1, 6)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        with contextlib.suppress(CommandError):
            declared.read(bytes(raw))


def test_the_papers_experiments_are_valid_and_quick_ones_are_part_of_them() -> None:
    for path in PRESETS.values():
        whole = declared.read(path.read_bytes())
        quick = declared.read(path.read_bytes(), quick=True)
        assert len(quick.cells) < len(whole.cells)
        assert all(cell in whole.cells for cell in quick.cells)
        assert quick.digest != whole.digest


def test_a_file_without_quick_settings_has_no_quick_experiment() -> None:
    with pytest.raises(CommandError, match="quick: is missing"):
        declared.read(DECLARED.encode(), quick=True)
    for wrong in ("speed = 1", "levels.colour = [1]"):
        with pytest.raises(CommandError, match="quick"):
            declared.read(f"{DECLARED}\n[quick]\n{wrong}\n".encode())


def test_the_gallery_has_the_files_and_bytes_of_table_1(tmp_path: Path) -> None:
    sites.write(tmp_path)
    files = list((tmp_path / "gallery").iterdir())
    assert len(files) == 241
    assert sum(file.stat().st_size for file in files) == 2_626_088
    listed = (tmp_path / "gallery.txt").read_text().split()
    assert listed[0] == "/gallery/index.html"
    assert {tmp_path / name.lstrip("/") for name in listed} == set(files)


# Running


class Machine:
    """Runs commands in no time; `said` may be replaced for one of them."""

    def __init__(self, said: Callable[[int], str] = lambda _: "240 done, wait 7.5 ms") -> None:
        self.ran: list[Sequence[str]] = []
        self.said = said

    async def execute(self, command: Sequence[str]) -> str:
        self.ran.append(command)
        return self.said(len(self.ran))


def run(what: declared.Experiment, machine: Machine, path: Path) -> Journal:
    async def no_time(seconds: float) -> None:
        assert seconds >= 0

    journal = Journal(path)
    journal.open(what, {})
    runner = Runner(what, journal, None, machine.execute, lambda _: None, pause=no_time)
    try:
        asyncio.run(runner.run())
    finally:
        journal.close()
    return journal


def test_each_cell_runs_as_often_as_declared_in_random_order(tmp_path: Path) -> None:
    what = read()
    trials = run(what, Machine(), tmp_path / "runs").trials
    assert sorted((trial.round, trial.cell) for trial in trials) == [
        (number, cell) for number in range(4) for cell in range(4)
    ]
    orders = {tuple(t.cell for t in trials if t.round == number) for number in range(4)}
    assert len(orders) > 1
    assert all(trial.metrics["wait_ms"] == 7.5 for trial in trials)


def test_a_run_that_fails_its_check_is_kept_with_its_fault_and_repeated(tmp_path: Path) -> None:
    short = 7  # The warm-ups are the first four.
    machine = Machine(lambda n: f"{239 if n == short else 240} done, wait 1 ms")
    trials = run(read(), machine, tmp_path / "runs").trials
    assert [trial.fault for trial in trials if trial.fault] == ["'(\\\\d+) done' is 239, not 240"]
    assert sum(trial.fault is None for trial in trials) == 16


def test_a_cell_that_fails_three_times_in_a_row_ends_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"failed 3 times in a row: .* is 3, not 240"):
        run(read(), Machine(lambda _: "3 done, wait 1 ms"), tmp_path / "runs")


def test_an_experiment_that_was_stopped_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs"

    def stops(count: int) -> str:
        if count == 11:
            raise KeyboardInterrupt
        return "240 done, wait 1 ms"

    with pytest.raises(KeyboardInterrupt):
        run(read(), Machine(stops), path)
    with path.open("a") as file:
        file.write('{"round": 0, "ce')  # The power went while a line was written.
    second = Machine()
    trials = run(read(), second, path).trials
    assert sorted((t.round, t.cell) for t in trials) == [(n, c) for n in range(4) for c in range(4)]
    assert len(second.ran) == 10


def test_more_repeats_continue_an_experiment(tmp_path: Path) -> None:
    run(read(), Machine(), tmp_path / "runs")
    more = run(read(DECLARED.replace("repeats = 4", "repeats = 5")), Machine(), tmp_path / "runs")
    assert len(more.trials) == 20


def test_runs_of_another_declaration_are_not_continued(tmp_path: Path) -> None:
    run(read(), Machine(), tmp_path / "runs")
    for other in (read(server="192.0.2.6"), read(DECLARED.replace("[1, 10, 50]", "[1, 10, 49]"))):
        with pytest.raises(CommandError, match="another declaration"):
            run(other, Machine(), tmp_path / "runs")


def test_a_damaged_file_of_runs_is_refused_in_words_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    run(read(), Machine(), path)
    head, first, *_ = path.read_text().splitlines()
    for damage in ("[]", "7", "x", '{"cell": 1}', first.replace('"cell": ', '"cell": 9'), '"'):
        path.write_text(f"{head}\n{damage}\n")
        with pytest.raises(CommandError, match="is damaged"):
            run(read(), Machine(), path)
        assert path.read_text() == f"{head}\n{damage}\n"


def test_the_end_is_expected_from_the_runs_so_far() -> None:
    trials = [Trial(0, 0, 1.0, {}, None, began_s) for began_s in (100.0, 110.0, 130.0)]
    assert ends_s(trials, 4, 140.0) == pytest.approx(200.0)
    assert ends_s(trials[:1], 4, 140.0) is None


def test_counters_are_those_of_this_machines_kernel() -> None:
    text = Path("/proc/stat").read_text() + Path("/proc/net/dev").read_text()
    first = counted(text)
    assert first.cpu_s > 0
    for damaged in ("", "cpu 1 2 3", text.replace("Inter-|", ""), Path("/proc/stat").read_text()):
        with pytest.raises(ValueError, match="not /proc/stat"):
            counted(damaged)


def test_the_loopback_and_idling_do_not_count() -> None:
    text = (
        "cpu  100 0 50 1000 500 0 50 0 0 0\nInter-|   Receive\n face |bytes\n"
        "    lo: 999 0 0 0 0 0 0 0 999 0 0 0 0 0 0 0\n"
        "  eth0:1000 5 0 0 0 0 0 0 70 2 0 0 0 0 0 0\n"
    )
    assert counted(text) == counted(text.replace("999", "5").replace("1000 500", "4 6"))
    assert (counted(text).cpu_s, counted(text).in_bytes, counted(text).out_bytes) == (2.0, 1000, 70)


def test_the_command_runs_real_programs_and_writes_its_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hashes.toml"
    file.write_text(
        'name = "hashes"\nrepeats = 3\nsettle_s = 0\nwarm_up = 0\n'
        '[[factor]]\nname = "kind"\nlevels = ["md5", "sha256"]\n'
        "[workload]\n"
        'command = ["sh", "-c", "head -c 9999 /dev/zero | {kind}sum; wc -c <f"]\n'
        "units_from = '(\\d+)\\s*$'\nunit = \"byte\"\n"
    )
    (tmp_path / "f").write_text("x" * 9999)
    file.write_text(file.read_text().replace("<f", f"<{tmp_path}/f"))
    words = ["experiment", str(file), "--without-meter", "--into", str(tmp_path / "out")]
    assert cli.main(words) == 0
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [metric["name"] for metric in found["metrics"]] == ["duration_s", "byte_per_s"]
    assert all(mean["n"] == 3 for metric in found["metrics"] for mean in metric["means"])
    assert "kind=sha256" in (tmp_path / "out" / "report.html").read_text()
    assert len((tmp_path / "out" / "runs.csv").read_text().splitlines()) == 7
    assert "report.html" in capsys.readouterr().out


# Findings


def test_holms_correction_is_rs() -> None:
    # R 4.2: p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm"), and in another order.
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_line_is_anscombes() -> None:
    # F. J. Anscombe, Graphs in Statistical Analysis, 1973: his first data set and its results.
    xs = (10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5)
    ys = (8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68)
    line = inference.line(xs, ys)
    assert line.slope.value == pytest.approx(0.5001, abs=1e-4)
    assert line.intercept.value == pytest.approx(3.0001, abs=1e-4)
    assert line.r_squared == pytest.approx(0.6665, abs=1e-4)
    # His standard error of the slope is 0.118; Student's t for nine degrees is 2.262.
    assert line.slope.high - line.slope.value == pytest.approx(2.262 * 0.1179, abs=1e-3)
    with pytest.raises(ValueError, match="all x are equal"):
        inference.line((1, 1, 1), (1, 2, 3))


def test_an_effect_is_counted_in_standard_deviations() -> None:
    assert cohens_d([2, 4, 6], [1, 3, 5]) == pytest.approx(0.5)
    assert cohens_d([1, 1], [1, 1]) == 0
    assert cohens_d([2, 2], [1, 1]) == float("inf")


def test_only_cells_that_differ_in_one_factor_are_compared() -> None:
    what = read()
    runs = [(cell, {"energy_j": 10.0 + cell + n / 10}) for cell in range(4) for n in range(4)]
    (metric,) = findings.findings(what, runs)
    pairs = {(pair.factor, pair.first, pair.second) for pair in metric.compared}
    assert pairs == {("protocol", 0, 1), *(("streams", a, b) for a, b in ((1, 2), (1, 3), (2, 3)))}
    assert all(pair.n == (4, 4) and pair.differ for pair in metric.compared)
    (trend,) = metric.trends
    assert (trend.factor, trend.fixed, trend.n) == ("streams", {"protocol": "h2"}, 12)


def test_nothing_is_said_of_too_few_runs() -> None:
    what = read()
    (metric,) = findings.findings(what, [(0, {"energy_j": 1.0}), (0, {"energy_j": 2.0})])
    assert [mean.estimate for mean in metric.means] == [None] * 4
    assert [mean.n for mean in metric.means] == [2, 0, 0, 0]
    assert not metric.compared


def _differ(share: float, seed: int) -> bool:
    """Say whether ten runs each tell two workloads apart that differ by a share of their energy."""
    chance = random.Random(seed)
    what = read(
        'name = "aa"\n[[factor]]\nname = "of"\nlevels = ["a", "b"]\n[workload]\ncommand = ["x"]'
    )
    runs = [
        (cell, {"energy_j": 300 * (1 + share * cell) * chance.gauss(1, 0.01)})
        for cell in range(2)
        for _ in range(10)
    ]
    return findings.findings(what, runs)[0].compared[0].differ


def test_the_same_workload_twice_differs_in_at_most_2_of_20() -> None:
    assert sum(_differ(0.0, seed) for seed in range(20)) <= 2


def test_three_per_cent_more_energy_is_found_in_18_of_20_with_one_per_cent_noise() -> None:
    assert sum(_differ(0.03, seed) for seed in range(20)) >= 18
