"""The tables of docs/cache-tests.md: what is counted, what must be explained."""

import pytest

from tests.cache_tests.report import (
    BEGIN,
    COLUMNS,
    END,
    Case,
    Explanation,
    Runs,
    complaints,
    counts,
    details,
    filled,
    to_explain,
)


def case(name: str, verdict: str, kind: str = "required") -> Case:
    return Case(id=name, group="", name="", kind=kind, verdict=verdict, said="")


def runs(**verdicts: str) -> Runs:
    """Return runs of one required case, which passes where nothing else is said."""
    return {column: [case("a", verdicts.get(column, "pass"))] for column in COLUMNS}


def test_a_case_that_passes_everywhere_needs_no_explanation() -> None:
    assert to_explain(runs()) == []


def test_a_required_case_that_does_not_pass_must_be_explained() -> None:
    for column in ("default", "frozen", "aggressive", "varnish"):
        for verdict in ("fail", "dependency_fail", "setup_fail", "retry", "untested"):
            assert to_explain(runs(**{column: verdict})) == ["a"], (column, verdict)


def test_what_only_others_fail_is_not_for_us_to_explain() -> None:
    assert to_explain(runs(nginx="fail", ats="fail")) == []


def test_optimal_and_check_cases_are_not_explained() -> None:
    only = [case("a", "optional_fail", "optimal"), case("b", "no", "check")]
    assert to_explain(dict.fromkeys(COLUMNS, only)) == []


def test_a_case_not_explained_once_is_complained_of() -> None:
    so, or_so = Explanation("so", ["a"]), Explanation("or so", ["a"])
    assert complaints(runs(default="fail"), []) == ["a: not explained"]
    assert complaints(runs(default="fail"), [so]) == []
    assert complaints(runs(default="fail"), [so, or_so]) == ["a: explained twice"]
    assert complaints(runs(), [so]) == ["a: explained, but there is nothing to explain"]


def test_runs_of_different_cases_are_not_compared() -> None:
    uneven = {**runs(), "varnish": []}
    with pytest.raises(ValueError, match="zip"):
        to_explain(uneven)


def test_only_what_passed_is_counted() -> None:
    verdicts = ["pass", "fail", "dependency_fail", "setup_fail"]
    required = [case(str(n), verdict) for n, verdict in enumerate(verdicts)]
    checks = [case("c", "yes", "check"), case("d", "no", "check")]
    table = counts({column: [*required, *checks] for column in COLUMNS})
    assert "| required | 4 | 1 | 1 | 1 | 1 | 1 | 1 |\n" in table
    assert "| check | 2 | 1 | 1 | 1 | 1 | 1 | 1 |\n" in table


def test_each_explained_case_has_its_results_beside_it() -> None:
    made = details(runs(default="fail", nginx="setup_fail"), [Explanation("So it is.", ["a"])])
    assert made.startswith("So it is.\n\n| case |")
    assert "| `a` | no | yes | yes | yes | ? | yes |\n" in made


def test_the_page_around_the_tables_stays() -> None:
    assert filled(f"head\n{BEGIN}old\n{END}tail\n", "new") == f"head\n{BEGIN}\nnew\n{END}tail\n"


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        filled("head\n", "new")
