"""`naproxy measure -- COMMAND`: clock, meter and processes are doubles, but where it says so."""

import asyncio
import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from naproxy.api.command import CommandError
from naproxy.cli import __main__ as cli
from naproxy.core.reading import PowerSample
from naproxy.lab.measure import experiment, experimenting
from naproxy.lab.measure.experiment import Judge, Phase, Run
from naproxy.lab.measure.experimenting import Feed, Plan, Table, perform, report, split, units_from

IDLE_W, BUSY_W, RUN_S = 20.0, 30.0, 10.3
STATUS = {
    "id": "plug",
    "driver": "simulated",
    "period_s": 1.0,
    "measures": "the mains plug",
    "accuracy": "2 %",
    "estimated": False,
    "problem": None,
}


class House(Feed):
    """A meter and a machine whose time passes when somebody waits or a command runs."""

    def __init__(self, *, blind: int = -1) -> None:
        """In run `blind` the meter sees half of it."""
        super().__init__(STATUS, lambda: self.t_s)
        self.t_s = 1000.4
        self.ran: list[tuple[float, float, str]] = []
        self.blind = blind

    async def pause(self, seconds: float) -> None:
        assert seconds >= 0
        self.t_s += seconds

    async def execute(self, command: Sequence[str]) -> str:
        self.ran.append((self.t_s, self.t_s + RUN_S, command[0]))
        self.t_s += RUN_S
        return f"{command[0]} did {len(self.ran)} things"

    async def phase(self, start_s: int, end_s: int) -> Phase:
        busy_s = sum(
            max(0.0, min(end_s, until) - max(start_s, since)) for since, until, _ in self.ran
        )
        share = 0.5 if len(self.ran) - 1 == self.blind else 1.0
        energy_j = IDLE_W * (end_s - start_s) + (BUSY_W - IDLE_W) * busy_s
        covered_s = share * (end_s - start_s)
        return Phase(start_s, end_s, share * energy_j, covered_s, math.ceil(covered_s))


def plan(**options: object) -> Plan:
    given = {"runs": 4, "warm_up": 1, "settle_s": 5.0, "baseline_s": 10.0, "seed": 1, **options}
    return Plan([["a"], ["b"]], **given)  # type: ignore[arg-type]


def performed(house: House, what: Plan) -> list[Run]:
    return asyncio.run(perform(what, house, house.execute, lambda _: None))


def test_each_run_follows_idling_that_is_measured_and_nothing_else_runs_in_it() -> None:
    house = House()
    runs = performed(house, plan())
    assert len(runs) == 8
    for run, (start_s, end_s, _) in zip(runs, house.ran[2:], strict=True):
        assert run.baseline.end_s == run.run.start_s <= start_s - house.period_s
        assert run.baseline.end_s - run.baseline.start_s >= 10
        assert run.baseline.mean_w == IDLE_W
        assert run.run.end_s >= end_s + house.period_s
        assert run.above_idle_j == pytest.approx((BUSY_W - IDLE_W) * RUN_S)
        assert run.energy_j == pytest.approx(BUSY_W * RUN_S)


def test_settling_is_not_part_of_the_baseline() -> None:
    house = House()
    runs = performed(house, plan(settle_s=60.0))
    for run, (_, last_s, _) in zip(runs, house.ran[1:], strict=False):
        assert run.baseline.start_s >= last_s + 60


def test_the_order_is_the_plans() -> None:
    house = House()
    performed(house, plan(warm_up=2))
    names = [name for _, _, name in house.ran]
    assert names[:4] == ["a", "b", "a", "b"]
    assert names[4:] == ["ab"[c] for one in experiment.order(2, 4, 1) for c in one]


def test_a_slow_meter_gets_a_baseline_of_five_readings() -> None:
    house = House()
    house.period_s = 6.0
    for run in performed(house, plan(baseline_s=0.0)):
        assert run.baseline.end_s - run.baseline.start_s >= 30


def test_units_come_from_each_runs_own_output() -> None:
    house = House()
    pattern = re.compile(r"did (\d+)")
    runs = performed(house, plan(units=lambda said: units_from(pattern, said)))
    assert [run.units for run in runs] == [3, 4, 5, 6, 7, 8, 9, 10]


def test_an_output_without_units_is_an_error() -> None:
    pattern = re.compile(r"^did (\S+)$|^did( things)?x")
    junk = ("", "did things", "did 0 things", "did -4", "did nan", "did inf", "did 1e300")
    for output in (*junk, "did 9" * 9999):
        with pytest.raises(CommandError, match="no number above 0"):
            units_from(pattern, output)


# What is said


def said(runs: list[Run], what: Plan, **judge: bool) -> tuple[str, bool]:
    lines, concluded = report(STATUS, what, runs, Judge(1.0, **judge))
    return "\n".join(lines), concluded


def test_the_report_states_meter_rate_order_and_figures() -> None:
    text, _ = said(performed(House(), plan()), plan())
    assert "meter plug (simulated): the mains plug; accuracy: 2 %" in text
    assert "1.00 readings a second; 4 rounds in random order, seed 1" in text
    assert "4 runs of 10.30 to 10.30 s; idling took 20.000 to 20.000 W" in text
    assert re.search(r"^   energy +309 J  \(309 to 309\)$", text, re.M)
    assert re.search(r"^   above idle +103 J  \(103 to 103\)$", text, re.M)
    assert "ESTIMATE" not in text


def test_a_meter_that_is_not_believed_concludes_nothing() -> None:
    house = House()
    what = plan(units=lambda text: 10.0 if text[0] == "a" else 20.0)
    runs = performed(house, what)
    lines, concluded = report({**STATUS, "problem": "it is stuck"}, what, runs, Judge(1.0))
    assert "NOT CONCLUDED: the meter is in doubt: it is stuck" in lines
    assert not concluded


def test_an_estimate_is_called_one() -> None:
    lines, _ = report({**STATUS, "estimated": True}, plan(), [], Judge(1.0))
    assert "ESTIMATE: nothing was measured, the meter's figures are computed" in lines


def test_a_run_that_the_meter_did_not_see_is_left_out_and_it_says_so() -> None:
    text, _ = said(performed(House(blind=3), plan()), plan())
    assert "1 runs left out: the meter was silent for part of them" in text
    assert "3 runs of 10.30" in text


def test_a_meter_that_saw_nothing_concludes_nothing() -> None:
    blind = [
        Run(n, c, Phase(0, 10, 0, 0, 0), Phase(10, 20, 0, 0, 0), 8.0)
        for n in range(4)
        for c in (0, 1)
    ]
    text, concluded = said(blind, plan(), paired=True)
    assert not concluded
    assert text.count("0 runs that the meter saw are too few") == 5


def test_units_make_the_comparison_one_by_unit() -> None:
    house = House()
    what = plan(units=lambda text: 10.0 if text[0] == "a" else 20.0)
    text, concluded = said(performed(house, what), what)
    assert re.search(r"energy per unit +30.9 J/unit", text)
    assert "A - B: 15.45 J/unit (15.45 to 15.45); Welch's t-test" in text
    assert "A takes 100.0 % more than B" in text
    assert concluded


def test_the_table_has_a_row_for_each_phase_from_which_the_figures_follow() -> None:
    file = io.StringIO()
    table = Table(file)
    runs = performed(House(), plan(units=lambda _: 4.0))
    for run in runs:
        table.add(run)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [row["phase"] for row in rows] == ["baseline", "run"] * 8
    idle, ran = rows[0], rows[1]
    idle_w = float(idle["energy_j"]) / float(idle["covered_s"])
    window_s = int(ran["end_s"]) - int(ran["start_s"])
    assert float(ran["energy_j"]) - idle_w * window_s == pytest.approx(runs[0].above_idle_j)
    assert float(ran["duration_s"]) == pytest.approx(RUN_S)
    assert ran["units"] == "4"


# Seconds as they come


def test_a_phase_waits_until_its_last_second_is_there() -> None:
    times = iter([100.0, 100.5, 103.0])
    feed = Feed(STATUS, lambda: next(times))
    feed.seconds = [PowerSample(t, 1, 5000, 5000, 5000, 5000, 1000) for t in range(100, 103)]
    assert asyncio.run(feed.phase(100, 103)).energy_j == 15


def test_a_silent_meter_is_not_waited_for_for_ever() -> None:
    feed = Feed(STATUS, lambda: 200.0)
    assert asyncio.run(feed.phase(100, 103)) == Phase(100, 103, 0, 0, 0)


# Commands: real processes


def test_a_command_that_fails_ends_it_all_and_says_why() -> None:
    for command, words in (
        (["false"], "false ended with status 1"),
        (["sh", "-c", "echo no disk >&2; exit 4"], "status 4: 'no disk'"),
        (["/nonexistent"], "No such file"),
        (["a\0b"], "null byte"),
    ):
        with pytest.raises(CommandError, match=re.escape(words)):
            asyncio.run(experimenting.execute(command))


def test_of_endless_output_the_last_megabyte_is_kept() -> None:
    done = asyncio.run(experimenting.execute(["sh", "-c", "yes | head -c 5000000; echo did 7"]))
    assert len(done) == 1 << 20
    assert done.endswith("did 7\n")


def test_noise_in_the_output_does_no_harm() -> None:
    done = asyncio.run(experimenting.execute(["printf", r"\377\000did 7"]))
    assert units_from(re.compile(r"did (\d+)"), done) == 7


# The command line


def test_what_follows_the_dashes_is_split_into_commands() -> None:
    assert split(["a", "-x", "--", "b", "--and", "c", "--runs"]) == [
        ["a", "-x", "--", "b"],
        ["c", "--runs"],
    ]


def test_an_empty_command_and_more_than_letters_are_refused() -> None:
    for words in ([], ["--and"], ["a", "--and"], ["a", "--and", "--and", "b"]):
        with pytest.raises(CommandError, match="a command is missing"):
            split(words)
    with pytest.raises(CommandError, match="at most 26"):
        split(["a", "--and"] * 26 + ["b"])


def test_a_bad_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        *(("--runs", "2"), ("--runs", "many"), ("--units", "0"), ("--units", "nan")),
        *(("--units-from", "did"), ("--units-from", "("), ("--within", "-1")),
        *(("--settle", "soon"), ("--warm-up", "-1"), ("--units", "1", "--units-from", "(1)")),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["measure", *arguments, "--", "true"])
        assert ended.value.code == 2, arguments
        assert f"argument {arguments[-2]}: " in capsys.readouterr().err


@pytest.fixture
def configured(tmp_path: Path) -> list[str]:
    (tmp_path / "w").write_text("20")
    (tmp_path / "c.toml").write_text(
        '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
        '[[meter]]\nid = "plug"\nof = "web"\ndriver = "simulated"\ninterval_s = 0.1\n'
        f'file = "{tmp_path}/w"\n'
        '[[meter]]\nid = "other"\nof = "web"\ndriver = "simulated"\n'
    )
    return ["--socket", "/nonexistent", "--config", str(tmp_path / "c.toml")]


def test_measuring_says_what_is_wrong(
    configured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        (("--", "true"), "name the meter (plug, other): naproxy measure METER -- COMMAND"),
        (("nope", "--", "true"), "there is no meter nope, only plug, other"),
        (("plug", "--"), "a command is missing"),
        (("plug", "--json", "--", "true"), "do not work with -- COMMAND"),
    ):
        assert cli.main(["measure", *configured, *arguments]) == 1
        assert words in capsys.readouterr().err


@pytest.mark.long
def test_an_older_table_is_not_overwritten(
    configured: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "old.csv").write_text("precious")
    options = ["--csv", str(tmp_path / "old.csv")]
    assert cli.main(["measure", "plug", *configured, *options, "--", "true"]) == 1
    assert "old.csv: File exists" in capsys.readouterr().err
    assert (tmp_path / "old.csv").read_text() == "precious"


def test_a_server_that_may_be_put_to_sleep_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [{"id": "web", "mode": "auto"}, {"id": "other", "mode": "awake"}]
    monkeypatch.setattr(experimenting, "call", lambda *_: {"servers": servers, "meters": []})
    with pytest.raises(CommandError, match="first naproxy mode web awake --for 2h"):
        experimenting._kept_awake("/socket", "web")
    experimenting._kept_awake("/socket", "other")
    experimenting._kept_awake("/socket", "box")
