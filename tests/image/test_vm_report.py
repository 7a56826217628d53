"""What the image test's report says, and of what it does not say that all is well."""

import json
from pathlib import Path
from typing import Any

from tests.image_vm.board import board
from tests.image_vm.cases import Options, chosen, steps
from tests.image_vm.report import Report


def quiet() -> Report:
    times = iter(range(0, 1000, 7))
    return Report(say=lambda _: None, clock=lambda: next(times))


def written(report: Report, tmp_path: Path) -> tuple[bool, Any]:
    good = report.write(tmp_path / "report.json", board="b")
    return good, json.loads((tmp_path / "report.json").read_text())


def test_a_case_that_fails_says_why_and_where_and_the_next_one_runs(tmp_path: Path) -> None:
    report = quiet()
    with report.case("first"):
        raise OSError("no route")
    with report.case("second"):
        pass
    good, told = written(report, tmp_path)
    assert not good
    assert [case["result"] for case in told["cases"]] == ["failed", "passed"]
    assert told["cases"][0]["words"].startswith("OSError: no route (test_vm_report.py:")


def test_a_goal_that_is_not_met_makes_the_run_fail(tmp_path: Path) -> None:
    report = quiet()
    with report.case("size"):
        report.figures["bundle_bytes"] = 48_000_001
    good, told = written(report, tmp_path)
    assert not good
    assert told["goals"][0] == {
        "name": "bundle_mb",
        "value": 48.000001,
        "goal": 48,
        "sense": "<=",
        "met": False,
    }


def test_all_cases_run_unless_some_are_named_and_the_first_always() -> None:
    names = list(steps(Options(cuts=10), board("qemu-x86_64")))
    assert chosen(names, []) == names
    assert chosen(names, ["^grubenv-zeros$"]) == [names[0], "grubenv-zeros"]
    assert len(chosen(names, ["power-cut"])) == 11
